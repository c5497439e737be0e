package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"golang.org/x/term"
)

// typist reads what somebody types: lines, and single keys on a terminal. Where
// there is none, a key is the first letter of a line. It is used by one goroutine
// at a time.
type typist struct {
	sh *shell
	fd int
	// typed is what came from the terminal; nil: there is none.
	typed chan rune
	err   error // why typed is closed
	// Each value in want has one letter read. Nothing is read ahead: whether Ctrl-D
	// ends the input is decided by the mode of the terminal when a read begins.
	want  chan struct{}
	asked bool // a letter was wanted, and has not come yet
}

func newTypist(sh *shell) *typist {
	fd, ok := terminal(sh.stdin)
	if !ok {
		return &typist{sh: sh}
	}
	t := &typist{sh: sh, fd: fd, typed: make(chan rune), want: make(chan struct{}, 1)}
	// Nothing ends a read from a terminal, so this goroutine is left to the end of
	// the process.
	go t.read(sh.stdin)
	return t
}

func (t *typist) read(from io.Reader) {
	defer close(t.typed)
	in := bufio.NewReader(from)
	for range t.want {
		r, _, err := in.ReadRune()
		if err != nil {
			t.err = err
			return
		}
		t.typed <- r
	}
}

// What keys send.
const (
	keyInterrupt = 3
	keyEnd       = 4
	keyEscape    = 27
)

// next is what is typed next.
func (t *typist) next(ctx context.Context) (rune, error) {
	if !t.asked {
		t.want <- struct{}{} // it has room for the one
		t.asked = true
	}
	select {
	case r, ok := <-t.typed:
		if !ok {
			return 0, t.err
		}
		t.asked = false
		return r, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// line reads a line, which the terminal lets people mend while they type. At the
// end of the input it returns io.EOF.
func (t *typist) line(ctx context.Context) (string, error) {
	if t.typed == nil {
		return t.sh.readLine(ctx)
	}
	var b strings.Builder
	for {
		r, err := t.next(ctx)
		if err != nil || r == '\n' {
			return b.String(), err
		}
		if b.Len() < maxLine {
			b.WriteRune(r)
		}
	}
}

// key prompts for a key and reads it: '\n' is Enter. Ctrl-C and Ctrl-D are io.EOF.
func (t *typist) key(ctx context.Context, out io.Writer, prompt string) (rune, error) {
	if t.typed == nil {
		fmt.Fprint(out, prompt)
		line, err := t.sh.readLine(ctx)
		for _, r := range strings.TrimSpace(line) {
			return r, err
		}
		return '\n', err
	}
	before, err := term.MakeRaw(t.fd)
	if err != nil {
		return 0, err
	}
	defer term.Restore(t.fd, before) //nolint:errcheck // it was possible a moment ago
	fmt.Fprint(out, prompt)
	for {
		r, err := t.next(ctx)
		switch {
		case err != nil:
			return 0, err
		case r == keyInterrupt, r == keyEnd:
			return 0, io.EOF
		case r == keyEscape:
			t.escape(ctx)
		case r == '\r', r == ' ':
			return '\n', nil
		default:
			return r, nil
		}
	}
}

// escapeTime is within which time the rest of what a key sends comes. Nothing comes
// after the key Escape itself.
const escapeTime = 50 * time.Millisecond

// escape reads the rest of what arrows and their like send, which is no answer
// although it ends with a letter.
func (t *typist) escape(ctx context.Context) {
	for n := 0; ; n++ {
		soon, cancel := context.WithTimeout(ctx, escapeTime)
		r, err := t.next(soon)
		cancel()
		switch {
		case err != nil:
			return
		case n == 0 && (r == '[' || r == 'O'):
		case n == 0, r >= '@' && r <= '~':
			return
		}
	}
}
