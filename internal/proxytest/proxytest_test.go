package proxytest

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// echo is a server that returns what it receives.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				io.Copy(c, c) //nolint:errcheck // the proxy closes it
			}()
		}
	}()
	return l.Addr().String()
}

func dial(t *testing.T, p *Proxy) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c.(*net.TCPConn)
}

func say(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := c.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
}

func hear(t *testing.T, c net.Conn, text string) {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(time.Minute)) //nolint:errcheck // TCP has it
	got := make([]byte, len(text))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != text {
		t.Fatalf("heard %q, %v, want %q", got, err, text)
	}
}

// silent checks that nothing arrives for a while.
func silent(t *testing.T, c net.Conn) {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(30 * time.Millisecond)) //nolint:errcheck // TCP has it
	n, err := c.Read(make([]byte, 1))
	if ne := net.Error(nil); n > 0 || !errors.As(err, &ne) || !ne.Timeout() {
		t.Fatalf("%d bytes, %v", n, err)
	}
}

func ended(t *testing.T, c net.Conn) {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(time.Minute)) //nolint:errcheck // TCP has it
	_, err := c.Read(make([]byte, 1))
	if ne := net.Error(nil); err == nil || errors.As(err, &ne) && ne.Timeout() {
		t.Fatalf("it goes on: %v", err)
	}
}

func TestProxy(t *testing.T) {
	p := New(t, echo(t))
	old := dial(t, p)
	say(t, old, "one")
	hear(t, old, "one")

	p.Mute()
	say(t, old, "two")
	silent(t, old)
	late := dial(t, p)
	say(t, late, "three")
	silent(t, late)
	p.Pass()
	hear(t, old, "two")
	hear(t, late, "three")

	p.MuteExisting()
	say(t, old, "four")
	fresh := dial(t, p)
	say(t, fresh, "five")
	hear(t, fresh, "five")
	silent(t, old)

	p.Slow(50 * time.Millisecond)
	began := time.Now()
	say(t, fresh, "six")
	hear(t, fresh, "six")
	if took := time.Since(began); took < 100*time.Millisecond {
		t.Errorf("there and back took %v", took)
	}

	p.Cut()
	for _, c := range []net.Conn{old, late, fresh} {
		ended(t, c)
	}
	if c, err := net.Dial("tcp", p.Addr()); err == nil { // it may have been reset before the call returns
		defer c.Close()
		ended(t, c)
	}
	p.Pass()
	again := dial(t, p)
	say(t, again, "seven")
	hear(t, again, "seven")
	p.Drop()
	ended(t, again)
}

// TestOrderlyEnd checks that data sent before a close arrives before it.
func TestOrderlyEnd(t *testing.T) {
	p := New(t, echo(t))
	c := dial(t, p)
	long := strings.Repeat("x", 1<<20)
	go func() {
		io.WriteString(c, long) //nolint:errcheck // it is read below
		c.CloseWrite()          //nolint:errcheck // it is read below
	}()
	c.SetReadDeadline(time.Now().Add(time.Minute)) //nolint:errcheck // TCP has it
	if got, err := io.ReadAll(c); len(got) != len(long) || err != nil {
		t.Errorf("%d bytes came back, %v", len(got), err)
	}
}
