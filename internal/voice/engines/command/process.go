package command

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os/exec"
	"sync"

	"patchbay/internal/voice/engine"
)

// process is a program that runs. Its reads end with its context, even if another program holds its
// output.
type process struct {
	r       *runner
	ctx     context.Context
	cancel  context.CancelFunc
	name    string
	cmd     *exec.Cmd
	pipe    io.ReadCloser
	out     *bufio.Reader
	stderr  *tail
	release func() bool
	ended   bool
	err     error // of the end
}

func (p *process) begin(pipe io.ReadCloser) {
	p.pipe, p.out = pipe, bufio.NewReader(pipe)
	p.release = context.AfterFunc(p.ctx, func() { _ = pipe.Close() })
}

// Read implements [io.Reader]. Its error is io.EOF if the program succeeded.
func (p *process) Read(b []byte) (int, error) {
	n, err := p.out.Read(b)
	switch {
	case err == nil:
		return n, nil
	case err == io.EOF && n == 0:
		if err = p.end(); err == nil {
			err = io.EOF
		}
	default:
		err = p.failure(err)
	}
	return n, err
}

// end waits for the end of the program, kills what it has started, and returns why it failed.
func (p *process) end() error {
	if p.ended {
		return p.err
	}
	p.ended = true
	err := p.cmd.Wait()
	killGroup(p.cmd)
	p.release()
	switch exit, failed := errors.AsType[*exec.ExitError](err); {
	case p.ctx.Err() != nil:
		p.err = p.failure(err)
	case failed:
		p.err = engine.Errorf(engine.Broken, "the program ended with status %d", exit.ExitCode())
	case err != nil && !errors.Is(err, exec.ErrWaitDelay):
		p.err = p.failure(err)
	}
	if p.err != nil {
		p.r.log.Warn("a program of a speech engine failed", "program", p.name, "error", p.err,
			"stderr", p.stderr.String())
	}
	p.cancel()
	<-p.r.slots
	return p.err
}

// failure returns the error of a program as an [*engine.Error], or that of the context.
func (p *process) failure(err error) error {
	switch {
	case errors.Is(context.Cause(p.ctx), context.DeadlineExceeded):
		return engine.Errorf(engine.Timeout, "the program did not end in time")
	case p.ctx.Err() != nil:
		return context.Cause(p.ctx)
	}
	return engine.Errorf(engine.Broken, "the program: %w", err)
}

// Close implements [io.Closer]. It kills the program if it still runs.
func (p *process) Close() error {
	p.cancel()
	_ = p.pipe.Close() // of no more use
	_ = p.end()        // whoever closes it early wants no error
	return nil
}

// tail keeps the last bytes of a stream. It is safe for concurrent use.
type tail struct {
	mu   sync.Mutex
	data []byte
}

// Write implements [io.Writer].
func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.data = append(t.data, b[max(0, len(b)-maxLogged):]...)
	t.data = t.data[max(0, len(t.data)-maxLogged):]
	return len(b), nil
}

// String returns what was kept.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.data)
}
