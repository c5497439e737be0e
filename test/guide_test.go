package test

import (
	"encoding/json"
	"fmt"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"patchbay/internal/i18n"
	"patchbay/internal/i18n/i18ntest"
	"patchbay/internal/store"
)

// Limits of the example in docs/adding-a-plug.md: more would mean that adding a plug has become
// hard.
const (
	guideLines   = 300 // new lines, tests and translations included
	guideChanged = 4   // existing files that are changed
)

// guideBlock is a code block of the guide that is a new file or changes an existing one.
type guideBlock struct {
	kind, path, text string // kind is diff for changes
}

var guideBlocks = regexp.MustCompile("(?ms)^```(go|markdown|diff) (\\S+)\n(.*?)^```$")

func readGuide(t *testing.T, file string) []guideBlock {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, file))
	must(t, err)
	var list []guideBlock
	for _, m := range guideBlocks.FindAllStringSubmatch(string(text), -1) {
		list = append(list, guideBlock{m[1], m[2], m[3]})
	}
	return list
}

// applyHunks applies a diff without line numbers: the lines of each hunk that begin with a space or
// a minus must be at exactly one place of the text.
func applyHunks(text, diff string) (string, error) {
	for hunk := range strings.SplitSeq(diff, "@@\n") {
		var before, after strings.Builder
		for line := range strings.Lines(hunk) {
			switch line[0] {
			case ' ':
				before.WriteString(line[1:])
				after.WriteString(line[1:])
			case '-':
				before.WriteString(line[1:])
			case '+':
				after.WriteString(line[1:])
			default:
				return "", fmt.Errorf("a line of a diff begins with %q", line[0])
			}
		}
		old := "\n" + before.String()
		i := strings.Index(text, old)
		if before.Len() == 0 || i < 0 || strings.Contains(text[i+1:], old) {
			return "", fmt.Errorf("not exactly one place has\n%s", before.String())
		}
		text = text[:i+1] + after.String() + text[i+len(old):]
	}
	return text, nil
}

func TestApplyHunks(t *testing.T) {
	const text = "head\none\ntwo\nthree\nthree\n"
	for _, c := range []struct{ diff, want string }{
		{" one\n+new\n two\n", "head\none\nnew\ntwo\nthree\nthree\n"},
		{"+new\n one\n@@\n-two\n", "head\nnew\none\nthree\nthree\n"},
		{" three\n+new\n", ""}, // two places
		{" four\n+new\n", ""},  // none
		{"+new\n", ""},
		{"new\n", ""},
	} {
		if got, err := applyHunks(text, c.diff); got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%q leads to %q, %v; want %q", c.diff, got, err, c.want)
		}
	}
}

// TestGuide follows docs/adding-a-plug.md: its code is small, passes the rules for code and its own
// test, and the program that is built with it does what the guide says. The files of the
// repository are not touched; the go command gets the changed ones as an overlay.
func TestGuide(t *testing.T) {
	list := readGuide(t, "docs/adding-a-plug.md")
	if chinese := readGuide(t, "docs/adding-a-plug.zh-CN.md"); !reflect.DeepEqual(list, chinese) {
		t.Error("the guide has other code in Chinese than in English")
	}
	repository, err := filepath.Abs(root)
	must(t, err)
	dir := t.TempDir()
	replace, catalogs := map[string]string{}, map[string]string{}
	lines, changed := 0, 0
	for i, b := range list {
		real := filepath.Join(repository, filepath.FromSlash(b.path))
		old, err := os.ReadFile(real)
		text := b.text
		if b.kind == "diff" {
			changed++
			must(t, err)
			if text, err = applyHunks(string(old), b.text); err != nil {
				t.Fatalf("the change of %s cannot be made, because the file has changed: %v", b.path, err)
			}
			lines += len(regexp.MustCompile(`(?m)^\+`).FindAllString(b.text, -1))
		} else {
			if err == nil {
				t.Errorf("%s is there already", b.path)
			}
			lines += strings.Count(text, "\n")
		}
		if strings.HasSuffix(b.path, ".go") {
			checkGuideCode(t, b, text)
		}
		if path.Ext(b.path) == ".po" { // a changed one would mean compiling everything again
			catalogs[b.path] = text
			continue
		}
		replace[real] = filepath.Join(dir, strconv.Itoa(i)+path.Ext(b.path))
		must(t, os.WriteFile(replace[real], []byte(text), 0o600))
	}
	checkGuideTranslations(t, list, catalogs)
	t.Logf("%d new lines, %d changed files", lines, changed)
	if len(list) < 7 || lines > guideLines || changed > guideChanged {
		t.Errorf("%d blocks with %d new lines change %d files; the limits are %d lines and %d files", len(list), lines,
			changed, guideLines, guideChanged)
	}
	if t.Failed() {
		return
	}
	overlay := filepath.Join(dir, "overlay.json")
	text, err := json.Marshal(map[string]any{"Replace": replace})
	must(t, err)
	must(t, os.WriteFile(overlay, text, 0o600))

	ran := func(cmd *exec.Cmd) string {
		t.Helper()
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
		}
		return string(out)
	}
	goCommand := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir = repository
		ran(cmd)
	}
	program, own := filepath.Join(dir, "patchbay"), filepath.Join(dir, "dice.test")
	goCommand("build", "-overlay", overlay, "-o", program, "./cmd/patchbay")
	// go test would run in the folder of the package, which does not exist; so would go vet.
	goCommand("test", "-c", "-vet=off", "-overlay", overlay, "-o", own, "./internal/plug/dice")
	test := exec.CommandContext(t.Context(), own, "-test.v")
	test.Dir = repository // where the translations are
	if out := ran(test); !strings.Contains(out, "--- PASS: TestConsole") {
		t.Errorf("the test of the guide prints\n%s", out)
	}

	p := newInstallation(store.Options{Folder: t.TempDir()})
	patchbay := func(args ...string) string {
		t.Helper()
		cmd := p.command(args...)
		cmd.Path = program
		return ran(cmd)
	}
	patchbay("user", "add", "ada")
	patchbay("bot", "add", "--name", "den", "--kind", "dice", "--set", "sides=20")
	rolled := patchbay("roll", "den", "--dice", "3")
	if !regexp.MustCompile(`^(\d+ ){3}= \d+\s*$`).MatchString(rolled) {
		t.Errorf("three dice are %q", rolled)
	}
}

var (
	helpText    = regexp.MustCompile(`help:"([^"]+)"`)
	translation = regexp.MustCompile(`(?m)^msgid "(.*)"\nmsgstr "(.+)"$`)
)

// checkGuideTranslations checks that the texts of the new code are in the changed catalogs.
func checkGuideTranslations(t *testing.T, list []guideBlock, catalogs map[string]string) {
	t.Helper()
	var texts []string
	for _, b := range list {
		if path.Ext(b.path) != ".go" || tests(b.path) {
			continue
		}
		for line := range strings.Lines(b.text) {
			if m := helpText.FindStringSubmatch(line); m != nil && line[0] != ' ' { // not the context of a change
				texts = append(texts, m[1])
			}
		}
		if b.kind == "diff" {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), b.path, b.text, parser.SkipObjectResolution)
		must(t, err)
		for _, m := range messages(f) {
			texts = append(texts, string(m))
		}
	}
	if len(texts) < 8 || len(catalogs) != len(i18n.Languages())-1 {
		t.Errorf("%d texts and %d catalogs were found", len(texts), len(catalogs))
	}
	for file, catalog := range catalogs {
		translated := map[string]string{}
		for _, m := range translation.FindAllStringSubmatch(catalog, -1) {
			translated[m[1]] = m[2]
		}
		for _, text := range texts {
			if got, ok := translated[text]; !ok || !slices.Equal(i18ntest.Verbs(text), i18ntest.Verbs(got)) {
				t.Errorf("%s has %q translated as %q", file, text, got)
			}
		}
	}
}

// checkGuideCode checks the rules for code that do not need the whole repository.
func checkGuideCode(t *testing.T, b guideBlock, text string) {
	t.Helper()
	if formatted, err := format.Source([]byte(text)); err != nil || string(formatted) != text {
		t.Errorf("%s is not formatted by gofmt: %v", b.path, err)
	}
	if b.kind == "diff" {
		return
	}
	for line, width := range wideLines(text) {
		t.Errorf("%s:%d is %d columns wide", b.path, line, width)
	}
	f, err := parser.ParseFile(token.NewFileSet(), b.path, text, parser.ImportsOnly)
	must(t, err)
	importer := "patchbay/" + path.Dir(b.path)
	here := layerOf(importer)
	for _, i := range f.Imports {
		imported, err := strconv.Unquote(i.Path.Value)
		must(t, err)
		if here == "" || tests(b.path) || !strings.HasPrefix(imported, "patchbay/") {
			continue
		}
		if why := importViolation(importer, here, imported); why != "" {
			t.Errorf("%s imports %s: %s", b.path, imported, why)
		}
	}
}
