package cli

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"patchbay/internal/config"
	"patchbay/internal/i18n"
)

// Every message of internal/config about a setting has a Chinese translation. The test collects the
// messages from its source, with a … for inserted values.
func TestProblemTranslations(t *testing.T) {
	files, err := filepath.Glob("../../internal/config/*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	begins := []string{"is ", "has ", "holds ", "names ", "was ", "cannot ", "does not ", "give ", "write ", "keep ",
		"take ", "let ", "name ", "correct ", "solve ", "did you "}
	texts := 0
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			e, ok := n.(ast.Expr)
			if _, tag := n.(*ast.Field); tag {
				return false // documentation
			}
			if !ok {
				return true
			}
			text, said := joined(e)
			if !said || !startsWithAny(text, begins) || strings.Contains(text, "%") {
				return !said
			}
			texts++
			for _, l := range i18n.Languages()[1:] {
				if got := translatePhrase(l, text); got == text {
					t.Errorf("%s: %s.po does not have %q", filepath.Base(file), l, text)
				}
			}
			return false
		})
	}
	if texts < 50 {
		t.Errorf("only %d texts were found", texts)
	}
}

func startsWithAny(text string, begins []string) bool {
	for _, b := range begins {
		if strings.HasPrefix(text, b) && len(text) > len(b) {
			return true
		}
	}
	return false
}

// joined returns a concatenated string with X for its other operands; false if it is not one.
func joined(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, e.Kind == token.STRING && err == nil
	case *ast.BinaryExpr:
		if e.Op != token.ADD {
			return "", false
		}
		a, saidA := joined(e.X)
		b, saidB := joined(e.Y)
		if !saidA {
			a = "X"
		}
		if !saidB {
			b = "X"
		}
		return a + b, saidA || saidB
	}
	return "", false
}

// Problems are in Chinese in a Chinese terminal, and otherwise in English.
func TestWrongSettingsInChinese(t *testing.T) {
	file := filepath.Join(t.TempDir(), "patchbay.yaml")
	if err := os.WriteFile(file,
		[]byte("listen: nowhere\nturn:\n  idle: soon\nlimits:\n  calls: 0\ncolour: red\nlog: loud\ntls:\n  cert:\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	_, _, err := config.Load(config.Sources{File: file, Env: []string{"HOME=/home/ada", "PATCHBAY_LISTEM=:1"},
		Flags: map[string]string{"bus.name": "a b", "secret": "x"}})
	problems, ok := errors.AsType[config.Problems](err)
	if !ok {
		t.Fatal(err)
	}
	var lines []string
	for _, p := range problems {
		lines = append(lines, (&shell{lang: i18n.Chinese}).problem(p))
		if got := (&shell{lang: i18n.English}).problem(p); got != p.Error() {
			t.Errorf("in English it is %q", got)
		}
	}
	got := strings.Join(lines, "\n")
	for _, want := range []string{
		`turn.idle（` + file + `，第 3 行）是 "soon"：请给出 时长，例如 7s、10m 或 30d，从 100ms 到 1h`,
		"colour（" + file + "，第 6 行）是未知的设置：",
		"log（" + file + "，第 7 行）是一组设置，不是一个值：请把其中的设置各写一行",
		`listen（` + file + `，第 1 行）是 "nowhere"：请给出地址和端口`, "PATCHBAY_LISTEM 是未知的环境变量：你是不是想写 PATCHBAY_LISTEN？",
		`limits.calls（` + file + `，第 5 行）是 0：请给出 整数，例如 10，从 1 到 1000000`, `bus.name（--bus-name）是 "a b"：请用至多 64 个字母`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
}

// The Chinese page of the manual equals the output in a Chinese terminal, and all of it is in
// Chinese.
func TestSettingsPageInChinese(t *testing.T) {
	const name, mark = "../../docs/configuration.zh-CN.md", "<!-- settings -->\n"
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	head, tables, ok := strings.Cut(string(text), mark)
	if !ok {
		t.Fatalf("%s has no line %q", name, mark)
	}
	var want strings.Builder
	if err := writeDoc(&want, i18n.Chinese); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(want.String()) {
		if cells := strings.Split(line, "|"); len(line) > 1 && !strings.HasPrefix(line, "|---") &&
			!strings.HasPrefix(line, "###") && !strings.ContainsFunc(cells[max(len(cells)-2, 0)],
			func(r rune) bool { return unicode.Is(unicode.Han, r) }) {
			t.Errorf("there is no Chinese in %s", line)
		}
	}
	switch {
	case tables == want.String():
	case *update:
		if err := os.WriteFile(name, []byte(head+mark+want.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s is not what the settings are now; run: go test ./internal/cli -run %s -update", name, t.Name())
	}
}
