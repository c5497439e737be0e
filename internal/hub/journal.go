package hub

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"os"
	"path/filepath"

	"patchbay/internal/store"
)

const (
	// journalName is the name of a journal's file, with its number.
	journalName = "calls-%d.journal"
	// maxJournalFiles limits the files in a folder: two for each server that uses it. A server that
	// finds no free one has no journal.
	maxJournalFiles = 64
	// maxJournalBytes limits a file, in bytes, while the database accepts no records: some ninety
	// thousand. Beyond it calls wait for their commit.
	maxJournalBytes = 32 << 20
	// maxLineBytes limits a record in it, in bytes. Arguments take the most: 16 KiB, which are 96
	// KiB if each character has to be escaped.
	maxLineBytes = 256 << 10
)

// journal holds the records of calls that had an effect, until they are committed. What was written
// to a file survives the death of the process, so a caller need not wait for a commit; it is not
// synced, so a power cut can lose records that were not committed.
//
// Two files take turns: one takes records while those of the other are committed; then that one is
// emptied. A file belongs to the process that has locked it, and after its death to the next one
// that starts.
//
// A line is the CRC-32C of a record in hex, a space, and the record in JSON: a line torn by a power
// cut is recognized, and costs no other record.
//
// A third file has the calls that are being executed.
type journal struct {
	log        *slog.Logger
	segments   [2]segment
	unfinished *unfinished
	current    int    // index of the segment that takes records
	line       []byte // the last line
	failing    bool   // the last record could not be written
}

// segment is one file of a journal.
type segment struct {
	path string
	file *os.File
	size int64
	// onlyOnDisk means that it has records that are not in memory any more.
	onlyOnDisk bool
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sumPrefixLength is the length of the checksum in hex, and a space.
const sumPrefixLength = 2*crc32.Size + 1

// errNoJournal means that other processes have all the files.
var errNoJournal = fmt.Errorf("more than %d servers run on this folder", maxJournalFiles/2)

func newJournal(log *slog.Logger) *journal {
	return &journal{log: log}
}

// openJournal opens a journal in a folder, and passes the records of dead processes to commit.
// Records that commit refuses stay in the journal, or in their file for the next start.
func openJournal(folder string, log *slog.Logger, commit func([]store.Call) error) (*journal, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	j := newJournal(log)
	var (
		mine, first int
		all         = true // committed, or in the segments
		waits       bool   // some are in the segments
		numbers     []int  // of the locked files
		surplus     []segment
	)
	for n := 1; n <= maxJournalFiles; n++ {
		path := filepath.Join(folder, fmt.Sprintf(journalName, n))
		f, err := lockFile(path, mine < len(j.segments))
		if err != nil {
			j.close()
			return nil, err
		}
		if f == nil {
			continue
		}
		s := segment{path: path, file: f}
		switch err := s.recoverRows(log, commit); {
		case err == nil:
		case mine < len(j.segments) && s.size > 0:
			log.Error("calls of a server that was killed are not in the audit trail yet; they are tried again",
				"file", path, "error", err)
			s.onlyOnDisk, waits = true, true
		default:
			log.Error("calls of a server that was killed are not in the audit trail yet; they stay for the next start",
				"file", path, "error", err)
			f.Close()
			all = false
			continue
		}
		numbers = append(numbers, n)
		if mine == len(j.segments) {
			surplus = append(surplus, s)
			continue
		}
		if mine == 0 {
			first = n
		}
		j.segments[mine] = s
		mine++
	}
	if all {
		take := commit
		if waits { // after those
			take = j.appendAllUnsaved
		}
		if err := recoverUnfinished(folder, numbers, log, take); err != nil {
			log.Error("calls that a killed server did not end are not in the audit trail yet; they stay for the next start", "error", err)
		}
	}
	for _, s := range surplus {
		os.Remove(s.path)
		s.file.Close()
	}
	if mine < len(j.segments) {
		j.close()
		return nil, errNoJournal
	}
	var err error
	if j.unfinished, err = openUnfinished(filepath.Join(folder, fmt.Sprintf(unfinishedName, first))); err != nil {
		j.close()
		return nil, err
	}
	return j, nil
}

// lockFile opens and locks a file; nil if another process has it, or if it does not exist and
// create is false.
func lockFile(path string, create bool) (*os.File, error) {
	flags := os.O_RDWR
	if create {
		flags |= os.O_CREATE
	}
	for {
		f, err := os.OpenFile(path, flags, 0o600)
		if errors.Is(err, os.ErrNotExist) && !create {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		locked, err := store.LockFile(f)
		if err != nil || !locked {
			f.Close()
			return nil, err
		}
		there, err := os.Stat(path)
		if here, err2 := f.Stat(); err == nil && err2 == nil && os.SameFile(here, there) {
			if err := f.Chmod(0o600); err != nil {
				f.Close()
				return nil, err
			}
			return f, nil
		}
		f.Close() // its owner has removed it meanwhile
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
	}
}

// recoverRows commits the records of a dead process in a file, and empties it.
func (s *segment) recoverRows(log *slog.Logger, commit func([]store.Call) error) error {
	there, err := s.file.Stat()
	if err != nil || there.Size() == 0 {
		return err
	}
	s.size = there.Size()
	rows, unread, err := s.commit(commit)
	if err != nil {
		return err
	}
	log.Info("calls of a server that was killed are in the audit trail now", "file", s.path, "calls", rows)
	if unread > 0 {
		log.Warn("some of a journal of calls cannot be read, as after a power cut", "file", s.path, "lines", unread)
	}
	return s.clear()
}

// commit passes all records of a file to commit, in batches. It returns their number, and that of
// lines that could not be parsed.
func (s *segment) commit(commit func([]store.Call) error) (rows, unread int, err error) {
	return readJournal(io.NewSectionReader(s.file, 0, s.size), commit)
}

// clear empties a file whose records are committed, because they may contain arguments. If that
// fails, new records overwrite the old ones, and committing an old one again has no effect.
func (s *segment) clear() error {
	s.size, s.onlyOnDisk = 0, false
	return s.file.Truncate(0)
}

// append writes a record, and reports whether that succeeded.
func (j *journal) append(row *store.Call) bool {
	if j == nil {
		return false
	}
	return j.reportWrite(j.write(row))
}

// begin records a call that is about to be executed, until its end.
func (j *journal) begin(row store.Call) {
	if j == nil {
		return
	}
	row = asLost(row)
	line := j.encode(&row)
	if len(line) > slotSize {
		row.Args = ""
		line = j.encode(&row)
	}
	if len(line) > slotSize {
		j.reportWrite(errLineTooLong)
		return
	}
	j.reportWrite(j.unfinished.begin(row.ID, line))
}

// end removes the record of a call that has ended.
func (j *journal) end(id string) {
	if j != nil {
		j.unfinished.end(id)
	}
}

// tidy removes the remains of calls that have ended.
func (j *journal) tidy() {
	if j == nil || len(j.unfinished.ended) == 0 {
		return
	}
	if err := j.unfinished.tidy(); err != nil {
		j.reportWrite(err)
	}
}

// reportWrite logs when writing fails and when it works again, and reports whether it succeeded.
func (j *journal) reportWrite(err error) bool {
	switch {
	case err != nil && !j.failing:
		j.log.Error("the journal of calls takes no rows; calls wait until they are committed", "error", err)
	case err == nil && j.failing:
		j.log.Info("the journal of calls takes rows again")
	}
	j.failing = err != nil
	return err == nil
}

var (
	errLineTooLong = errors.New("a row is too large")
	errJournalFull = fmt.Errorf("there are %d MiB in it that the database has not taken", maxJournalBytes>>20)
)

func (j *journal) write(row *store.Call) error {
	line := j.encode(row)
	s := &j.segments[j.current]
	switch {
	case len(line) > maxLineBytes:
		return errLineTooLong
	case s.size+int64(len(line)) > maxJournalBytes:
		return errJournalFull
	}
	// At its position, and not at the end of the file: the next record overwrites an incomplete
	// one.
	if _, err := s.file.WriteAt(line, s.size); err != nil {
		return err
	}
	s.size += int64(len(line))
	return nil
}

// encode returns a record's line, which is valid until the next call.
func (j *journal) encode(row *store.Call) []byte {
	line := append(j.line[:0], "00000000 "...)
	line = appendRow(line, row)
	var sum [crc32.Size]byte
	hex.Encode(line, appendSum(sum[:0], line[sumPrefixLength:]))
	j.line = append(line, '\n')
	return j.line
}

// appendUnsaved writes records that are nowhere else, and returns the number that it could write.
func (j *journal) appendUnsaved(rows []store.Call) (n int) {
	for n < len(rows) && j.append(&rows[n]) {
		n++
		j.segments[j.current].onlyOnDisk = true
	}
	return n
}

// appendAllUnsaved is appendUnsaved for all or none, as the next start retries all of them.
func (j *journal) appendAllUnsaved(rows []store.Call) error {
	if n := j.appendUnsaved(rows); n < len(rows) {
		return errJournalFull
	}
	return nil
}

// rotate returns the file whose records are to be committed, nil if there are none, and switches to
// the other one. If the database has refused the other's, it is that one's turn again, and the
// records of this one will be read from the file.
func (j *journal) rotate() *segment {
	if j == nil {
		return nil
	}
	now, other := &j.segments[j.current], &j.segments[1-j.current]
	switch {
	case other.size > 0:
		now.onlyOnDisk = now.size > 0
		return other
	case now.size == 0:
		return nil
	}
	j.current = 1 - j.current
	return now
}

// hasBacklog reports whether the current file has records that are not in memory.
func (j *journal) hasBacklog() bool { return j != nil && j.segments[j.current].onlyOnDisk }

// hasRecovered reports whether records of a dead process wait for the database.
func (j *journal) hasRecovered() bool {
	return j != nil && (j.segments[0].onlyOnDisk || j.segments[1].onlyOnDisk)
}

// close removes the files, except those with records that are not committed, which stay for the
// next start.
func (j *journal) close() {
	if j == nil {
		return
	}
	if j.unfinished != nil {
		j.unfinished.close() // while its lock is held
	}
	for _, s := range j.segments {
		switch {
		case s.file == nil:
			continue
		case s.size == 0:
			os.Remove(s.path)
		default:
			s.file.Sync() //nolint:errcheck // it survives the process in any case
			j.log.Error("calls are not in the audit trail yet; they stay for the next start", "file", s.path)
		}
		s.file.Close() // releases the lock
	}
}

// readJournal reads records, and passes them on in batches. Invalid lines are counted and skipped.
// It returns the error of the reader or of take.
func readJournal(r io.Reader, take func([]store.Call) error) (rows, unread int, err error) {
	lines := bufio.NewReaderSize(r, maxLineBytes)
	var some []store.Call
	for {
		line, err := lines.ReadSlice('\n')
		row, ok := store.Call{}, false
		if err == nil {
			row, ok = parseLine(line[:len(line)-1])
		}
		switch {
		case ok:
			some = append(some, row)
		case len(line) > 0:
			unread++
		}
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = lines.ReadSlice('\n') // skip the rest of the line
		}
		if err != nil && err != io.EOF {
			return rows, unread, err
		}
		if len(some) == auditBatchSize || err == io.EOF && len(some) > 0 {
			if err := take(some); err != nil {
				return rows, unread, err
			}
			rows, some = rows+len(some), some[:0]
		}
		if err == io.EOF {
			return rows, unread, nil
		}
	}
}

func parseLine(line []byte) (row store.Call, ok bool) {
	if len(line) <= sumPrefixLength || line[sumPrefixLength-1] != ' ' {
		return row, false
	}
	said, text := make([]byte, crc32.Size), line[sumPrefixLength:]
	if _, err := hex.Decode(said, line[:sumPrefixLength-1]); err != nil || !bytes.Equal(said, appendSum(nil, text)) {
		return row, false
	}
	err := json.Unmarshal(text, &row)
	return row, err == nil && row.ID != ""
}

// appendSum appends the checksum of a record's text.
func appendSum(to, text []byte) []byte {
	sum := crc32.Checksum(text, castagnoli)
	return append(to, byte(sum>>24), byte(sum>>16), byte(sum>>8), byte(sum))
}
