package realtime

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"patchbay/internal/voice/realtime"
	"patchbay/internal/voice/realtime/realtimetest"
)

// pipes is a listener in memory, for the clock of synctest.
type pipes struct {
	conns chan net.Conn
	over  chan struct{}
	once  sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), over: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.over:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.over) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 80} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, near := net.Pipe()
	far, there := net.Pipe()
	go forward(near, far)
	go forward(far, near)
	select {
	case p.conns <- there:
		return here, nil
	case <-p.over:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// forward writes what comes from one connection to another. As a network does, it takes some of
// that before it is read.
func forward(from, to net.Conn) {
	defer to.Close()
	queue := make(chan []byte, 1000)
	go func() {
		defer close(queue)
		for {
			b := make([]byte, 4096)
			n, err := from.Read(b)
			if err != nil {
				return
			}
			queue <- b[:n]
		}
	}()
	for b := range queue {
		_, _ = to.Write(b) // fails when it is closed
	}
}

// A conversation that lasts for more than two hours, with a provider that ends sessions after one,
// is answered without a failure, and each session knows what was said in the one before.
func TestHours(t *testing.T) {
	forSpellings(t, func(t *testing.T, spelling realtime.Spelling) {
		synctest.Test(t, func(t *testing.T) {
			var asked atomic.Int64
			network := newPipes()
			r := newRig(t, realtimetest.Options{Spelling: spelling, Lifetime: time.Hour, Listener: network,
				Transcript: func([]int16) string { return fmt.Sprintf("Question %d.", asked.Add(1)) }}, nil, nil)
			r.options.Dial = network.dial
			r.onUsage = func(realtime.Usage) {}
			c := r.converse(turn())
			began := time.Now()
			for i := 1; time.Since(began) < 130*time.Minute; i++ {
				got, err := r.say(t.Context(), c, newPlayback())
				if want := fmt.Sprintf("You said: Question %d.", i); err != nil || got.text != want {
					t.Fatalf("after %s: %+v, %v, want %q", time.Since(began), got, err, want)
				}
				time.Sleep(25 * time.Second)
			}
			all := r.server.Sessions()
			if len(all) != 3 {
				t.Fatalf("%d sessions", len(all))
			}
			for i := 1; i < len(all); i++ {
				said := slices.DeleteFunc(slices.Clone(all[i-1].Said),
					func(s string) bool { return !strings.HasPrefix(s, "bot: You said") })
				last := strings.TrimPrefix(said[len(said)-1], "bot: ")
				if told := strings.Join(all[i].Said, "|") + string(all[i].Update); !strings.Contains(told, last) {
					t.Errorf("session %d does not know %q", i, last)
				}
			}
			c.Close()
		})
	})
}
