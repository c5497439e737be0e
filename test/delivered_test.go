package test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"patchbay/internal/proxytest"
	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

// Whatever happens to PostgreSQL (stopped, killed, unresponsive, disconnected, or out of disk
// space), wearers who asked recently get answers, and every turn reported as done is in the
// database once. Before the last check the server itself is killed while turns wait in its folder.
// TOLD_TURNS=10000 sets the number of turns.
func TestDeliveredTurnsAreInPostgres(t *testing.T) {
	turns := 400
	if n, err := strconv.Atoi(os.Getenv("TOLD_TURNS")); err == nil {
		turns = n
	}
	patchbay() // is built before the disk is small
	disk := t.TempDir()
	must(t, os.Chmod(filepath.Dir(disk), 0o755)) // PostgreSQL runs as another user
	small := syscall.Mount("none", disk, "tmpfs", 0, "size=300m") == nil
	if small {
		t.Cleanup(func() { syscall.Unmount(disk, syscall.MNT_DETACH) }) //nolint:errcheck // if it fails, removing the folder fails too
		t.Setenv("TMPDIR", disk)
	}
	pg, err := storetest.StartServer(true)
	if err != nil {
		if os.Getenv("CI") == "" {
			t.Skip(err)
		}
		t.Fatal(err)
	}
	t.Cleanup(pg.Close)
	proxy := proxytest.New(t, pg.Addr())
	direct := store.Options{URL: pg.URL("postgres"), Folder: t.TempDir()}
	through := direct
	through.URL = strings.Replace(direct.URL, pg.Addr(), proxy.Addr(), 1)
	p := newInstallation(through, "PATCHBAY_TRACE_CONTENT=true")
	p.run(t, "user", "add", "ada")
	l := &deliveredTurns{t: t, p: p, texts: map[string]bool{}}
	var key addedKey
	p.json(t, &key, "key", "add", "--name", "glasses", "--scope", "lingzhu")
	l.key = key.Key
	for i := range 8 {
		var bot addedBot
		p.json(t, &bot, "bot", "add", "--name", fmt.Sprint("parrot", i), "--kind", "echo")
		l.bots = append(l.bots, fmt.Sprint(bot.ID))
	}
	l.s = p.serve(t)

	filler := filepath.Join(disk, "filler")
	faults := []fault{
		{"stopped", pg.Shutdown, func() { must(t, pg.Start()) }},
		{"killed", pg.Kill, func() { must(t, pg.Start()) }},
		{"mute", proxy.Mute, proxy.Pass},
		{"mute where it was connected", proxy.MuteExisting, func() {}},
		{"cut off", proxy.Cut, proxy.Pass},
	}
	if small {
		faults = append(faults, fault{"with a full disk", func() { fill(t, filler) }, func() {
			must(t, os.Remove(filler))
			pg.Stop() // it may have stopped by itself
			must(t, pg.Start())
		}})
	}
	for _, f := range faults {
		l.during(f, turns/len(faults)+1)
	}
	proxy.Cut()
	l.ask("at the end", 40)
	l.s.kill()
	proxy.Pass()
	l.s = p.serve(t)

	missing, twice := 0, 0
	waitWithin(t, 5*time.Minute, "all turns are in the database", func() bool {
		there := map[string]int{}
		for _, row := range storetest.Rows(t, direct)["traces"] {
			for _, cell := range strings.Split(row, "|") {
				if l.texts[cell] {
					there[cell]++
					break
				}
			}
		}
		missing, twice = len(l.texts)-len(there), 0
		for _, n := range there {
			if n > 1 {
				twice++
			}
		}
		pending, _ := filepath.Glob(filepath.Join(direct.Folder, "turns.pending", "*"))
		return missing == 0 && len(pending) == 0
	})
	if twice > 0 {
		t.Errorf("%d are there twice", twice)
	}
	if l.others > len(l.texts)/100 {
		t.Errorf("%d of %d were not answered: %v", l.others, l.others+len(l.texts), l.heard)
	}
	t.Logf("all of %d turns that were told done are in the database; %d others heard a sentence: %v", len(l.texts),
		l.others, l.heard)
}

type fault struct {
	name        string
	begin, over func()
}

// deliveredTurns records the answers of all askers.
type deliveredTurns struct {
	t    *testing.T
	p    *installation
	s    *server
	key  string
	bots []string

	mu     sync.Mutex
	texts  map[string]bool // questions that were answered and done
	others int             // number of questions that were not answered
	heard  map[string]int  // the answers to those, by count
}

// during asks until the given number of further turns is done, with the fault during the middle
// half.
func (l *deliveredTurns) during(f fault, many int) {
	l.t.Helper()
	before := l.others
	began := time.Now()
	l.ask(f.name+" before", many/4)
	var working sync.WaitGroup
	working.Go(func() { l.ask(f.name+" begins", many/4) })
	f.begin()
	at := time.Now()
	working.Wait()
	l.ask(f.name, many-3*(many/4))
	lasted := time.Since(at)
	waiting, _ := filepath.Glob(filepath.Join(l.p.db.Folder, "turns.pending", "*.json"))
	f.over()
	l.ask(f.name+" after", many/4)
	l.t.Logf("database %s for %v: %d done in %v, %d waited on the disk, %d not answered", f.name,
		lasted.Round(time.Millisecond), many, time.Since(began).Round(time.Millisecond), len(waiting), l.others-before)
}

// ask asks all bots concurrently until the given number of turns is done.
func (l *deliveredTurns) ask(name string, many int) {
	var left atomic.Int64
	left.Store(int64(many))
	end := time.Now().Add(5 * time.Minute)
	var all sync.WaitGroup
	for i, bot := range l.bots {
		all.Go(func() {
			for n := 0; left.Load() > 0; n++ {
				if time.Now().After(end) {
					l.t.Errorf("%s: %d are not done after 5 minutes: %v", name, left.Load(), l.heard)
					return
				}
				text := fmt.Sprintf("%s %d %d", name, i, n)
				a, err := l.s.ask(l.key, question(bot, "wearer", fmt.Sprint(n), text), nil)
				l.mu.Lock()
				if err == nil && a.done && a.text == text {
					l.texts[text] = true
					left.Add(-1)
				} else {
					l.others++
					if l.heard == nil {
						l.heard = map[string]int{}
					}
					if err != nil {
						a.text = err.Error()
					}
					l.heard[strings.ReplaceAll(a.text, text, "…")]++
				}
				l.mu.Unlock()
			}
		})
	}
	all.Wait()
}

// fill uses up the free space of a disk.
func fill(t *testing.T, name string) {
	f, err := os.Create(name)
	must(t, err)
	defer f.Close()
	for zeros := make([]byte, 1<<20); len(zeros) > 0; {
		if _, err := f.Write(zeros); errors.Is(err, syscall.ENOSPC) {
			zeros = zeros[:len(zeros)/16]
		}
	}
}
