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

// Encrypted backups are archives inside the file format of age (age-encryption.org), so
// that its own program opens them too, on a machine without Patchbay.
const (
	// ageBegin begins every file of that format.
	ageBegin = "age-encryption.org/v1\n"
	// maxAgeHeader bounds what comes before the encrypted bytes. With one passphrase these
	// are 150 bytes, and the parser of age has no bound of its own.
	maxAgeHeader = 4 << 10
	// workFactor is the logarithm of the cost of a passphrase: a second of a processor and
	// 256 MB for each try. A file that wants more than that is refused.
	workFactor = 18
	// MinPassphrase is the shortest passphrase for a new backup, in characters: whoever has
	// the file can guess for years, and nothing slows them down but workFactor.
	MinPassphrase = 12
	// MaxPassphrase is the longest, in bytes; it protects against a wrong file.
	MaxPassphrase = 1024
)

// Why a passphrase does not do.
var (
	ErrEncrypted  = errors.New("the backup is encrypted, and no passphrase was given")
	ErrPassphrase = errors.New("the backup is encrypted by another passphrase")
	ErrShort      = errors.New("the passphrase is too short")
	ErrLong       = errors.New("the passphrase is too long")
)

// CheckPassphrase says whether a passphrase is good for a new backup. The empty one is: it
// stands for a backup that is not encrypted.
func CheckPassphrase(passphrase string) error {
	switch {
	case len(passphrase) > MaxPassphrase:
		return ErrLong
	case passphrase != "" && utf8.RuneCountInString(passphrase) < MinPassphrase:
		return ErrShort
	}
	return nil
}

// encrypt returns a writer that writes to w what it is given, encrypted as it comes if
// there is a passphrase. Closing it writes the rest, and leaves w open.
func encrypt(w io.Writer, passphrase string) (io.WriteCloser, error) {
	if passphrase == "" {
		return plain{w}, nil
	}
	to, err := age.NewScryptRecipient(passphrase)
	if err != nil {
		return nil, err
	}
	to.SetWorkFactor(workFactor)
	defer debug.FreeOSMemory()
	return age.Encrypt(w, to)
}

// plain is a writer that nobody has to close.
type plain struct{ io.Writer }

func (plain) Close() error { return nil }

// Encrypted says whether what comes next in r is an encrypted file. It reads nothing.
func Encrypted(r *bufio.Reader) bool {
	head, err := r.Peek(len(ageBegin))
	return err == nil && string(head) == ageBegin
}

// decrypt returns a reader of a backup, which may be encrypted or not.
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
	// The memory of the try is of no use any more, and the collector would let as much
	// again come together before it looked.
	debug.FreeOSMemory()
	if other, ok := errors.AsType[*age.NoIdentityMatchError](err); ok {
		if len(other.StanzaTypes) == 1 && other.StanzaTypes[0] == "scrypt" {
			return nil, ErrPassphrase
		}
		return nil, ErrNotBackup // it is encrypted for keys, which no backup is
	}
	if err != nil {
		return nil, errors.Join(ErrBroken, err)
	}
	return intact{opened}, nil
}

// intact reads an encrypted backup. Bytes that its passphrase does not vouch for, or that
// are missing, make an error that says so.
type intact struct{ io.Reader }

func (i intact) Read(b []byte) (int, error) {
	n, err := i.Reader.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		err = errors.Join(ErrBroken, err)
	}
	return n, err
}
