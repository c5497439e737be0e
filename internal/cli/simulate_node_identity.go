package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"patchbay/internal/i18n"
	"patchbay/internal/plug/openclaw/wire"
)

// nodeIdentity is the persistent identity of a simulated node. It is a secret.
type nodeIdentity struct {
	Identity wire.Identity `json:"identity"`
	// Tokens are the node's tokens by server URL.
	Tokens map[string]string `json:"tokens,omitempty"`
}

// identities stores simulated nodes in a file by name. It is safe for concurrent use.
type identities struct {
	file string

	mu   sync.Mutex
	all  map[string]nodeIdentity
	mine map[string]bool // nodes used by this process
}

// maxIdentities is the maximum size of the file, in bytes; each node takes some 300.
const maxIdentities = 64 << 20

func openIdentities(file string) (*identities, error) {
	all, err := readIdentities(file)
	return &identities{file: file, all: all, mine: map[string]bool{}}, err
}

func readIdentities(file string) (map[string]nodeIdentity, error) {
	all := map[string]nodeIdentity{}
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return all, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxIdentities+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxIdentities || json.Unmarshal(text, &all) != nil || all == nil {
		return nil, i18n.Message("%s does not contain keys of simulated nodes; remove it, or give another file with --identity").Errorf(file)
	}
	return all, nil
}

// of returns the node with a name, creating it if necessary.
func (i *identities) of(name string) nodeIdentity {
	i.mu.Lock()
	defer i.mu.Unlock()
	n, known := i.all[name]
	if !known {
		n.Identity = wire.NewIdentity()
		i.all[name] = n
	}
	i.mine[name] = true
	n.Tokens = maps.Clone(n.Tokens)
	return n
}

// token stores the token that a server has given to a node; an empty token deletes it.
func (i *identities) token(name, url, token string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	n := i.all[name]
	n.Tokens = maps.Clone(n.Tokens)
	if n.Tokens == nil {
		n.Tokens = map[string]string{}
	}
	n.Tokens[url] = token
	if token == "" {
		delete(n.Tokens, url)
	}
	i.all[name] = n
}

// save writes the file. Nodes that other processes have added meanwhile are kept.
func (i *identities) save() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	all, err := readIdentities(i.file)
	if err != nil {
		return err
	}
	for _, name := range slices.Collect(maps.Keys(i.mine)) {
		all[name] = i.all[name]
	}
	text, err := json.Marshal(all)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(i.file), 0o700); err != nil {
		return err
	}
	next := fmt.Sprintf("%s.%d", i.file, os.Getpid())
	if err := os.WriteFile(next, text, 0o600); err != nil {
		return err
	}
	return os.Rename(next, i.file)
}
