package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
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

// serveFlag makes this program the server. It is for internal use.
const serveFlag = "-serve"

// server is the server in a process of its own, and what it prints when it is ready.
type server struct {
	URL   string `json:"url"`
	Key   string `json:"key"`   // of an admin, for /api/v1
	Debug string `json:"debug"` // address of the profiles

	cmd    *exec.Cmd
	in     io.WriteCloser
	folder string
}

// serve runs the server until standard input ends. args are its folder and transport.
func serve(args []string) error {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	settings, _, err := config.Load(config.Sources{Flags: map[string]string{
		"data": args[0], "listen": "127.0.0.1:0", "log.level": "warn", "fetch.allow_nets": "127.0.0.0/8",
		"limits.call_rate": "0", "limits.streams": "0", "limits.streams_of_key": "0",
		"xiaozhi.mqtt": "127.0.0.1:0", "xiaozhi.audio": "127.0.0.1:0", "xiaozhi.transport": args[1],
	}})
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
	return app.Serve(ctx, settings, app.Options{Version: "bench", Demo: true, Logs: os.Stderr,
		Ready: func(url string, b *app.Base) {
			at, err := app.FindRunning(b.Config.Data)
			if err == nil {
				err = json.NewEncoder(os.Stdout).Encode(server{URL: url, Key: at.Key,
					Debug: "http://" + side.Addr().String()})
			}
			if err != nil {
				fail(err)
			}
		}})
}

// memory holds the runtime statistics of the server.
type memory struct {
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
	json.NewEncoder(w).Encode(memory{Heap: m.HeapAlloc, Stacks: m.StackInuse, Goroutines: runtime.NumGoroutine()}) //nolint:errcheck // the client has left
}

// start starts the server and waits until it is ready. It ends with its standard input, or with
// ctx.
func start(ctx context.Context, transport string) (*server, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	s := &server{}
	if s.folder, err = os.MkdirTemp("", "patchbay-bench-"); err != nil {
		return nil, err
	}
	s.cmd = exec.CommandContext(ctx, self, serveFlag, s.folder, transport)
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
		s.stop()
		return nil, fmt.Errorf("the server did not start: %w", err)
	}
	return s, nil
}

// stop stops the server.
func (s *server) stop() {
	s.in.Close()
	force := time.AfterFunc(30*time.Second, func() { s.cmd.Process.Kill() }) //nolint:errcheck // it has ended
	defer force.Stop()
	s.cmd.Wait() //nolint:errcheck // its exit status does not matter
	os.RemoveAll(s.folder)
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

func (s *server) cpu() time.Duration { return cpuOf(s.cmd.Process.Pid) }

// rss is the server's resident memory, in bytes; 0 without /proc.
func (s *server) rss() float64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", s.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	pages, _ := strconv.Atoi(strings.Fields(string(text))[1])
	return float64(pages * os.Getpagesize())
}

func (s *server) memory(ctx context.Context) (m memory, err error) {
	text, err := s.get(ctx, s.Debug+"/memory")
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	return m, err
}

// saveProfile writes a profile of the server to a file, unless the name is empty.
func (s *server) saveProfile(ctx context.Context, what, file string) error {
	if file == "" {
		return nil
	}
	text, err := s.get(ctx, s.Debug+"/debug/pprof/"+what)
	if err == nil {
		err = os.WriteFile(file, text, 0o644)
	}
	return err
}

// numbers returns the server's metrics, both by name with all labels summed up, and for each set of
// labels.
func (s *server) numbers(ctx context.Context) (map[string]float64, error) {
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
func (s *server) get(ctx context.Context, url string) ([]byte, error) {
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

// callers returns a client with connections for n concurrent calls.
func callers(n int) *http.Client {
	return &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: n}, Timeout: 10 * time.Minute}
}

// call calls a tool of a board, and returns the last line of the response.
func (s *server) call(ctx context.Context, client *http.Client, mac, tool, args string) (json.RawMessage, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost,
		s.URL+"/api/v1/devices/"+mac+"/tools/"+tool+"/call", strings.NewReader(`{"arguments":`+args+`}`))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+s.Key)
	req.Header.Set("Content-Type", "application/json")
	res, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s: %.200s", tool, res.Status, text)
	}
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	var end struct {
		Result json.RawMessage `json:"result"`
		Error  string          `json:"error"`
		Cause  string          `json:"cause"`
	}
	if err := json.Unmarshal(lines[len(lines)-1], &end); err != nil {
		return nil, err
	}
	if end.Error != "" {
		return nil, errors.New(tool + ": " + end.Error + " " + end.Cause)
	}
	return end.Result, nil
}
