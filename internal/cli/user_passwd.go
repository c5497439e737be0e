package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"golang.org/x/term"

	"patchbay/internal/api"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

type userPasswdCmd struct {
	Name          string `arg:"" help:"Name of the account."`
	PasswordStdin bool   `help:"Read the password from standard input instead of the terminal."`
	targetFlags   `embed:""`
}

// Help returns the command's detailed help with examples.
func (userPasswdCmd) Help() string {
	return `All browsers of the account are signed out, and programs that it let in by OAuth have to ask again. Keys go on working.

Examples:

    patchbay user passwd ada
    echo "$PASSWORD" | patchbay user passwd ada --password-stdin`
}

const (
	msgNewPassword = i18n.Message("New password: ")
	msgAgain       = i18n.Message("Repeat: ")
	msgPasswordSet = i18n.Message("The password of %s is changed.")
)

// Run sets the password.
func (c *userPasswdCmd) Run(ctx context.Context, sh *shell) error {
	return c.connect(ctx, sh, func(at *conn) error {
		p, err := findPerson(ctx, at, c.Name)
		if err != nil {
			return err
		}
		in := control.PersonPassword{PersonRef: control.PersonRef{Person: p.ID}}
		if in.Password, err = c.password(ctx, sh); err != nil {
			return err
		}
		if in.Password == "" {
			return i18n.Message("a password cannot be empty").Errorf()
		}
		if _, err := api.SetPersonPassword.Call(ctx, at.Client, in); err != nil {
			return err
		}
		return sh.result(p, func() { sh.say(msgPasswordSet, p.Name) })
	})
}

func (c *userPasswdCmd) password(ctx context.Context, sh *shell) (string, error) {
	if c.PasswordStdin {
		return sh.readPassword(ctx)
	}
	return sh.askPassword(ctx)
}

// readPassword reads a password from standard input.
func (sh *shell) readPassword(ctx context.Context) (string, error) {
	password, err := sh.readLine(ctx)
	if errors.Is(err, io.EOF) || err == nil && password == "" {
		return "", i18n.Message("no password came on standard input").Errorf()
	}
	return password, err
}

// askPassword asks for a new password, twice, without echo. An empty input is an empty password,
// which is not asked for twice.
func (sh *shell) askPassword(ctx context.Context) (string, error) {
	fd, ok := terminal(sh.stdin)
	if !ok {
		return "", usage(i18n.Message("standard input is not a terminal, so no password can be entered; use --password-stdin"))
	}
	return sh.askTwice(ctx, fd, msgNewPassword)
}

// askTwice asks for a new secret as [shell.askPassword] does for a password.
func (sh *shell) askTwice(ctx context.Context, fd int, first i18n.Message) (string, error) {
	var typed [2]string
	for i, prompt := range []i18n.Message{first, msgAgain} {
		secret, err := sh.askSecret(ctx, fd, prompt)
		if err != nil {
			return "", err
		}
		if typed[i] = secret; typed[0] == "" {
			break
		}
	}
	if typed[0] != typed[1] {
		return "", i18n.Message("the two entries do not match; nothing was changed").Errorf()
	}
	return typed[0], nil
}

// askSecret asks for a secret once, without echo. Echo is switched off before the prompt, because
// people type as soon as they see it. When ctx ends, echo is restored.
func (sh *shell) askSecret(ctx context.Context, fd int, prompt i18n.Message, args ...any) (string, error) {
	shown, err := term.MakeRaw(fd)
	if err != nil {
		return "", err
	}
	fmt.Fprint(sh.stderr, prompt.In(sh.lang, args...))
	secret, err := readSecret(ctx, fd)
	err = errors.Join(err, term.Restore(fd, shown))
	fmt.Fprintln(sh.stderr)
	return secret, err
}

// readSecret reads a line without echo.
func readSecret(ctx context.Context, fd int) (string, error) {
	done := make(chan read, 1)
	go func() { // lives until the process ends if ctx ends first
		b, err := term.ReadPassword(fd)
		done <- read{string(b), err}
	}()
	select {
	case r := <-done:
		return r.line, r.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}
