package openclawtest

import (
	"context"
	"io"
	"os"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Terminal is a program of OpenClaw on a pseudo-terminal.
type Terminal struct {
	*Program
	keyboard io.Writer
}

// RunInTerminal runs OpenClaw's command line on a pseudo-terminal of 120 columns, with the gateway
// at a URL. It is stopped when the test ends.
func RunInTerminal(t testing.TB, url, token string, args ...string) *Terminal {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { screen.Close() })
	fd := int(screen.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 40, Col: 120}); err != nil {
		t.Fatal(err)
	}
	tty, err := os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context())) // Stop ends it
	t.Cleanup(cancel)
	cmd := newHomeDir(t, map[string]any{}).command(t, ctx, append(args, "--url", url, "--token", token)...)
	cmd.Env = append(cmd.Env, "TERM=xterm")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Pdeathsig: syscall.SIGTERM}
	return &Terminal{start(t, "openclaw "+args[0], cmd, screen, tty), screen}
}

// Type presses keys; "\r" is Enter and "\x1b" Escape.
func (t *Terminal) Type(keys string) {
	t.t.Helper()
	if _, err := io.WriteString(t.keyboard, keys); err != nil {
		t.t.Fatal(err)
	}
}
