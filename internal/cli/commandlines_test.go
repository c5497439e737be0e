package cli

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

var (
	fenced = regexp.MustCompile("(?ms)^```(?:text|sh|bash|console)\n(.*?)^```$")
	// invoked is a command line of the program, up to what the shell does with it.
	invoked = regexp.MustCompile(`(?m)^(?:\w+=\S+ |.*\| |    )*patchbay ((?:"[^"]*"|'[^']*'|[^"'\n|<>;&#])+)`)
	argWord = regexp.MustCompile(`(?:"[^"]*"|'[^']*'|[^"'\s])+`)
)

// TestCommandLines checks that the command lines of the manual, and the examples of the help, are
// those of the program: most are not run, because they need a board, a key or a service.
func TestCommandLines(t *testing.T) {
	texts := map[string]string{}
	files, _ := filepath.Glob("../../docs/*.md")
	for _, file := range append(files, "../../README.md", "../../README.zh-CN.md") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range fenced.FindAllStringSubmatch(string(text), -1) {
			texts[file] += strings.ReplaceAll(block[1], "\\\n", " ")
		}
	}
	k, err := newParser(new(cli), newShell(strings.NewReader(""), io.Discard, io.Discard, nil), true, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	kong.Visit(k.Model.Node, func(v kong.Visitable, next kong.Next) error { //nolint:errcheck // it cannot fail
		if n, ok := v.(*kong.Node); ok {
			texts["the help of "+n.Path()] = n.Detail
		}
		return next(nil)
	})
	fresh := func() { // a parser does not forget which flags were there before
		kong.Visit(k.Model.Node, func(v kong.Visitable, next kong.Next) error { //nolint:errcheck // it cannot fail
			if f, ok := v.(*kong.Flag); ok {
				f.Set = false
			}
			return next(nil)
		})
	}
	seen := 0
	for where, text := range texts {
		for _, line := range invoked.FindAllStringSubmatch(text, -1) {
			args := argWord.FindAllString(line[1], -1)
			for i, a := range args {
				args[i] = strings.NewReplacer(`"`, "", `'`, "").Replace(a)
			}
			seen++
			fresh()
			if _, err := k.Parse(args); err != nil {
				t.Errorf("%s has %q: %v", where, "patchbay "+line[1], err)
			}
		}
	}
	if seen < 400 {
		t.Errorf("only %d command lines were found", seen)
	}
}
