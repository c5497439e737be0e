//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

// pty makes a terminal: what is written to the master is typed.
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

// On a terminal grades are single keys, lines can be mended while they are typed,
// and Ctrl-C and Ctrl-D end the session.
func TestLearnReviewOnATerminal(t *testing.T) {
	d := newDesk(t)
	d.ok("user", "add", "ada")
	d.ok("learn", "add", "First?", "**bold** answer")
	d.ok("learn", "add", "Second?", "2")
	d.ok("learn", "add", "Third?", "3")
	type step struct{ shown, typed string }
	const grades = "] "
	for _, c := range []struct {
		name  string
		steps []step
		end   []string
	}{
		{"keys", []step{
			{"First?\x1b[0m\r\n> ", "xx\x7f\x7f德国\n"},
			{"\x1b[1mbold\x1b[0m answer\r\n", ""}, {grades, "\x1b[A"}, {"", "h"}, // an arrow, which ends in A, is no grade
			{"hard → ", ""}, {"Second?", "\n"}, {grades, "\x03"},
		}, []string{"Reviewed: 1, of these again: 0"}},
		{"the end at a question", []step{{"Second?", "\n"}, {grades, "x"}, {"a again", ""}, {grades, "e"}, {"easy → ", ""}, {"Third?", ""}, {"\n> ", "\x04"}}, []string{"Reviewed: 1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			master, slave := pty(t)
			done := make(chan int, 1)
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			go func() {
				code := run(ctx, []string{"learn", "review"}, slave, slave, slave, d.env)
				slave.Close() // so that nobody waits for what is not said any more
				done <- code
			}()
			var seen strings.Builder
			rest := "" // what was shown and not waited for yet
			shown := make(chan string)
			go func() { // until the slave is closed
				defer close(shown)
				for b := make([]byte, 4096); ; {
					n, err := master.Read(b)
					if err != nil {
						return
					}
					select {
					case shown <- string(b[:n]):
					case <-ctx.Done():
						return
					}
				}
			}()
			wait := func(want string) {
				for !strings.Contains(rest, want) {
					text, more := "", false
					select {
					case text, more = <-shown:
					case <-ctx.Done():
					}
					if !more {
						t.Fatalf("waiting for %q; shown was\n%s", want, seen.String())
					}
					rest += text
					seen.WriteString(text)
				}
				_, rest, _ = strings.Cut(rest, want)
			}
			for _, s := range c.steps {
				wait(s.shown)
				if _, err := master.WriteString(s.typed); err != nil {
					t.Fatal(err)
				}
			}
			for _, want := range c.end {
				wait(want)
			}
			if code := <-done; code != exitOK {
				t.Errorf("exit code %d:\n%s", code, seen.String())
			}
		})
	}
	var shown struct{ Reviews []learnReview }
	d.json(&shown, "learn", "show", d.points()["First?"].ID)
	if len(shown.Reviews) == 0 || shown.Reviews[0].Recall != "德国" || shown.Reviews[0].Grade != "hard" {
		t.Errorf("its history is %+v", shown.Reviews)
	}
}
