package remote

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"patchbay/internal/tool"
)

// Calls are sent in order; a canceled one leaves the queue; too many are refused; the client's own
// requests go first.
func TestQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{}, calls(func(a asked) []string {
			time.Sleep(time.Second)
			return []string{textResult(a.id, a.args)}
		}))
		r.start()
		var wg sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for i := range 1 + maxWaiting {
			ctx := ctx
			if i != 5 {
				ctx = t.Context()
			}
			wg.Go(func() {
				args := fmt.Sprintf(`{"volume":%d}`, i)
				got, err := r.call(ctx, volume, args)
				switch {
				case i == 5 && errors.Is(err, context.Canceled):
				case err != nil || got.PlainText() != args:
					t.Errorf("%d: %v, %v", i, got, err)
				}
			})
			synctest.Wait()
		}
		if _, err := r.call(t.Context(), volume, `{}`); code(err) != tool.Busy {
			t.Error(err)
		}
		wg.Go(func() {
			if err := r.Ping(t.Context()); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		cancel()
		wg.Wait()
		want := []string{`{"volume":0}`, ""} // the latter is the ping
		for i := 1; i <= maxWaiting; i++ {
			if i != 5 {
				want = append(want, fmt.Sprintf(`{"volume":%d}`, i))
			}
		}
		var got []string
		for _, a := range r.got[2:] {
			got = append(got, a.args)
		}
		if !slices.Equal(got, want) {
			t.Error(got)
		}
	})
}

// A failed Send does not block later requests.
func TestUnsent(t *testing.T) {
	broken := errors.New("broken pipe")
	var works atomic.Bool
	var r *rig
	works.Store(true)
	r = newRig(t, Options{Send: func(payload []byte) error {
		if !works.Load() {
			return broken
		}
		r.inbox <- payload
		return nil
	}}, fw24.answer)
	r.start()
	works.Store(false)
	if _, err := r.call(t.Context(), volume, `{"volume":1}`); code(err) != tool.Offline {
		t.Error(err)
	}
	if err := r.Ping(t.Context()); !errors.Is(err, broken) {
		t.Error(err)
	}
	works.Store(true)
	if _, err := r.call(t.Context(), volume, `{"volume":1}`); err != nil {
		t.Error(err)
	}
}

// A response before Send has returned is accepted.
func TestQuickAnswer(t *testing.T) {
	var c *Client
	c = New(Options{Known: Catalog{Tools: []tool.Tool{{Name: "a"}}}, Send: func(payload []byte) error {
		c.HandleMessage([]byte(textResult(1, "quick")))
		return nil
	}})
	defer c.Close(nil)
	if got, err := c.Call(t.Context(), &tool.Call{Tool: "a"}); err != nil || got.PlainText() != "quick" {
		t.Error(got, err)
	}
}

// Whenever calls are canceled, the turn is not lost, and no call gets the response of another.
func TestTurnIsNeverLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{}, calls(func(a asked) []string {
			time.Sleep(time.Duration(a.id%3) * 10 * time.Millisecond)
			if a.id%7 == 0 {
				return nil
			}
			return []string{textResult(a.id, a.args)}
		}))
		r.start()
		var wg sync.WaitGroup
		var done, gone atomic.Int64
		for worker := range maxWaiting {
			wg.Go(func() {
				for i := range 50 {
					// A multiple of 10 ms, so that responses arrive at the same moment.
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration((worker+i)%30)*10*time.Millisecond)
					args := fmt.Sprintf(`{"volume":%d}`, worker*100+i)
					got, err := r.call(ctx, volume, args)
					cancel()
					switch {
					case err == nil && got.PlainText() != args:
						t.Errorf("%s got %s", args, got.PlainText())
					case err == nil:
						done.Add(1)
					case errors.Is(err, context.DeadlineExceeded):
						gone.Add(1)
						time.Sleep(time.Second)
					case code(err) != tool.TimedOut:
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		if done.Load() == 0 || gone.Load() == 0 {
			t.Errorf("%d were done and %d gave up", done.Load(), gone.Load())
		}
		time.Sleep(DefaultTimeout)
		synctest.Wait()
		if r.busy || r.inFlight != nil || len(r.waiting) > 0 {
			t.Error("somebody keeps the turn")
		}
	})
}

// A call is canceled at the moment it gets the turn, and a request times out at the moment of its
// response.
func TestSameMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{}, calls(func(a asked) []string {
			if strings.Contains(a.args, "77") {
				time.Sleep(time.Second)
				return []string{textResult(a.id, "second")}
			}
			return nil
		}))
		r.start()
		go func() { _, _ = r.call(t.Context(), volume, `{"volume":1}`) }()
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan error, 1)
		go func() {
			_, err := r.call(ctx, volume, `{"volume":2}`)
			gone <- err
		}()
		synctest.Wait()
		r.Client.mu.Lock()
		first := r.inFlight
		cancel()
		r.finish(first, answer{failure: ErrSilent})
		r.Client.mu.Unlock()
		if err := <-gone; err != context.Canceled {
			t.Error(err)
		}
		time.AfterFunc(time.Second/2, func() {
			r.Client.mu.Lock()
			defer r.Client.mu.Unlock()
			if len(first.done) == 0 { // otherwise it would block
				r.finish(first, answer{failure: ErrSilent})
			}
		})
		ctx, cancel = context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if got, err := r.call(ctx, volume, `{"volume":77}`); err != nil || got.PlainText() != "second" {
			t.Error(got, err)
		}
	})
}
