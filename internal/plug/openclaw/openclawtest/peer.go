// Package openclawtest runs a real OpenClaw in tests: its gateway, its command line and its node
// host, each with a home directory of its own and without access beyond this machine. It also
// checks JSON with the schema that OpenClaw publishes.
//
// The programs are in test/peers/openclaw, installed with `npm ci` there. Without them, tests are
// skipped, but with CI=true they fail.
package openclawtest

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// Timeout limits everything that one of the programs does. The gateway takes 20 seconds to start,
// and several times that on a machine that is busy with other tests.
const Timeout = 3 * time.Minute

// stopTimeout is how long a program may take to stop before it is killed.
const stopTimeout = 15 * time.Second

// maxLog limits the recorded output of a program, in bytes.
const maxLog = 1 << 20

// skipOrFail skips a test because something is missing; in continuous integration it fails the
// test.
func skipOrFail(t testing.TB, what string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(what)
	}
	t.Skip(what)
}

// peersFolder returns test/peers/openclaw if everything is installed there. Otherwise the test is
// skipped.
func peersFolder(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		found := filepath.Join(dir, "test", "peers", "openclaw")
		if _, err := os.Stat(found); err == nil {
			if _, err := os.Stat(filepath.Join(found, "node_modules", ".package-lock.json")); err != nil {
				skipOrFail(t, "run `npm ci` in test/peers/openclaw to test with a real OpenClaw")
			}
			return found
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Fatal("no test/peers/openclaw above the test")
		}
		dir = parent
	}
}

// Node returns the Node.js program installed with OpenClaw, which needs a newer one than most
// machines have.
func Node(t testing.TB) string {
	t.Helper()
	own, _ := filepath.Glob(filepath.Join(peersFolder(t), "node_modules", "node-*", "bin", "node"))
	if len(own) == 0 {
		skipOrFail(t, "no Node.js for this machine was installed in test/peers/openclaw")
	}
	return own[0]
}

// homeDir is the home directory of a program, for its settings and its state.
type homeDir struct{ dir string }

// newHomeDir makes a home directory with settings, written as JSON.
func newHomeDir(t testing.TB, settings map[string]any) homeDir {
	t.Helper()
	h := homeDir{t.TempDir()}
	if err := os.Mkdir(h.state(), 0o700); err != nil {
		t.Fatal(err)
	}
	data, err := json.MarshalIndent(settings, "", "  ")
	if err == nil {
		err = os.WriteFile(filepath.Join(h.state(), "openclaw.json"), data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func (h homeDir) state() string { return filepath.Join(h.dir, ".openclaw") }

// command returns a command line of OpenClaw. It does not look for updates, sends no telemetry, and
// does no discovery.
func (h homeDir) command(t testing.TB, ctx context.Context, args ...string) *exec.Cmd {
	t.Helper()
	program := Node(t)
	cmd := exec.CommandContext(ctx, program, append([]string{
		filepath.Join(peersFolder(t), "node_modules", "openclaw", "openclaw.mjs"),
	}, args...)...)
	cmd.Dir = h.dir
	cmd.Env = []string{
		"PATH=" + filepath.Dir(program) + string(os.PathListSeparator) + os.Getenv("PATH"), "HOME=" + h.dir,
		"TMPDIR=" + os.TempDir(),
		"OPENCLAW_STATE_DIR=" + h.state(), "OPENCLAW_NO_AUTO_UPDATE=1", "OPENCLAW_DISABLE_BONJOUR=1",
		"OPENCLAW_NO_RESPAWN=1",
		"DO_NOT_TRACK=1", "OPENCLAW_TELEMETRY_ENDPOINT=http://127.0.0.1:9/none", "NO_COLOR=1",
	}
	ownGroup(cmd)
	cmd.Cancel = func() error {
		stopGroup(cmd)
		return nil
	}
	cmd.WaitDelay = stopTimeout
	return cmd
}

// Program is a program that runs until its test ends. It is safe for concurrent
// use.
type Program struct {
	t    testing.TB
	name string
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended and all its output was read
	stop sync.Once

	mu            sync.Mutex
	log           strings.Builder
	outputChanged chan struct{} // closed and replaced at each output
	err           error         // result of Wait
}

// run starts a program and reads its output. The program is stopped when the test ends; if the test
// has failed, its output is logged.
func run(t testing.TB, name string, cmd *exec.Cmd) *Program {
	t.Helper()
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = in, in
	return start(t, name, cmd, out, in)
}

// start starts a program whose output is what is read from out; it closes in, its other end.
func start(t testing.TB, name string, cmd *exec.Cmd, out, in *os.File) *Program {
	t.Helper()
	p := &Program{t: t, name: name, cmd: cmd, done: make(chan struct{}), outputChanged: make(chan struct{})}
	err := cmd.Start()
	in.Close()
	if err != nil {
		out.Close()
		t.Fatal(err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		p.read(out)
	}()
	go func() {
		defer close(p.done)
		err := cmd.Wait()
		// Child processes may keep the pipe open.
		killGroup(cmd)
		select {
		case <-read:
		case <-time.After(stopTimeout):
			out.Close()
			<-read
		}
		out.Close()
		p.mu.Lock()
		defer p.mu.Unlock()
		p.err = err
		if p.err == nil {
			p.err = errors.New("it has ended")
		}
	}()
	t.Cleanup(func() {
		p.Stop()
		if t.Failed() {
			t.Logf("%s said:\n%s", name, tail(p.Log(), 4000))
		}
	})
	return p
}

func (p *Program) read(out io.Reader) {
	for buf := make([]byte, 4096); ; {
		n, err := out.Read(buf)
		p.mu.Lock()
		if p.log.Len() < maxLog {
			p.log.Write(buf[:n])
		}
		close(p.outputChanged)
		p.outputChanged = make(chan struct{})
		p.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// Log returns the program's output so far.
func (p *Program) Log() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

// AwaitOutput waits until the output contains a text. The test fails if the program ends before, or
// after [Timeout].
func (p *Program) AwaitOutput(text string) {
	p.t.Helper()
	late := time.NewTimer(Timeout)
	defer late.Stop()
	for {
		p.mu.Lock()
		said, has := p.outputChanged, strings.Contains(p.log.String(), text)
		p.mu.Unlock()
		if has {
			return
		}
		select {
		case <-said:
		case <-p.done:
			if strings.Contains(p.Log(), text) {
				return
			}
			p.t.Fatalf("%s has not said %q: %v", p.name, text, p.err)
		case <-late.C:
			p.t.Fatalf("%s has not said %q in %v", p.name, text, Timeout)
		}
	}
}

// Done is closed when the program has ended.
func (p *Program) Done() <-chan struct{} { return p.done }

// Stop stops the program and its child processes, and waits for their end.
func (p *Program) Stop() {
	p.stop.Do(func() {
		select {
		case <-p.done: // its process id may be reused by now
			return
		default:
		}
		stopGroup(p.cmd)
		late := time.NewTimer(stopTimeout)
		defer late.Stop()
		select {
		case <-p.done:
		case <-late.C:
			killGroup(p.cmd)
			<-p.done
		}
	})
}

func tail(text string, n int) string { return text[max(0, len(text)-n):] }
