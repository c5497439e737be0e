//go:build linux

package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"patchbay/internal/account"
)

// pty opens a pseudo-terminal: what is written to the master is typed input.
func pty(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { master.Close() })
	control := func(what, arg uintptr) {
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, master.Fd(), what, arg); errno != 0 {
			t.Skip(errno)
		}
	}
	var unlock int32
	control(syscall.TIOCSPTLCK, uintptr(unsafe.Pointer(&unlock)))
	var number uint32
	control(syscall.TIOCGPTN, uintptr(unsafe.Pointer(&number)))
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { slave.Close() })
	return master, slave
}

// session is a command that runs in a terminal.
type session struct {
	t      *testing.T
	ctx    context.Context
	stop   context.CancelFunc // like Ctrl-C
	master *os.File
	shown  chan string
	seen   strings.Builder // all output
	rest   string          // output that was not waited for yet
	done   chan int        // receives the exit code
}

// typing runs a command in a terminal until the test ends.
func (d *desk) typing(args ...string) *session {
	t := d.t
	t.Helper()
	master, slave := pty(t)
	ctx, end := context.WithTimeout(context.Background(), 2*time.Minute)
	running, cancel := context.WithCancel(ctx)
	s := &session{t: t, ctx: ctx, stop: cancel, master: master, shown: make(chan string), done: make(chan int, 1)}
	ended := make(chan struct{})
	t.Cleanup(func() { cancel(); <-ended; end() })
	go func() {
		defer close(ended)
		code := Run(running, args, slave, slave, slave, d.env)
		slave.Close() // so that reads end
		s.done <- code
	}()
	go func() { // until the slave is closed
		defer close(s.shown)
		for b := make([]byte, 4096); ; {
			n, err := master.Read(b)
			if err != nil {
				return
			}
			select {
			case s.shown <- string(b[:n]):
			case <-ctx.Done():
				return
			}
		}
	}()
	return s
}

// wait reads until the output contains want, and returns what came before it.
func (s *session) wait(want string) (before string) {
	s.t.Helper()
	for !strings.Contains(s.rest, want) {
		text, more := "", false
		select {
		case text, more = <-s.shown:
		case <-s.ctx.Done():
		}
		if !more {
			s.t.Fatalf("waiting for %q; shown was\n%s", want, s.seen.String())
		}
		s.rest += text
		s.seen.WriteString(text)
	}
	before, s.rest, _ = strings.Cut(s.rest, want)
	return before
}

// enter types a line.
func (s *session) enter(text string) {
	s.t.Helper()
	if _, err := s.master.WriteString(text); err != nil {
		s.t.Fatal(err)
	}
}

// In a terminal the server prints its address and how to stop it, instead of log lines.
func TestServeInATerminal(t *testing.T) {
	d := newDesk(t)
	s := d.typing("serve", "--listen", "127.0.0.1:0")
	s.wait("Patchbay is running at http://127.0.0.1:")
	s.wait("Press Ctrl-C to stop it.")
	s.wait("the setup code is ")
	if strings.Contains(s.seen.String(), "level=") || strings.Contains(s.seen.String(), "msg=") {
		t.Errorf("it shows\n%s", s.seen.String())
	}
	s.stop()
	s.wait("stopped")
	if code := <-s.done; code != exitOK {
		t.Errorf("exit code %d", code)
	}
}

// In a terminal a new account gets its password at once.
func TestUserAddAsksForAPassword(t *testing.T) {
	d := newDesk(t)
	s := d.typing("user", "add", "ada")
	s.wait("Console password for ada")
	s.wait("New password: ")
	s.enter("correct horse\n")
	s.wait("Repeat: ")
	s.enter("correct horse\n")
	s.wait("ada now has an account (admin).")
	if code := <-s.done; code != exitOK || strings.Contains(s.seen.String(), "horse") {
		t.Errorf("exit code %d, shown was\n%s", code, s.seen.String())
	}
	if _, _, err := d.base().Accounts.SignIn(t.Context(), "ada", "correct horse", account.Browser{}); err != nil {
		t.Errorf("ada cannot sign in: %v", err)
	}
	// Without a password, the command says what is missing and how to set it.
	s = d.typing("user", "add", "bob")
	s.wait("New password: ")
	s.enter("\n")
	s.wait("bob has no password and cannot sign in to the console; set one: patchbay user passwd bob")
	if code := <-s.done; code != exitOK {
		t.Errorf("exit code %d, shown was\n%s", code, s.seen.String())
	}
	// With passwords that differ, no account is created.
	s = d.typing("user", "add", "eve")
	s.wait("New password: ")
	s.enter("correct horse\n")
	s.wait("Repeat: ")
	s.enter("another horse\n")
	s.wait("the two entries do not match")
	if code := <-s.done; code != exitFailed || strings.Contains(d.ok("user", "list"), "eve") {
		t.Errorf("exit code %d, shown was\n%s", code, s.seen.String())
	}
}

// In a terminal the passphrase of a backup is asked for without echo, twice for a new one.
func TestBackupAsksForAPassphrase(t *testing.T) {
	d := newDesk(t)
	d.ok("user", "add", "ada")
	file := filepath.Join(t.TempDir(), "b.age")
	s := d.typing("backup", "create", "--encrypt", file)
	s.wait("New passphrase of the backup: ")
	s.enter("correct horse battery\n")
	s.wait("Repeat: ")
	s.enter("correct horse battery\n")
	s.wait("The encrypted backup is in ")
	if code := <-s.done; code != exitOK || strings.Contains(s.seen.String(), "horse") {
		t.Errorf("exit code %d, shown was\n%s", code, s.seen.String())
	}
	s = d.typing("backup", "restore", file)
	s.wait("Passphrase of the backup: ")
	s.enter("correct horse battery\n")
	s.wait("The backup is valid")
	if code := <-s.done; code != exitOK || strings.Contains(s.seen.String(), "horse") {
		t.Errorf("exit code %d, shown was\n%s", code, s.seen.String())
	}
}
