package hub

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"patchbay/internal/store"
)

// TestJournalHoldsWhatIsNotCommitted checks that a row is in the file before its caller gets the
// result, and until it is committed. Then the file is emptied, and removed at the end.
func TestJournalHoldsWhatIsNotCommitted(t *testing.T) {
	folder, db, log := filepath.Join(t.TempDir(), "new"), newDatabase(), &lines{}
	var inside sync.Mutex
	a := newAudit(folder, log.logger(), func(ctx context.Context, rows []store.Call) error {
		inside.Lock()
		defer inside.Unlock()
		all := ""
		for name, text := range journals(t, folder) {
			all += text
			if info, err := os.Stat(name); err != nil || info.Mode() != 0o600 {
				t.Errorf("%v, %v", info.Mode(), err)
			}
		}
		for _, r := range rows {
			if !strings.Contains(all, `"`+r.ID+`"`) {
				t.Errorf("%s was not in the journal", r.ID)
			}
		}
		return db.commit(ctx, rows)
	})
	const rows = 5000
	var work sync.WaitGroup
	for w := range 4 {
		work.Go(func() {
			for i := range rows / 4 {
				a.add(row(w*rows/4+i), true)
			}
		})
	}
	work.Wait()
	db.has(t, rows)
	inside.Lock()
	if db.rows["call-7"] != row(7) {
		t.Errorf("%+v", db.rows["call-7"])
	}
	inside.Unlock()
	a.close()
	if left := journals(t, folder); len(left) > 0 || log.count("ERROR") > 0 {
		t.Errorf("left are %q, logged is %s", left, &log.text)
	}
}

// TestJournalOfTheDead checks that the journals of a dead process are committed at the start,
// whatever their contents.
func TestJournalOfTheDead(t *testing.T) {
	text := written(t, row(1), row(2), row(3))
	last := strings.LastIndex(text[:len(text)-1], "\n") + 1
	type left struct {
		name   string
		files  []string
		rows   int
		unread bool
	}
	cases := []left{
		{"nothing", nil, 0, false},
		{"whole", []string{text}, 3, false},
		{"in many files, some of them the same", []string{written(t, row(8)), "", text, text, written(t, row(9))}, 5,
			false},
		{"rubbish", []string{strings.Repeat("\x00", 3*maxLineBytes)}, 0, true},
		{"rubbish between", []string{text + "x\n" + strings.Repeat("y", maxLineBytes+7) + "\n" + written(t, row(4))}, 4,
			true},
		{"zeroes in the middle", []string{text[:last-21] + strings.Repeat("\x00", 20) + text[last-1:]}, 2, true},
		{"a changed letter", []string{strings.Replace(text, "lamp_on", "lamp_of", 1)}, 2, true},
	}
	for cut := last + 1; cut < len(text); cut++ {
		cases = append(cases, left{fmt.Sprint("torn after ", cut), []string{text[:cut]}, 2, true})
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			folder, db, log := t.TempDir(), newDatabase(), &lines{}
			for i, text := range c.files {
				if err := os.WriteFile(filepath.Join(folder, fmt.Sprintf(journalName, 3*i+1)), []byte(text),
					0o644); err != nil {
					t.Fatal(err)
				}
			}
			a := newAudit(folder, log.logger(), db.commit)
			if len(db.rows) != c.rows {
				t.Errorf("%d rows, want %d", len(db.rows), c.rows)
			}
			if (log.count("cannot be read") > 0) != c.unread {
				t.Errorf("logged is %s", &log.text)
			}
			for name, text := range journals(t, folder) {
				if text != "" {
					t.Errorf("%s has %q", name, text)
				}
			}
			a.add(row(100), true)
			a.close()
			db.has(t, c.rows+1)
			if left := journals(t, folder); len(left) > 0 {
				t.Errorf("left are %q", left)
			}
		})
	}
}

// TestJournalOfARefusingDatabase checks that a database that refuses rows gets them later, each
// once: those in the journal, and those of read-only calls.
func TestJournalOfARefusingDatabase(t *testing.T) {
	folder, db, log := t.TempDir(), newDatabase(), &lines{}
	a := newAudit(folder, log.logger(), db.commit)
	a.add(row(0), true)
	db.has(t, 1)
	db.refuse(errors.New("no space"))
	n := 1
	for range 3 {
		for range maxAuditQueue { // more than fit into memory
			a.add(row(n), n%2 == 0)
			n++
		}
		<-db.tries
	}
	db.has(t, 1)
	if got := log.count("does not take calls"); got != 1 {
		t.Errorf("it is told %d times", got)
	}
	db.refuse(nil)
	db.has(t, n)
	a.add(row(n), true)
	a.close()
	db.has(t, n+1)
	if left := journals(t, folder); len(left) > 0 || log.count("missing") > 0 || log.count("takes calls again") != 1 {
		t.Errorf("left are %d files, logged is %s", len(left), &log.text)
	}
}

// TestJournalStaysForTheNextStart checks that rows that the database has not stored when the server
// stops are committed at the next start.
func TestJournalStaysForTheNextStart(t *testing.T) {
	folder, db, log := t.TempDir(), newDatabase(), &lines{}
	db.refuse(errors.New("away"))
	a := newAudit(folder, log.logger(), db.commit)
	const rows = 3000
	for i := range rows {
		a.add(row(i), i%3 > 0)
		if i == rows/2 {
			<-db.tries
		}
	}
	a.close()
	if log.count("for the next start") == 0 || log.count("missing") > 0 {
		t.Errorf("logged is %s", &log.text)
	}
	a = newAudit(folder, log.logger(), db.commit) // still unavailable
	a.add(row(rows), true)
	a.close()
	db.refuse(nil)
	a = newAudit(folder, log.logger(), db.commit)
	db.has(t, rows+1)
	a.close()
	if left := journals(t, folder); len(left) > 0 {
		t.Errorf("left are %d files", len(left))
	}
}

// TestJournalIsFull checks that with a full journal calls wait for their commit, and that this is
// logged once.
func TestJournalIsFull(t *testing.T) {
	t.Run("of rows", func(t *testing.T) {
		folder, db, log := t.TempDir(), newDatabase(), &lines{}
		db.refuse(errors.New("away"))
		a := newAudit(folder, log.logger(), db.commit)
		large := row(0)
		large.Args = strings.Repeat("x", maxArgsBytes)
		n := 0
		for ; log.count("takes no rows") == 0; n++ {
			large.ID = fmt.Sprint(n)
			a.add(large, true)
		}
		for _, text := range journals(t, folder) {
			if len(text) > maxJournalBytes {
				t.Errorf("a file has %d bytes", len(text))
			}
		}
		if most := 2 * maxJournalBytes / maxArgsBytes; n > most || n < most/3 {
			t.Errorf("%d rows", n)
		}
		db.refuse(nil)
		large.ID = "waits"
		a.add(large, true)
		db.mu.Lock()
		if _, there := db.rows[large.ID]; !there {
			t.Error("a call did not wait")
		}
		db.mu.Unlock()
		a.close()
		missing := log.count("missing")
		db.has(t, n+1-missing)
		if missing > 1 || log.count("takes no rows") != 1 {
			t.Errorf("logged is %s", &log.text)
		}
	})
	t.Run("and the disk too", func(t *testing.T) {
		full, err := os.OpenFile("/dev/full", os.O_RDWR, 0)
		if err != nil {
			t.Skip("there is no /dev/full here")
		}
		db, log := newDatabase(), &lines{}
		a := newAudit(t.TempDir(), log.logger(), db.commit)
		a.mu.Lock()
		whole := a.journal.segments[0].file
		a.journal.segments[0].file = full
		a.mu.Unlock()
		for i := range 10 {
			a.add(row(i), true)
			if len(db.rows) != i+1 {
				t.Errorf("call %d did not wait", i)
			}
		}
		a.mu.Lock()
		a.journal.segments[0].file = whole
		a.mu.Unlock()
		a.add(row(10), true)
		a.close()
		db.has(t, 11)
		if log.count("takes no rows") != 1 || log.count("takes rows again") != 1 || log.count("missing") > 0 {
			t.Errorf("logged is %s", &log.text)
		}
		full.Close()
	})
	t.Run("of one row", func(t *testing.T) {
		db := newDatabase()
		a := newAudit(t.TempDir(), slog.New(slog.DiscardHandler), db.commit)
		large := row(1)
		large.Cause = strings.Repeat("x", maxLineBytes)
		a.add(large, true)
		if len(db.rows) != 1 {
			t.Error("a call did not wait")
		}
		a.close()
	})
}

// TestNoJournal checks that calls wait for their commit if no journal can be created.
func TestNoJournal(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{"", file} {
		db, log := newDatabase(), &lines{}
		a := newAudit(folder, log.logger(), db.commit)
		a.add(row(1), true)
		if len(db.rows) != 1 {
			t.Error("a call did not wait")
		}
		db.refuse(errors.New("away"))
		a.add(row(2), true)
		a.close()
		if log.count("calls are missing") != 1 || (log.count("no journal") == 1) != (folder != "") {
			t.Errorf("logged is %s", &log.text)
		}
	}
}

// TestJournalOfAnother checks that servers that share a folder use files of their own, and take
// over only those of dead servers.
func TestJournalOfAnother(t *testing.T) {
	folder := t.TempDir()
	other, out := StartChild(t, "server", folder)
	if said, err := bufio.NewReader(out).ReadString('\n'); said != "written\n" {
		t.Fatalf("the other server says %q, %v", said, err)
	}
	theirs := journals(t, folder)
	db := newDatabase()
	start := func() *audit { return newAudit(folder, slog.New(slog.DiscardHandler), db.commit) }
	one, two := start(), start()
	one.add(row(1), true)
	two.add(row(2), true)
	db.has(t, 2)
	one.close()
	two.close()
	if now := journals(t, folder); len(now) != len(theirs) {
		t.Errorf("the other's files are %v, and now %v", theirs, now)
	} else {
		for name, text := range theirs {
			if now[name] != text {
				t.Errorf("%s has %q, had %q", name, now[name], text)
			}
		}
	}
	if err := other.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	other.Wait()
	three := start()
	db.has(t, 3)
	three.close()
	if left := journals(t, folder); len(left) > 0 {
		t.Errorf("left are %q", left)
	}
}

// StartChild starts this program again as the child that TestMain knows by name, until the test
// ends or the child is killed.
func StartChild(t *testing.T, name string, args ...string) (*exec.Cmd, io.Reader) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, args...)
	cmd.Env, cmd.Stderr = append(os.Environ(), "PATCHBAY_TEST_CHILD="+name), os.Stderr
	in, err := cmd.StdinPipe() // closed at the end of this process
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		cmd.Process.Kill()
		cmd.Wait()
	})
	return cmd, out
}

// RunOtherServer is another server for [TestJournalOfAnother], until its input ends: it has a row
// that the database refuses.
func RunOtherServer(folder string) {
	db := newDatabase()
	db.refuse(errors.New("away"))
	a := newAudit(folder, slog.New(slog.DiscardHandler), db.commit)
	a.add(row(3), true)
	fmt.Println("written")
	io.Copy(io.Discard, os.Stdin)
}

// TestJournalsRunOut checks that further servers work without a journal if all files are in use.
func TestJournalsRunOut(t *testing.T) {
	folder, log := t.TempDir(), slog.New(slog.DiscardHandler)
	var all []*journal
	for range maxJournalFiles / 2 {
		j, err := openJournal(folder, log, nil)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, j)
	}
	if _, err := openJournal(folder, log, nil); err != errNoJournal {
		t.Error(err)
	}
	for _, j := range all {
		j.close()
	}
	if left := journals(t, folder); len(left) > 0 {
		t.Errorf("left are %d files", len(left))
	}
}

// TestJournalLine checks that a line has every field of a row.
func TestJournalLine(t *testing.T) {
	var row store.Call
	v := reflect.ValueOf(&row).Elem()
	for i := range v.NumField() {
		switch f := v.Field(i); f.Kind() {
		case reflect.String:
			f.SetString(fmt.Sprintf("%d \x00\n\"\\\u2028<亮>", i))
		case reflect.Int64:
			f.SetInt(int64(-i))
		default:
			f.Set(reflect.ValueOf(time.Date(2026, 3, 23, 14, 5, 9, 123456789, time.UTC)))
		}
	}
	row.Bytes = 1 << 62
	line := newJournal(slog.New(slog.DiscardHandler)).encode(&row)
	if got, ok := parseLine(line[:len(line)-1]); !ok || got != row {
		t.Errorf("%s\nis %+v\nand was %+v", line, got, row)
	}
	row = store.Call{ID: "x", Tool: "not \xff UTF-8"}
	line = newJournal(slog.New(slog.DiscardHandler)).encode(&row)
	if got, ok := parseLine(line[:len(line)-1]); !ok || got.Tool != "not \ufffd UTF-8" {
		t.Errorf("%s is %+v", line, got)
	}
}

func FuzzJournal(f *testing.F) {
	whole := written(f, row(1), row(2))
	for _, seed := range []string{"", "\n", "x", whole, whole[:len(whole)-1], whole[9:], "00000000 {}\n",
		"00000000 \n\n", strings.Repeat("\x00", 100), `{"id":"x","at":"2026-11-21T10:00:00+01:00"}`} {
		f.Add([]byte(seed))
	}
	read := func(t *testing.T, text []byte) (got []store.Call, unread int) {
		n, unread, err := readJournal(bytes.NewReader(text),
			func(rows []store.Call) error { got = append(got, rows...); return nil })
		if err != nil || n != len(got) {
			t.Fatalf("%d rows, counted %d, %v", len(got), n, err)
		}
		return got, unread
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		// Earlier lines are intact, whatever follows.
		got, unread := read(t, append([]byte(whole), data...))
		if len(got) < 2 || got[0] != row(1) || got[1] != row(2) {
			t.Fatalf("%+v", got)
		}
		if most := bytes.Count(data, []byte("\n")) + 1; len(got)-2+unread > most {
			t.Fatalf("%d rows and %d others of %d lines", len(got)-2, unread, most)
		}
		// A row that is read from a line with a valid checksum stays the same when it is written
		// and read again.
		line := append(hex.AppendEncode(nil, appendSum(nil, data)), ' ')
		got, _ = read(t, append(append(line, data...), '\n'))
		j := newJournal(slog.New(slog.DiscardHandler))
		for i := range got {
			once := bytes.Clone(j.encode(&got[i]))
			back, _ := read(t, once)
			if len(back) != 1 {
				t.Fatalf("%q is not read", once)
			}
			if twice := j.encode(&back[0]); !bytes.Equal(once, twice) {
				t.Fatalf("%q became %q", once, twice)
			}
		}
	})
}
