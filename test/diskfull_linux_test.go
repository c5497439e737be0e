package test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"patchbay/internal/store"
)

// With a full disk, askers are told that their turn is not saved, the server reports that it is not
// ready and why, and pages are still served. When space is free again, everything recovers by
// itself. The log has one line at the beginning and one at the end (there is little space all the
// time, because the file system is small).
func TestDiskFull(t *testing.T) {
	folder := t.TempDir()
	// Enough that the server does not consider the disk full from the start.
	if err := syscall.Mount("none", folder, "tmpfs", 0, fmt.Sprintf("size=%d", store.NoSpace+60<<20)); err != nil {
		t.Skipf("no file system can be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(folder, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	p := newInstallation(store.Options{Folder: folder})
	p.run(t, "user", "add", "ada")
	var bot addedBot
	p.json(t, &bot, "bot", "add", "--name", "parrot", "--kind", "echo", "--set", "shared=true")
	var key addedKey
	p.json(t, &key, "key", "add", "--name", "glasses", "--scope", "lingzhu")
	s := p.serve(t)
	ready := func(want string) {
		t.Helper()
		body := ""
		for end := time.After(2 * time.Minute); ; {
			if _, body = get(t, s.url+"/readyz"); strings.Contains(body, want) {
				return
			}
			select {
			case <-time.After(100 * time.Millisecond):
			case <-end:
				t.Fatalf("the server never says %s, but %s", want, body)
			}
		}
	}
	asked := 0
	ask := func() answer {
		t.Helper()
		asked++
		a, err := s.ask(key.Key, question(fmt.Sprint(bot.ID), "wearer", fmt.Sprint("m", asked),
			fmt.Sprint("hello ", asked)), nil)
		must(t, err)
		return a
	}
	ready(`"ready":true`)
	if a := ask(); !a.done || !strings.Contains(a.text, "hello 1") {
		t.Fatalf("told is %+v", a)
	}
	filler, err := os.Create(filepath.Join(folder, "filler"))
	must(t, err)
	defer filler.Close()
	zeros := make([]byte, 1<<20)
	for err = nil; err == nil; {
		_, err = filler.Write(zeros)
		if len(zeros) > 1 && errors.Is(err, syscall.ENOSPC) {
			zeros, err = zeros[:len(zeros)/16], nil
		}
	}
	// SQLite's log may have free pages left, which hold some more turns.
	for a := ask(); !strings.Contains(a.text, "没能记下来"); a = ask() {
		if asked > 5000 {
			t.Fatalf("told is %+v", a)
		}
	}
	ready(`"disk_full"`)
	for range 5 {
		ask()
	}
	if status, body := get(t, s.url+"/signin"); status != 200 {
		t.Errorf("a page: %d %s", status, body)
	}
	if out, err := p.try("doctor"); err == nil {
		t.Errorf("doctor has nothing to say but %s", out)
	}
	if _, body := get(t, s.url+"/metrics"); !strings.Contains(body, "patchbay_storage_failing 1") {
		t.Error("no metric says that data cannot be written")
	}
	must(t, filler.Truncate(0))
	ready(`"ready":true`)
	if a := ask(); !a.done || strings.Contains(a.text, "没能记下来") {
		t.Errorf("afterwards told is %+v", a)
	}
	must(t, s.stop())
	for line, times := range map[string]int{"data cannot be written, or hardly any more": 1,
		"there is little room on the disk; make some": 2} {
		if n := strings.Count(s.log(), line); n != times {
			t.Errorf("the log says %d times: %s", n, line)
		}
	}
	t.Logf("%d lines of the log, %d questions", strings.Count(s.log(), "\n"), asked)
}
