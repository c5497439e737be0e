package built

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Instance is one server of an installation: its folder, its settings, and its process while it
// runs.
type Instance struct {
	Name    string
	Folder  string
	Address string   // listen address
	Env     []string // of the process and of commands on its folder

	program string
	log     *os.File
	cmd     *exec.Cmd
	ended   chan struct{} // closed when the process has ended
}

// NewInstance returns an instance that is not started, with a folder and a log named after it in
// dir, and a free address. settings are additional environment variables. The caller must close it.
func NewInstance(program, dir, name string, settings ...string) (n *Instance, err error) {
	n = &Instance{Name: name, program: program, Folder: filepath.Join(dir, name)}
	if err := os.Mkdir(n.Folder, 0o700); err != nil {
		return nil, err
	}
	if n.Address, err = FreeAddress(); err != nil {
		return nil, err
	}
	n.Env = append(os.Environ(), "LANG=en_US.UTF-8", "PATCHBAY_LANG=en", "PATCHBAY_DATA="+n.Folder,
		"PATCHBAY_LISTEN="+n.Address, "PATCHBAY_BUS_NAME="+name)
	n.Env = append(n.Env, settings...)
	n.log, err = os.Create(filepath.Join(dir, name+".log"))
	return n, err
}

// FreeAddress returns a local address on which nothing listens.
func FreeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// Command runs a command on the instance's folder and decodes its JSON output into out, which may
// be nil.
func (n *Instance) Command(out any, args ...string) error {
	cmd := exec.Command(n.program, append(args, "--json")...)
	cmd.Env = n.Env
	var complaint strings.Builder
	cmd.Stderr = &complaint
	text, err := cmd.Output()
	if err == nil && out != nil {
		err = json.Unmarshal(text, out)
	}
	if err != nil {
		return fmt.Errorf("patchbay %s: %w\n%s%s", strings.Join(args, " "), err, complaint.String(), text)
	}
	return nil
}

// Start starts the process without waiting until it is ready.
func (n *Instance) Start() error {
	cmd := exec.Command(n.program, "serve")
	cmd.Env, cmd.Stderr = n.Env, n.log
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	n.cmd, n.ended = cmd, ended
	go func() {
		cmd.Wait() //nolint:errcheck // killed, or the log has the reason
		close(ended)
	}()
	return nil
}

// Signal sends a signal to the process.
func (n *Instance) Signal(s os.Signal) error {
	if n.cmd == nil {
		return errors.New("it does not run")
	}
	return n.cmd.Process.Signal(s)
}

// Await waits until the process has ended, and kills it after the given time.
func (n *Instance) Await(patience time.Duration) {
	select {
	case <-n.ended:
	case <-time.After(patience):
		n.cmd.Process.Kill() //nolint:errcheck // it may have ended
		<-n.ended
	}
}

// Close kills the process and keeps the folder and the log.
func (n *Instance) Close() {
	if n.cmd != nil {
		n.cmd.Process.Kill() //nolint:errcheck // it may have ended
		<-n.ended
	}
	if n.log != nil {
		n.log.Close()
	}
}

// ReadyLimit is how long an instance may take to answer a readiness check.
const ReadyLimit = time.Second

// IsReady reports whether the instance at an address is ready, over a new connection.
func IsReady(ctx context.Context, address string) bool {
	client := &http.Client{Timeout: ReadyLimit, Transport: &http.Transport{DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/readyz", nil)
	if err != nil {
		return false
	}
	resp, err := client.Do(req)
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// Ready waits until the instance is ready, one minute at most.
func (n *Instance) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !IsReady(ctx, n.Address) {
		select {
		case <-tick.C:
		case <-n.ended:
			return fmt.Errorf("the instance has ended; see %s", n.log.Name())
		case <-ctx.Done():
			return errors.New("the instance does not get ready")
		}
	}
	return nil
}

// CPU returns the processor time used by the process; 0 without /proc.
func (n *Instance) CPU() time.Duration { return CPU(n.cmd.Process.Pid) }

// RSS returns the resident memory of the process, in bytes; 0 without /proc.
func (n *Instance) RSS() float64 { return RSS(n.cmd.Process.Pid) }

// CPU returns the processor time used by a process; 0 without /proc.
func CPU(pid int) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	user, _ := strconv.Atoi(fields[11])                       //nolint:errcheck // the kernel writes numbers
	system, _ := strconv.Atoi(fields[12])                     //nolint:errcheck // as above
	return time.Duration(user+system) * 10 * time.Millisecond // clock ticks of 10 ms on Linux
}

// RSS returns the resident memory of a process, in bytes; 0 without /proc.
func RSS(pid int) float64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	pages, _ := strconv.Atoi(strings.Fields(string(text))[1]) //nolint:errcheck // the kernel writes numbers
	return float64(pages * os.Getpagesize())
}
