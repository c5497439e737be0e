package app

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	"patchbay/internal/config"
)

// controlFile tells the command line, which is given only the data folder, where
// the running server is and lets it in.
const controlFile = "server.json"

// Running is a server that runs on a data folder.
type Running struct {
	URL string `json:"url"`
	Key string `json:"key"` // good for as long as the process runs, from this machine
	PID int    `json:"pid"`
	// Listen is the address that it listens on.
	Listen string `json:"listen"`
}

// announce writes the control file, and returns the address of the server as
// this machine reaches it.
func announce(c *config.Config, l net.Listener, key string) (string, error) {
	scheme := "http"
	if c.TLS.Cert != "" {
		scheme = "https"
	}
	addr := l.Addr().(*net.TCPAddr)
	host := addr.IP.String()
	if addr.IP.IsUnspecified() {
		host = "127.0.0.1"
	}
	url := fmt.Sprintf("%s://%s", scheme, net.JoinHostPort(host, fmt.Sprint(addr.Port)))
	text, err := json.Marshal(Running{URL: url, Key: key, PID: os.Getpid(), Listen: l.Addr().String()})
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(c.Data, 0o700); err != nil {
		return "", err
	}
	path := filepath.Join(c.Data, controlFile)
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		return "", err
	}
	return url, os.Rename(path+".new", path)
}

// retract takes the control file away, if it is still ours.
func retract(c *config.Config) {
	if r, err := FindRunning(c.Data); err == nil && r.PID == os.Getpid() {
		os.Remove(filepath.Join(c.Data, controlFile))
	}
}

// ErrNotRunning says that no server has announced itself in a data folder.
var ErrNotRunning = errors.New("no server runs on this data folder; start one with: patchbay serve")

// FindRunning finds the server that runs on a data folder. It may have died
// without a word: then its address does not answer.
func FindRunning(folder string) (Running, error) {
	text, err := os.ReadFile(filepath.Join(folder, controlFile))
	if errors.Is(err, fs.ErrNotExist) {
		return Running{}, ErrNotRunning
	}
	if err != nil {
		return Running{}, err
	}
	var r Running
	if err := json.Unmarshal(text, &r); err != nil {
		return Running{}, fmt.Errorf("%s: %w", controlFile, err)
	}
	return r, nil
}
