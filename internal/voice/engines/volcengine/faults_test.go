package volcengine_test

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"patchbay/internal/voice/engine"
	"patchbay/internal/voice/engines/socket/sockettest"
	"patchbay/internal/voice/engines/volcengine"
	"patchbay/internal/voice/engines/volcengine/volcenginetest"
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
		sockettest.HangAfter: engine.Timeout, volcenginetest.WrongLength: engine.Broken,
		volcenginetest.BadGzip: engine.Broken, volcenginetest.Busy: engine.Busy,
		volcenginetest.Parameters: engine.Input, volcenginetest.Internal: engine.Broken,
		volcenginetest.NoQuota: engine.Quota} {
		list = append(list, fault{f, "", class, class})
	}
	for f, class := range map[sockettest.Fault]engine.Class{sockettest.Hang: engine.Timeout,
		sockettest.Cut: engine.Closed, sockettest.HalfFrame: engine.Closed, sockettest.BadFrame: engine.Broken,
		sockettest.Slow: engine.Timeout, sockettest.Garbage: engine.Broken, sockettest.Huge: engine.Broken,
		sockettest.BusyClose: engine.Busy} {
		for _, stage := range []string{volcenginetest.First, volcenginetest.Middle, volcenginetest.Last} {
			list = append(list, fault{f, stage, class, class})
		}
		for _, stage := range []string{volcenginetest.Connect, volcenginetest.Start} {
			list = append(list, fault{f, stage, "", class}) // of speakers only
		}
	}
	return append(list, fault{volcenginetest.EmptyText, "", "", ""},
		fault{volcenginetest.LongText, "", engine.Broken, ""}, fault{volcenginetest.DoubleEnd, "", "", ""},
		fault{volcenginetest.NoSpeech, "", "", ""}, fault{volcenginetest.WrongID, "", "", engine.Broken},
		fault{volcenginetest.NoSound, "", "", engine.Broken}, fault{volcenginetest.Endless, "", "", engine.Broken})
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
	server := volcenginetest.New(t, volcenginetest.Options{Options: sockettest.Options{Fault: f.Fault, Stage: f.stage},
		Transcript: func([]int16) string { return "secret words" }})
	var log sockettest.Log
	e := newEngine(t, server, volcengine.Settings{}, &log)
	begin := time.Now()
	list, err := sockettest.Listen(t.Context(), e, sockettest.Ramp(5*3200), engine.Hints{})
	f.verdict(t, name+", listening", f.listen, err)
	want := "secret words"
	if f.Fault == volcenginetest.EmptyText || f.Fault == volcenginetest.NoSpeech {
		want = ""
	}
	if f.listen == "" && (len(list) == 0 || list[len(list)-1] != engine.Transcript{Text: want, Final: true}) {
		t.Errorf("%s: %+v", name, list)
	}
	_, _, err = sockettest.Speak(t.Context(), e, engine.Manner{}, "One secret.", "Two secrets.")
	f.verdict(t, name+", speaking", f.speak, err)
	if took := time.Since(begin); took > 15*time.Second {
		t.Errorf("%s took %s", name, took)
	}
	text := log.String()
	if strings.Contains(text, volcenginetest.AccessKey) || strings.Contains(text, volcenginetest.AppKey) ||
		strings.Contains(text, "secret words") || strings.Contains(text, "One secret") {
		t.Errorf("%s: a secret is in the log: %s", name, text)
	}
	if f.Fault == volcenginetest.Internal && !strings.Contains(text, volcenginetest.LogID) {
		t.Errorf("%s: the log id is not in the log: %s", name, text)
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
	case strings.Contains(e.Error(), volcenginetest.AccessKey), strings.Contains(e.Error(), "secret words"):
		t.Errorf("%s: a secret is in the error: %v", name, e)
	case (f.Fault == sockettest.TooMany || f.Fault == sockettest.Overloaded) != (e.RetryAfter == sockettest.RetryAfter):
		t.Errorf("%s: retry after %s", name, e.RetryAfter)
	}
}

// A connection that died while it waited is replaced, and nobody notices.
func TestStale(t *testing.T) {
	for _, f := range []sockettest.Fault{sockettest.Cut, sockettest.Hang, sockettest.HalfFrame} {
		server := volcenginetest.New(t, volcenginetest.Options{Options: sockettest.Options{Fault: f,
			Stage: volcenginetest.Again}})
		e := newEngine(t, server, volcengine.Settings{}, io.Discard)
		for i := range 2 {
			said, _, err := sockettest.Speak(t.Context(), e, engine.Manner{}, "Hello.")
			if err != nil || len(said) != 1 || server.Opened() != i+1 {
				t.Errorf("%s: %q, %v, %d connections", f, said, err, server.Opened())
			}
		}
		clean(t, server, e)
	}
}
