// Package seal encrypts secrets that must be readable again, such as the key for a model's API, and
// computes keyed hashes of secrets that are too short for a plain hash.
package seal

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
)

// FileName is the name of the key's file in the data folder, if the key is not configured.
const FileName = "secret.key"

// prefix marks a sealed text with its version.
const prefix = "sealed:1:"

// ErrShort means that a key is too easy to guess.
var ErrShort = errors.New("secret must have at least 32 bytes (64 hex digits); make one with: openssl rand -hex 32")

// ErrKey means that a text was sealed with another key.
var ErrKey = errors.New("sealed with another key: is secret (or secret.key in the data folder) the one it was written with?")

// Box seals and opens with one or several keys. It is safe for concurrent use.
type Box struct {
	// keys is never empty. The first seals, all open.
	keys atomic.Pointer[[]*Key]
}

// New returns a box for a secret of at least 32 bytes, in hex or base64, or of any text of at least
// 32 characters.
func New(secret string) (*Box, error) {
	k, err := NewKey(secret)
	if err != nil {
		return nil, err
	}
	return NewBox(k), nil
}

// NewBox returns a box for keys, of which there must be at least one. The first seals.
func NewBox(keys ...*Key) *Box {
	b := &Box{}
	b.SetKeys(keys...)
	return b
}

func decodeSecret(s string) []byte {
	if b, err := hex.DecodeString(s); err == nil {
		return b
	}
	if b, err := base64.StdEncoding.DecodeString(s); err == nil {
		return b
	}
	return []byte(s)
}

// Open reads the key from the data folder, and creates it at the first start.
func Open(folder string) (*Box, error) {
	secret, err := ReadFile(folder)
	if errors.Is(err, fs.ErrNotExist) {
		secret, err = createFile(filepath.Join(folder, FileName))
	}
	if err != nil {
		return nil, err
	}
	return New(secret)
}

// ReadFile reads the secret in a data folder. The error is [fs.ErrNotExist] if there is none.
func ReadFile(folder string) (string, error) {
	text, err := os.ReadFile(filepath.Join(folder, FileName))
	if err != nil {
		return "", fmt.Errorf("read the key that seals secrets: %w", err)
	}
	return string(text), nil
}

// WriteFile writes the secret of a key to a data folder. After a crash the folder has either the
// old one or the new one, complete.
func WriteFile(folder string, k *Key) error {
	temporary, err := writeTemp(folder, k.secret)
	if err != nil {
		return fmt.Errorf("write the key that seals secrets: %w", err)
	}
	defer os.Remove(temporary)
	if err := os.Rename(temporary, filepath.Join(folder, FileName)); err != nil {
		return fmt.Errorf("write the key that seals secrets: %w", err)
	}
	return syncFolder(folder)
}

// writeTemp writes a secret to a temporary file in a folder, and syncs it.
func writeTemp(folder, secret string) (file string, err error) {
	f, err := os.CreateTemp(folder, FileName+".*")
	if err != nil {
		return "", err
	}
	_, err = f.WriteString(secret + "\n")
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return "", errors.Join(err, os.Remove(f.Name()))
	}
	return f.Name(), nil
}

// syncFolder syncs a folder, where the system supports that.
func syncFolder(folder string) error {
	f, err := os.Open(folder)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Sync(); err != nil && runtime.GOOS != "windows" {
		return err
	}
	return nil
}

// NewSecret returns a new secret of 32 random bytes, in hex.
func NewSecret() string {
	raw := make([]byte, 32)
	rand.Read(raw)
	return hex.EncodeToString(raw)
}

// createFile creates a key's file so that after a crash there is either none or a complete one, and
// so that two processes that start at once use the same key.
func createFile(path string) (string, error) {
	folder := filepath.Dir(path)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", err
	}
	temporary, err := writeTemp(folder, NewSecret())
	if err != nil {
		return "", fmt.Errorf("write the key that seals secrets: %w", err)
	}
	defer os.Remove(temporary)
	if err := os.Link(temporary, path); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	return ReadFile(folder)
}

// Seal encrypts a text. The empty text stays empty.
func (b *Box) Seal(plain string) string { return b.Key().Seal(plain) }

// Open decrypts a sealed text. A text that is not sealed is returned unchanged.
func (b *Box) Open(text string) (string, error) {
	err := error(ErrKey)
	for _, k := range b.Keys() {
		var plain string
		if plain, err = k.Open(text); err == nil {
			return plain, nil
		}
	}
	return "", err
}

// ErrOrigin means that a value was sealed for another origin than the given one.
var ErrOrigin = errors.New("sealed for another address")

// Origin is the scheme, host and port of an address in one form, such as
// "https://api.openai.com:443". WebSockets have the origin of the request that they begin
// with. What is no address with a host is its own origin.
func Origin(address string) string {
	u, err := url.Parse(strings.TrimSpace(address))
	if err != nil || u.Hostname() == "" {
		return address
	}
	scheme, port := strings.ToLower(u.Scheme), u.Port()
	switch scheme {
	case "ws":
		scheme = "http"
	case "wss":
		scheme = "https"
	}
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[scheme]
	}
	return scheme + "://" + net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}

// SealFor encrypts a value that is sent to one origin only: [Box.OpenFor] opens it for that origin
// alone. The origin is sealed with it, so that nobody can pair the value with another address, in
// the database or in a backup.
func (b *Box) SealFor(origin, plain string) string {
	if plain == "" {
		return ""
	}
	return b.Seal(origin + "\n" + plain)
}

// OpenFor decrypts a text that was sealed for an origin. The error is ErrOrigin if that was another
// one. A text that is not sealed is returned unchanged.
func (b *Box) OpenFor(origin, text string) (string, error) {
	plain, err := b.Open(text)
	if err != nil || !strings.HasPrefix(text, prefix) {
		return plain, err
	}
	plain, ok := strings.CutPrefix(plain, origin+"\n")
	if !ok {
		return "", ErrOrigin
	}
	return plain, nil
}

// MAC returns a keyed hash in hex, for secrets that could be guessed from a plain hash, such as six
// digits. To check one, try all [Box.Keys].
func (b *Box) MAC(text string) string { return b.Key().MAC(text) }

// Hash returns the plain hash under which a secret with enough randomness is stored.
func Hash(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// NewToken returns a new secret of n random bytes, in base64url.
func NewToken(n int) string {
	raw := make([]byte, n)
	rand.Read(raw)
	return base64.RawURLEncoding.EncodeToString(raw)
}
