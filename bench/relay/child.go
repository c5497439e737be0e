package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"patchbay/internal/relay"
	"patchbay/internal/relay/wire"
)

// childFlag makes this program the relay, or the proxy. It is for internal use.
const childFlag = "-child"

const domain = "relay.test"

// process is a relay or a proxy.
type process struct {
	Address string `json:"address"`
	cmd     *exec.Cmd
	in      io.WriteCloser
}

// start starts a child with arguments: relay FOLDER, or proxy ADDRESS.
func start(args ...string) (*process, error) {
	own, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.Command(own, append([]string{childFlag}, args...)...)}
	p.cmd.Stderr = os.Stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	return p, json.NewDecoder(bufio.NewReader(out)).Decode(p)
}

func (p *process) stop() {
	p.in.Close()
	p.cmd.Wait() //nolint:errcheck // it is over
}

// memory returns the resident memory in bytes (proc(5), VmRSS).
func (p *process) memory() (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return kb << 10, err
		}
	}
	return 0, fmt.Errorf("no VmRSS")
}

// child serves until standard input ends.
func child(args []string) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		io.Copy(io.Discard, os.Stdin) //nolint:errcheck // it ends
		stop()
		l.Close()
	}()
	json.NewEncoder(os.Stdout).Encode(process{Address: l.Addr().String()}) //nolint:errcheck // the parent sees it
	if args[0] == "proxy" {
		return proxy(l, args[1])
	}
	folder := relay.Folder(args[1])
	key, err := folder.Key()
	if err != nil {
		return err
	}
	const any = 1 << 20
	s, err := relay.New(relay.Options{Domain: domain, Folder: folder, Key: key,
		Limits: relay.Limits{Connections: any, Streams: any, AddressRate: any, HomeRate: any, Hellos: any,
			HellosOfAddress: any}, Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry()})
	if err != nil {
		return err
	}
	return s.Run(ctx, relay.Listener{Listener: l, Kind: wire.HTTPS})
}

// proxy is the bare hop.
func proxy(l net.Listener, to string) error {
	for {
		from, err := l.Accept()
		if err != nil {
			return nil //nolint:nilerr // it is closed
		}
		go func() {
			defer from.Close()
			there, err := net.Dial("tcp", to)
			if err != nil {
				return
			}
			defer there.Close()
			var both sync.WaitGroup
			both.Go(func() {
				io.Copy(from, there)             //nolint:errcheck // it ends
				from.(*net.TCPConn).CloseWrite() //nolint:errcheck // likewise
			})
			io.Copy(there, from)              //nolint:errcheck // it ends
			there.(*net.TCPConn).CloseWrite() //nolint:errcheck // likewise
			both.Wait()
		}()
	}
}
