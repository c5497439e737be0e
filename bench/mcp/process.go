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
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// serveFlag makes this program one of the servers. It is for internal use.
const serveFlag = "-serve"

// process is a server in a process of its own, and what it prints when it is ready.
type process struct {
	URL   string `json:"url"`
	Key   string `json:"key"`   // for the bearer token
	Debug string `json:"debug"` // address of net/http/pprof; empty: none

	cmd *exec.Cmd
	in  io.WriteCloser
}

// start starts a server and waits until it is ready. It ends with its standard input, or with ctx.
func start(ctx context.Context, program string, args ...string) (*process, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, in: in}
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, p)
	}
	if err == nil && p.URL == "" {
		err = fmt.Errorf("it says %q", line)
	}
	if err != nil {
		p.stop()
		return nil, fmt.Errorf("start %s %s: %w", program, strings.Join(args, " "), err)
	}
	return p, nil
}

// stop stops the server.
func (p *process) stop() {
	p.in.Close()
	force := time.AfterFunc(5*time.Second, func() { p.cmd.Process.Kill() }) //nolint:errcheck // it has ended
	defer force.Stop()
	p.cmd.Process.Signal(os.Interrupt) //nolint:errcheck // it has ended
	p.cmd.Wait()                       //nolint:errcheck // its exit status does not matter
}

// startOwn starts one of this program's servers.
func startOwn(ctx context.Context, name string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return start(ctx, self, serveFlag, name)
}

// fleet holds the servers that are measured.
type fleet struct {
	contenders []contender
	processes  map[string]*process
	folder     string
}

// startAll starts the servers whose names contain one of the given texts, and the plain handler.
func startAll(ctx context.Context, only []string) (*fleet, error) {
	folder, err := os.MkdirTemp("", "patchbay-bench-")
	if err != nil {
		return nil, err
	}
	f := &fleet{processes: map[string]*process{}, folder: folder}
	for _, c := range contenders {
		if c.name != plainName && !wanted(c.name, only) {
			continue
		}
		p, known := f.processes[c.server]
		if !known {
			if c.server == "mcp-go" {
				p, err = startPeer(ctx, folder)
			} else {
				p, err = startOwn(ctx, c.server)
			}
			f.processes[c.server] = p
			if err != nil && ctx.Err() == nil && c.server == "mcp-go" {
				fmt.Fprintln(os.Stderr, "mcp-go is left out:", err)
			} else if err != nil {
				f.stop()
				return nil, err
			}
		}
		if p != nil {
			c.at = p
			f.contenders = append(f.contenders, c)
		}
	}
	return f, nil
}

func wanted(name string, only []string) bool {
	for _, part := range only {
		if strings.Contains(name, part) {
			return true
		}
	}
	return len(only) == 0
}

// startPeer builds and starts the server with mcp-go, which is a module of its own.
func startPeer(ctx context.Context, folder string) (*process, error) {
	program := filepath.Join(folder, "mcpgo")
	build := exec.CommandContext(ctx, "go", "build", "-C", filepath.Join("test", "peers", "mcpgo"), "-o", program, ".")
	if said, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build test/peers/mcpgo: %w: %s", err, bytes.TrimSpace(said))
	}
	return start(ctx, program, "-serve", "127.0.0.1:0")
}

func (f *fleet) stop() {
	for _, p := range f.processes {
		if p != nil {
			p.stop()
		}
	}
	os.RemoveAll(f.folder)
}

// cpu is the processor time of the server; 0 without /proc.
func (p *process) cpu() time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond // USER_HZ is 100 (proc(5))
}

// rss is the server's resident memory, in MiB; 0 without /proc.
func (p *process) rss() float64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	pages, _ := strconv.Atoi(strings.Fields(string(text))[1])
	return float64(pages) * float64(os.Getpagesize()) / (1 << 20)
}

// goroutines returns the server's number of goroutines.
func (p *process) goroutines(ctx context.Context) (n int, err error) {
	text, err := p.debug(ctx, http.MethodGet, "/debug/pprof/goroutine?debug=1")
	if err != nil {
		return 0, err
	}
	_, err = fmt.Sscanf(string(text), "goroutine profile: total %d", &n)
	return n, err
}

// debug requests a debug page of the server.
func (p *process) debug(ctx context.Context, method, path string) ([]byte, error) {
	if p.Debug == "" {
		return nil, errors.New("this server does not tell about itself")
	}
	req, err := http.NewRequestWithContext(ctx, method, p.Debug+path, nil)
	if err != nil {
		return nil, err
	}
	client := http.Client{Timeout: 2 * time.Minute}
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

// profilesOf returns a function that takes profiles of a server during the measurement; nil if none
// are wanted.
func profilesOf(ctx context.Context, c contender, folder string, clients int) func(time.Duration) error {
	if folder == "" || c.at.Debug == "" {
		return nil
	}
	return func(span time.Duration) error {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
		name := filepath.Join(folder, fmt.Sprintf("%s-%d-", strings.NewReplacer(" ", "-", "/", "-").Replace(c.name),
			clients))
		seconds := max(int(span.Seconds()), 1)
		for _, kind := range []string{fmt.Sprintf("profile?seconds=%d", seconds), "allocs"} {
			text, err := c.at.debug(ctx, http.MethodGet, "/debug/pprof/"+kind)
			if err != nil {
				return err
			}
			kind, _, _ = strings.Cut(kind, "?")
			if err := os.WriteFile(name+kind+".pprof", text, 0o644); err != nil {
				return err
			}
		}
		return nil
	}
}
