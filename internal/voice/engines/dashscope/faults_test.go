package dashscope_test

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"patchbay/internal/voice/engine"
	"patchbay/internal/voice/engines/dashscope"
	"patchbay/internal/voice/engines/dashscope/dashscopetest"
	"patchbay/internal/voice/engines/socket/sockettest"
)

// fault is a case of TestFaults.
type fault struct {
	sockettest.Fault
	stage         string
	listen, speak engine.Class // empty: no failure
}

// faults are all cases.
func faults() (list []fault) {
	for f, class := range map[sockettest.Fault]engine.Class{sockettest.Refuse: engine.Closed,
		sockettest.BadTLS: engine.Closed, sockettest.Unauthorized: engine.Auth, sockettest.Forbidden: engine.Auth,
		sockettest.NotFound: engine.Input, sockettest.TooMany: engine.Quota, sockettest.Failing: engine.Broken,
		sockettest.Overloaded: engine.Busy, sockettest.HangBefore: engine.Timeout,
		sockettest.HangAfter: engine.Timeout, dashscopetest.WrongID: engine.Broken,
		dashscopetest.Throttled: engine.Quota, dashscopetest.Internal: engine.Broken,
		dashscopetest.NoModel: engine.Input, dashscopetest.Early: engine.Broken} {
		list = append(list, fault{f, "", class, class})
	}
	for f, class := range map[sockettest.Fault]engine.Class{sockettest.Hang: engine.Timeout,
		sockettest.Cut: engine.Closed, sockettest.HalfFrame: engine.Closed, sockettest.BadFrame: engine.Broken,
		sockettest.Slow: engine.Timeout, sockettest.Garbage: engine.Broken, sockettest.Huge: engine.Broken,
		sockettest.BusyClose: engine.Busy} {
		for _, stage := range []string{dashscopetest.Start, dashscopetest.First, dashscopetest.Middle,
			dashscopetest.Last} {
			list = append(list, fault{f, stage, class, class})
		}
	}
	return append(list, fault{dashscopetest.EmptyText, "", "", ""},
		fault{dashscopetest.LongText, "", engine.Broken, ""}, fault{dashscopetest.DoubleEnd, "", "", ""}, fault{dashscopetest.NoSound, "", "", engine.Broken},
		fault{dashscopetest.Endless, "", "", engine.Broken})
}

// TestFaults checks every fault at every stage: its class, that it ends in time, that neither the
// key nor what was said is in errors or the log, and that nothing is left.
func TestFaults(t *testing.T) {
	var all sync.WaitGroup
	for _, f := range faults() {
		all.Go(func() { f.check(t) })
	}
	all.Wait()
}

func (f fault) check(t *testing.T) {
	name := fmt.Sprintf("%s %s", f.Fault, f.stage)
	server := dashscopetest.New(t, dashscopetest.Options{Options: sockettest.Options{Fault: f.Fault, Stage: f.stage},
		Transcript: func([]int16) string { return "secret words" }})
	var log sockettest.Log
	e := newEngine(t, server, dashscope.Settings{}, &log)
	begin := time.Now()
	list, err := sockettest.Listen(t.Context(), e, sockettest.Ramp(5*1600), engine.Hints{})
	f.verdict(t, name+", listening", f.listen, err)
	if want := map[bool]string{true: "", false: "secret words"}[f.Fault == dashscopetest.EmptyText]; f.listen == "" &&
		(len(list) == 0 || list[len(list)-1] != engine.Transcript{Text: want, Final: true}) {
		t.Errorf("%s: %+v", name, list)
	}
	_, _, err = sockettest.Speak(t.Context(), e, engine.Manner{}, "One secret.", "Two secrets.")
	f.verdict(t, name+", speaking", f.speak, err)
	if took := time.Since(begin); took > 15*time.Second {
		t.Errorf("%s took %s", name, took)
	}
	if text := log.String(); strings.Contains(text, dashscopetest.Key) || strings.Contains(text, "secret words") ||
		strings.Contains(text, "One secret") {
		t.Errorf("%s: a secret is in the log: %s", name, text)
	}
	if v := server.Violations(); len(v) > 0 {
		t.Errorf("%s: violations %q", name, v)
	}
	e.Close()
	sockettest.Eventually(t, name+": a WebSocket is left", func() bool { return server.Open() == 0 })
}

// verdict checks an error.
func (f fault) verdict(t *testing.T, name string, class engine.Class, err error) {
	e := engine.AsError(err)
	switch {
	case class == "" && err != nil, class != "" && (e == nil || e.Class != class):
		t.Errorf("%s: %v, want %q", name, err, class)
	case e == nil:
	case strings.Contains(e.Error(), dashscopetest.Key), strings.Contains(e.Error(), "secret words"):
		t.Errorf("%s: a secret is in the error: %v", name, e)
	case (f.Fault == sockettest.TooMany || f.Fault == sockettest.Overloaded) != (e.RetryAfter == sockettest.RetryAfter):
		t.Errorf("%s: retry after %s", name, e.RetryAfter)
	}
}

// A connection that died while it waited is replaced, and nobody notices.
func TestStale(t *testing.T) {
	for _, f := range []sockettest.Fault{sockettest.Cut, sockettest.Hang, sockettest.HalfFrame} {
		server := dashscopetest.New(t, dashscopetest.Options{Options: sockettest.Options{Fault: f,
			Stage: dashscopetest.Again}, Transcript: func([]int16) string { return "hello" }})
		e := newEngine(t, server, dashscope.Settings{}, io.Discard)
		for i := range 2 {
			list, err := sockettest.Listen(t.Context(), e, sockettest.Ramp(5000), engine.Hints{})
			if err != nil || list[len(list)-1].Text != "hello" {
				t.Errorf("%s: %+v, %v", f, list, err)
			}
			if said, _, err := sockettest.Speak(t.Context(), e, engine.Manner{}, "Hello."); err != nil || len(said) != 1 {
				t.Errorf("%s: %q, %v", f, said, err)
			}
			if want := 2 * (i + 1); server.Opened() != want {
				t.Errorf("%s: %d connections, want %d", f, server.Opened(), want)
			}
		}
		clean(t, server, e)
	}
}
