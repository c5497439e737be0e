package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"hash"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// While the secret of an installation is rotated, its box has more than one key. The new key is
// first added on every instance, where it opens and verifies; then it is activated and seals; when
// nothing is sealed with the old key any more, that one is dropped. So nothing is refused
// meanwhile, whatever step an instance has reached.

// Key is derived from one secret. It is safe for concurrent use.
type Key struct {
	ID     string // identifies the key without revealing anything about it
	secret string
	aead   cipher.AEAD
	mac    []byte
	hashes sync.Pool // of hash.Hash, keyed with mac
}

// NewKey derives a key from a secret in a form that [New] accepts.
func NewKey(secret string) (*Key, error) {
	secret = strings.TrimSpace(secret)
	raw := decodeSecret(secret)
	if len(raw) < 32 {
		return nil, ErrShort
	}
	sealing, err := hkdf.Key(sha256.New, raw, nil, "patchbay seal", 32)
	if err != nil {
		return nil, err
	}
	mac, err := hkdf.Key(sha256.New, raw, nil, "patchbay mac", 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(sealing)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, err
	}
	k := &Key{secret: secret, aead: aead, mac: mac}
	k.ID = k.MAC("backup")[:16]
	return k, nil
}

// Seal encrypts a text. The empty text stays empty.
func (k *Key) Seal(plain string) string {
	if plain == "" {
		return ""
	}
	return prefix + base64.RawURLEncoding.EncodeToString(k.aead.Seal(nil, nil, []byte(plain), nil))
}

// Open decrypts a text that this key has sealed; the error is [ErrKey] if another key has. A text
// that is not sealed is returned unchanged.
func (k *Key) Open(text string) (string, error) {
	rest, ok := strings.CutPrefix(text, prefix)
	if !ok {
		return text, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(rest)
	if err != nil {
		return "", ErrKey
	}
	plain, err := k.aead.Open(nil, nil, raw, nil)
	if err != nil {
		return "", ErrKey
	}
	return string(plain), nil
}

// MAC returns a keyed hash in hex.
func (k *Key) MAC(text string) string {
	h := hmac.New(sha256.New, k.mac)
	h.Write([]byte(text))
	return hex.EncodeToString(h.Sum(nil))
}

// tagSize is the length of a tag, in bytes.
const tagSize = 16

// Tag returns a short keyed hash of a text and data, for messages on the bus, which are many.
func (k *Key) Tag(text string, data []byte) []byte {
	h, ok := k.hashes.Get().(hash.Hash)
	if !ok {
		h = hmac.New(sha256.New, k.mac)
	}
	defer k.hashes.Put(h)
	h.Reset()
	io.WriteString(h, text) //nolint:errcheck // a hash does not fail
	h.Write(data)
	var sum [sha256.Size]byte
	return h.Sum(sum[:0])[:tagSize]
}

// CheckTag reports whether a tag is that of text and data.
func (k *Key) CheckTag(text string, data, tag []byte) bool {
	return hmac.Equal(k.Tag(text, data), tag)
}

// Wrap encrypts the secret of a key with this one; [Key.Unwrap] decrypts it.
func (k *Key) Wrap(other *Key) string { return k.Seal(other.secret) }

// Unwrap returns the key that [Key.Wrap] has encrypted.
func (k *Key) Unwrap(sealed string) (*Key, error) {
	secret, err := k.Open(sealed)
	if err != nil {
		return nil, err
	}
	return NewKey(secret)
}

// Secret returns the secret of the key, for its configuration.
func (k *Key) Secret() string { return k.secret }

// Key returns the key that seals.
func (b *Box) Key() *Key { return (*b.keys.Load())[0] }

// Tag returns [Key.Tag] of the key that seals.
func (b *Box) Tag(text string, data []byte) []byte { return b.Key().Tag(text, data) }

// CheckTag reports whether a tag is valid for one of the keys.
func (b *Box) CheckTag(text string, data, tag []byte) bool {
	return slices.ContainsFunc(b.Keys(), func(k *Key) bool { return k.CheckTag(text, data, tag) })
}

// Keys returns all keys, the one that seals first. The slice must not be changed.
func (b *Box) Keys() []*Key { return *b.keys.Load() }

// SetKeys sets the keys, at least one. The first seals.
func (b *Box) SetKeys(keys ...*Key) {
	keys = slices.Clone(keys)
	b.keys.Store(&keys)
}

// sealedText matches a sealed value.
var sealedText = regexp.MustCompile(regexp.QuoteMeta(prefix) + `[A-Za-z0-9_-]+`)

// CountSealed counts the sealed values in a text that the box can open, and those that it cannot.
func (b *Box) CountSealed(text string) (opened, unopenable int) {
	for _, value := range sealedText.FindAllString(text, -1) {
		if _, err := b.Open(value); err == nil {
			opened++
		} else {
			unopenable++
		}
	}
	return opened, unopenable
}

// Reseal seals every sealed value in a text with the current key, and reports whether one had
// another key. Values that no key opens stay unchanged.
func (b *Box) Reseal(text string) (string, bool) {
	changed := false
	key := b.Key()
	text = sealedText.ReplaceAllStringFunc(text, func(value string) string {
		if _, err := key.Open(value); err == nil {
			return value
		}
		plain, err := b.Open(value)
		if err != nil {
			return value
		}
		changed = true
		return key.Seal(plain)
	})
	return text, changed
}
