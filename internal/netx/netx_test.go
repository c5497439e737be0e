package netx

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestWait(t *testing.T) {
	gone := errors.New("gone")
	for _, c := range []struct {
		name      string
		d, cancel time.Duration // cancel: when ctx ends; negative: never
		took      time.Duration
		want      error
	}{
		{"waits", time.Minute, -1, time.Minute, nil},
		{"the context ends", time.Minute, time.Second, time.Second, gone},
		{"the context ends later", time.Second, time.Minute, time.Second, nil},
		{"nothing to wait for", 0, -1, 0, nil},
		{"in the past", -time.Second, -1, 0, nil},
		{"the context has ended", time.Minute, 0, 0, gone},
		{"the context has ended, and nothing to wait for", 0, 0, 0, gone},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				if c.cancel == 0 {
					cancel(gone)
				} else if c.cancel > 0 {
					defer time.AfterFunc(c.cancel, func() { cancel(gone) }).Stop()
				}
				began := time.Now()
				if err := Wait(ctx, c.d); err != c.want {
					t.Errorf("%v, want %v", err, c.want)
				}
				if took := time.Since(began); took != c.took {
					t.Errorf("it took %v, want %v", took, c.took)
				}
			})
		})
	}
}

func TestWaitUnless(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if !WaitUnless(t.Context(), nil, time.Second) || !WaitUnless(t.Context(), make(chan struct{}), time.Second) {
			t.Error("an undisturbed wait reports an end")
		}
		done := make(chan struct{})
		time.AfterFunc(time.Second, func() { close(done) })
		if WaitUnless(t.Context(), done, time.Hour) {
			t.Error("the end of a wait is not reported")
		}
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("the waits took %v", took)
		}
		if WaitUnless(t.Context(), done, 0) {
			t.Error("done was closed before")
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if WaitUnless(ctx, nil, 0) {
			t.Error("the context had ended before")
		}
	})
}

// A loop that fails is delayed by First, then by twice as long each time, up to Max.
func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := Backoff{First: time.Second, Max: 5 * time.Second}
		for _, want := range []time.Duration{1, 2, 4, 5, 5} {
			began := time.Now()
			if err := Wait(t.Context(), b.Next()); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took != want*time.Second {
				t.Errorf("delay %v, want %v s", took, int64(want))
			}
		}
		b.Reset()
		if d := b.Next(); d != time.Second {
			t.Errorf("after a reset: %v", d)
		}
		b.Next()
		b.Max = 3 * time.Second
		if d := b.Next(); d != 3*time.Second {
			t.Errorf("with a lower limit: %v", d)
		}
		b.Max = time.Minute
		if d := b.Next(); d != 6*time.Second {
			t.Errorf("with a higher limit: %v", d)
		}
	})
}

func TestBackoffWithoutLimit(t *testing.T) {
	b, last := Backoff{First: time.Second}, time.Duration(0)
	for range 100 {
		d := b.Next()
		if d < last || last > 0 && last < noMax/2 && d != 2*last {
			t.Fatalf("%v after %v", d, last)
		}
		last = d
	}
}

func TestJitter(t *testing.T) {
	if d := (Jitter{}).Of(time.Second); d != time.Second {
		t.Errorf("no jitter: %v", d)
	}
	for _, j := range []Jitter{HalfJitter, {1, 1.2}, {0.75, 1.25}, {1, 1}} {
		least, most := time.Duration(j.From*float64(time.Second)), time.Duration(j.To*float64(time.Second))
		distinct := map[time.Duration]bool{}
		for range 100 {
			b := Backoff{First: time.Second, Max: time.Minute, Jitter: j}
			d := b.Next()
			if distinct[d] = true; d < least || d > most {
				t.Errorf("%v: %v", j, d)
			}
			if d = b.Next(); d < 2*least || d > 2*most { // jitter does not accumulate
				t.Errorf("%v: %v is the second delay", j, d)
			}
		}
		if len(distinct) < 50 && least != most {
			t.Errorf("%v has only %d delays", j, len(distinct))
		}
	}
}

func TestIsLoopback(t *testing.T) {
	for host, want := range map[string]bool{"localhost": true, "LocalHost": true, "127.0.0.1": true, "127.8.8.8": true,
		"::1": true, "[::1]": true, "::ffff:127.0.0.1": true, "": false, "localhost.example": false, "0.0.0.0": false,
		"192.0.2.1": false, "::": false, "127.0.0.1:80": false} {
		if got := IsLoopback(host); got != want {
			t.Errorf("%q: %t", host, got)
		}
	}
}
