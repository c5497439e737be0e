package stream

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"patchbay/internal/voice/engine"
	"patchbay/internal/voice/engines/stream/streamtest"
)

// faultClasses are the classes of faults; those of others are in [classOf].
var faultClasses = map[streamtest.Fault]engine.Class{
	streamtest.Refuse: engine.Closed, streamtest.Unauthorized: engine.Auth, streamtest.Forbidden: engine.Auth,
	streamtest.NotFound: engine.Input, streamtest.TooMany: engine.Quota, streamtest.Failing: engine.Broken,
	streamtest.Overloaded: engine.Busy, streamtest.HangBefore: engine.Timeout, streamtest.HangAfter: engine.Timeout,
	streamtest.HalfFrame: engine.Closed, streamtest.Garbage: engine.Broken, streamtest.BadFrame: engine.Broken,
	streamtest.CutFirst: engine.Closed, streamtest.CutMiddle: engine.Closed, streamtest.CutLast: engine.Closed,
	streamtest.SilentEnd: engine.Timeout, streamtest.HugeText: engine.Broken, streamtest.LongText: engine.Broken,
	streamtest.BusyClose: engine.Busy,
}

// classOf returns the class of a fault; empty: there is a final transcript. FunASR says nothing if
// there is no more speech, so its silence is no fault.
func classOf(dialect string, f streamtest.Fault) engine.Class {
	if dialect == FunASR && (f == streamtest.SilentEnd || f == streamtest.HangAfter) {
		return ""
	}
	return faultClasses[f]
}

// Each fault ends the utterance in time, with its class, without the key, and without goroutines.
func TestFaults(t *testing.T) {
	for _, dialect := range dialects {
		for _, f := range streamtest.Faults {
			t.Run(dialect+" "+string(f), func(t *testing.T) { testFault(t, dialect, f) })
		}
	}
}

func testFault(t *testing.T, dialect string, f streamtest.Fault) {
	s := streamtest.New(t, streamtest.Options{Dialect: dialect, Fault: f, LeaveOpen: dialect == FunASR,
		Transcribe: func([]int16) string { return "text" }})
	var log buffer
	limits := defaultLimits
	if class := classOf(dialect, f); class == engine.Timeout || class == "" { // nothing may come
		limits = short
	}
	l := newTest(t, Settings{URL: s.URL + "/?k=" + key, Dialect: dialect, APIKey: key}, limits, &log)
	begin := time.Now()
	list, err := listen(t, l, ramp(5*pieceSamples))
	if took := time.Since(begin); took > 8*time.Second {
		t.Errorf("it took %s", took)
	}
	checkFault(t, classOf(dialect, f), f, list, err)
	if err != nil && strings.Contains(err.Error(), key) || strings.Contains(log.String(), key) {
		t.Errorf("the key is in an error or the log: %v\n%s", err, log.String())
	}
	noGoroutines(t)
}

func checkFault(t *testing.T, class engine.Class, f streamtest.Fault, list []engine.Transcript, err error) {
	t.Helper()
	if class == "" {
		want := "text"
		if f == streamtest.SilentEnd || f == streamtest.HangAfter || f == streamtest.EmptyText {
			want = ""
		}
		if err != nil || len(list) == 0 || list[len(list)-1] != (engine.Transcript{Text: want, Final: true}) {
			t.Errorf("%+v, %v", list, err)
		}
		return
	}
	var e *engine.Error
	if !errors.As(err, &e) || e.Class != class {
		t.Fatalf("%v, want %s", err, class)
	}
	after := time.Duration(0)
	if f == streamtest.TooMany || f == streamtest.Overloaded {
		after = streamtest.RetryAfter
	}
	if e.RetryAfter != after {
		t.Errorf("retry after %s", e.RetryAfter)
	}
}

// buffer is a [bytes.Buffer] for several goroutines.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// noGoroutines checks that no goroutine of the package runs. One that has just ended may still be
// listed.
func noGoroutines(t *testing.T) {
	t.Helper()
	stacks := make([]byte, 1<<20)
	eventually(t, "goroutines are left", func() bool {
		all := string(stacks[:runtime.Stack(stacks, true)])
		return !strings.Contains(all, "stream.(*utterance)") && !strings.Contains(all, "engine.ListenLive")
	})
}

// The context ends everything at once, at every stage.
func TestContext(t *testing.T) {
	for _, f := range []streamtest.Fault{streamtest.HangBefore, streamtest.HangAfter, streamtest.SilentEnd,
		streamtest.None} {
		t.Run(string(f), func(t *testing.T) {
			s := streamtest.New(t, streamtest.Options{Dialect: Sherpa, Fault: f})
			l := newTest(t, Settings{URL: s.URL, Dialect: Sherpa}, limits{connect: time.Minute, write: time.Minute,
				speech: time.Minute, result: time.Minute, silence: time.Minute, lost: time.Minute}, &buffer{})
			ctx, cancel := context.WithCancel(t.Context())
			u, err := engine.ListenLive(l.recognise).Listen(ctx, engine.Hints{})
			must(t, err)
			must(t, u.Write(ramp(3000)))
			if f == streamtest.SilentEnd {
				must(t, u.Finish())
			}
			time.AfterFunc(20*time.Millisecond, cancel)
			begin := time.Now()
			if _, err := u.Next(); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			if err := u.Write(ramp(10)); !errors.Is(err, context.Canceled) {
				t.Error("Write:", err)
			}
			u.Close()
			if took := time.Since(begin); took > 2*time.Second {
				t.Errorf("it took %s", took)
			}
			noGoroutines(t)
			if _, err := engine.ListenLive(l.recognise).Listen(ctx, engine.Hints{}); !errors.Is(err, context.Canceled) {
				t.Error("Listen:", err)
			}
		})
	}
}

// Close ends Next, and waits for the goroutines.
func TestClose(t *testing.T) {
	s := streamtest.New(t, streamtest.Options{Dialect: Vosk})
	l := newTest(t, Settings{URL: s.URL, Dialect: Vosk}, defaultLimits, &buffer{})
	u, err := engine.ListenLive(l.recognise).Listen(t.Context(), engine.Hints{})
	must(t, err)
	ended := make(chan error)
	go func() {
		_, err := u.Next()
		ended <- err
	}()
	u.Close()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	noGoroutines(t)
}
