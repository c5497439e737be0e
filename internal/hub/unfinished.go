package hub

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"

	"patchbay/internal/store"
	"patchbay/internal/tool"
)

const (
	// unfinishedName is the name of the file of running calls, with the number of its journal's
	// first file, whose lock protects it too.
	unfinishedName = "calls-%d-running.journal"
	// slotSize limits a record in it, in bytes. Without its arguments, which are then left out, a
	// record has some 600.
	slotSize = 4096
)

// emptySlot is an empty line.
var emptySlot = [slotSize]byte{'\n'}

// unfinished has the records of running calls, as they will be in the trail if the process dies
// before they end: each has a slot of the file from before its provider is called until its record
// is in the journal or committed. A slot has a line in the format of the journal; an empty one is
// free. The line of a call that has ended is overwritten by the next call, or with the next commit.
// If it is found before that, the call's own record is already stored, and wins.
type unfinished struct {
	path  string
	file  *os.File
	slots map[string]int // by the call's id
	ended []int          // with the line of a call that has ended
	free  []int
	next  int // never used
}

func openUnfinished(path string) (*unfinished, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	r := &unfinished{path: path, file: f, slots: map[string]int{}}
	there, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, err
	}
	// What a dead process has left and the database has not accepted stays for the next start.
	r.next = int((there.Size() + slotSize - 1) / slotSize)
	return r, nil
}

// begin writes a line for a call.
func (r *unfinished) begin(id string, line []byte) error {
	slot := r.next
	if n := len(r.ended); n > 0 {
		slot, r.ended = r.ended[n-1], r.ended[:n-1]
	} else if n := len(r.free); n > 0 {
		slot, r.free = r.free[n-1], r.free[:n-1]
	} else {
		r.next++
	}
	if _, err := r.file.WriteAt(line, int64(slot)*slotSize); err != nil {
		r.ended = append(r.ended, slot)
		return err
	}
	r.slots[id] = slot
	return nil
}

// end frees the slot of a call, if it has one.
func (r *unfinished) end(id string) {
	if slot, ok := r.slots[id]; ok {
		delete(r.slots, id)
		r.ended = append(r.ended, slot)
	}
}

// tidy clears the lines of calls that have ended, because they may contain arguments.
func (r *unfinished) tidy() error {
	for n := len(r.ended); n > 0; n = len(r.ended) {
		slot := r.ended[n-1]
		if _, err := r.file.WriteAt(emptySlot[:], int64(slot)*slotSize); err != nil {
			return err
		}
		r.ended, r.free = r.ended[:n-1], append(r.free, slot)
	}
	return nil
}

// close removes the file, unless it has calls for the next start.
func (r *unfinished) close() {
	r.tidy() //nolint:errcheck // the next start does it
	if len(r.slots) == 0 && len(r.free) == r.next {
		os.Remove(r.path)
	}
	r.file.Close()
}

// readUnfinished reads the calls of a file.
func readUnfinished(path string) (rows []store.Call, err error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	slot := make([]byte, slotSize)
	for {
		n, err := io.ReadFull(f, slot)
		if line, _, ended := bytes.Cut(slot[:n], []byte{'\n'}); ended && len(line) > 0 {
			if row, ok := parseLine(line); ok {
				rows = append(rows, row)
			}
		}
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return rows, nil
		case err != nil:
			return rows, err
		}
	}
}

// recoverUnfinished commits the calls that dead processes did not end, and removes the files. The
// records that these processes wrote for calls that ended must be committed already.
func recoverUnfinished(folder string, numbers []int, log *slog.Logger, commit func([]store.Call) error) error {
	for _, n := range numbers {
		path := filepath.Join(folder, fmt.Sprintf(unfinishedName, n))
		rows, err := readUnfinished(path)
		if err != nil {
			return err
		}
		if len(rows) > 0 {
			if err := commit(rows); err != nil {
				return err
			}
			log.Warn("a server was killed while calls were running; the audit trail has them as lost", "file", path,
				"calls", len(rows))
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

// asLost converts a record into that of a call whose end is unknown.
func asLost(row store.Call) store.Call {
	row.Outcome, row.Code = callFailed, string(tool.Lost)
	row.Cause = "The server was killed during the call. It is not known whether the call was carried out."
	return row
}
