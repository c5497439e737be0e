package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// module writes a module into a new folder and enters it.
func module(t *testing.T, files map[string]string) {
	t.Helper()
	t.Chdir(t.TempDir())
	files["go.mod"] = "module patchbay\n\ngo 1.26\n"
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func everything() options { return options{packages: []string{"./..."}} }

func TestCounting(t *testing.T) {
	module(t, map[string]string{
		"good/good_test.go": `package good
import "testing"
func TestOne(t *testing.T) {}
func TestTable(t *testing.T) {
	t.Run("a", func(t *testing.T) {})
	t.Run("b", func(t *testing.T) {})
	t.Run("deep", func(t *testing.T) { t.Run("c", func(t *testing.T) {}) })
}
func TestAway(t *testing.T) { t.Skip("no moon tonight") }
`,
		"bad/bad_test.go": `package bad
import "testing"
func TestHolds(t *testing.T) {
	t.Run("wrong", func(t *testing.T) { t.Error("two and two are five") })
	t.Run("right", func(t *testing.T) {})
}
func TestItself(t *testing.T) {
	t.Run("right", func(t *testing.T) {})
	t.Error("only the parent complains")
}
func TestQuiet(t *testing.T) { t.Log("nobody wants to read this") }
`,
		"panics/panics_test.go": `package panics
import ("testing"; "os")
func TestMain(m *testing.M) { m.Run(); os.Exit(3) }
func TestFine(t *testing.T) {}
`,
		"unbuilt/unbuilt_test.go": `package unbuilt
import "testing"
func TestNever(t *testing.T) { nonsense() }
`,
		"none/none.go": "package none\n",
	})
	var out bytes.Buffer
	r := &report{out: &out}
	runTests(t.Context(), testOptions{options: everything()}, r)
	// good: 4 and 1 skipped; bad: 2 of 4 and TestQuiet; panics: 1 and the
	// package; unbuilt: the package.
	if want := (count{passed: 8, failed: 4, skipped: 1}); r.total != want {
		t.Errorf("counted %v, want %v", r.total, want)
	}
	slices.Sort(r.bad)
	if want := []string{"patchbay/bad", "patchbay/panics", "patchbay/unbuilt"}; !slices.Equal(r.bad, want) {
		t.Errorf("failed: %v, want %v", r.bad, want)
	}
	for _, want := range []string{"two and two are five", "only the parent complains", "undefined: nonsense",
		"TestAway: no moon tonight", "FAIL\tpatchbay/panics"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report does not say %q", want)
		}
	}
	for _, no := range []string{"nobody wants to read this", "none"} {
		if strings.Contains(out.String(), no) {
			t.Errorf("the report says %q", no)
		}
	}
	if t.Failed() {
		t.Log(out.String())
	}
}

// Tests that skip themselves because of the race detector run once more without it.
func TestUnraced(t *testing.T) {
	if res := everything().need(compiler)(t.Context()); res.state != passed {
		t.Skip(res.note)
	}
	module(t, map[string]string{
		"slow/race.go":   "//go:build race\n\npackage slow\n\nconst race = true\n",
		"slow/norace.go": "//go:build !race\n\npackage slow\n\nconst race = false\n",
		"slow/slow_test.go": `package slow
import "testing"
func TestSums(t *testing.T) {
	for _, name := range []string{"a", "b"} {
		t.Run(name, func(t *testing.T) {
			if race { t.Skip("takes minutes with the race detector") }
			if name == "b" { t.Error("found without it") }
		})
	}
}
func TestQuick(t *testing.T) {}
`,
	})
	var out bytes.Buffer
	r := &report{out: &out}
	runTests(t.Context(), testOptions{options: everything(), race: true}, r)
	if want := (count{passed: 2, failed: 1}); r.total != want || !strings.Contains(out.String(), "found without it") {
		t.Errorf("counted %v, want %v\n%s", r.total, want, out.String())
	}
}

func TestLastLine(t *testing.T) {
	var out bytes.Buffer
	r := &report{out: &out}
	r.step(t.Context(), "one", func(context.Context) result { return result{state: passed} })
	r.step(t.Context(), "two", func(context.Context) result { return result{state: failed, more: "line 1\nline 2\n"} })
	r.step(t.Context(), "three", func(context.Context) result {
		return result{state: skipped,
			note: "missing: a moon"}
	})
	r.end(time.Second)
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if got := lines[len(lines)-1]; got != "1 passed, 1 failed, 1 skipped" {
		t.Errorf("the last line is %q", got)
	}
	if got := lines[len(lines)-2]; got != "failed: two" {
		t.Errorf("the line before is %q", got)
	}
	if !strings.Contains(out.String(), "\n    line 1\n    line 2\n") ||
		!strings.Contains(out.String(), "missing: a moon") {
		t.Errorf("the report is %q", out.String())
	}
}

func TestAfterAnInterruptNothingRuns(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r := &report{out: &bytes.Buffer{}}
	r.step(ctx, "first", func(context.Context) result { cancel(); return result{state: passed} })
	r.step(ctx, "second", func(context.Context) result { t.Error("it ran"); return result{} })
	if r.total.failed != 1 {
		t.Errorf("counted %v", r.total)
	}
}

// What hung is known although the run was ended from outside.
func TestUnfinishedTestsAreNamed(t *testing.T) {
	tally := newTally(&report{out: io.Discard}, false)
	err := tally.read(strings.NewReader(`{"Time":"2026-01-02T03:00:00Z","Action":"start","Package":"p"}
{"Time":"2026-01-02T03:00:00Z","Action":"start","Package":"q"}
{"Time":"2026-01-02T03:00:05Z","Action":"run","Package":"p","Test":"TestDone"}
{"Time":"2026-01-02T03:00:09Z","Action":"pass","Package":"p","Test":"TestDone"}
{"Time":"2026-01-02T03:00:10Z","Action":"run","Package":"p","Test":"TestHangs"}
{"Time":"2026-01-02T03:00:11Z","Action":"run","Package":"p","Test":"TestWaits"}
{"Time":"2026-01-02T03:00:11Z","Action":"pause","Package":"p","Test":"TestWaits"}
{"Time":"2026-01-02T03:00:20Z","Action":"pass","Package":"q"}
`))
	if err != nil {
		t.Fatal(err)
	}
	got := tally.unfinished(time.Date(2026, 1, 2, 3, 1, 0, 0, time.UTC))
	want := "not finished: p, 60s, 1 passed, 0 failed, 0 skipped\n      TestHangs: 50s\n"
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestNothingToTest(t *testing.T) {
	module(t, map[string]string{"a/a.go": "package a\n"})
	r := &report{out: &bytes.Buffer{}}
	o := everything()
	o.packages = []string{"./there/is/no/such/folder"}
	runTests(t.Context(), testOptions{options: o}, r)
	if r.total.failed == 0 {
		t.Error("a package that is not there passes")
	}
}

func TestFormat(t *testing.T) {
	module(t, map[string]string{
		"good.go":                     "package good\n",
		"a/bad.go":                    "package a\nvar  x int\n",
		"a/testdata/any.go":           "package   any\n",
		"peers/node_modules/x/any.go": "package   any\n",
		".hidden/any.go":              "package   any\n",
	})
	if res := checkFormat(t.Context()); res.state != failed || res.more != filepath.Join("a", "bad.go") {
		t.Errorf("the result is %+v", res)
	}
	if err := os.Remove(filepath.Join("a", "bad.go")); err != nil {
		t.Fatal(err)
	}
	if res := checkFormat(t.Context()); res.state != passed {
		t.Errorf("the result is %+v", res)
	}
}

// checkPages finds a page that was changed without its generated Go file.
func TestPages(t *testing.T) {
	t.Chdir(filepath.Join("..", ".."))
	folder := t.TempDir()
	for name, text := range map[string]string{
		"a/good.templ":     "package a\n\ntempl good() {\n\t<p>good</p>\n}\n",
		"b/stale.templ":    "package b\n\ntempl bad() {\n\t<p>new</p>\n}\n",
		"b/stale_templ.go": "package b\n",
	} {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	stale, missing := filepath.Join(folder, "b", "stale_templ.go"), filepath.Join(folder, "a", "good_templ.go")
	if res := checkPages(t.Context(), folder); res.state != failed || res.more != missing+"\n"+stale {
		t.Errorf("the result is %+v", res)
	}
	if res := command(t.Context(), "", nil, "go", "tool", "-modfile=tools/tools.mod", "templ", "generate",
		"-path", folder); res.state != passed {
		t.Fatalf("%+v", res)
	}
	if res := checkPages(t.Context(), folder); res.state != passed {
		t.Errorf("the result is %+v", res)
	}
}

func TestMissingPrograms(t *testing.T) {
	module(t, map[string]string{"test/peers/club/package-lock.json": "{}"})
	t.Setenv("PATH", t.TempDir())
	if got := peers(); !slices.Equal(got, []string{"test/peers/club"}) {
		t.Fatalf("peers are %v", got)
	}
	o := everything()
	if res := o.installPeer(t.Context(), "test/peers/club"); res.state != skipped ||
		!strings.Contains(res.note, "apt-get install nodejs npm") {
		t.Errorf("without node: %+v", res)
	}
	if res := o.need(compiler)(t.Context()); res.state != skipped ||
		!strings.Contains(res.note, "apt-get install gcc") {
		t.Errorf("without a compiler: %+v", res)
	}
	o.ci = true
	if res := o.need(compiler)(t.Context()); res.state != failed {
		t.Errorf("without a compiler, with CI=true: %+v", res)
	}
}

func TestInstalled(t *testing.T) {
	module(t, map[string]string{"p/package-lock.json": "{}"})
	if installed("p") {
		t.Error("nothing is there, and it passes for installed")
	}
	done := filepath.Join("p", "node_modules", ".package-lock.json")
	if err := os.MkdirAll(filepath.Dir(done), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(done, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	changed := time.Now()
	for _, age := range []time.Duration{-time.Hour, time.Hour} {
		if err := os.Chtimes(done, changed, changed.Add(age)); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(filepath.Join("p", "package-lock.json"), changed, changed); err != nil {
			t.Fatal(err)
		}
		if got := installed("p"); got != (age > 0) {
			t.Errorf("installed %v after the last change: %t", age, got)
		}
	}
}

func TestStatic(t *testing.T) {
	module(t, map[string]string{"main.go": "package main\n\nfunc main() {}\n"})
	build := exec.Command("go", "build", "-o", "program", ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := static("program"); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat("/bin/sh"); err == nil {
		if err := static("/bin/sh"); err == nil {
			t.Error("a shell that needs the C library passes for static")
		}
	}
}

func TestFuzzTests(t *testing.T) {
	module(t, map[string]string{"a/a_test.go": `package a
import "testing"
func FuzzOne(f *testing.F) { f.Fuzz(func(*testing.T, string) {}) }
func FuzzTwo(f *testing.F) { f.Fuzz(func(t *testing.T, s string) { if s == "" { t.Error("nothing") } }) }
func TestThree(t *testing.T) {}
`})
	o := everything()
	o.fuzz = time.Second
	var out bytes.Buffer
	r := &report{out: &out}
	runFuzz(t.Context(), o, r)
	if want := (count{passed: 2, failed: 1}); r.total != want || !slices.Equal(r.bad, []string{"fuzz a FuzzTwo"}) {
		t.Errorf("counted %v, failed %v\n%s", r.total, r.bad, out.String())
	}
}

func TestUnreachable(t *testing.T) {
	t.Setenv("GOVULNDB", "http://127.0.0.1:1")
	if res := checkVulnerabilities(t.Context()); res.state != skipped ||
		!strings.Contains(res.note, "cannot be reached") {
		t.Errorf("the result is %+v", res)
	}
}

// Failure messages of tests are not lost among the log lines of programs.
func TestReasons(t *testing.T) {
	long := "    house_test.go:191: the answer is wrong\n    house_test.go:121: time=0 level=INFO msg=fine\n            level=INFO msg=more\n    --- FAIL: TestHouse (1.00s)\n"
	if got := reasons(long); got != "    house_test.go:191: the answer is wrong\n    --- FAIL: TestHouse (1.00s)\n" {
		t.Errorf("%q", got)
	}
}
