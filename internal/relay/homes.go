package relay

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/relay/wire"
)

// Folder is the data of a relay. The command line changes it while the relay runs: each home is a
// file that one side writes, whole, so that no lock is needed.
//
//	relay.key          the relay's own key, of which join codes have the fingerprint
//	homes/NAME.json    a home as the operator added it; removed: the home is revoked
//	homes/NAME.ID.id   fingerprint of the home that joined by the code of id ID; by the relay
//	usage.json         bytes of this month, by the relay
type Folder string

// Home is a name at the relay.
type Home struct {
	Name string `json:"name"` // the label before the relay's domain
	// Also are other host names that lead to it, which are aliases of the relay in the DNS.
	Also []string `json:"also,omitempty"`
	// Quota is the bytes that pass in a calendar month (UTC) in both directions; 0: no limit.
	Quota   int64     `json:"quota,omitempty"`
	Created time.Time `json:"created"`
	// ID is of this addition, so that a removed home that is added again is another one.
	ID string `json:"id"`
	// Code is the SHA-256 of the secret of its join code, as hex.
	Code string `json:"code"`
	// Joined is the fingerprint of the home that joined; empty: none yet.
	Joined string `json:"-"`
}

const (
	keyFile   = "relay.key"
	usageFile = "usage.json"
	homesDir  = "homes"
	homeExt   = ".json"
	joinedExt = ".id"
	// maxAlso bounds the other names of a home.
	maxAlso = wire.MaxNames - 1
)

var (
	msgNoName      = i18n.Message("%q is no name for a home: give up to 63 small letters, digits and dashes")
	msgNoHost      = i18n.Message("%q is no host name, such as board.example.org")
	msgNameTaken   = i18n.Message("there is a home %q already")
	msgHostTaken   = i18n.Message("%q leads to the home %q already")
	msgNoSuchHome  = i18n.Message("there is no home %q")
	msgTooMany     = i18n.Message("a home has at most %d other host names")
	msgKeyNotValid = i18n.Message("%s has no key of a relay")
)

// Key returns the relay's key and creates it if there is none.
func (f Folder) Key() (ed25519.PrivateKey, error) {
	path := filepath.Join(string(f), keyFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return f.newKey(path)
	}
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, msgKeyNotValid.Errorf(path)
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	own, ok := key.(ed25519.PrivateKey)
	if err != nil || !ok {
		return nil, msgKeyNotValid.Errorf(path)
	}
	return own, nil
}

func (f Folder) newKey(path string) (ed25519.PrivateKey, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	switch err := create(path, text); {
	case errors.Is(err, fs.ErrExist): // another process was faster
		return f.Key()
	case err != nil:
		return nil, err
	}
	return key, nil
}

// Add adds a home and returns the join code that lets it in. The relay knows it within a second.
func (f Folder) Add(h Home) (wire.Code, error) {
	list, err := f.Homes()
	if err != nil {
		return wire.Code{}, err
	}
	if err := check(h, list); err != nil {
		return wire.Code{}, err
	}
	key, err := f.Key()
	if err != nil {
		return wire.Code{}, err
	}
	relay, err := wire.KeyFingerprint(key)
	if err != nil {
		return wire.Code{}, err
	}
	code := wire.NewCode(relay)
	h.Created, h.ID, h.Code = time.Now().UTC().Truncate(time.Second), rand.Text(), hashSecret(code.Secret)
	text, err := json.MarshalIndent(h, "", "  ")
	if err != nil {
		return wire.Code{}, err
	}
	if err = create(f.home(h.Name+homeExt), text); errors.Is(err, fs.ErrExist) {
		err = msgNameTaken.Errorf(h.Name)
	}
	return code, err
}

// check checks the names of a new home.
func check(h Home, list []Home) error {
	if !wire.IsLabel(h.Name) {
		return msgNoName.Errorf(h.Name)
	}
	if len(h.Also) > maxAlso {
		return msgTooMany.Errorf(maxAlso)
	}
	for _, host := range h.Also {
		if host != wire.Canonical(host) || !wire.IsFullName(host) {
			return msgNoHost.Errorf(host)
		}
	}
	for _, other := range list {
		if other.Name == h.Name {
			return msgNameTaken.Errorf(h.Name)
		}
		for _, host := range h.Also {
			if slices.Contains(other.Also, host) {
				return msgHostTaken.Errorf(host, other.Name)
			}
		}
	}
	return nil
}

// Revoke removes a home. The relay ends its connections within a second.
func (f Folder) Revoke(name string) error {
	if !wire.IsLabel(name) {
		return msgNoSuchHome.Errorf(name)
	}
	err := os.Remove(f.home(name + homeExt))
	if errors.Is(err, fs.ErrNotExist) {
		return msgNoSuchHome.Errorf(name)
	}
	if err != nil {
		return err
	}
	joined, err := filepath.Glob(f.home(name + ".*" + joinedExt)) // a label has no wildcards
	for _, file := range joined {
		err = errors.Join(err, os.Remove(file))
	}
	return err
}

// Homes lists the homes by name. Files that are no homes are an error: somebody edited them.
func (f Folder) Homes() ([]Home, error) {
	entries, err := os.ReadDir(filepath.Join(string(f), homesDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var list []Home
	for _, e := range entries {
		if filepath.Ext(e.Name()) != homeExt {
			continue
		}
		h, err := f.read(e.Name())
		if errors.Is(err, fs.ErrNotExist) {
			continue // revoked a moment ago
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", e.Name(), err)
		}
		list = append(list, h)
	}
	return list, err
}

func (f Folder) read(file string) (h Home, err error) {
	text, err := os.ReadFile(f.home(file))
	if err != nil {
		return h, err
	}
	if err := json.Unmarshal(text, &h); err != nil {
		return h, err
	}
	if h.Name+homeExt != file || !wire.IsLabel(h.Name) || h.ID == "" || !wire.IsLabel(strings.ToLower(h.ID)) {
		return h, msgNoName.Errorf(h.Name)
	}
	joined, err := os.ReadFile(f.home(h.Name + "." + h.ID + joinedExt))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return h, err
	}
	h.Joined = strings.TrimSpace(string(joined))
	return h, nil
}

// join makes a fingerprint that of a home. Only the first one wins; it may come again, since all
// instances of an installation have the same key.
func (f Folder) join(h Home, fingerprint string) error {
	file := f.home(h.Name + "." + h.ID + joinedExt)
	err := create(file, []byte(fingerprint+"\n"))
	if errors.Is(err, fs.ErrExist) {
		first, readErr := os.ReadFile(file)
		if readErr == nil && sameText(strings.TrimSpace(string(first)), fingerprint) {
			return nil
		}
	}
	return err
}

func (f Folder) home(file string) string { return filepath.Join(string(f), homesDir, file) }

// changed returns when homes were last added, removed or joined.
func (f Folder) changed() time.Time {
	info, err := os.Stat(filepath.Join(string(f), homesDir))
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// create writes a whole new file, or returns [fs.ErrExist].
func create(path string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	temp, err := writeTemp(path, text)
	if err != nil {
		return err
	}
	defer os.Remove(temp) //nolint:errcheck // it may be renamed
	if err := os.Link(temp, path); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(path))
}

// syncFolder makes the names of a folder survive a loss of power: a code that was used must not let
// another home in.
func syncFolder(path string) error {
	if runtime.GOOS == "windows" { // folders cannot be synced there
		return nil
	}
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// replace writes a whole file in place of an old one.
func replace(path string, text []byte) error {
	temp, err := writeTemp(path, text)
	if err != nil {
		return err
	}
	return os.Rename(temp, path)
}

func writeTemp(path string, text []byte) (string, error) {
	temp, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return "", err
	}
	_, err = temp.Write(text)
	err = errors.Join(err, temp.Sync(), temp.Close())
	if err != nil {
		os.Remove(temp.Name()) //nolint:errcheck // the first error is returned
	}
	return temp.Name(), err
}

func hashSecret(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

func sameText(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// usage counts the bytes of homes in a month.
type usage struct {
	mu    sync.Mutex
	Month string           `json:"month"` // 2026-11
	Bytes map[string]int64 `json:"bytes"` // by name of the home
}

func monthOf(t time.Time) string { return t.UTC().Format("2006-01") }

// readUsage returns the usage of this month. A damaged file counts as none: a quota is no account.
func (f Folder) readUsage() *usage {
	u := &usage{}
	if text, err := os.ReadFile(filepath.Join(string(f), usageFile)); err != nil || json.Unmarshal(text, u) != nil ||
		u.Month != monthOf(time.Now()) {
		*u = usage{Month: monthOf(time.Now())} //nolint:govet // it is not in use yet
	}
	if u.Bytes == nil {
		u.Bytes = map[string]int64{}
	}
	return u
}

// add counts bytes and returns those of the month so far.
func (u *usage) add(name string, n int64, now time.Time) int64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	if m := monthOf(now); m != u.Month {
		u.Month, u.Bytes = m, map[string]int64{}
	}
	u.Bytes[name] += n
	return u.Bytes[name]
}

func (f Folder) writeUsage(u *usage) error {
	u.mu.Lock()
	text, err := json.Marshal(u)
	u.mu.Unlock()
	if err != nil {
		return err
	}
	return replace(filepath.Join(string(f), usageFile), text)
}
