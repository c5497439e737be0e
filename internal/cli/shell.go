package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"patchbay/internal/app"
	"patchbay/internal/config"
	"patchbay/internal/i18n"
)

// shell is the environment of a command: its input, output and language.
type shell struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	env            []string
	lang           i18n.Lang
	json           bool

	reads chan read // lines of stdin; created on first use
}

func newShell(stdin io.Reader, stdout, stderr io.Writer, env []string) *shell {
	sh := &shell{stdin: stdin, stdout: stdout, stderr: stderr, env: env, lang: i18n.English}
	for _, name := range []string{"LC_ALL", "LC_MESSAGES", "LANG"} {
		if v := sh.getenv(name); v != "" {
			sh.lang = i18n.ParseLang(v, i18n.English)
			break
		}
	}
	return sh
}

// getenv returns a variable of the command's environment, or "".
func (sh *shell) getenv(name string) string {
	for _, entry := range sh.env {
		if v, ok := strings.CutPrefix(entry, name+"="); ok {
			return v
		}
	}
	return ""
}

// say prints a message on a line of its own.
func (sh *shell) say(s i18n.Message, args ...any) {
	fmt.Fprintln(sh.stdout, s.In(sh.lang, args...))
}

// printf prints formatted text.
func (sh *shell) printf(format string, args ...any) { fmt.Fprintf(sh.stdout, format, args...) }

// fail prints an error, if any, and returns the exit code.
func (sh *shell) fail(err error) int {
	if err == nil || errors.Is(err, errReported) {
		return exitCode(err)
	}
	if problems, ok := errors.AsType[config.Problems](err); ok {
		for _, p := range problems {
			fmt.Fprintln(sh.stderr, "patchbay:", sh.problem(p))
		}
		return exitCode(err)
	}
	fmt.Fprintln(sh.stderr, "patchbay:", singleLine(i18n.Localize(app.Explain(err), sh.lang)))
	return exitCode(err)
}

// errReported ends a command that has already printed what is wrong.
var errReported = errors.New("see above")

// singleLine joins the lines of an error.
func singleLine(text string) string {
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
}

// terminal returns the file descriptor of a stream if it is a terminal.
func terminal(stream any) (fd int, ok bool) {
	f, ok := stream.(*os.File)
	if !ok {
		return 0, false
	}
	fd = int(f.Fd())
	return fd, term.IsTerminal(fd)
}

// maxLine is the maximum length of a line of standard input, in bytes. People type shorter ones,
// and passwords must not be longer.
const maxLine = 64 << 10

// read is a line of standard input, or an error.
type read struct {
	line string
	err  error
}

// readLine reads a line from standard input, without its line ending. At the end of the input it
// returns io.EOF. When ctx ends it stops waiting.
func (sh *shell) readLine(ctx context.Context) (string, error) {
	if sh.reads == nil {
		sh.reads = make(chan read)
		// A read from a terminal cannot be canceled, so this goroutine may live until the process
		// ends.
		go readLines(sh.stdin, sh.reads)
	}
	select {
	case r, ok := <-sh.reads:
		if !ok {
			return "", io.EOF
		}
		return r.line, r.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// readLines sends lines until the end of the input.
func readLines(r io.Reader, to chan<- read) {
	defer close(to)
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		to <- read{line: lines.Text()}
	}
	if err := lines.Err(); err != nil {
		to <- read{err: i18n.Message("standard input: %v").Errorf(err)}
	}
}

const (
	msgYes = i18n.Message("[type y to continue] ")
	sayYes = i18n.Message("yes")
)

// confirm asks whether to continue. No answer means no.
func (sh *shell) confirm(ctx context.Context, question i18n.Message, args ...any) bool {
	fmt.Fprint(sh.stderr, question.In(sh.lang, args...)+" "+msgYes.In(sh.lang))
	answer, err := sh.readLine(ctx)
	if err != nil {
		fmt.Fprintln(sh.stderr) // the user has not ended the line
	}
	return err == nil && (strings.EqualFold(strings.TrimSpace(answer), "y") || sayYes.Said(answer))
}
