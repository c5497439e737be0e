package service

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
)

// maxLog is the size in bytes at which a log is renamed and begun anew. One old log is kept: logs
// take twice as much.
const maxLog = 10 << 20

// LogFile is a log of limited size. It is safe for concurrent use.
type LogFile struct {
	path string
	max  int64

	mu   sync.Mutex
	file *os.File // nil: it could not be opened the last time
	size int64
}

// OpenLog opens a log to append to it, and makes its folder.
func OpenLog(path string) (*LogFile, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	l := &LogFile{path: path, max: maxLog}
	return l, l.open()
}

func (l *LogFile) open() error {
	f, err := os.OpenFile(l.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	l.file, l.size = f, info.Size()
	return nil
}

// Write appends to the log. A line is not divided between two files if it is written at once.
func (l *LogFile) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		if err := l.open(); err != nil {
			return 0, err
		}
	}
	if l.size > 0 && l.size+int64(len(p)) > l.max {
		if err := l.rotate(); err != nil {
			return 0, err
		}
	}
	n, err := l.file.Write(p)
	l.size += int64(n)
	return n, err
}

// rotate renames the log and begins another. If it cannot be renamed, the old one goes on.
func (l *LogFile) rotate() error {
	closed := l.file.Close()
	l.file = nil
	if closed != nil {
		return closed
	}
	renamed := os.Rename(l.path, l.path+".1")
	if err := l.open(); err != nil {
		return errors.Join(renamed, err)
	}
	return nil
}

// Close closes the log.
func (l *LogFile) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return nil
	}
	return l.file.Close()
}
