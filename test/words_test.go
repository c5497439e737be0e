package test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// verbs finds placeholders anywhere in a text.
func TestVerbs(t *testing.T) {
	for text, want := range map[string]string{
		"nothing, 100%%":           "",
		"%d before you":            "1d",
		"%s has %.1f MiB":          "1s 2f",
		"%[2]s of %[1]d":           "1d 2s",
		"%[1]s and %[1]s, %[3]s":   "1s 3s",
		"%[1]d wearers of %s left": "1d 2s",
	} {
		if got := strings.Join(verbs(text), " "); got != want {
			t.Errorf("%q has %q, want %q", text, got, want)
		}
	}
}

// Every message exists in both languages, with the same placeholders.
func TestSentencesInBothLanguages(t *testing.T) {
	said := 0
	walk(t, ".go", func(file, text string) {
		if !code(file) {
			return
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, file, text, parser.SkipObjectResolution)
		if err != nil {
			t.Error(err)
			return
		}
		for _, s := range sentences(f) {
			said++
			at := fset.Position(s.at)
			switch {
			case s.zh == "" || s.en == "":
				t.Errorf("%s: a talk.Say lacks a language: zh %q, en %q", at, s.zh, s.en)
			case !slices.Equal(verbs(s.zh), verbs(s.en)):
				t.Errorf("%s: a talk.Say is filled in differently: zh %v, en %v", at, verbs(s.zh), verbs(s.en))
			}
		}
		// A poem is not translated.
		if file == "cmd/patchbay/demo_plugin.go" {
			return
		}
		for _, l := range chineseOutsideSay(f) {
			t.Errorf("%s: a Chinese sentence without its English, which talk.Say would ask for: %s",
				fset.Position(l.Pos()), l.Value)
		}
	})
	if said < 100 {
		t.Errorf("only %d sentences were found", said)
	}
}

// bothTongues are the folders and files that check people's input: their errors are a [talk.Wrong],
// and no English error texts.
var bothTongues = []string{
	"internal/app/clouds.go", "internal/app/shims.go", "internal/hub/registry.go", "internal/hub/rules.go",
	"internal/hub/settings.go",
	"internal/plug/learn/fsrs/", "internal/plug/learn/schedule/validate.go", "internal/plug/learn/transfer/",
	"internal/plug/mcp/upstream/settings.go",
	"internal/plug/openai/settings.go", "internal/plug/openclaw/bot/settings.go", "internal/plug/rokid/display.go",
	// The command line, except for the demo and the simulated devices, which report our own faults.
	"cmd/patchbay/",
}

// aside matches files among them, and texts, that people do not see.
var aside = regexp.MustCompile(`^cmd/patchbay/(demo|simulate)_?|^[^a-z]*$|^(no more|see above)$`)

// Errors of settings, files and commands exist in both languages.
func TestWrongsInBothLanguages(t *testing.T) {
	looked := 0
	walk(t, ".go", func(file, text string) {
		if !code(file) || aside.MatchString(file) || !slices.ContainsFunc(bothTongues,
			func(there string) bool { return strings.HasPrefix(file, there) }) {
			return
		}
		looked++
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, file, text, parser.SkipObjectResolution)
		if err != nil {
			t.Error(err)
			return
		}
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) == 0 {
				return true
			}
			words, fixed := constant(call.Args[0])
			name, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || !fixed || strings.Contains(words, "%w") || aside.MatchString(verb.ReplaceAllString(words, "")) {
				return true
			}
			if of, ok := name.X.(*ast.Ident); ok && (of.Name == "errors" && name.Sel.Name == "New" ||
				of.Name == "fmt" && name.Sel.Name == "Errorf") {
				t.Errorf("%s: an error in English alone: %q; use talk.Say.Wrong", fset.Position(call.Pos()), words)
			}
			return true
		})
	})
	if looked < 25 {
		t.Errorf("only %d files were looked at", looked)
	}
}

// sentencesOf returns the talk.Say literals of one file of the repository.
func sentencesOf(t *testing.T, file string) []sentence {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, file), nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return sentences(f)
}

// sentence is a talk.Say literal.
type sentence struct {
	at     token.Pos
	zh, en string
}

// sentences returns the talk.Say literals of a file, except those that are not made of constant
// texts alone.
func sentences(f *ast.File) []sentence {
	var list []sentence
	ast.Inspect(f, func(n ast.Node) bool {
		c, ok := n.(*ast.CompositeLit)
		if !ok || !isSay(c.Type) || len(c.Elts) == 0 {
			return true
		}
		s := sentence{at: c.Pos()}
		for i, e := range c.Elts {
			into := [...]*string{&s.zh, &s.en}[i]
			if kv, ok := e.(*ast.KeyValueExpr); ok {
				e, into = kv.Value, &s.zh
				if kv.Key.(*ast.Ident).Name == "En" {
					into = &s.en
				}
			}
			text, ok := constant(e)
			if !ok {
				return true
			}
			*into = text
		}
		list = append(list, s)
		return true
	})
	return list
}

func isSay(typ ast.Expr) bool {
	switch typ := typ.(type) {
	case *ast.Ident:
		return typ.Name == "Say"
	case *ast.SelectorExpr:
		return typ.Sel.Name == "Say"
	}
	return false
}

// constant returns the value of a string literal, or of a sum of them.
func constant(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, err == nil
	case *ast.BinaryExpr:
		a, okA := constant(e.X)
		b, okB := constant(e.Y)
		return a + b, okA && okB
	}
	return "", false
}

var verb = regexp.MustCompile(`%(?:\[(\d+)\])?[-+# 0]*\d*(?:\.\d+)?([a-zA-Z])`)

// verbs returns the placeholders of a text, by argument number.
func verbs(text string) []string {
	var list []string
	next := 1
	for _, m := range verb.FindAllStringSubmatch(strings.ReplaceAll(text, "%%", ""), -1) {
		if m[1] != "" {
			next, _ = strconv.Atoi(m[1])
		}
		list = append(list, strconv.Itoa(next)+m[2])
		next++
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// chineseOutsideSay finds Chinese sentences, recognized by their full stop, that are neither in a
// talk.Say nor patterns of spoken text.
func chineseOutsideSay(f *ast.File) []*ast.BasicLit {
	var list []*ast.BasicLit
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CompositeLit:
			return !isSay(n.Type)
		case *ast.CallExpr:
			s, ok := n.Fun.(*ast.SelectorExpr)
			return !ok || s.Sel.Name != "MustCompile"
		case *ast.BasicLit:
			if text, err := strconv.Unquote(n.Value); n.Kind == token.STRING && err == nil &&
				sentenceEnd.MatchString(text) {
				list = append(list, n)
			}
		}
		return true
	})
	return list
}

// sentenceEnd matches a full stop after a Chinese character; alone, it is punctuation that some
// code looks for.
var sentenceEnd = regexp.MustCompile(`\p{Han}[。！？]`)
