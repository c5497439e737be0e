package upstream

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"sync"
	"time"
)

const (
	// writeTimeout is how long a command may leave its input unread.
	writeTimeout = 10 * time.Second
	// exitTimeout is how long a command may take to exit after its input is closed, and again
	// after a signal. Together with the rest it stays below two seconds, within which a revoked
	// right to run commands must take effect.
	exitTimeout = 500 * time.Millisecond
	// outputDrainTimeout is how long the error output of an exited command is read.
	outputDrainTimeout = 2 * time.Second
	// maxErrorLine limits a line of a command's error output.
	maxErrorLine = 2 << 10
	// maxStderrLines is how many lines of it are kept, to explain why the command ended.
	maxStderrLines = 4
)

// stdio is the transport to a command: one message per line (2025-11-25 basic/transports, "stdio").
type stdio struct {
	s         *session
	log       *slog.Logger
	cmd       *exec.Cmd
	in        *os.File // the command's standard input
	out       *os.File
	stderr    *os.File
	writeLock chan struct{} // held while writing; holds 1
	exited    chan struct{} // closed when the command has exited
	once      sync.Once

	mu         sync.Mutex
	stderrTail []string
}

// commandError means that a command could not be started, or has exited.
type commandError struct {
	err     error
	started bool
}

func (e *commandError) Error() string {
	if !e.started {
		return "the command could not be started: " + e.err.Error()
	}
	if e.err == nil {
		return "the command ended"
	}
	return "the command ended: " + e.err.Error()
}

func (e *commandError) Unwrap() error { return e.err }

// newStdio starts the command. begin starts reading its output.
func newStdio(s *session, settings *Settings, log *slog.Logger) (*stdio, error) {
	cmd := exec.Command(settings.Command, settings.Args...)
	cmd.Dir = settings.Dir
	cmd.Env = settings.environ(os.Environ())
	ownGroup(cmd)
	w := &stdio{s: s, log: log, cmd: cmd, writeLock: make(chan struct{}, 1), exited: make(chan struct{})}
	theirs, err := w.pipes()
	if err == nil {
		err = cmd.Start()
	}
	for _, f := range theirs {
		f.Close()
	}
	if err != nil {
		w.closePipes()
		return nil, &commandError{err: err}
	}
	return w, nil
}

// begin reads the command's output until it ends.
func (w *stdio) begin() {
	read := make(chan struct{})
	w.s.start(func() {
		defer close(read)
		w.readOutput()
	})
	w.s.start(w.readErrors)
	w.s.start(func() { w.waitCommand(read) })
}

// pipes creates the pipes and returns the command's ends.
func (w *stdio) pipes() (theirs []*os.File, err error) {
	pipe := func() (r, wr *os.File) {
		if err == nil {
			r, wr, err = os.Pipe()
		}
		return r, wr
	}
	input, in := pipe()
	out, output := pipe()
	errs, errput := pipe()
	w.in, w.out, w.stderr = in, out, errs
	for _, f := range []*os.File{input, output, errput} {
		if f != nil {
			theirs = append(theirs, f)
		}
	}
	if err == nil {
		w.cmd.Stdin, w.cmd.Stdout, w.cmd.Stderr = input, output, errput
	}
	return theirs, err
}

// closePipes closes this side's ends.
func (w *stdio) closePipes() {
	for _, f := range []*os.File{w.in, w.out, w.stderr} {
		if f != nil {
			f.Close()
		}
	}
}

func (w *stdio) readOutput() {
	in := bufio.NewReader(w.out)
	for {
		line, err := readLine(in, maxMessage)
		if err != nil {
			return
		}
		if len(line.data) == 0 && !line.tooLarge {
			continue
		}
		if err := w.s.deliver(0, line); err != nil {
			// Many programs print a banner before they speak the protocol.
			w.log.Debug("upstream: a line of the command's output is no message",
				"line", w.s.redact(clip(string(line.data), 200)))
		}
	}
}

func (w *stdio) readErrors() {
	in := bufio.NewReader(w.stderr)
	for {
		line, err := readLine(in, maxErrorLine)
		if err != nil {
			return
		}
		text := string(line.data)
		if line.tooLarge {
			text = string(line.head) + "…"
		}
		text = w.s.redact(text)
		w.log.Debug("upstream: stderr", "line", text)
		w.mu.Lock()
		w.stderrTail = append(w.stderrTail, text)
		w.stderrTail = w.stderrTail[max(0, len(w.stderrTail)-maxStderrLines):]
		w.mu.Unlock()
	}
}

// stderrLines returns the last lines of the command's error output.
func (w *stdio) stderrLines() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.stderrTail...)
}

// waitCommand ends the session when the command has exited.
func (w *stdio) waitCommand(read <-chan struct{}) {
	err := w.cmd.Wait()
	// Remaining children would keep the pipes open and run on.
	killGroup(w.cmd)
	// The last error output may explain the exit.
	select {
	case <-read:
	case <-time.After(outputDrainTimeout):
	}
	close(w.exited)
	w.s.fail(&commandError{err: err, started: true})
}

var errInputNotRead = errors.New("the command does not read its input")

// send writes a message as one line.
func (w *stdio) send(ctx context.Context, m *outgoing) error {
	select {
	case w.writeLock <- struct{}{}:
	case <-w.exited:
		return &unsentError{errClosed}
	case <-ctx.Done():
		return &unsentError{ctx.Err()}
	}
	defer func() { <-w.writeLock }()
	// A line must not be cut off, so ctx does not end the write.
	_ = w.in.SetWriteDeadline(time.Now().Add(writeTimeout))
	if _, err := w.in.Write(append(m.body, '\n')); err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			err = errInputNotRead
		}
		w.s.fail(fmt.Errorf("writing to the command: %w", err))
		return &connectionLostError{err}
	}
	return nil
}

func (w *stdio) setVersion(string, bool)   {}
func (w *stdio) listen()                   { w.s.listening.Store(true) }
func (w *stdio) isStateless() bool         { return false }
func (w *stdio) cancelsByDisconnect() bool { return false }

// close ends the command and its children: first by closing its input, then by signals (2025-11-25
// basic/lifecycle, "Shutdown").
func (w *stdio) close() {
	w.once.Do(func() {
		w.in.Close()
		if !w.waitExit() {
			stopGroup(w.cmd)
			w.waitExit()
		}
		killGroup(w.cmd) // including remaining children
		<-w.exited
		w.closePipes()
	})
}

func (w *stdio) waitExit() bool {
	select {
	case <-w.exited:
		return true
	case <-time.After(exitTimeout):
		return false
	}
}
