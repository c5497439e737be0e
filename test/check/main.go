// Command check runs all checks of the project and reports the result of each:
//
//	go run ./test/check                      everything
//	go run ./test/check -short               without slow checks, for use while editing
//	go run ./test/check -run ./internal/...  only these packages
//	go run ./test/check -fuzz 60s            and every fuzz test for that long
//	go run ./test/check -all                 for a release: every variant of every test, every
//	                                         fuzz test for 10 seconds, ten faults of test/chaos
//
// A test with many variants runs a representative selection, and all variants with -all, which
// sets CHECK_ALL=1.
//
// Checks whose programs are not installed are skipped and reported; only Go is required. With
// CI=true in the environment a missing program is a failure.
//
// The last line counts tests and the other steps together. The exit code is 1 if anything failed.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"patchbay/internal/store/storetest"
)

// options are the command-line options.
type options struct {
	short    bool
	all      bool // every variant, fuzzing and chaos too
	fuzz     time.Duration
	packages []string
	ci       bool // a missing program is a failure
}

// whole reports whether all packages, and so the whole program, are checked.
func (o options) whole() bool { return len(o.packages) == 1 && o.packages[0] == "./..." }

func main() {
	var o options
	var run string
	flag.BoolVar(&o.short, "short", false,
		"leave out slow tests, the race detector and the search for known vulnerabilities")
	flag.BoolVar(&o.all, "all", false,
		"for a release: run every variant of every test, fuzz for 10s, and break things under load")
	flag.DurationVar(&o.fuzz, "fuzz", 0, "also run every fuzz test for `TIME`")
	flag.StringVar(&run, "run", "./...", "check only these `PACKAGES`, separated by spaces")
	flag.Parse()
	o.packages = strings.Fields(run)
	if o.all && o.fuzz == 0 {
		o.fuzz = 10 * time.Second
	}
	o.ci = os.Getenv("CI") == "true"
	if flag.NArg() > 0 || len(o.packages) == 0 || o.fuzz < 0 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := enterRoot(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "check:", err)
		os.Exit(1)
	}
	begin := time.Now()
	r := &report{out: os.Stdout}
	check(ctx, o, r)
	r.end(time.Since(begin))
	if r.total.failed > 0 || ctx.Err() != nil {
		stop()
		os.Exit(1)
	}
}

// check runs the checks of the source and the tests side by side: tests wait a lot. After a failed
// step it continues with the next, so that one report shows all failures.
func check(ctx context.Context, o options, r *report) {
	var source sync.WaitGroup
	source.Go(func() { checkSource(ctx, o, r) })
	checkTests(ctx, o, r)
	source.Wait()
	if o.fuzz > 0 {
		runFuzz(ctx, o, r)
	}
	if o.all {
		r.step(ctx, "chaos", func(ctx context.Context) result {
			return command(ctx, "", nil, "go", "run", "./test/chaos", "-faults", "10", "-words")
		})
	}
}

// checkSource runs the checks that need no tests, one after the other.
func checkSource(ctx context.Context, o options, r *report) {
	r.step(ctx, "gofmt", checkFormat)
	r.step(ctx, "go vet", func(ctx context.Context) result {
		return command(ctx, "", nil, "go", append([]string{"vet"}, o.packages...)...)
	})
	r.step(ctx, "staticcheck", func(ctx context.Context) result {
		return command(ctx, "", nil, "go", append([]string{"tool", "-modfile=tools/tools.mod", "staticcheck"},
			o.packages...)...)
	})
	if o.whole() {
		r.step(ctx, "pages", func(ctx context.Context) result { return checkPages(ctx, pagesFolder) })
		r.step(ctx, "static binary", checkBinary)
	}
	if o.whole() && !o.short {
		r.step(ctx, "govulncheck", checkVulnerabilities)
		r.step(ctx, "packages", checkPackages)
	}
}

// checkTests finds or starts the programs that tests need, and runs the tests.
func checkTests(ctx context.Context, o options, r *report) {
	tests, stopServer := testOptions{options: o, first: longest}, func() {}
	if o.all {
		tests.env = append(tests.env, "CHECK_ALL=1")
	}
	r.step(ctx, "PostgreSQL", func(ctx context.Context) result {
		res := o.need(postgres)(ctx)
		if res.state != passed {
			return res
		}
		server, err := storetest.StartServer(false)
		if err != nil {
			return result{state: failed, note: err.Error()}
		}
		tests.env, stopServer = append(tests.env, storetest.Variable+"="+server.Addr()), server.Close
		return res
	})
	defer func() { stopServer() }()
	for _, folder := range peers() {
		r.step(ctx, "npm ci "+folder, func(ctx context.Context) result { return o.installPeer(ctx, folder) })
	}
	if !o.short {
		r.step(ctx, "C compiler", func(ctx context.Context) result {
			res := o.need(compiler)(ctx)
			tests.race = res.state == passed
			return res
		})
	}
	runTests(ctx, tests, r)
}

// enterRoot changes the working directory to the folder of go.mod.
func enterRoot(ctx context.Context) error {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return fmt.Errorf("go env: %w", err)
	}
	mod := strings.TrimSpace(string(out))
	if filepath.Base(mod) != "go.mod" {
		return fmt.Errorf("run this inside the checkout")
	}
	return os.Chdir(filepath.Dir(mod))
}

// state is the result state of a step.
type state string

const (
	passed  state = "ok"
	failed  state = "FAILED"
	skipped state = "skipped"
)

// result is the result of a step.
type result struct {
	state state
	note  string // a short remark on the same line
	more  string // output of the programs, for a failed step
}

// report prints and counts the results. Steps may report at the same time.
type report struct {
	mu    sync.Mutex
	out   io.Writer
	total count
	bad   []string // names of the steps that failed
	again string   // failure messages, printed once more at the end
}

// count counts tests or steps.
type count struct{ passed, failed, skipped int }

func (c count) String() string {
	return fmt.Sprintf("%d passed, %d failed, %d skipped", c.passed, c.failed, c.skipped)
}

func (c *count) add(s state) {
	switch s {
	case passed:
		c.passed++
	case failed:
		c.failed++
	case skipped:
		c.skipped++
	}
}

// step runs one step and reports it. After an interrupt it does nothing.
func (r *report) step(ctx context.Context, name string, run func(context.Context) result) {
	if ctx.Err() != nil {
		return
	}
	begin := time.Now()
	res := run(ctx)
	if ctx.Err() != nil {
		res = result{state: failed, note: "interrupted"}
	}
	var c count
	c.add(res.state)
	r.add(name, c, name, time.Since(begin), res)
}

// add counts the tests of a package, or one step, and prints its result with remarks below.
func (r *report) add(name string, c count, title string, took time.Duration, res result, remarks ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.total.passed += c.passed
	r.total.failed += c.failed
	r.total.skipped += c.skipped
	if res.state == failed {
		r.bad = append(r.bad, name)
		r.again += name + "\n" + indent(reasons(res.more)) + "\n"
	}
	r.line(title, took, res)
	for _, remark := range remarks {
		fmt.Fprintln(r.out, remark)
	}
}

// fail counts a failure that has no line of its own.
func (r *report) fail(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.total.failed++
	r.bad = append(r.bad, name)
}

// say prints what no result belongs to.
func (r *report) say(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprint(r.out, text)
}

func (r *report) line(name string, took time.Duration, res result) {
	fmt.Fprintf(r.out, "%-34s %-8s %7.1fs", name, res.state, took.Seconds())
	if res.note != "" {
		fmt.Fprintf(r.out, "  %s", res.note)
	}
	fmt.Fprintln(r.out)
	if res.more != "" {
		fmt.Fprintln(r.out, indent(res.more))
	}
}

// end prints the summary. Whoever keeps only the end of a long output finds the failure messages
// there too.
func (r *report) end(took time.Duration) {
	if r.again != "" {
		fmt.Fprintf(r.out, "\nwhat failed:\n%s", r.again)
	}
	fmt.Fprintf(r.out, "\n%s\n", took.Round(100*time.Millisecond))
	if len(r.bad) > 0 {
		fmt.Fprintf(r.out, "failed: %s\n", strings.Join(r.bad, ", "))
	}
	fmt.Fprintln(r.out, r.total)
}

func indent(text string) string {
	return "    " + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n    ")
}

// command returns a command that runs in a folder (empty: the current one), with additions to the
// environment.
func command(ctx context.Context, folder string, env []string, name string, args ...string) result {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return result{state: failed, note: err.Error(), more: string(out)}
	}
	return result{state: passed}
}
