package test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"patchbay/internal/i18n"
	"patchbay/internal/i18n/i18ntest"
)

// Verbs finds placeholders anywhere in a text.
func TestVerbs(t *testing.T) {
	for text, want := range map[string]string{
		"nothing, 100%%":           "",
		"%d before you":            "1d",
		"%s has %.1f MiB":          "1s 2f",
		"%[2]s of %[1]d":           "1d 2s",
		"%[1]s and %[1]s, %[3]s":   "1s 3s",
		"%[1]d wearers of %s left": "1d 2s",
	} {
		if got := strings.Join(i18ntest.Verbs(text), " "); got != want {
			t.Errorf("%q has %q, want %q", text, got, want)
		}
	}
}

// TestTranslations checks that each message of the program has a translation into each language,
// with the same placeholders, and that no translation is left over. With -update-translations it
// changes the files in internal/i18n/translations instead.
func TestTranslations(t *testing.T) {
	texts := map[i18n.Message]string{}
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
		for _, m := range messages(f) {
			if m == "" {
				continue
			}
			folder := path.Dir(file)
			if first, ok := texts[m]; !ok || folder < first {
				texts[m] = folder
			}
		}
		// A poem is not translated.
		if file == "internal/cli/demo_plugin.go" {
			return
		}
		for _, l := range chineseTexts(f) {
			t.Errorf("%s: a Chinese sentence, which belongs into the translations: %s", fset.Position(l.Pos()), l.Value)
		}
	})
	if len(texts) < 1000 {
		t.Errorf("only %d messages were found", len(texts))
	}
	i18ntest.Check(t, root, "", texts)
}

// translatedErrors are the folders and files that check people's input: their errors are an
// [i18n.Error], and no English error texts.
var translatedErrors = []string{
	"internal/app/clouds.go", "internal/app/shims.go", "internal/hub/registry.go", "internal/hub/rules.go",
	"internal/hub/settings.go",
	"internal/plug/learn/fsrs/", "internal/plug/learn/schedule/validate.go", "internal/plug/learn/transfer/",
	"internal/plug/mcp/upstream/settings.go",
	"internal/plug/openai/settings.go", "internal/plug/openclaw/bot/settings.go", "internal/plug/rokid/display.go",
	// The command line, except for the demo and the simulated devices, which report our own faults.
	"internal/cli/",
}

// aside matches files among them, and texts, that people do not see.
var aside = regexp.MustCompile(`^internal/cli/(demo|simulate)_?|^[^a-z]*$|^(no more|see above)$`)

// TestErrorsAreTranslated checks that errors of settings, files and commands are messages.
func TestErrorsAreTranslated(t *testing.T) {
	looked := 0
	walk(t, ".go", func(file, text string) {
		if !code(file) || aside.MatchString(file) || !slices.ContainsFunc(translatedErrors,
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
				t.Errorf("%s: an error in English alone: %q; use i18n.Message.Errorf", fset.Position(call.Pos()), words)
			}
			return true
		})
	})
	if looked < 25 {
		t.Errorf("only %d files were looked at", looked)
	}
}

// messagesOf returns the messages of one file of the repository.
func messagesOf(t *testing.T, file string) []i18n.Message {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, file), nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return messages(f)
}

// messages returns the constants of type [i18n.Message] in a file: conversions, declarations with
// that type, and elements of slices and maps of it.
func messages(f *ast.File) []i18n.Message {
	var list []i18n.Message
	add := func(e ast.Expr) {
		if text, ok := constant(e); ok {
			list = append(list, i18n.Message(text))
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if isMessage(n.Fun) && len(n.Args) == 1 {
				add(n.Args[0])
			}
		case *ast.ValueSpec:
			for _, v := range n.Values {
				if isMessage(n.Type) {
					add(v)
				}
			}
		case *ast.CompositeLit:
			switch of := n.Type.(type) {
			case *ast.ArrayType:
				for _, e := range n.Elts {
					if pair, ok := e.(*ast.KeyValueExpr); ok {
						e = pair.Value
					}
					if isMessage(of.Elt) {
						add(e)
					}
				}
			case *ast.MapType:
				for _, e := range n.Elts {
					if pair, ok := e.(*ast.KeyValueExpr); ok && isMessage(of.Value) {
						add(pair.Value)
					}
				}
			}
		}
		return true
	})
	return list
}

// isMessage reports whether a type is [i18n.Message].
func isMessage(typ ast.Expr) bool {
	s, ok := typ.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	of, ok := s.X.(*ast.Ident)
	return ok && of.Name == "i18n" && s.Sel.Name == "Message"
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

// chineseTexts finds Chinese sentences, recognized by their full stop, that are not patterns of
// spoken text.
func chineseTexts(f *ast.File) []*ast.BasicLit {
	var list []*ast.BasicLit
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
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

var verb = regexp.MustCompile(`%(?:\[\d+\])?[-+# 0]*\d*(?:\.\d+)?[a-zA-Z]`)

// sentenceEnd matches a full stop after a Chinese character; alone, it is punctuation that some
// code looks for.
var sentenceEnd = regexp.MustCompile(`\p{Han}[。！？]`)
