package pace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// script is a source that waits for wait[i] before packet i, with which texts[i] begins.
type script struct {
	n, i   int
	wait   map[int]time.Duration
	texts  map[int]string
	err    error // at the end, instead of io.EOF
	closed int
	packet [1]byte
}

func (s *script) Next(ctx context.Context) ([]byte, error) {
	if d := s.wait[s.i]; d > 0 {
		select {
		case <-time.After(d):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	if s.i == s.n {
		if s.err != nil {
			return nil, s.err
		}
		return nil, io.EOF
	}
	s.packet[0] = byte(s.i)
	s.i++
	return s.packet[:], nil
}

func (s *script) Text() (text string, ok bool) {
	text, ok = s.texts[s.i-1]
	return text, ok
}

func (s *script) Close() error { s.closed++; return nil }

// sentLog records what was sent when, in ms since its start.
type sentLog struct {
	start time.Time
	lines []string
	times []time.Duration
}

func newSentLog() *sentLog { return &sentLog{start: time.Now()} }

func (l *sentLog) hooks() Hooks {
	return Hooks{
		Send: func(packet []byte, at time.Duration) error {
			l.lines = append(l.lines, fmt.Sprintf("%d:%d", time.Since(l.start).Milliseconds(), packet[0]))
			l.times = append(l.times, time.Since(l.start))
			return nil
		},
		Text: func(text string) error {
			l.lines = append(l.lines, fmt.Sprintf("%d:%s", time.Since(l.start).Milliseconds(), text))
			return nil
		},
	}
}

const ms = time.Millisecond

// simulateBoard plays like a board. It returns the maximum number of packets that waited, and for
// how long the board had none before the end of the sound.
func simulateBoard(sent []time.Duration, frame time.Duration) (most int, silent time.Duration) {
	var ends time.Duration
	for i, t := range sent {
		if i == 0 || t > ends {
			if i > 0 {
				silent += t - ends
			}
			ends = t
		}
		ends += frame
		// One of the packets is being played.
		most = max(most, int((ends-t-1)/frame))
	}
	return most, silent
}

func TestPlay(t *testing.T) {
	for name, c := range map[string]struct {
		options Options
		source  *script
		sent    string
		took    time.Duration
		stats   Stats
	}{
		"in time": {Options{}, &script{n: 6}, "[0:0 0:1 0:2 60:3 120:4 180:5]", 360*ms + 150*ms,
			Stats{Frames: 6}},
		"nothing": {Options{}, &script{}, "[]", 0, Stats{}},
		"none ahead, no tail, 20 ms": {Options{Frame: 20 * ms, Ahead: -1, Tail: -1}, &script{n: 3},
			"[0:0 20:1 40:2]", 60 * ms, Stats{Frames: 3}},
		"one ahead": {Options{Ahead: 1, Tail: 200 * ms}, &script{n: 4},
			"[0:0 0:1 60:2 120:3]", 440 * ms, Stats{Frames: 4}},
		"the first comes late": {Options{}, &script{n: 4, wait: map[int]time.Duration{0: 500 * ms}},
			"[500:0 500:1 500:2 560:3]", 500*ms + 240*ms + 150*ms, Stats{Frames: 4}},
		"slow, and nobody hears it": {Options{}, &script{n: 6,
			wait: map[int]time.Duration{3: 50 * ms, 4: 50 * ms, 5: 50 * ms}},
			"[0:0 0:1 0:2 60:3 120:4 180:5]", 360*ms + 150*ms, Stats{Frames: 6}},
		// Packet 3 is due at 60 and comes at 100; the board needs it at 180.
		"late, and nobody hears it": {Options{}, &script{n: 6, wait: map[int]time.Duration{3: 100 * ms}},
			"[0:0 0:1 0:2 100:3 120:4 180:5]", 360*ms + 150*ms, Stats{Frames: 6, Late: 1, MaxLateness: 40 * ms}},
		// It comes at 170. The player catches up, and the end does not move.
		"a stall that is caught up with": {Options{}, &script{n: 8, wait: map[int]time.Duration{3: 170 * ms}},
			"[0:0 0:1 0:2 170:3 170:4 180:5 240:6 300:7]", 480*ms + 150*ms,
			Stats{Frames: 8, Stalls: 1, Late: 2, MaxLateness: 110 * ms}},
		// It comes at 1000; the board has been silent since 180.
		"a stall that is heard": {Options{}, &script{n: 8, wait: map[int]time.Duration{3: 1000 * ms}},
			"[0:0 0:1 0:2 1000:3 1000:4 1000:5 1060:6 1120:7]", 1300*ms + 150*ms,
			Stats{Frames: 8, Gaps: 1, Silence: 820 * ms}},
		"two stalls": {Options{}, &script{n: 4, wait: map[int]time.Duration{1: 100 * ms, 2: 100 * ms}},
			"[0:0 100:1 200:2 200:3]", 320*ms + 150*ms, Stats{Frames: 4, Gaps: 2, Silence: 80 * ms}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, l := NewPlayer(c.options), newSentLog()
				stats, err := p.Play(t.Context(), p.Generation(), c.source, l.hooks())
				if err != nil {
					t.Fatal(err)
				}
				if fmt.Sprint(l.lines) != c.sent {
					t.Errorf("sent %v, not %s", l.lines, c.sent)
				}
				if took := time.Since(l.start); took != c.took {
					t.Errorf("it took %s, not %s", took, c.took)
				}
				if n := stats.Jitter.Count(); n != uint64(c.stats.Frames) {
					t.Errorf("%d lengths in the histogram", n)
				}
				stats.Jitter = Histogram{}
				if stats != c.stats {
					t.Errorf("%+v, not %+v", stats, c.stats)
				}
				if most, silent := simulateBoard(l.times, p.frame); most > int(p.lead/p.frame) ||
					silent != c.stats.Silence {
					t.Errorf("at most %d packets wait, and %s of silence", most, silent)
				}
				if c.source.closed != 1 {
					t.Errorf("the source was closed %d times", c.source.closed)
				}
			})
		})
	}
}

// TestErrorsDoNotAddUp plays ten minutes while every send is slow by a little.
func TestErrorsDoNotAddUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPlayer(Options{})
		start, n := time.Now(), 0
		stats, err := p.Play(t.Context(), 0, &script{n: 10000}, Hooks{Send: func([]byte, time.Duration) error {
			time.Sleep(7 * ms)
			if want := max(0, time.Duration(n-2)*60*ms); n > 3 && time.Since(start) != want+7*ms {
				t.Fatalf("packet %d is sent after %s, not %s", n, time.Since(start), want+7*ms)
			}
			n++
			return nil
		}})
		if err != nil || time.Since(start) != 10000*60*ms+150*ms || stats.Gaps != 0 || stats.Late != 0 {
			t.Errorf("%v, %s, %+v", err, time.Since(start), stats)
		}
	})
}

func TestNotBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, l := NewPlayer(Options{}), newSentLog()
		h := l.hooks()
		h.NotBefore = time.Now().Add(50 * ms)
		stats, err := p.Play(t.Context(), 0, &script{n: 4}, h)
		if err != nil || fmt.Sprint(l.lines) != "[50:0 50:1 50:2 110:3]" || stats.MaxLateness != 0 {
			t.Errorf("%v, %v, %+v", err, l.lines, stats)
		}
	})
}

// TestAbort aborts at every millisecond: nothing is sent afterwards.
func TestAbort(t *testing.T) {
	for after := range 300 * ms / ms {
		synctest.Test(t, func(t *testing.T) {
			p, l := NewPlayer(Options{}), newSentLog()
			src := &script{n: 5, wait: map[int]time.Duration{4: 60 * ms}}
			time.AfterFunc(after*ms+ms/2, func() {
				if !p.Abort() {
					t.Error("nothing played")
				}
			})
			_, err := p.Play(t.Context(), 0, src, l.hooks())
			if !errors.Is(err, ErrAborted) || time.Since(l.start) != after*ms+ms/2 || src.closed != 1 {
				t.Fatalf("aborted after %s: %v after %s", after*ms, err, time.Since(l.start))
			}
			if last := l.times[len(l.times)-1]; last > after*ms+ms/2 {
				t.Fatalf("aborted after %s: sent after %s", after*ms, last)
			}
		})
	}
}

// TestGenerations aborts before Play, and plays a newer generation.
func TestGenerations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, l := NewPlayer(Options{}), newSentLog()
		old := p.Generation()
		if p.Abort() {
			t.Error("nothing played, and was aborted")
		}
		stale := &script{n: 3}
		if _, err := p.Play(t.Context(), old, stale, l.hooks()); !errors.Is(err, ErrAborted) || len(l.lines) > 0 ||
			stale.closed != 1 {
			t.Errorf("%v, %v", err, l.lines)
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := p.Play(t.Context(), p.Generation(), &script{n: 3}, l.hooks()); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		second := &script{n: 3}
		if _, err := p.Play(t.Context(), p.Generation(), second, Hooks{}); !errors.Is(err, ErrBusy) ||
			second.closed != 1 {
			t.Error(err)
		}
		wg.Wait()
		if _, err := p.Play(t.Context(), p.Generation(), &script{n: 1}, l.hooks()); err != nil || len(l.lines) != 4 {
			t.Errorf("%v, %v", err, l.lines)
		}
	})
}

func TestContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone := errors.New("the board is gone")
		for _, after := range []time.Duration{0, 100 * ms, 400 * ms} { // before, during, in the tail
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(after, func() { cancel(gone) })
			if after == 0 {
				cancel(gone)
			}
			p, l := NewPlayer(Options{}), newSentLog()
			_, err := p.Play(ctx, 0, &script{n: 5}, l.hooks())
			if !errors.Is(err, gone) || time.Since(l.start) != after || (after == 0) != (len(l.lines) == 0) {
				t.Errorf("%s: %v after %s, %v", after, err, time.Since(l.start), l.lines)
			}
		}
	})
}

func TestFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken")
		p, l := NewPlayer(Options{}), newSentLog()
		// The sent packets are played even if no more come.
		if _, err := p.Play(t.Context(), 0, &script{n: 4, err: broken}, l.hooks()); !errors.Is(err, broken) ||
			time.Since(l.start) != 240*ms+150*ms {
			t.Errorf("%v after %s", err, time.Since(l.start))
		}
		// After an error of Send, Play does not wait for the board.
		start, n := time.Now(), 0
		if _, err := p.Play(t.Context(), 0, &script{n: 9}, Hooks{Send: func([]byte, time.Duration) error {
			if n++; n == 4 {
				return broken
			}
			return nil
		}}); !errors.Is(err, broken) || time.Since(start) != 60*ms || n != 4 {
			t.Errorf("%v after %s and %d", err, time.Since(start), n)
		}
		h := l.hooks()
		h.Text = func(string) error { return broken }
		if _, err := p.Play(t.Context(), 0, &script{n: 1, texts: map[int]string{0: "a"}}, h); !errors.Is(err, broken) {
			t.Error(err)
		}
	})
}

func TestTexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, l := NewPlayer(Options{}), newSentLog()
		src := &script{n: 4, texts: map[int]string{0: "one", 3: "two"}}
		stats, err := p.Play(t.Context(), 0, src, l.hooks())
		want := []string{"0:one", "0:0", "0:1", "0:2", "60:two", "60:3"}
		if err != nil || !slices.Equal(l.lines, want) || stats.Texts != 2 || stats.Frames != 4 {
			t.Errorf("%v, %q, %+v", err, l.lines, stats)
		}
	})
}

func TestPlayingAllocatesNothing(t *testing.T) {
	allocations := func(frames int) float64 {
		p := NewPlayer(Options{Frame: 100 * time.Microsecond, Tail: -1})
		return testing.AllocsPerRun(3, func() {
			if _, err := p.Play(t.Context(), 0, &script{n: frames},
				Hooks{Send: func([]byte, time.Duration) error { return nil }}); err != nil {
				t.Error(err)
			}
		})
	}
	if few, many := allocations(10), allocations(1010); many > few+5 {
		t.Errorf("%v allocations for 10 packets, %v for 1010", few, many)
	}
}

func TestHistogram(t *testing.T) {
	var h, other Histogram
	if h.Quantile(0.5) != 0 {
		t.Error("nothing has a median")
	}
	for range 98 {
		h.Add(ms)
	}
	h.Add(ms + 1)
	other.Add(time.Second)
	h.Merge(other)
	for q, want := range map[float64]time.Duration{0: ms, 0.5: ms, 0.98: ms, 0.99: 2 * ms, 1: time.Hour} {
		if got := h.Quantile(q); got != want {
			t.Errorf("quantile %v is %s, not %s", q, got, want)
		}
	}
}
