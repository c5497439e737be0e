package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"patchbay/internal/netx"
	"patchbay/internal/relay"
	"patchbay/internal/relay/link"
	"patchbay/internal/relay/wire"
)

// What a client wants of a home, by its first byte after the hello.
const (
	wantEcho = 'e'
	wantSink = 's' // the home counts, and answers with a byte at the end
)

// piece is the size of one message there and back, and chunk that of a write of the throughput.
const (
	piece = 64
	chunk = 256 << 10
)

// serve is what a home does with a connection.
func serve(c net.Conn) {
	defer c.Close()
	var head [1]byte
	hello := make([]byte, len(helloOf("home000.relay.test")))
	if _, err := io.ReadFull(c, hello); err != nil {
		return
	}
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return
	}
	c.Write(head[:]) //nolint:errcheck // the client sees it
	if head[0] == wantEcho {
		io.Copy(c, c) //nolint:errcheck // it ends
		return
	}
	b := make([]byte, chunk)
	for {
		if _, err := c.Read(b); err != nil {
			break
		}
	}
	c.Write(head[:]) //nolint:errcheck // the client sees it
}

// helloOf is a TLS hello for a name, of the same length for names of the same length.
func helloOf(name string) []byte {
	here, there := net.Pipe()
	defer there.Close()
	go func() {
		tls.Client(here, &tls.Config{ServerName: name, InsecureSkipVerify: true, CurvePreferences: []tls.CurveID{tls.X25519}}).Handshake() //nolint:errcheck,gosec // it ends with the pipe
		here.Close()
	}()
	b := make([]byte, 4<<10)
	n, _ := there.Read(b) //nolint:errcheck // it is there
	return b[:n]
}

// dial opens a connection to a home and waits until it answers.
func dial(address, name string, want byte) (net.Conn, time.Duration, error) {
	c, err := net.Dial("tcp", address)
	if err != nil {
		return nil, 0, err
	}
	began := time.Now()
	if _, err = c.Write(append(helloOf(name), want)); err == nil {
		_, err = io.ReadFull(c, make([]byte, 1))
	}
	return c, time.Since(began), err
}

func nameOf(i int) string { return fmt.Sprintf("home%03x.%s", i, domain) }

// home starts a link of a home.
func home(ctx context.Context, folder relay.Folder, address string, i int, running *sync.WaitGroup) error {
	code, err := folder.Add(relay.Home{Name: fmt.Sprintf("home%03x", i)})
	if err != nil {
		return err
	}
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	l := link.New(link.Options{Servers: []string{address}, Codes: []wire.Code{code}, Instance: "one",
		Load:   func(context.Context, string) (link.Memory, error) { return link.Memory{Key: key}, nil },
		Save:   func(context.Context, string, link.Memory) error { return nil },
		Logger: slog.New(slog.DiscardHandler)})
	running.Go(func() { l.Run(ctx) }) //nolint:errcheck // it returns nil
	running.Go(func() {
		for {
			c, err := l.HTTPS.Accept()
			if err != nil {
				return
			}
			go serve(c)
		}
	})
	context.AfterFunc(ctx, func() { l.HTTPS.Close() })
	if l.Await(ctx); ctx.Err() != nil {
		return ctx.Err()
	}
	return nil
}

func run(ctx context.Context, o options) (r result, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	temp, err := os.MkdirTemp("", "patchbay-relay-")
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(temp)
	through, err := start("relay", temp)
	if err != nil {
		return r, err
	}
	defer through.stop()
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	if err := home(ctx, relay.Folder(temp), through.Address, 0, &running); err != nil {
		return r, err
	}
	direct, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return r, err
	}
	defer direct.Close()
	go func() {
		for {
			c, err := direct.Accept()
			if err != nil {
				return
			}
			go serve(c)
		}
	}()
	bare, err := start("proxy", direct.Addr().String())
	if err != nil {
		return r, err
	}
	defer bare.stop()
	if err := r.compare(ctx, o, bare.Address, through.Address); err != nil {
		return r, err
	}
	return r, r.fill(ctx, o, relay.Folder(temp), through, &running)
}

// rounds is how often proxy and relay take turns, so that both see the same machine.
const rounds = 4

// compare measures latency and throughput of both, in turns.
func (r *result) compare(ctx context.Context, o options, bare, through string) error {
	var times [2][]time.Duration
	var one, many [2]float64
	for range rounds {
		for i, address := range []string{bare, through} {
			took, err := latency(ctx, address, o.span/rounds)
			if err != nil {
				return err
			}
			times[i] = append(times[i], took...)
			for _, streams := range []int{1, 8} {
				rate, err := throughput(ctx, address, o.span/rounds, streams)
				if err != nil {
					return err
				}
				if streams == 1 {
					one[i] += rate / rounds
				} else {
					many[i] += rate / rounds
				}
			}
		}
	}
	r.ProxyP50, r.ProxyP99 = percentiles(times[0])
	r.RelayP50, r.RelayP99 = percentiles(times[1])
	r.ProxyOne, r.RelayOne, r.ProxyMany, r.RelayMany = one[0], one[1], many[0], many[1]
	return nil
}

func percentiles(list []time.Duration) (p50, p99 float64) {
	if len(list) == 0 {
		return 0, 0
	}
	slices.Sort(list)
	micros := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }
	return micros(list[len(list)/2]), micros(list[len(list)*99/100])
}

// latency measures messages there and back.
func latency(ctx context.Context, address string, span time.Duration) (list []time.Duration, err error) {
	c, _, err := dial(address, nameOf(0), wantEcho)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	b := make([]byte, piece)
	for until := time.Now().Add(span); time.Now().Before(until) && ctx.Err() == nil; {
		began := time.Now()
		if _, err := c.Write(b); err != nil {
			return nil, err
		}
		if _, err := io.ReadFull(c, b); err != nil {
			return nil, err
		}
		list = append(list, time.Since(began))
	}
	return list, nil
}

// throughput measures streams in one direction, in bytes per second until the last one has arrived.
func throughput(ctx context.Context, address string, span time.Duration, streams int) (float64, error) {
	var total atomic.Int64
	var failed atomic.Pointer[error]
	var all sync.WaitGroup
	began := time.Now()
	for range streams {
		all.Go(func() {
			if err := send(ctx, address, span, &total); err != nil {
				failed.Store(&err)
			}
		})
	}
	all.Wait()
	if err := failed.Load(); err != nil {
		return 0, *err
	}
	return float64(total.Load()) / time.Since(began).Seconds(), nil
}

func send(ctx context.Context, address string, span time.Duration, total *atomic.Int64) error {
	c, _, err := dial(address, nameOf(0), wantSink)
	if err != nil {
		return err
	}
	defer c.Close()
	b := make([]byte, chunk)
	for until := time.Now().Add(span); time.Now().Before(until) && ctx.Err() == nil; {
		n, err := c.Write(b)
		if total.Add(int64(n)); err != nil {
			return err
		}
	}
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		return err
	}
	_, err = io.ReadFull(c, b[:1])
	return err
}

// spareFiles are the open files of each process that are no streams.
const spareFiles = 600

// affordable is the possible number of connections to each home. The relay has two open files for
// each, and three for each home; this process has both other ends.
func affordable(o options) (int, error) {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil { // Go sets it to l.Max
		return 0, err
	}
	// A home with some connections has as many spare ones as streamsPerSpare of the relay allows.
	each := (int(min(l.Cur, 1<<30)) - spareFiles - 4*o.homes) / (2 * o.homes)
	if each <= 0 {
		return 0, errors.New("too few open files are allowed")
	}
	return min(o.each, each), nil
}

// fill connects all homes, and clients to them, and reads the memory of the relay.
func (r *result) fill(ctx context.Context, o options, folder relay.Folder, through *process,
	running *sync.WaitGroup) error {
	each, err := affordable(o)
	if err != nil {
		return err
	}
	for i := 1; i < o.homes; i++ {
		if err := home(ctx, folder, through.Address, i, running); err != nil {
			return err
		}
	}
	var setups []time.Duration
	for range each {
		for i := range o.homes {
			c, took, err := dial(through.Address, nameOf(i), wantEcho)
			if err != nil {
				return fmt.Errorf("connection %d: %w", r.Connections, err)
			}
			defer c.Close()
			setups = append(setups, took)
			r.Connections++
		}
	}
	const rest = 2 * time.Second // the spare connections come back
	if err := netx.Wait(ctx, rest); err != nil {
		return err
	}
	r.Homes = o.homes
	r.SetupP50, r.SetupP99 = percentiles(setups)
	r.Memory, err = through.memory()
	return err
}
