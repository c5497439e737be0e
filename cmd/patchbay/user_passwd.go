package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"golang.org/x/term"

	"patchbay/internal/app"
	"patchbay/internal/control"
	"patchbay/internal/talk"
)

type userPasswdCmd struct {
	Name          string `arg:"" help:"Whose password."`
	PasswordStdin bool   `help:"Read the password from standard input instead of asking for it."`
	dataFlags     `embed:""`
}

// Help returns the command's detailed help with examples.
func (userPasswdCmd) Help() string {
	return `Examples:

    patchbay user passwd ada
    echo "$PASSWORD" | patchbay user passwd ada --password-stdin`
}

var (
	sayNewPassword = talk.Say{Zh: "新密码：", En: "New password: "}
	sayAgain       = talk.Say{Zh: "再输入一次：", En: "Once more: "}
	sayPasswordSet = talk.Say{Zh: "已更新 %s 的密码。", En: "%s has a new password."}
)

// Run sets the password.
func (c *userPasswdCmd) Run(ctx context.Context, sh *shell) error {
	return c.withData(ctx, sh, func(b *app.Base) error {
		p, err := person(ctx, b, c.Name)
		if err != nil {
			return err
		}
		password, err := c.password(ctx, sh)
		if err != nil {
			return err
		}
		if err := b.Accounts.SetPassword(ctx, p.ID, password); err != nil {
			return err
		}
		if err := recordAdminEvent(ctx, b, control.EventPersonPassword, p.Name); err != nil {
			return err
		}
		return sh.result(p, func() { sh.say(sayPasswordSet, p.Name) })
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
		return "", talk.Say{Zh: "标准输入里没有密码", En: "no password came on standard input"}.Wrong()
	}
	return password, err
}

// askPassword asks for a new password, twice, without echo. An empty input is an empty password,
// which is not asked for twice.
func (sh *shell) askPassword(ctx context.Context) (string, error) {
	fd, ok := terminal(sh.stdin)
	if !ok {
		return "", usage(talk.Say{Zh: "标准输入不是终端，无法询问密码；请用 --password-stdin",
			En: "standard input is no terminal to ask for a password on; use --password-stdin"})
	}
	return sh.askTwice(ctx, fd, sayNewPassword)
}

// askTwice asks for a new secret as [shell.askPassword] does for a password.
func (sh *shell) askTwice(ctx context.Context, fd int, first talk.Say) (string, error) {
	var typed [2]string
	for i, prompt := range []talk.Say{first, sayAgain} {
		secret, err := sh.askSecret(ctx, fd, prompt)
		if err != nil {
			return "", err
		}
		if typed[i] = secret; typed[0] == "" {
			break
		}
	}
	if typed[0] != typed[1] {
		return "", talk.Say{Zh: "两次输入不一样；没有作任何改动", En: "the two are not the same; nothing was changed"}.Wrong()
	}
	return typed[0], nil
}

// askSecret asks for a secret once, without echo. Echo is switched off before the prompt, because
// people type as soon as they see it. When ctx ends, echo is restored.
func (sh *shell) askSecret(ctx context.Context, fd int, prompt talk.Say) (string, error) {
	shown, err := term.MakeRaw(fd)
	if err != nil {
		return "", err
	}
	fmt.Fprint(sh.stderr, prompt.In(sh.lang))
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
