package licenses

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write notices.txt anew")

// platforms are those whose programs have the most different modules.
var platforms = []string{"linux", "darwin", "windows"}

// embedded is what no module brings: name and file.
var embedded = [][2]string{
	{"Patchbay", "../../LICENSE"},
	{"htmx (in the console's pages)", "../console/page/assets/htmx.LICENSE.txt"},
	{"libopus 1.5.2 (in encoder.wasm)", "../voice/opus/libopus/COPYING"},
	{"wasi-libc 0.0~git20220510.9886d3d (in encoder.wasm)", "../voice/opus/libopus/COPYING.wasi-libc"},
	{"compiler-rt 14.0.6 (in encoder.wasm)", "../voice/opus/libopus/COPYING.compiler-rt"},
	{"Silero VAD v6 (weights)", "../voice/vad/LICENSE.silero"},
}

// noticeName fits the names of files that a licence asks to be passed on.
var noticeName = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|copyright|patents)([-.].*)?$`)

// The notices are those of what is linked and embedded now.
func TestNotices(t *testing.T) {
	texts := map[string][]string{} // names by text
	add := func(name, file string) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		clean := strings.TrimSpace(strings.ReplaceAll(string(text), "\r\n", "\n"))
		if clean == "" {
			t.Errorf("%s: %s is empty", name, file)
		}
		texts[clean] = append(texts[clean], name)
	}
	for _, e := range embedded {
		add(e[0], e[1])
	}
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	add("Go's standard library", filepath.Join(strings.TrimSpace(string(root)), "LICENSE"))
	for _, m := range modules(t) {
		name, dir, _ := strings.Cut(m, "\t")
		files, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, f := range files {
			if !f.IsDir() && noticeName.MatchString(f.Name()) && !strings.HasSuffix(f.Name(), ".go") {
				add(name, filepath.Join(dir, f.Name()))
				found = true
			}
		}
		if !found {
			t.Errorf("%s has no licence in %s", name, dir)
		}
	}
	var b strings.Builder
	groups := make([]string, 0, len(texts))
	for text, names := range texts {
		groups = append(groups, strings.Join(slices.Compact(names), "\n")+"\n\n"+text)
	}
	slices.Sort(groups)
	for _, g := range groups {
		fmt.Fprintf(&b, "%s%s\n\n", rule, g)
	}
	if *update {
		if err := os.WriteFile("notices.txt", []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	} else if b.String() == Notices {
		checkList(t, texts)
	} else {
		t.Error("notices.txt is not what is linked and embedded: run go test ./internal/licenses -update, and look at what has changed")
	}
}

// checkList finds texts in which the line occurs that separates them.
func checkList(t *testing.T, texts map[string][]string) {
	for _, n := range List() {
		if names, ok := texts[n.Text]; !ok || !slices.Equal(n.Names, slices.Compact(names)) {
			t.Errorf("List has a text of %q that is none of %q", n.Names, names)
		}
	}
}

// modules are those that are linked: path and version, a tab, the folder.
func modules(t *testing.T) (list []string) {
	for _, platform := range platforms {
		cmd := exec.Command("go", "list", "-deps", "-f",
			"{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}\t{{.Dir}}{{end}}{{end}}", "patchbay/cmd/patchbay")
		cmd.Env = append(os.Environ(), "GOOS="+platform, "GOARCH=amd64", "CGO_ENABLED=0")
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("go list for %s: %v", platform, err)
		}
		list = append(list, strings.Split(strings.TrimSpace(string(out)), "\n")...)
	}
	slices.Sort(list)
	return slices.Compact(slices.DeleteFunc(list, func(m string) bool { return m == "" }))
}
