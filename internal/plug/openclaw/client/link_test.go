package client_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"patchbay/internal/plug/openclaw/client"
	"patchbay/internal/plug/openclaw/client/clienttest"
	"patchbay/internal/plug/openclaw/wire"
)

func open(t *testing.T, o client.Options) *client.Link {
	t.Helper()
	l := client.Open(o)
	t.Cleanup(l.Close)
	return l
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), clienttest.Timeout)
	t.Cleanup(cancel)
	return ctx
}

// A lost connection is re-established, and OnConnect has returned before any caller gets the new
// one.
func TestLink(t *testing.T) {
	g := clienttest.Start(t, clienttest.Options{})
	o := as(g)
	var ups atomic.Int32
	o.OnConnect = func(ctx context.Context, c *client.Conn) error {
		ups.Add(1)
		_, err := c.Call(ctx, "prepare", nil)
		return err
	}
	l := open(t, o)
	p := g.Peer()
	r := p.Next("prepare")
	if s := l.State(); s.Connected || ups.Load() != 1 {
		t.Errorf("%+v", s)
	}
	p.Answer(r, nil)
	first, err := l.Conn(within(t))
	if err != nil {
		t.Fatal(err)
	}
	if s := l.State(); !s.Connected || s.Since.IsZero() || s.Version != "2026.9.6" || s.Problem != nil {
		t.Errorf("%+v", s)
	}
	p.Close(wire.CloseRestart, "service restart")
	<-first.Done()
	p = g.Peer()
	p.Fail(p.Next("prepare"), wire.Starting) // it is retried
	p = g.Peer()
	p.Answer(p.Next("prepare"), nil)
	second, err := l.Conn(within(t))
	if err != nil || second == first {
		t.Fatal(err)
	}
	l.Close()
	if code := p.CloseCode(); code != wire.CloseNormal {
		t.Errorf("closed with %d", code)
	}
	var tr *client.ConnectionError
	if _, err := l.Conn(within(t)); !errors.As(err, &tr) || tr.Problem != client.Closed || l.State().Connected {
		t.Errorf("%v", err)
	}
}

// Callers do not wait for an error that only a person can fix, and do not trigger attempts in quick
// succession.
func TestLinkRefused(t *testing.T) {
	g := clienttest.Start(t, clienttest.Options{Admit: refuse(wire.TokenMismatch(false))})
	l := open(t, as(g))
	for range 50 {
		var tr *client.ConnectionError
		if _, err := l.Conn(within(t)); !errors.As(err, &tr) || tr.Problem != client.Token {
			t.Fatal(err)
		}
	}
	if n := len(g.Attempts()); n > 2 {
		t.Errorf("%d attempts", n)
	}
	if s := l.State(); s.Problem == nil || time.Until(s.NextTry) < time.Minute {
		t.Errorf("%+v", s)
	}
}

// Callers wait for an unreachable gateway as long as their context lasts.
func TestLinkWaits(t *testing.T) {
	var ready atomic.Bool
	g := clienttest.Start(t, clienttest.Options{Admit: func(*wire.Connect) *wire.Error {
		if !ready.Load() {
			return wire.Starting
		}
		return nil
	}})
	l := open(t, as(g))
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	var tr *client.ConnectionError
	if _, err := l.Conn(ctx); !errors.As(err, &tr) || tr.Problem != client.Starting {
		t.Fatal(err)
	}
	ready.Store(true)
	if _, err := l.Conn(within(t)); err != nil {
		t.Fatal(err)
	}
}

// After the owner has approved the device, the link connects by itself.
func TestLinkApproved(t *testing.T) {
	var approved atomic.Bool
	g := clienttest.Start(t, clienttest.Options{Admit: func(c *wire.Connect) *wire.Error {
		if approved.Load() {
			return nil
		}
		e := wire.PairingRequired(wire.PairNew, "abc", c.Device.ID, c.Role, true)
		e.RetryAfter = 50 * time.Millisecond
		return e
	}})
	l := open(t, as(g))
	if _, err := l.Conn(within(t)); err == nil {
		t.Fatal("it was not approved")
	}
	approved.Store(true)
	g.Peer()
}
