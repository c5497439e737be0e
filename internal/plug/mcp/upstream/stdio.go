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
	// exitPatience is how long a command may take to end when its input is
	// closed, and again when it is asked to. Whoever may start commands no more has none
	// two seconds later.
	exitPatience = 500 * time.Millisecond
	// lastWords is how long the error output of a command that has ended is read.
	lastWords = 2 * time.Second
	// maxErrorLine bounds a line of a command's error output.
	maxErrorLine = 2 << 10
	// linesKept of it are kept, to explain why the command ended.
	linesKept = 4
)

// stdio is the wire to a command: a message is a line.
type stdio struct {
	s      *session
	log    *slog.Logger
	cmd    *exec.Cmd
	in     *os.File // the command's input
	out    *os.File
	errs   *os.File
	turn   chan struct{} // held by who writes; holds 1
	exited chan struct{} // closed when the command has ended
	once   sync.Once

	mu   sync.Mutex
	tail []string
}

// commandError is a command that could not be started, or that has ended.
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

// newStdio starts the command. What it writes is read when begin is called.
func newStdio(s *session, settings *Settings, log *slog.Logger) (*stdio, error) {
	cmd := exec.Command(settings.Command, settings.Args...)
	cmd.Dir = settings.Dir
	cmd.Env = settings.environ(os.Environ())
	ownGroup(cmd)
	w := &stdio{s: s, log: log, cmd: cmd, turn: make(chan struct{}, 1), exited: make(chan struct{})}
	theirs, err := w.pipes()
	if err == nil {
		err = cmd.Start()
	}
	for _, f := range theirs {
		f.Close()
	}
	if err != nil {
		w.hangUp()
		return nil, &commandError{err: err}
	}
	return w, nil
}

// begin reads what the command writes, until it ends.
func (w *stdio) begin() {
	read := make(chan struct{})
	w.s.start(func() {
		defer close(read)
		w.readOutput()
	})
	w.s.start(w.readErrors)
	w.s.start(func() { w.await(read) })
}

// pipes connects the command. It returns its ends of the pipes.
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
	w.in, w.out, w.errs = in, out, errs
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

// hangUp closes our ends.
func (w *stdio) hangUp() {
	for _, f := range []*os.File{w.in, w.out, w.errs} {
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
		if len(line.data) == 0 && !line.huge {
			continue
		}
		if err := w.s.deliver(0, line); err != nil {
			// Many programs greet in words before they speak the protocol.
			w.log.Debug("upstream: a line of the command's output is no message", "line", w.s.redact(clip(string(line.data), 200)))
		}
	}
}

func (w *stdio) readErrors() {
	in := bufio.NewReader(w.errs)
	for {
		line, err := readLine(in, maxErrorLine)
		if err != nil {
			return
		}
		text := string(line.data)
		if line.huge {
			text = string(line.head) + "…"
		}
		text = w.s.redact(text)
		w.log.Debug("upstream: stderr", "line", text)
		w.mu.Lock()
		w.tail = append(w.tail, text)
		w.tail = w.tail[max(0, len(w.tail)-linesKept):]
		w.mu.Unlock()
	}
}

// lines are the last lines of the command's error output.
func (w *stdio) lines() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.tail...)
}

// await ends the session when the command has ended.
func (w *stdio) await(read <-chan struct{}) {
	err := w.cmd.Wait()
	// What it left behind would keep the pipes open, and run on.
	killGroup(w.cmd)
	// Its last words may explain the end.
	select {
	case <-read:
	case <-time.After(lastWords):
	}
	close(w.exited)
	w.s.fail(&commandError{err: err, started: true})
}

var errNotRead = errors.New("the command does not read its input")

// send writes a line.
func (w *stdio) send(ctx context.Context, m *outgoing) error {
	select {
	case w.turn <- struct{}{}:
	case <-w.exited:
		return &unsentError{errClosed}
	case <-ctx.Done():
		return &unsentError{ctx.Err()}
	}
	defer func() { <-w.turn }()
	// A line must not be cut, so ctx does not end the write.
	_ = w.in.SetWriteDeadline(time.Now().Add(writeTimeout))
	if _, err := w.in.Write(append(m.body, '\n')); err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			err = errNotRead
		}
		w.s.fail(fmt.Errorf("writing to the command: %w", err))
		return &goneError{err}
	}
	return nil
}

func (w *stdio) agree(string, bool) {}
func (w *stdio) listen()            { w.s.listening.Store(true) }
func (w *stdio) sessionless() bool  { return false }
func (w *stdio) hangsUp() bool      { return false }

// close ends the command: politely, then firmly, and its children with it.
func (w *stdio) close() {
	w.once.Do(func() {
		w.in.Close()
		if !w.ends() {
			stopGroup(w.cmd)
			w.ends()
		}
		killGroup(w.cmd) // also what it started, and left behind
		<-w.exited
		w.hangUp()
	})
}

func (w *stdio) ends() bool {
	select {
	case <-w.exited:
		return true
	case <-time.After(exitPatience):
		return false
	}
}
