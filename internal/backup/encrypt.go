package backup

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"runtime/debug"
	"unicode/utf8"

	"filippo.io/age"
)

// Encrypted backups use the age file format (age-encryption.org), so that the age program can
// decrypt them on a machine without Patchbay.
const (
	// ageMagic is the first line of every age file.
	ageMagic = "age-encryption.org/v1\n"
	// maxAgeHeader is the maximum size of the header in bytes. With one passphrase it has 150
	// bytes, and the parser of age has no limit of its own.
	maxAgeHeader = 4 << 10
	// workFactor is the base-2 logarithm of the scrypt cost: one attempt takes a second of a
	// processor and 256 MB. A file with a higher work factor is rejected.
	workFactor = 18
	// MinPassphrase is the minimum length of a passphrase for a new backup, in characters. An
	// attacker who has the file can guess for years, slowed down only by workFactor.
	MinPassphrase = 12
	// MaxPassphrase is the maximum length, in bytes. It guards against choosing a wrong file.
	MaxPassphrase = 1024
)

// Errors about a passphrase.
var (
	ErrEncrypted  = errors.New("the backup is encrypted, and no passphrase was given")
	ErrPassphrase = errors.New("the backup is encrypted by another passphrase")
	ErrShort      = errors.New("the passphrase is too short")
	ErrLong       = errors.New("the passphrase is too long")
)

// CheckPassphrase returns an error if a passphrase is not acceptable for a new backup. The empty
// one is: it means that the backup is not encrypted.
func CheckPassphrase(passphrase string) error {
	switch {
	case len(passphrase) > MaxPassphrase:
		return ErrLong
	case passphrase != "" && utf8.RuneCountInString(passphrase) < MinPassphrase:
		return ErrShort
	}
	return nil
}

// encrypt returns a writer that encrypts to w, or passes everything through if the passphrase is
// empty. Closing it flushes the rest and leaves w open.
func encrypt(w io.Writer, passphrase string) (io.WriteCloser, error) {
	if passphrase == "" {
		return nopCloser{w}, nil
	}
	to, err := age.NewScryptRecipient(passphrase)
	if err != nil {
		return nil, err
	}
	to.SetWorkFactor(workFactor)
	defer debug.FreeOSMemory()
	return age.Encrypt(w, to)
}

// nopCloser is a writer whose Close does nothing.
type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// Encrypted reports whether r continues with an encrypted backup. It consumes nothing.
func Encrypted(r *bufio.Reader) bool {
	head, err := r.Peek(len(ageMagic))
	return err == nil && string(head) == ageMagic
}

// decrypt returns a reader of the archive in a backup, encrypted or not.
func decrypt(r io.Reader, passphrase string) (io.Reader, error) {
	from := bufio.NewReaderSize(r, maxAgeHeader)
	if !Encrypted(from) {
		return from, nil
	}
	head, err := from.Peek(maxAgeHeader)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if _, last, ok := bytes.Cut(head, []byte("\n--- ")); !ok || !bytes.Contains(last, []byte("\n")) {
		return nil, ErrNotBackup
	}
	if passphrase == "" {
		return nil, ErrEncrypted
	}
	if len(passphrase) > MaxPassphrase {
		return nil, ErrPassphrase
	}
	identity, err := age.NewScryptIdentity(passphrase)
	if err != nil {
		return nil, err
	}
	identity.SetMaxWorkFactor(workFactor)
	opened, err := age.Decrypt(from, identity)
	// Return the memory of scrypt: the garbage collector would let the same amount accumulate again
	// before it runs.
	debug.FreeOSMemory()
	if other, ok := errors.AsType[*age.NoIdentityMatchError](err); ok {
		if len(other.StanzaTypes) == 1 && other.StanzaTypes[0] == "scrypt" {
			return nil, ErrPassphrase
		}
		return nil, ErrNotBackup // encrypted for keys, which Patchbay never does
	}
	if err != nil {
		return nil, errors.Join(ErrBroken, err)
	}
	return checkedReader{opened}, nil
}

// checkedReader reads a decrypted backup and returns ErrBroken for bytes that fail authentication
// or are missing.
type checkedReader struct{ io.Reader }

func (i checkedReader) Read(b []byte) (int, error) {
	n, err := i.Reader.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		err = errors.Join(ErrBroken, err)
	}
	return n, err
}
