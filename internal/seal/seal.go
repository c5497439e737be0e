// Package seal keeps secrets that must be read again, such as the key to a
// model's API, unreadable in the database, and makes keyed hashes of secrets
// that are too short for a plain one.
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
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
	"strings"
)

// FileName is where the key is in the data folder, if it is not configured.
const FileName = "secret.key"

// prefix marks a sealed text and its version.
const prefix = "sealed:1:"

// ErrShort says that a key is too easy to guess.
var ErrShort = errors.New("secret must have at least 32 bytes (64 hex digits); make one with: openssl rand -hex 32")

// ErrKey says that a text was sealed with another key.
var ErrKey = errors.New("sealed with another key: is secret (or secret.key in the data folder) the one it was written with?")

// Box seals and opens. It is safe for concurrent use.
type Box struct {
	aead cipher.AEAD
	mac  []byte
}

// New makes a box of a secret of at least 32 bytes, in hex or base64, or of
// any text of at least 32 characters.
func New(secret string) (*Box, error) {
	raw := decode(strings.TrimSpace(secret))
	if len(raw) < 32 {
		return nil, ErrShort
	}
	key, err := hkdf.Key(sha256.New, raw, nil, "patchbay seal", 32)
	if err != nil {
		return nil, err
	}
	mac, err := hkdf.Key(sha256.New, raw, nil, "patchbay mac", 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, err
	}
	return &Box{aead: aead, mac: mac}, nil
}

func decode(s string) []byte {
	if b, err := hex.DecodeString(s); err == nil {
		return b
	}
	if b, err := base64.StdEncoding.DecodeString(s); err == nil {
		return b
	}
	return []byte(s)
}

// Open reads the key from the data folder, and makes it at the first start.
func Open(folder string) (*Box, error) {
	path := filepath.Join(folder, FileName)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		b, err = create(path)
	}
	if err != nil {
		return nil, fmt.Errorf("read the key that seals secrets: %w", err)
	}
	return New(string(b))
}

// create writes a new key so that a crash leaves either none or a whole one,
// and so that of two processes that start at once both use the same.
func create(path string) ([]byte, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	raw := make([]byte, 32)
	rand.Read(raw)
	f, err := os.CreateTemp(filepath.Dir(path), FileName+".*")
	if err != nil {
		return nil, err
	}
	defer os.Remove(f.Name())
	_, err = f.WriteString(hex.EncodeToString(raw) + "\n")
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return nil, err
	}
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return os.ReadFile(path)
}

// Seal makes a text unreadable. The empty text stays empty.
func (b *Box) Seal(plain string) string {
	if plain == "" {
		return ""
	}
	return prefix + base64.RawURLEncoding.EncodeToString(b.aead.Seal(nil, nil, []byte(plain), nil))
}

// Open makes a sealed text readable. A text that is not sealed is returned as
// it is.
func (b *Box) Open(text string) (string, error) {
	rest, ok := strings.CutPrefix(text, prefix)
	if !ok {
		return text, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(rest)
	if err != nil {
		return "", ErrKey
	}
	plain, err := b.aead.Open(nil, nil, raw, nil)
	if err != nil {
		return "", ErrKey
	}
	return string(plain), nil
}

// ErrOrigin says that a value was sealed for another origin than it would be sent to.
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

// SealFor is Seal for a value that is sent to one origin, and to no other: [Box.OpenFor]
// opens it for that one alone. The origin is sealed with it, so that nobody can pair the
// value with another address, in the database or in a backup.
func (b *Box) SealFor(origin, plain string) string {
	if plain == "" {
		return ""
	}
	return b.Seal(origin + "\n" + plain)
}

// OpenFor makes a text readable that was sealed for an origin. It is [ErrOrigin] if that
// was another one. A text that is not sealed is returned as it is.
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

// MAC is a keyed hash in hex, for secrets that could be guessed from a plain
// hash, such as six digits.
func (b *Box) MAC(text string) string {
	h := hmac.New(sha256.New, b.mac)
	h.Write([]byte(text))
	return hex.EncodeToString(h.Sum(nil))
}

// Hash is the plain hash under which a secret with enough randomness of its own
// is kept.
func Hash(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// Token is a fresh secret of n random bytes in base64url.
func Token(n int) string {
	raw := make([]byte, n)
	rand.Read(raw)
	return base64.RawURLEncoding.EncodeToString(raw)
}
