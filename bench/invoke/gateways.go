package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	_ "net/http/pprof" // serves profiles of the gateway
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"

	"patchbay/internal/app"
	"patchbay/internal/config"
)

// serveFlag makes this program one of the gateways. It is for internal use.
const serveFlag = "-serve"

// fleet holds the gateways that are measured.
type fleet struct {
	contenders []contender
	processes  []*process
	folder     string
}

func (f *fleet) stop() {
	for _, p := range f.processes {
		p.stop()
	}
	os.RemoveAll(f.folder)
}

// startAll starts the gateways that are to be measured.
func startAll(ctx context.Context, o options) (_ *fleet, err error) {
	f := &fleet{}
	if f.folder, err = os.MkdirTemp("", "patchbay-bench-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			f.stop()
		}
	}()
	add := func(name string, start func(ctx context.Context, folder, program string) (*process, error),
		commands ...string) {
		var wanted []string
		for _, c := range commands {
			if name == bareName || strings.Contains(name+" "+c, o.only) {
				wanted = append(wanted, c)
			}
		}
		if err != nil || len(wanted) == 0 {
			return
		}
		var p *process
		if p, err = start(ctx, filepath.Join(f.folder, name), o.program); err != nil {
			err = fmt.Errorf("%s: %w", name, err)
			return
		}
		f.processes = append(f.processes, p)
		for _, c := range wanted {
			f.contenders = append(f.contenders, contender{name, c, p})
		}
	}
	ours := startPatchbay
	if o.profile != "" {
		ours = startOpen
	}
	add(bareName, startRelay, "")
	add("patchbay", ours, reading, acting)
	if o.peer {
		add("openclaw", startOpenClaw, reading, acting)
	}
	return f, err
}

// startSelf starts one of this program's own gateways.
func startSelf(ctx context.Context, args ...string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return start(exec.CommandContext(ctx, self, append([]string{serveFlag}, args...)...), parseReady)
}

// serve runs one of the gateways until standard input ends.
func serve(what string, args []string) error {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go func() {
		io.Copy(io.Discard, os.Stdin) //nolint:errcheck // only its end matters
		stop()
	}()
	side, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if what == "relay" {
		s := &http.Server{Handler: newRelay(), ReadHeaderTimeout: patience}
		context.AfterFunc(ctx, func() { s.Close() })
		if err := json.NewEncoder(os.Stdout).Encode(process{URL: "ws://" + side.Addr().String()}); err != nil {
			return err
		}
		if err := s.Serve(side); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	}
	http.HandleFunc("GET /collect", collect)
	go http.Serve(side, nil) //nolint:errcheck,gosec // ends with the process
	return servePatchbay(ctx, args[0], "http://"+side.Addr().String())
}

// settingsOf returns the settings of Patchbay in a folder.
func settingsOf(folder string) map[string]string {
	return map[string]string{
		"data": folder, "listen": "127.0.0.1:0", "log.level": "warn", "limits.call_rate": "0", "limits.streams": "0",
		"limits.streams_of_key": "0", "nodes.allow": strings.Join(commands, ","),
	}
}

// servePatchbay does the same as "patchbay serve", and serves profiles.
func servePatchbay(ctx context.Context, folder, side string) error {
	settings, _, err := config.Load(config.Sources{Flags: settingsOf(folder)})
	if err != nil {
		return err
	}
	key := os.Getenv(keyVariable)
	return app.Serve(ctx, settings, app.Options{Version: "bench", Logs: os.Stderr, Ready: func(at string, _ *app.Base) {
		if err := json.NewEncoder(os.Stdout).Encode(process{URL: webSocket(at), Key: key, Debug: side}); err != nil {
			fail(err)
		}
	}})
}

func webSocket(url string) string { return "ws" + strings.TrimPrefix(url, "http") }

// keyVariable names the environment variable with the key that servePatchbay prints.
const keyVariable = "PATCHBAY_BENCH_KEY"

// patchbay is the built program, and a data folder with an account and a key.
type patchbay struct {
	program, folder, key string
}

// build builds the program, unless one is given, and creates a key.
func build(ctx context.Context, folder, program string) (*patchbay, error) {
	p := &patchbay{program: program, folder: folder}
	if program == "" {
		p.program = filepath.Join(folder, "patchbay")
		cmd := exec.CommandContext(ctx, "go", "build", "-o", p.program, "patchbay/cmd/patchbay")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if said, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("build: %w: %s", err, said)
		}
	}
	if _, err := p.run(ctx, "user", "add", "bench"); err != nil {
		return nil, err
	}
	said, err := p.run(ctx, "key", "add", "--name", "bench", "--scope", "operator,admin,node", "--json")
	if err != nil {
		return nil, err
	}
	var made struct {
		Key string `json:"key"`
	}
	if err := json.Unmarshal(said, &made); err != nil {
		return nil, fmt.Errorf("key add: %w: %s", err, said)
	}
	p.key = made.Key
	return p, nil
}

// command returns a command line of the program.
func (p *patchbay) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, p.program, args...)
	cmd.Env = os.Environ()
	for name, value := range settingsOf(p.folder) {
		cmd.Env = append(cmd.Env, "PATCHBAY_"+strings.ToUpper(strings.ReplaceAll(name, ".", "_"))+"="+value)
	}
	return cmd
}

func (p *patchbay) run(ctx context.Context, args ...string) ([]byte, error) {
	cmd := p.command(ctx, args...)
	cmd.Stderr = os.Stderr
	said, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("patchbay %s: %w", strings.Join(args, " "), err)
	}
	return said, nil
}

// startPatchbay starts "patchbay serve".
func startPatchbay(ctx context.Context, folder, program string) (*process, error) {
	p, err := build(ctx, folder, program)
	if err != nil {
		return nil, err
	}
	return start(p.command(ctx, "serve", "--json"), func(at *process, text string) (bool, error) {
		var ready struct {
			URL string `json:"url"`
		}
		err := json.Unmarshal([]byte(text), &ready)
		at.URL, at.Key = webSocket(ready.URL), p.key
		return true, err
	})
}

// startOpen starts the same in a process of this program, which serves profiles.
func startOpen(ctx context.Context, folder, program string) (*process, error) {
	p, err := build(ctx, folder, program)
	if err != nil {
		return nil, err
	}
	if err := os.Setenv(keyVariable, p.key); err != nil {
		return nil, err
	}
	return startSelf(ctx, "patchbay", folder)
}

// collect runs the garbage collector, and returns memory to the system.
func collect(w http.ResponseWriter, _ *http.Request) {
	for range 4 { // each run at most halves stacks that were deep once
		runtime.GC()
	}
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	json.NewEncoder(w).Encode(memory{Heap: m.HeapAlloc, Stacks: m.StackInuse, Goroutines: runtime.NumGoroutine()}) //nolint:errcheck // the client has left
}

// memory holds the runtime statistics of the server.
type memory struct {
	Heap       uint64 `json:"heap"` // live, in bytes
	Stacks     uint64 `json:"stacks"`
	Goroutines int    `json:"goroutines"`
}

func startRelay(ctx context.Context, _, _ string) (*process, error) {
	p, err := startSelf(ctx, "relay")
	if err == nil {
		p.bare = true
	}
	return p, err
}

// startOpenClaw starts a real OpenClaw gateway with a home folder of its own. It checks for no
// updates, does not announce itself, and discovers nothing on the network.
func startOpenClaw(ctx context.Context, home, _ string) (*process, error) {
	top, err := filepath.Abs(filepath.Join("test", "peers", "openclaw"))
	if err != nil {
		return nil, err
	}
	node, err := filepath.Glob(filepath.Join(top, "node_modules", "node-*", "bin", "node"))
	if err != nil || len(node) == 0 {
		return nil, errors.New("run `npm ci` in test/peers/openclaw first, and start at the top of the repository")
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	const token = "token-of-a-benchmark"
	type m = map[string]any
	settings, err := json.Marshal(m{
		"gateway": m{
			"mode": "local", "port": port, "bind": "loopback", "auth": m{"mode": "token", "token": token},
			// sshVerify is on by default: the gateway would log in to private addresses that
			// connect to it.
			"nodes": m{"commands": m{"allow": commands}, "pairing": m{"sshVerify": false}},
		},
		"update": m{"checkOnStart": false}, "discovery": m{"mdns": m{"mode": "off"}},
		"models": m{"catalogRefresh": m{"enabled": false}},
		"agents": m{"defaults": m{"heartbeat": m{"every": "0m"}}},
	})
	state := filepath.Join(home, ".openclaw")
	if err == nil {
		err = os.MkdirAll(state, 0o700)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(state, "openclaw.json"), settings, 0o600)
	}
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, node[0], filepath.Join(top, "node_modules", "openclaw", "openclaw.mjs"), "gateway",
		"run", "--port", strconv.Itoa(port))
	cmd.Dir = home
	cmd.Env = []string{
		"PATH=" + filepath.Dir(node[0]) + string(os.PathListSeparator) + os.Getenv("PATH"), "HOME=" + home,
		"TMPDIR=" + os.TempDir(),
		"OPENCLAW_STATE_DIR=" + state, "OPENCLAW_NO_AUTO_UPDATE=1", "OPENCLAW_DISABLE_BONJOUR=1",
		"OPENCLAW_NO_RESPAWN=1",
		"DO_NOT_TRACK=1", "OPENCLAW_TELEMETRY_ENDPOINT=http://127.0.0.1:9/none", "NO_COLOR=1",
	}
	return start(cmd, func(p *process, text string) (bool, error) {
		p.URL, p.Key = "ws://127.0.0.1:"+strconv.Itoa(port), token
		return strings.Contains(text, "[gateway] ready"), nil
	})
}

// freePort returns a port that nothing listens on.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
