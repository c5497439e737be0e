package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is a gateway in a process of its own, and what it prints when it is ready.
type process struct {
	URL   string `json:"url"`
	Key   string `json:"key"`   // for operators and nodes
	Debug string `json:"debug"` // address of net/http/pprof; empty: none

	bare bool
	cmd  *exec.Cmd
	in   io.WriteCloser
}

// stopTimeout is the maximum time for a gateway to stop.
const stopTimeout = 20 * time.Second

// start starts a program and reads its standard output until line accepts a line. The process ends
// with ctx.
func start(cmd *exec.Cmd, line func(p *process, text string) (found bool, err error)) (*process, error) {
	p := &process{cmd: cmd}
	cmd.Stderr = os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = stopTimeout
	var err error
	if p.in, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewReader(out)
	for {
		text, err := lines.ReadString('\n')
		found := false
		if err == nil {
			found, err = line(p, text)
		}
		if err != nil {
			p.stop()
			return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
		}
		if found {
			break
		}
	}
	go io.Copy(io.Discard, lines) //nolint:errcheck // ends with the process
	return p, nil
}

// parseReady parses the line that this program's own gateways print when they are ready.
func parseReady(p *process, text string) (bool, error) {
	return true, json.Unmarshal([]byte(text), p)
}

// stop ends the process.
func (p *process) stop() {
	p.in.Close()
	force := time.AfterFunc(stopTimeout, func() { p.cmd.Process.Kill() }) //nolint:errcheck // it has ended
	defer force.Stop()
	p.cmd.Process.Signal(syscall.SIGTERM) //nolint:errcheck // it has ended
	p.cmd.Wait()                          //nolint:errcheck // its exit status does not matter
}

// cpuOf is the processor time of a process; 0 without /proc.
func cpuOf(pid int) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond // USER_HZ is 100 (proc(5))
}

func (p *process) cpu() time.Duration { return cpuOf(p.cmd.Process.Pid) }

// rss is the gateway's resident memory, in MiB; 0 without /proc.
func (p *process) rss() float64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	pages, _ := strconv.Atoi(strings.Fields(string(text))[1])
	return float64(pages) * float64(os.Getpagesize()) / (1 << 20)
}

// debug requests a debug page of the process. It has no timeout: a profile takes long.
func (p *process) debug(ctx context.Context, path string) ([]byte, error) {
	if p.Debug == "" {
		return nil, errors.New("this gateway does not tell about itself")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.Debug+path, nil)
	if err != nil {
		return nil, err
	}
	client := http.Client{Timeout: 10 * time.Minute}
	res, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", path, res.Status)
	}
	return text, err
}

// saveProfile writes a profile of the process to a file, unless the name is empty.
func (p *process) saveProfile(ctx context.Context, what, file string) error {
	if file == "" {
		return nil
	}
	text, err := p.debug(ctx, "/debug/pprof/"+what)
	if err == nil {
		err = os.WriteFile(file, text, 0o644)
	}
	return err
}
