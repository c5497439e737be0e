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

// controlFile gives the command line, which knows only the data folder, the address of the running
// server and a key to it.
const controlFile = "server.json"

// Running describes a server that runs on a data folder.
type Running struct {
	URL string `json:"url"`
	Key string `json:"key"` // valid while the process runs, from this machine only
	PID int    `json:"pid"`
	// Listen is the address it listens on.
	Listen string `json:"listen"`
}

// announce writes the control file and returns the server's address as seen from this machine.
func announce(c *config.Config, l net.Listener, key string) (string, error) {
	scheme := "http"
	if c.ServesTLS() {
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

// removeControlFile removes the control file if this process wrote it.
func removeControlFile(c *config.Config) {
	if r, err := FindRunning(c.Data); err == nil && r.PID == os.Getpid() {
		os.Remove(filepath.Join(c.Data, controlFile))
	}
}

// ErrNotRunning means that no server has announced itself in a data folder.
var ErrNotRunning = errors.New("no server runs on this data folder; start one with: patchbay serve")

// FindRunning returns the server that runs on a data folder. The server may have crashed without
// removing the file; its address does not respond then.
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
