// Package served runs a server with voice boards in a process of its own, for benchmarks: its
// processor time and memory are not mixed up with those of the simulated boards.
package served

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	_ "net/http/pprof" // serves profiles of the server
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"patchbay/internal/app"
	"patchbay/internal/config"
)

// serveFlag makes a program the server. It is for internal use.
const serveFlag = "-serve"

// Server is the server in a process of its own, and what it prints when it is ready.
type Server struct {
	URL   string `json:"url"`
	Key   string `json:"key"`   // of an admin, for /api/v1
	Debug string `json:"debug"` // address of the profiles

	cmd    *exec.Cmd
	in     io.WriteCloser
	folder string
}

// Serve runs the server, if this process was started by [Start] for that, until standard input
// ends. A main function calls it first, and returns if it reports true.
func Serve() (served bool, err error) {
	if len(os.Args) < 3 || os.Args[1] != serveFlag {
		return false, nil
	}
	return true, serve(os.Args[2], os.Args[3:])
}

// serve runs the server. settings are further ones, as name=value.
func serve(folder string, settings []string) error {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	flags := map[string]string{
		"data": folder, "listen": "127.0.0.1:0", "log.level": "warn", "fetch.allow_nets": "127.0.0.0/8",
		"limits.call_rate": "0", "limits.streams": "0", "limits.streams_of_key": "0",
		"xiaozhi.mqtt": "127.0.0.1:0", "xiaozhi.audio": "127.0.0.1:0",
	}
	for _, s := range settings {
		name, value, _ := strings.Cut(s, "=")
		flags[name] = value
	}
	c, _, err := config.Load(config.Sources{Flags: flags})
	if err != nil {
		return err
	}
	side, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	http.HandleFunc("GET /memory", serveMemory)
	go http.Serve(side, nil) //nolint:errcheck,gosec // ends with the process
	go func() {
		io.Copy(io.Discard, os.Stdin) //nolint:errcheck // only its end matters
		stop()
	}()
	return app.Serve(ctx, c, app.Options{Version: "bench", Demo: true, Logs: os.Stderr,
		Ready: func(url string, b *app.Base) {
			at, err := app.FindRunning(b.Config.Data)
			if err == nil {
				err = json.NewEncoder(os.Stdout).Encode(Server{URL: url, Key: at.Key,
					Debug: "http://" + side.Addr().String()})
			}
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
		}})
}

// Memory holds the runtime statistics of the server.
type Memory struct {
	Heap       uint64 `json:"heap"` // live, in bytes
	Stacks     uint64 `json:"stacks"`
	Goroutines int    `json:"goroutines"`
}

// serveMemory runs the garbage collector, and returns what is left.
func serveMemory(w http.ResponseWriter, _ *http.Request) {
	for range 4 { // each run at most halves stacks that were deep once
		runtime.GC()
	}
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	json.NewEncoder(w).Encode(Memory{Heap: m.HeapAlloc, Stacks: m.StackInuse, Goroutines: runtime.NumGoroutine()}) //nolint:errcheck // the client has left
}

// Start starts the server and waits until it is ready. settings are its settings, as name=value,
// besides those that all benchmarks need. It ends with its standard input, or with ctx.
func Start(ctx context.Context, settings ...string) (*Server, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	s := &Server{}
	if s.folder, err = os.MkdirTemp("", "patchbay-bench-"); err != nil {
		return nil, err
	}
	s.cmd = exec.CommandContext(ctx, self, append([]string{serveFlag, s.folder}, settings...)...)
	s.cmd.Stderr = os.Stderr
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, s)
	}
	if err != nil {
		s.Stop()
		return nil, fmt.Errorf("the server did not start: %w", err)
	}
	return s, nil
}

// Stop stops the server.
func (s *Server) Stop() {
	s.in.Close()
	force := time.AfterFunc(30*time.Second, func() { s.cmd.Process.Kill() }) //nolint:errcheck // it has ended
	defer force.Stop()
	s.cmd.Wait() //nolint:errcheck // its exit status does not matter
	os.RemoveAll(s.folder)
}

// CPUOf is the processor time of a process; 0 without /proc.
func CPUOf(pid int) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond // USER_HZ is 100 (proc(5))
}

// CPU is the processor time of the server; 0 without /proc.
func (s *Server) CPU() time.Duration { return CPUOf(s.cmd.Process.Pid) }

// RSS is the server's resident memory, in bytes; 0 without /proc.
func (s *Server) RSS() float64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", s.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	pages, _ := strconv.Atoi(strings.Fields(string(text))[1])
	return float64(pages * os.Getpagesize())
}

// Memory returns the statistics of the server after a garbage collection.
func (s *Server) Memory(ctx context.Context) (m Memory, err error) {
	text, err := s.get(ctx, s.Debug+"/memory")
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	return m, err
}

// SaveProfile writes a profile of the server to a file, unless the name is empty.
func (s *Server) SaveProfile(ctx context.Context, what, file string) error {
	if file == "" {
		return nil
	}
	text, err := s.get(ctx, s.Debug+"/debug/pprof/"+what)
	if err == nil {
		err = os.WriteFile(file, text, 0o644)
	}
	return err
}

// Numbers returns the server's metrics, both by name with all labels summed up, and for each set of
// labels.
func (s *Server) Numbers(ctx context.Context) (map[string]float64, error) {
	text, err := s.get(ctx, s.URL+"/metrics")
	if err != nil {
		return nil, err
	}
	all := map[string]float64{}
	for line := range strings.Lines(string(text)) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.ParseFloat(value, 64); ok && err == nil && name != "#" {
			all[name] += n
			if bare, _, labels := strings.Cut(name, "{"); labels {
				all[bare] += n
			}
		}
	}
	return all, nil
}

// get requests a page of the server. It has no timeout: a profile takes long.
func (s *Server) get(ctx context.Context, url string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	client := http.Client{Timeout: 20 * time.Minute}
	res, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", url, res.Status)
	}
	return text, err
}

// PeakRSS is the most memory that the server has had, in bytes; 0 without /proc.
func (s *Server) PeakRSS() float64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	_, peak, _ := strings.Cut(string(text), "\nVmHWM:") // proc(5)
	fields := strings.Fields(peak)
	if len(fields) == 0 {
		return 0
	}
	kib, _ := strconv.Atoi(fields[0])
	return float64(kib) * 1024
}
