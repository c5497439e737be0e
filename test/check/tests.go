package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"
)

// testLimit is the timeout of one package's tests. The slowest takes a third of it on a machine
// with two cores that does nothing else. A test that hangs ends with its stack, before whoever runs
// all tests gives up.
const testLimit = "50m"

// testOptions define how tests are run.
type testOptions struct {
	options
	race  bool
	first []string // packages to start first, of all
	env   []string // added to the environment
	only  string   // name pattern; empty: all
}

// unraced occurs in the skip message of a test that is too slow under the race detector. Such tests
// run again without it.
const unraced = "race detector"

// unwatched are packages that are compiled without the race detector. SQLite is translated from C:
// its memory is outside the garbage collector's, so the detector finds nothing there, and with it
// SQLite takes four times as long. The others only compute, without goroutines: keys from
// passwords, which is slow by design, what a board's sound is, many times a second, and the flags
// of some hundred commands, for each command that a test runs.
var unwatched = []string{
	"modernc.org/sqlite/lib", "modernc.org/libc", "modernc.org/memory",
	"golang.org/x/crypto/scrypt", "golang.org/x/crypto/pbkdf2", "golang.org/x/crypto/argon2",
	"github.com/pion/opus/...", "patchbay/internal/voice/vad", "patchbay/internal/voice/voicetest",
	"github.com/alecthomas/kong",
}

// longest are the packages that are started first, because they take longest.
var longest = []string{
	"./internal/cli", "./test", "./test/console", "./internal/plug/xiaozhi", "./internal/app", "./internal/hub",
	"./internal/store", "./internal/plug/mcp", "./internal/plug/openclaw/gateway",
}

func (o testOptions) args() []string {
	args := []string{"test", "-json", "-timeout", testLimit}
	if o.race {
		args = append(args, "-race")
		for _, pkg := range unwatched {
			args = append(args, "-gcflags="+pkg+"=-race=false -d=checkptr=0")
		}
	}
	if o.short {
		args = append(args, "-short")
	}
	if o.only != "" {
		args = append(args, "-run", o.only)
	}
	if o.whole() {
		args = append(args, o.first...)
	}
	return append(args, o.packages...)
}

// runTests runs the tests and reports each package.
func runTests(ctx context.Context, o testOptions, r *report) {
	if ctx.Err() != nil {
		return
	}
	args := o.args()
	said := []string{"go"}
	for _, a := range args {
		switch {
		case strings.Contains(a, " "):
			said = append(said, "'"+a+"'")
		case a != "-json":
			said = append(said, a)
		}
	}
	r.say(strings.Join(said, " ") + "\n")
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Env = append(os.Environ(), o.env...)
	if o.race {
		cmd.Env = append(cmd.Env, "CGO_ENABLED=1")
	}
	t := newTally(r, o.race)
	err := runJSON(cmd, t)
	switch {
	case ctx.Err() != nil:
		r.fail("interrupted")
		r.say(t.unfinished(time.Now()))
	case err != nil && !t.failed:
		// The go command itself failed and wrote the reason to standard error.
		r.fail("go test: " + err.Error())
	}
	if o.race {
		o.race = false
		for _, pkg := range slices.Sorted(maps.Keys(t.unraced)) {
			o.packages = []string{pkg}
			o.only = "^(" + strings.Join(slices.Sorted(maps.Keys(t.unraced[pkg])), "|") + ")$"
			runTests(ctx, o, r)
		}
	}
}

// runJSON runs a go command and passes its output to a tally.
func runJSON(cmd *exec.Cmd, t *tally) error {
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	err = t.read(out)
	if werr := cmd.Wait(); werr != nil {
		return werr
	}
	return err
}

// event is a line of "go test -json"; see "go doc test2json".
type event struct {
	Time        time.Time
	Action      string
	Package     string
	ImportPath  string // of build-output
	Test        string
	Elapsed     float64
	Output      string
	FailedBuild string
}

// tally counts the tests of all packages.
type tally struct {
	report *report
	race   bool
	failed bool // a package has
	open   map[string]*packageTally
	builds map[string]*bytes.Buffer // compiler output, by import path
	// unraced lists the tests, by package, to run again without the race detector.
	unraced map[string]map[string]bool
}

// packageTally counts the tests of one package while it runs.
type packageTally struct {
	count
	race    bool
	began   time.Time
	running map[string]time.Time     // since when, by test
	output  map[string]*bytes.Buffer // by test; "" for output outside tests
	parents map[string]bool          // tests that have subtests
	broken  map[string]bool          // tests with a failed subtest
	reasons []string                 // skip messages
	slow    []event                  // top-level tests that took slowTest
	unraced map[string]bool          // tests partly skipped because of the race detector
}

func newTally(r *report, race bool) *tally {
	return &tally{report: r, race: race, open: map[string]*packageTally{}, builds: map[string]*bytes.Buffer{},
		unraced: map[string]map[string]bool{}}
}

// read reads all lines. Lines that are not events are copied to the report.
func (t *tally) read(from io.Reader) error {
	lines := bufio.NewReader(from)
	for {
		line, err := lines.ReadBytes('\n')
		var e event
		switch {
		case len(bytes.TrimSpace(line)) == 0:
		case json.Unmarshal(line, &e) != nil:
			t.report.say(string(line))
		default:
			t.take(e)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (t *tally) take(e event) {
	if e.Action == "build-output" {
		buffer(t.builds, e.ImportPath).WriteString(e.Output)
		return
	}
	if e.Package == "" {
		return
	}
	p := t.open[e.Package]
	if p == nil {
		p = &packageTally{race: t.race, began: e.Time, running: map[string]time.Time{},
			output: map[string]*bytes.Buffer{}, parents: map[string]bool{}, broken: map[string]bool{},
			unraced: map[string]bool{}}
		t.open[e.Package] = p
	}
	switch {
	case e.Action == "run" || e.Action == "cont":
		p.running[e.Test] = e.Time
	case e.Action == "pause":
		delete(p.running, e.Test)
	case e.Action == "output":
		buffer(p.output, e.Test).WriteString(e.Output)
	case e.Action != "pass" && e.Action != "fail" && e.Action != "skip":
	case e.Test != "":
		delete(p.running, e.Test)
		p.ended(e.Test, e.Action)
		if e.Elapsed >= slowTest.Seconds() && !strings.Contains(e.Test, "/") {
			p.slow = append(p.slow, e)
		}
	default:
		t.endPackage(e, p)
	}
}

func buffer(all map[string]*bytes.Buffer, key string) *bytes.Buffer {
	b := all[key]
	if b == nil {
		b = &bytes.Buffer{}
		all[key] = b
	}
	return b
}

// ended counts a test that ended. A test with subtests counts only if it failed and none of them
// did.
func (p *packageTally) ended(test, action string) {
	for i := strings.LastIndexByte(test, '/'); i >= 0; i = strings.LastIndexByte(test[:i], '/') {
		p.parents[test[:i]] = true
		if action == "fail" {
			p.broken[test[:i]] = true
		}
	}
	switch {
	case action == "fail" && !p.broken[test]:
		p.failed++
	case action == "fail" || p.parents[test]:
	case action == "skip":
		why := reason(p.output[test])
		if p.race && strings.Contains(why, unraced) {
			top, _, _ := strings.Cut(test, "/")
			p.unraced[top] = true
			break // counted when it runs again
		}
		p.skipped++
		p.reasons = append(p.reasons, test+": "+why)
	default:
		p.passed++
	}
	if action != "fail" {
		delete(p.output, test)
	}
}

// reason returns the skip message of a test.
func reason(out *bytes.Buffer) string {
	if out == nil {
		return "no reason given"
	}
	for line := range strings.Lines(out.String()) {
		line = strings.TrimSpace(line)
		if _, text, ok := strings.Cut(line, ".go:"); ok {
			if _, text, ok = strings.Cut(text, ": "); ok {
				return text
			}
		}
	}
	return "no reason given"
}

// unfinished returns lines with the packages and tests that have not ended.
func (t *tally) unfinished(now time.Time) string {
	var b strings.Builder
	for _, pkg := range slices.Sorted(maps.Keys(t.open)) {
		p := t.open[pkg]
		fmt.Fprintf(&b, "not finished: %s, %.0fs, %s\n", pkg, now.Sub(p.began).Seconds(), p.count)
		for _, test := range slices.Sorted(maps.Keys(p.running)) {
			fmt.Fprintf(&b, "      %s: %.0fs\n", test, now.Sub(p.running[test]).Seconds())
		}
	}
	return b.String()
}

// endPackage reports a package and adds its count to the total.
func (t *tally) endPackage(e event, p *packageTally) {
	delete(t.open, e.Package)
	if len(p.unraced) > 0 {
		t.unraced[e.Package] = p.unraced
	}
	if e.Action == "skip" && p.count == (count{}) {
		return // no tests
	}
	res := result{state: passed, note: p.count.String()}
	if e.Action == "fail" {
		res.state = failed
		if p.failed == 0 { // not built, panicked outside a test, or timed out
			p.failed++
			res.note = p.count.String()
		}
		res.more = t.complaint(e, p)
		t.failed = true
	}
	for i, why := range p.reasons {
		p.reasons[i] = "      skipped " + why
	}
	if e.Elapsed >= slowPackage.Seconds() {
		p.reasons = append(p.reasons, p.slowest()...)
	}
	t.report.add(e.Package, p.count, "  "+strings.TrimPrefix(e.Package, "patchbay/"),
		time.Duration(e.Elapsed*float64(time.Second)), res, p.reasons...)
}

const (
	// slowPackage is how long a package takes whose slow tests are named, and slowTest how long
	// those take. Of them, maxSlow are named.
	slowPackage = 2 * time.Minute
	slowTest    = 15 * time.Second
	maxSlow     = 12
)

// slowest names the tests that took longest.
func (p *packageTally) slowest() (lines []string) {
	slices.SortFunc(p.slow, func(a, b event) int { return cmp.Compare(b.Elapsed, a.Elapsed) })
	for _, e := range p.slow[:min(len(p.slow), maxSlow)] {
		lines = append(lines, fmt.Sprintf("      slow %s: %.0fs", e.Test, e.Elapsed))
	}
	return lines
}

// maxComplaint limits the printed output of a failed package, in bytes. The end is kept, because it
// has the stack trace or the timeout.
const maxComplaint = 64 << 10

// complaint returns the output of a failed package.
func (t *tally) complaint(e event, p *packageTally) string {
	var b strings.Builder
	if build := t.builds[e.FailedBuild]; e.FailedBuild != "" && build != nil {
		b.Write(build.Bytes())
	}
	for _, name := range slices.Sorted(maps.Keys(p.output)) {
		if name != "" {
			b.Write(p.output[name].Bytes())
		}
	}
	b.Write(buffer(p.output, "").Bytes())
	text := b.String()
	if len(text) > maxComplaint {
		text = reasons(text[:len(text)-maxComplaint]) + "…" + text[len(text)-maxComplaint:]
	}
	return text
}

// maxReasons limits the failure messages printed from the omitted part of the output, in bytes.
const maxReasons = 8 << 10

// said matches the lines of a test's failure message. Log lines of programs, which some tests
// print, look alike except for their level.
var said = regexp.MustCompile(`^\s*(\S+_test\.go:\d+: |--- FAIL|panic: |WARNING: DATA RACE)`)

// reasons returns the lines of a long output that are failure messages.
func reasons(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if said.MatchString(line) && !strings.Contains(line, " level=") && b.Len()+len(line) < maxReasons {
			b.WriteString(line)
		}
	}
	return b.String()
}
