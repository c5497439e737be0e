package main

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
	"patchbay/internal/talk"
)

// shell is what a command is run from: where it reads and writes, and in which
// language.
type shell struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	env            []string
	lang           talk.Lang
	json           bool

	reads chan read // lines of stdin, made when first needed
}

func newShell(stdin io.Reader, stdout, stderr io.Writer, env []string) *shell {
	sh := &shell{stdin: stdin, stdout: stdout, stderr: stderr, env: env, lang: talk.English}
	for _, name := range []string{"LC_ALL", "LC_MESSAGES", "LANG"} {
		if v := sh.getenv(name); v != "" {
			if strings.HasPrefix(strings.ToLower(v), "zh") {
				sh.lang = talk.Chinese
			}
			break
		}
	}
	return sh
}

// getenv is a variable of the environment the command was given, or "".
func (sh *shell) getenv(name string) string {
	for _, entry := range sh.env {
		if v, ok := strings.CutPrefix(entry, name+"="); ok {
			return v
		}
	}
	return ""
}

// say writes a sentence for people on a line of its own.
func (sh *shell) say(s talk.Say, args ...any) {
	fmt.Fprintln(sh.stdout, s.In(sh.lang, args...))
}

// printf writes text as it is.
func (sh *shell) printf(format string, args ...any) { fmt.Fprintf(sh.stdout, format, args...) }

// fail tells an error, if there is one, and returns the exit code.
func (sh *shell) fail(err error) int {
	if err == nil || errors.Is(err, errTold) {
		return exitCode(err)
	}
	if problems, ok := errors.AsType[config.Problems](err); ok {
		for _, p := range problems {
			fmt.Fprintln(sh.stderr, "patchbay:", sh.problem(p))
		}
		return exitCode(err)
	}
	fmt.Fprintln(sh.stderr, "patchbay:", oneLine(talk.Told(app.Explain(err), sh.lang)))
	return exitCode(err)
}

// errTold ends a command that has shown already what is wrong.
var errTold = errors.New("see above")

// oneLine joins the lines of an error.
func oneLine(text string) string {
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
}

// terminal is the file descriptor of a stream that is a terminal.
func terminal(stream any) (fd int, ok bool) {
	f, ok := stream.(*os.File)
	if !ok {
		return 0, false
	}
	fd = int(f.Fd())
	return fd, term.IsTerminal(fd)
}

// maxLine is the longest line read from standard input, in bytes. What people
// type is shorter, and passwords are not allowed to be longer.
const maxLine = 64 << 10

// read is a line of standard input, or why there is none.
type read struct {
	line string
	err  error
}

// readLine reads a line from standard input, without its end. At the end of the
// input it returns io.EOF. When ctx ends it does not wait for the line any more.
func (sh *shell) readLine(ctx context.Context) (string, error) {
	if sh.reads == nil {
		sh.reads = make(chan read)
		// Nothing ends a read from a terminal, so this goroutine is left to the end
		// of the process if it comes to that.
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

// readLines hands over lines until there are no more.
func readLines(r io.Reader, to chan<- read) {
	defer close(to)
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		to <- read{line: lines.Text()}
	}
	if err := lines.Err(); err != nil {
		to <- read{err: talk.Say{Zh: "标准输入：%v", En: "standard input: %v"}.Wrong(err)}
	}
}

var sayYes = talk.Say{Zh: "（输入 y 确认）", En: "[type y to go on] "}

// confirm asks a person whether to go on. No answer is no.
func (sh *shell) confirm(ctx context.Context, question talk.Say, args ...any) bool {
	fmt.Fprint(sh.stderr, question.In(sh.lang, args...)+" "+sayYes.In(sh.lang))
	answer, err := sh.readLine(ctx)
	if err != nil {
		fmt.Fprintln(sh.stderr) // nobody has ended the line by typing
	}
	answer = strings.ToLower(strings.TrimSpace(answer))
	return err == nil && (answer == "y" || answer == "yes" || answer == "是")
}
