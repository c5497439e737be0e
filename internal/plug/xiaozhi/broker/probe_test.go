package broker

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"patchbay/internal/plug/xiaozhi/mqtt"
)

// Silent boards are probed, and end if they do not answer.
func TestSilence(t *testing.T) {
	for _, bare := range []bool{false, true} {
		t.Run(fmt.Sprint("bare ", bare), func(t *testing.T) {
			h := newFakeBroker(t)
			r := newRig(t, Options{URL: h.url(), ProbeInterval: 20 * time.Millisecond, SilenceTimeout: time.Hour}, nil)
			r.bare = bare
			r.until("up", "", 1)
			b := dialBoard(t, h.l.Addr().String(), name1, "", "")
			b.say("hello")
			r.next("connected")
			r.next("message")
			for range 10 {
				if bare {
					if text := b.hear(); text != DefaultProbePayload {
						t.Fatalf("%s", text)
					}
				} else {
					r.next("probe")
				}
				b.say("here")
				r.after("probe", "message")
			}
			r.c.mu.Lock()
			r.c.opt.SilenceTimeout = 50 * time.Millisecond
			r.c.mu.Unlock()
			if e := r.after("probe", "gone"); !errors.Is(e.err, mqtt.ErrSilent) {
				t.Errorf("gone: %v", e.err)
			}
		})
	}
}

// No board ends that was not probed, or has answered.
func TestQuiet(t *testing.T) {
	r := newRig(t, Options{URL: "mqtt://127.0.0.1:1"}, nil) // never connects; the test calls silentConns
	probe, silent := r.c.opt.ProbeInterval, r.c.opt.SilenceTimeout
	const never = 1000 * time.Hour
	for _, c := range []struct {
		name          string
		heard, probed time.Duration // before now
		joined        time.Duration // before now
		asked, ends   bool
	}{
		{"it has just said something", time.Second, never, never, false, false},
		{"it has just said something, and then there was a new connection", 2 * time.Second, never, time.Second, true,
			false},
		{"it was asked since there is a new connection", 3 * time.Second, time.Second, 2 * time.Second, false, false},
		{"it is quiet", probe + 1, never, never, true, false},
		{"it is quiet, and was asked", probe + time.Second, time.Second, never, false, false},
		{"it was asked long ago", 2 * probe, probe, never, true, false},
		{"it is silent, and was asked before it was", silent, silent + 1, never, true, false},
		{"it is silent", silent + 1, silent, never, false, true},
	} {
		r.c.mu.Lock()
		conn := r.c.connFor(mac1, name1)
		r.c.mu.Unlock()
		r.next("connected")
		now := time.Now()
		conn.lastHeard.Store(now.Add(-c.heard).UnixNano())
		r.c.mu.Lock()
		conn.probedAt, r.c.connectedAt = now.Add(-c.probed), now.Add(-c.joined)
		r.c.mu.Unlock()
		if asked := len(r.c.silentConns()) > 0; asked != c.asked || conn.isEnded() != c.ends {
			t.Errorf("%s: asked %v, ended %v", c.name, asked, conn.isEnded())
		}
		conn.Close()
		if e := r.next("gone"); errors.Is(e.err, mqtt.ErrSilent) != c.ends {
			t.Errorf("%s: %v", c.name, e.err)
		}
	}
}

// after returns the first event other than first; it must be what.
func (r *rig) after(first, what string) sessionEvent {
	r.t.Helper()
	for {
		select {
		case e := <-r.events:
			if e.what == what {
				return e
			}
			if e.what != first {
				r.t.Fatalf("%s %q %v, want %s", e.what, e.text, e.err, what)
			}
		case <-time.After(patience):
			r.t.Fatalf("not %s", what)
		}
	}
}
