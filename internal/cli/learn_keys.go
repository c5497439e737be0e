package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"golang.org/x/term"
)

// keyReader reads the user's input: lines, and single keys on a terminal. Without a terminal, a key
// is the first letter of a line. It is not safe for concurrent use.
type keyReader struct {
	sh *shell
	fd int
	// typed receives the keys of the terminal; nil if there is none.
	typed chan rune
	err   error // why typed was closed
	// Each value in want requests one character. Nothing is read ahead: the terminal mode at the
	// start of a read decides whether Ctrl-D ends the input.
	want  chan struct{}
	asked bool // a character was requested and has not arrived
}

func newKeyReader(sh *shell) *keyReader {
	fd, ok := terminal(sh.stdin)
	if !ok {
		return &keyReader{sh: sh}
	}
	t := &keyReader{sh: sh, fd: fd, typed: make(chan rune), want: make(chan struct{}, 1)}
	// A read from a terminal cannot be canceled, so this goroutine lives until the process ends.
	go t.read(sh.stdin)
	return t
}

func (t *keyReader) read(from io.Reader) {
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

// Characters that keys send.
const (
	keyInterrupt = 3
	keyEnd       = 4
	keyEscape    = 27
)

// next returns the next character.
func (t *keyReader) next(ctx context.Context) (rune, error) {
	if !t.asked {
		t.want <- struct{}{} // it has a buffer of one
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

// line reads a line, which the terminal lets people edit. At the end of the input it returns
// io.EOF.
func (t *keyReader) line(ctx context.Context) (string, error) {
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

// key prompts for a key and reads it: '\n' is Enter. Ctrl-C and Ctrl-D return io.EOF.
func (t *keyReader) key(ctx context.Context, out io.Writer, prompt string) (rune, error) {
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

// escapeTime is how soon the rest of an escape sequence arrives. Nothing follows the key Escape
// itself.
const escapeTime = 50 * time.Millisecond

// escape discards the rest of an escape sequence, such as that of an arrow key, which ends with a
// letter that is not an answer.
func (t *keyReader) escape(ctx context.Context) {
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
