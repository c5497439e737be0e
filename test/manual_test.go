package test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"patchbay/internal/config"
	"patchbay/internal/i18n"
	"patchbay/internal/manual"
	"patchbay/internal/store"
)

var update = flag.Bool("update", false, "write what is generated into the manual")

// page is a page of the manual.
type page struct {
	file string // path in the repository
	text string
}

// pages returns the pages of the manual: those at the root and in docs.
func pages(t *testing.T) []page {
	t.Helper()
	var list []page
	walk(t, ".md", func(file, text string) {
		if dir := path.Dir(file); dir == "." || dir == "docs" {
			list = append(list, page{file, text})
		}
	})
	if len(list) < 10 {
		t.Fatalf("only %d pages were found", len(list))
	}
	return list
}

// The table of settings matches the program's own description.
func TestSettingsPage(t *testing.T) {
	const name, mark = "docs/configuration.md", "<!-- settings -->\n"
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	head, tables, ok := strings.Cut(string(text), mark)
	if !ok {
		t.Fatalf("%s has no line %q", name, mark)
	}
	var want strings.Builder
	if err := config.WriteDoc(&want); err != nil {
		t.Fatal(err)
	}
	switch {
	case tables == want.String():
	case *update:
		if err := os.WriteFile(filepath.Join(root, name), []byte(head+mark+want.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s is not what the settings are now; run: go test ./test -run %s -update", name, t.Name())
	}
}

// Every message that a wearer or the owner of a bot may get is on the page about errors, in the
// language of the page.
func TestErrorsPage(t *testing.T) {
	pageOf := map[i18n.Lang]string{}
	for l, file := range map[i18n.Lang]string{i18n.English: "docs/errors.md", i18n.Chinese: "docs/errors.zh-CN.md"} {
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		pageOf[l] = string(text)
	}
	for _, file := range []string{
		"internal/talk/messages.go", "internal/plug/rokid/words.go", "internal/plain/filter.go",
		"internal/plug/openai/failure.go", "internal/plug/eyeclaw/explain.go",
		"internal/plug/openclaw/bot/failure.go", "internal/plug/openclaw/client/connection_error.go",
		"internal/plug/openclaw/shim/messages.go",
		"internal/plug/learn/quiz/words.go", "internal/plug/learn/remind/remind.go", "internal/plug/learn/judge.go",
		"internal/plug/learn/compare.go",
		"internal/plug/learn/compose.go", "internal/plug/learn/model.go", "internal/plug/learn/chat.go",
		"internal/plug/xiaozhi/ota.go", "internal/plug/xiaozhi/echovoice.go", "internal/plug/xiaozhi/ask.go",
		"internal/plug/xiaozhi/photograph.go", "internal/plug/xiaozhi/photos.go",
	} {
		found := messagesOf(t, file)
		if len(found) == 0 {
			t.Errorf("%s has no sentences", file)
		}
		for _, m := range found {
			for l, manual := range pageOf {
				said := m.In(l)
				said = verb.ReplaceAllString(strings.ReplaceAll(said, "%%", "\x00"), "…")
				// Line breaks in a table are "<br>".
				said = strings.NewReplacer("\x00", "%", "\n", "<br>").Replace(strings.TrimSpace(said))
				// Long explanations have a page of their own, linked from the first sentence.
				if first, _, long := strings.Cut(said, "： "); long {
					said = first
				}
				if n := 120; len(said) > 3*n {
					said, _, _ = strings.Cut(strings.NewReplacer("：", ": ", ":", ": ").Replace(said), ": ")
				}
				if strings.ContainsFunc(said, unicode.IsLetter) && !strings.Contains(manual, said) {
					t.Errorf("the page about errors in %s does not have %q of %s", l, said, file)
				}
			}
		}
	}
}

// Every command, every setting of a bot, and every Prometheus metric is in the manual.
func TestManualNamesEverything(t *testing.T) {
	manual := ""
	for _, p := range pages(t) {
		manual += p.text
	}
	p := newInstallation(store.Options{Folder: t.TempDir()})
	p.run(t, "user", "add", "ada")
	said, _ := p.command("bot", "add", "--name", "x", "--kind", "none").CombinedOutput()
	_, kinds, ok := strings.Cut(strings.TrimSpace(string(said)), "; there are ")
	if !ok {
		t.Fatalf("bot add says %q", said)
	}
	for kind := range strings.SplitSeq(kinds, ", ") {
		out, _ := p.command("bot", "add", "--name", "x", "--kind", kind, "--set", "nonsense=1").CombinedOutput()
		_, names, ok := strings.Cut(strings.TrimSpace(string(out)), "; there are ")
		if !ok {
			t.Fatalf("bot add says %q", out)
		}
		for name := range strings.SplitSeq(names, ", ") {
			if !strings.Contains(manual, "| `"+name+"` |") {
				t.Errorf("the setting %s of kind %s is in no table", name, kind)
			}
		}
	}
	p.run(t, "shim", "add", "x", "--url", "ws://127.0.0.1:1")
	out, _ := p.command("shim", "set", "x", "nonsense=1").CombinedOutput()
	_, names, ok := strings.Cut(strings.TrimSpace(string(out)), "; there are ")
	if !ok {
		t.Fatalf("shim set says %q", out)
	}
	for name := range strings.SplitSeq(names, ", ") {
		if !strings.Contains(manual, "| `"+name+"` |") {
			t.Errorf("the setting %s of gateways that boards join is in no table", name)
		}
	}
	commands := 0
	for _, m := range regexp.MustCompile(`(?m)^  ([a-z]+(?: [a-z]+)?)  +[A-Z]`).FindAllStringSubmatch(p.run(t,
		"--help"), -1) {
		commands++
		if !strings.Contains(manual, "`patchbay "+m[1]+"`") {
			t.Errorf("the command %q is in no table", m[1])
		}
	}
	if commands < 15 {
		t.Errorf("only %d commands were found", commands)
	}
	metric := regexp.MustCompile(`"(patchbay_[a-z_]+)"`)
	cable := regexp.MustCompile(`counter\("([a-z_]+)"`)
	subsystem := regexp.MustCompile(`Subsystem: "([a-z_]+)"`)
	within := regexp.MustCompile(`(?:\b(?:counters?|gauge|name|opts)\(|\bName: )"([a-z_]+)"`)
	found := 0
	walk(t, ".go", func(file, text string) {
		if !strings.HasPrefix(file, "internal/") || tests(file) {
			return
		}
		var names []string
		if strings.Contains(text, "/prometheus\"") { // elsewhere such a name is something else
			for _, m := range metric.FindAllStringSubmatch(text, -1) {
				names = append(names, m[1])
			}
		}
		if strings.Contains(file, "/eyeclaw/") {
			for _, m := range cable.FindAllStringSubmatch(text, -1) {
				names = append(names, "patchbay_cable_"+m[1])
			}
		}
		if strings.HasPrefix(file, "internal/plug/xiaozhi/") || strings.HasPrefix(file, "internal/plug/openclaw/") {
			if sub := subsystem.FindStringSubmatch(text); sub != nil {
				for _, m := range within.FindAllStringSubmatch(text, -1) {
					names = append(names, "patchbay_"+sub[1]+"_"+m[1])
				}
			}
		}
		for _, name := range names {
			found++
			if !strings.Contains(manual, "| `"+name+"` |") {
				t.Errorf("the metric %s of %s is in no table", name, file)
			}
		}
	})
	if found < 10 {
		t.Errorf("only %d metrics were found", found)
	}
}

var (
	link  = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	fence = regexp.MustCompile("(?ms)^```.*?^```$")
)

// anchors returns the link targets of a page, as GitHub names them.
func anchors(text string) []string {
	var list []string
	for _, h := range manual.Headings([]byte(text)) {
		list = append(list, h.Anchor)
	}
	return list
}

// Links within the repository resolve.
func TestManualLinks(t *testing.T) {
	all := map[string]string{}
	for _, p := range pages(t) {
		all[p.file] = p.text
	}
	looked := 0
	for file, text := range all {
		for _, m := range link.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			looked++
			target, anchor, hasAnchor := strings.Cut(m[1], "#")
			to := file
			if target != "" {
				to = path.Join(path.Dir(file), target)
			}
			if _, err := os.Stat(filepath.Join(root, to)); err != nil {
				t.Errorf("%s links to %s, which is not there", file, m[1])
				continue
			}
			if hasAnchor && !slices.Contains(anchors(all[to]), anchor) {
				t.Errorf("%s links to %s; %s has %v", file, m[1], to, anchors(all[to]))
			}
		}
	}
	if looked < 30 {
		t.Errorf("only %d links were found", looked)
	}
}

// block is a code block of a page that the test runs or compares.
type block struct {
	line   int
	script string // to be run; hidden ones are in comments "<!-- run: … -->"
	output string // required output of the script before it
}

var blocks = regexp.MustCompile("(?ms)^<!-- run: (.*?) -->$|^```(sh|text output)\n(.*?)^```$")

func blocksOf(text string) []block {
	var list []block
	for _, m := range blocks.FindAllStringSubmatchIndex(text, -1) {
		group := func(i int) string {
			if m[2*i] < 0 {
				return ""
			}
			return text[m[2*i]:m[2*i+1]]
		}
		b := block{line: 1 + strings.Count(text[:m[0]], "\n")}
		switch {
		case group(1) != "":
			b.script = group(1)
		case group(2) == "sh":
			b.script = group(3)
		default:
			b.output = group(3)
		}
		list = append(list, b)
	}
	return list
}

// The commands of the manual do what it says. Each page runs from top to bottom in an empty home
// folder: every block marked sh runs, and its output must contain the following block marked "text
// output" ("…" matches anything).
func TestManualRuns(t *testing.T) {
	for _, program := range []string{"bash", "curl"} {
		if _, err := exec.LookPath(program); err != nil {
			if os.Getenv("CI") == "true" {
				t.Fatal(err)
			}
			t.Skip(err)
		}
	}
	ran := 0
	for _, p := range pages(t) {
		list := blocksOf(p.text)
		if len(list) == 0 {
			continue
		}
		ran++
		t.Run(p.file, func(t *testing.T) {
			t.Parallel()
			runPage(t, p, list)
		})
	}
	if ran < 8 {
		t.Errorf("only %d pages have commands", ran)
	}
}

// prelude sets up the shell for a page's commands. A server that a page starts runs in the
// background, and the page continues when it is ready. Go commands run the executable that is
// already built.
const prelude = `set -euo pipefail
exec 2>&1
trap 'kill ${server-} 2>/dev/null || true; wait || true' EXIT
serve() {
  if [ -n "${server-}" ]; then kill $server; wait $server || true; fi
  command patchbay serve "$@" >serve.log 2>&1 &
  server=$!
  until curl -fs "http://$PATCHBAY_LISTEN/readyz" >/dev/null; do
    kill -0 $server || { cat serve.log; exit 1; }
    sleep 0.05
  done
}
# after WORDS FILE prints what follows the words in the file, as soon as they are there.
after() { until grep -q "$1" "$2"; do sleep 0.05; done; sed -n "s/.*$1//p" "$2" | head -n 1; }
patchbay() { if [ "$1" = serve ]; then shift; serve "$@"; else command patchbay "$@"; fi; }
go() { if [ "$1 $2" = "run ./cmd/patchbay" ]; then shift 2; patchbay "$@"; fi; }
`

const blockMark = "\x1eblock "

func runPage(t *testing.T, p page, list []block) {
	home := t.TempDir()
	address := freeAddress(t)
	var script strings.Builder
	script.WriteString(prelude)
	for i, b := range list {
		if b.script != "" {
			fmt.Fprintf(&script, "printf '%s%d\\n'\n%s\n", `\036block `, i, b.script)
		}
	}
	at := strings.NewReplacer("127.0.0.1:3000", address, "localhost:3000", address)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", at.Replace(script.String()))
	cmd.Dir = home
	lang := "en_US.UTF-8"
	if strings.Contains(p.file, "zh-CN") {
		lang = "zh_CN.UTF-8"
	}
	cmd.Env = []string{"HOME=" + home, "LANG=" + lang, "PATH=" + filepath.Dir(patchbay()) + ":" + os.Getenv("PATH"),
		"PATCHBAY_LISTEN=" + address}
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	printed := map[int]string{}
	for part := range bytes.SplitSeq(out, []byte(blockMark)) {
		number, text, _ := strings.Cut(string(part), "\n")
		var i int
		if _, err := fmt.Sscan(number, &i); err == nil {
			printed[i] = text
		}
	}
	last := ""
	for i, b := range list {
		if b.script != "" {
			last = printed[i]
		} else if missing := firstMissing(last, at.Replace(b.output)); missing != "" {
			t.Errorf("%s:%d: the command above does not print %q (or not there), but\n%s", p.file, b.line, missing,
				last)
		}
	}
}

var anything = regexp.MustCompile(" ?… ?")

// firstMissing returns the first wanted line that does not occur, in order, in the output.
func firstMissing(printed, wanted string) string {
	lines := strings.Split(printed, "\n")
	for i, line := range lines {
		lines[i] = oneSpace(line)
	}
	for want := range strings.Lines(wanted) {
		want = oneSpace(want)
		if want == "" || want == "…" {
			continue
		}
		pattern := anything.ReplaceAllString(regexp.QuoteMeta(want), ".*")
		match := regexp.MustCompile(pattern).MatchString
		at := slices.IndexFunc(lines, match)
		if at < 0 {
			return want
		}
		lines = lines[at+1:]
	}
	return ""
}

// oneSpace normalizes the column widths of a table.
func oneSpace(line string) string { return strings.Join(strings.Fields(line), " ") }

func TestFirstMissing(t *testing.T) {
	printed := "one\ntwo and a half\nthree\n"
	for _, c := range []struct{ wanted, missing string }{
		{"one\nthree\n", ""},
		{"one\n…\ntwo … half\n", ""},
		{"three\none\n", "one"},
		{"four\n", "four"},
		{"two.and", "two.and"},
		{"  two   and a half", ""},
	} {
		if got := firstMissing(printed, c.wanted); got != c.missing {
			t.Errorf("of %q %q is missing, want %q", c.wanted, got, c.missing)
		}
	}
}

// freeAddress returns a local address on which nothing listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
