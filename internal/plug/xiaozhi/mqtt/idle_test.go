package mqtt

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var (
	idleBoards = flag.Int("idle", 0, "measure with so many boards, which are in another process")
	idleTLS    = flag.Bool("idle.tls", false, "and TLS")
	idleFor    = flag.Duration("idle.push", 10*time.Second, "push for so long")
)

// farSide is the environment variable with the server's address for the process with the boards.
const farSide = "PATCHBAY_MQTT_BOARDS"

// TestMain runs the process with the boards if farSide is set.
func TestMain(m *testing.M) {
	if addr := os.Getenv(farSide); addr != "" {
		if err := boards(addr); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// boards connects the specified number of boards, each of which echoes messages, until stdin ends.
func boards(spec string) error {
	f := strings.Fields(spec) // address, count, TLS
	n, err := strconv.Atoi(f[1])
	if err != nil {
		return err
	}
	conns := make([]net.Conn, n)
	var failed atomic.Pointer[error]
	var wg sync.WaitGroup
	places := make(chan struct{}, 64) // limits concurrent connects
	for i := range conns {
		places <- struct{}{}
		wg.Go(func() {
			defer func() { <-places }()
			conn, err := arriveAt(f[0], f[2] == "true", i)
			if err != nil {
				failed.Store(&err)
				return
			}
			conns[i] = conn
		})
	}
	wg.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	for _, conn := range conns {
		go sendBack(conn)
	}
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, os.Stdin)
	return nil
}

func arriveAt(addr string, secure bool, i int) (net.Conn, error) {
	conn, err := net.Dial("tcp4", addr)
	if err != nil {
		return nil, err
	}
	if secure {
		conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // a certificate of the test's
	}
	if _, err := conn.Write(connectFor(fmt.Sprintf("02:00:00:%02x:%02x:%02x", i>>16, i>>8&255, i&255),
		600)); err != nil {
		return nil, err
	}
	ack := make([]byte, 4)
	if _, err := io.ReadFull(conn, ack); err != nil {
		return nil, err
	}
	if string(ack) != string(connAck) {
		return nil, fmt.Errorf("answer %x", ack)
	}
	return conn, nil
}

func sendBack(conn net.Conn) {
	in := bufio.NewReaderSize(conn, 512)
	var buf [2]byte
	for {
		h, err := readHead(in, &buf)
		if err != nil {
			return
		}
		body := make([]byte, h.length)
		if _, err := io.ReadFull(in, body); err != nil {
			return
		}
		topic := int(binary.BigEndian.Uint16(body))
		if _, err := conn.Write(message(DefaultTopic, string(body[2+topic:]))); err != nil {
			return
		}
	}
}

// pinger is a session whose board echoes timestamps.
type pinger struct {
	conn *Conn
	took chan<- time.Duration
}

func (p *pinger) Message(b []byte) {
	p.took <- time.Since(time.Unix(0, int64(binary.BigEndian.Uint64(b))))
}
func (p *pinger) Closed(error) {}

// Idle boards use little memory, and pushing to them takes little time. With -idle 10000 this is a
// measurement; by default it is a test with few boards.
func TestIdle(t *testing.T) {
	n, span, secure := 50, time.Second, false
	if *idleBoards > 0 {
		n, span, secure = *idleBoards, *idleFor, *idleTLS
	}
	var conf *tls.Config
	if secure {
		conf = certificate(t)
	}
	took := make(chan time.Duration, 1<<16)
	var mu sync.Mutex
	var conns []*Conn
	r := newRig(t, Options{Rate: 1e6, Burst: 1e6, NewSession: func(c *Conn) Session {
		mu.Lock()
		defer mu.Unlock()
		conns = append(conns, c)
		return &pinger{c, took}
	}}, conf)
	before := measure()
	begin := time.Now()
	stop := farBoards(t, fmt.Sprint(r.addr, " ", n, " ", secure))
	defer stop()
	arrived := time.Since(begin)
	r.until("connected", func() bool { mu.Lock(); defer mu.Unlock(); return len(conns) == n })
	report := func(when string) {
		after := measure()
		t.Logf("%s: per connection RSS %d, heap %d, stacks %d, all from the system %d bytes; %d goroutines", when,
			(after.rss-before.rss)/n, (after.heap-before.heap)/n, (after.stack-before.stack)/n,
			(after.sys-before.sys)/n, after.goroutines-before.goroutines)
		if perConn := (after.heap + after.stack - before.heap - before.stack) / n; !secure && !raced &&
			perConn > 20<<10 {
			t.Errorf("%s: %d bytes per connection", when, perConn)
		}
	}
	t.Logf("%d boards, TLS %t, arrived in %v", n, secure, arrived.Round(time.Millisecond))
	report("idle")

	// Throughput with 64 round trips in progress.
	delays := roundTrips(t, conns, took, span, 64)
	t.Logf("%.0f pushes and answers/s with 64 at once: p50 %v, p99 %v", float64(len(delays))/span.Seconds(),
		at(delays, 50), at(delays, 99))
	// Rounds of pushes to all boards.
	pushing, calls := rounds(t, conns, took, span)
	t.Logf("%.0f pushes/s by one goroutine to all in turn: a call p50 %v, p99 %v",
		float64(len(calls))/pushing.Seconds(), at(calls, 50), at(calls, 99))
	report("afterwards")
}

// roundTrips pushes to one board after the other, with width round trips in progress.
func roundTrips(t *testing.T, conns []*Conn, took <-chan time.Duration, span time.Duration, width int) []time.Duration {
	t.Helper()
	payload := make([]byte, 200)
	var delays []time.Duration
	sent := 0
	next := func() {
		binary.BigEndian.PutUint64(payload, uint64(time.Now().UnixNano()))
		if err := conns[sent%len(conns)].Push(payload); err != nil {
			t.Fatal(err)
		}
		sent++
	}
	for range width {
		next()
	}
	for begin := time.Now(); time.Since(begin) < span; next() {
		delays = append(delays, <-took)
	}
	for range width {
		delays = append(delays, <-took)
	}
	return delays
}

// rounds pushes to all boards, waits for all echoes, and repeats. It returns the time of the
// pushes, without the waiting, and the duration of every call.
func rounds(t *testing.T, conns []*Conn, took <-chan time.Duration,
	span time.Duration) (pushing time.Duration, calls []time.Duration) {
	t.Helper()
	payload := make([]byte, 200)
	for begin := time.Now(); time.Since(begin) < span; {
		round := time.Now()
		last := round
		for _, c := range conns {
			binary.BigEndian.PutUint64(payload, uint64(last.UnixNano()))
			if err := c.Push(payload); err != nil {
				t.Fatal(err)
			}
			now := time.Now()
			calls = append(calls, now.Sub(last))
			last = now
		}
		pushing += last.Sub(round)
		for range conns {
			<-took
		}
	}
	return pushing, calls
}

func at(d []time.Duration, percent int) time.Duration {
	slices.Sort(d)
	return d[min(len(d)-1, len(d)*percent/100)].Round(time.Microsecond)
}

// farBoards starts the process with the boards, and returns when all are connected.
func farBoards(t *testing.T, spec string) (stop func()) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), farSide+"="+spec)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop = func() {
		_ = in.Close()
		_, _ = io.Copy(io.Discard, out)
		if err := cmd.Wait(); err != nil {
			t.Errorf("the boards: %v", err)
		}
		cancel()
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "ready\n" {
		stop()
		t.Fatalf("the boards say %q, %v", line, err)
	}
	return stop
}

type memory struct{ rss, heap, stack, sys, goroutines int }

func measure() memory {
	for range 3 { // stacks shrink by half each time
		runtime.GC()
	}
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	out := memory{heap: int(m.HeapAlloc), stack: int(m.StackInuse), sys: int(m.Sys - m.HeapReleased),
		goroutines: runtime.NumGoroutine()}
	if data, err := os.ReadFile("/proc/self/statm"); err == nil {
		if f := strings.Fields(string(data)); len(f) > 1 {
			pages, _ := strconv.Atoi(f[1])
			out.rss = pages * os.Getpagesize()
		}
	}
	return out
}
