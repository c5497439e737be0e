package tracing_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"patchbay/internal/check"
	"patchbay/internal/tracing"
	"patchbay/internal/tracing/tracingtest"
)

// rig is a tracer and its metrics.
type rig struct {
	*tracing.Tracer
	reg *prometheus.Registry
	log bytes.Buffer // read it when the tracer is closed
}

func newRig(t *testing.T, o tracing.Options) *rig {
	t.Helper()
	r := &rig{reg: prometheus.NewRegistry()}
	o.Registerer, o.Logger = r.reg, slog.New(slog.NewTextHandler(&r.log, nil))
	o.Version, o.Instance = "1.2.3", "here"
	if o.Percent == 0 {
		o.Percent = 100
	}
	r.Tracer = tracing.New(o)
	t.Cleanup(func() { r.close() })
	return r
}

// close flushes the tracer, in as long as it needs.
func (r *rig) close() { r.Close(context.Background()) }

// count returns a metric, by its outcome if it has one.
func (r *rig) count(t *testing.T, name, outcome string) int {
	t.Helper()
	families, err := r.reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.Metric {
			if f.GetName() == name && (len(m.Label) == 0 || m.Label[0].GetValue() == outcome) {
				return int(m.Counter.GetValue())
			}
		}
	}
	t.Fatalf("there is no metric %s", name)
	return 0
}

const spansTotal = "patchbay_otlp_spans_total"

// What a collector gets is what was started, with the headers of its owner.
func TestExport(t *testing.T) {
	c := tracingtest.New(t)
	r := newRig(t, tracing.Options{URL: c.URL + "/", Headers: map[string]string{"Authorization": "Bearer hunter2"}})
	ctx, turn := r.Start(t.Context(), "turn", "lingzhu")
	turn.Text("empty", "")
	turn.Seconds("patchbay.queued", 1500*time.Millisecond)
	turn.Event("voice.commit", time.Unix(1, 0))
	ctx, chat := r.StartClient(ctx, "chat", "m-1", "https://user:pass@api.example.org/v1/secret?key=k")
	chat.Listed("gen_ai.response.finish_reasons", "stop")
	chat.Number("gen_ai.usage.input_tokens", 0)
	chat.Text("long", strings.Repeat("é", 300))
	chat.Fail("429")
	chat.End()
	_, inner := r.Start(ctx, "execute_tool", "")
	inner.Rename("execute_tool", "lamp_on")
	inner.End()
	turn.End()
	if _, none := r.StartClient(t.Context(), "ping", "", c.URL); none != (tracing.Span{}) {
		t.Error("a request that belongs to nothing has a span")
	}
	r.close()

	got := map[string]tracingtest.Span{}
	for _, s := range c.Spans() {
		got[s.Name] = s
	}
	one, two, three := got["turn lingzhu"], got["chat m-1"], got["execute_tool lamp_on"]
	if len(got) != 3 || one.Trace != two.Trace || one.Trace != three.Trace || one.Parent != "" ||
		two.Parent != one.ID ||
		three.Parent != two.ID || one.Kind != "server" || two.Kind != "client" || three.Kind != "internal" ||
		one.Instance != "here" || one.Failed || !two.Failed || one.Remote {
		t.Errorf("%+v", got)
	}
	if one.Attributes["patchbay.queued"] != "1.5" || len(one.Attributes) != 1 || len(one.Events) != 1 ||
		one.Events[0] != "voice.commit" {
		t.Errorf("%+v", one)
	}
	want := map[string]string{"server.address": "api.example.org", "server.port": "443", "error.type": "429",
		"gen_ai.response.finish_reasons": "[stop]", "gen_ai.usage.input_tokens": "0", "long": strings.Repeat("é", 256)}
	for name, value := range want {
		if two.Attributes[name] != value {
			t.Errorf("%s is %q, not %q", name, two.Attributes[name], value)
		}
	}
	for _, secret := range []string{"secret", "pass", "key=k", "hunter2"} {
		if bytes.Contains(c.Bytes(), []byte(secret)) {
			t.Errorf("%s was sent", secret)
		}
	}
	if h := c.Headers(); len(h) != 1 || h[0].Get("Authorization") != "Bearer hunter2" {
		t.Errorf("%v", h)
	}
	if n := r.count(t, spansTotal, "sent"); n != 3 {
		t.Errorf("%d spans are counted", n)
	}
	if r.log.Len() > 0 {
		t.Errorf("it logs %s", &r.log)
	}
}

// A collector that is busy gets the spans later; one that refuses them does not get them again.
func TestRetries(t *testing.T) {
	for name, tt := range map[string]struct {
		status, sent, lost, failed int
		logged                     string
	}{
		"too many requests": {429, 1, 0, 1, "takes traces again"},
		"unavailable":       {503, 1, 0, 1, "takes traces again"},
		"bad request":       {400, 0, 1, 1, "400 Bad Request: no such tenant"},
		"unauthorized":      {401, 0, 1, 1, "401 Unauthorized"},
		"error":             {500, 0, 1, 1, "500 Internal Server Error"},
		"redirect":          {307, 0, 1, 1, "307 Temporary Redirect"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := tracingtest.New(t)
			var asked atomic.Int32
			answered := make(chan struct{}, 10)
			c.Respond = func(w http.ResponseWriter, _ *http.Request) bool {
				if asked.Add(1) > 1 {
					return false
				}
				defer func() { answered <- struct{}{} }()
				w.Header().Set("Retry-After", "0")
				w.Header().Set("Location", "/elsewhere")
				w.Header().Set("Content-Type", "application/x-protobuf")
				w.WriteHeader(tt.status)
				w.Write([]byte("\x12\x0eno such\ntenant")) //nolint:errcheck // the tracer reads it
				return true
			}
			r := newRig(t, tracing.Options{URL: c.URL, Headers: map[string]string{"X-Key": "hunter2"}})
			_, s := r.Start(t.Context(), "turn", "")
			s.End()
			<-answered
			if tt.sent > 0 {
				c.Await(t, "after the refusal", func(*tracingtest.Span) bool { return true })
			}
			r.close()
			if sent, lost, failed := r.count(t, spansTotal, "sent"), r.count(t, spansTotal, "lost"),
				r.count(t, "patchbay_otlp_failed_requests_total", ""); sent != tt.sent || lost != tt.lost ||
				failed != tt.failed {
				t.Errorf("%d sent, %d lost, %d failed", sent, lost, failed)
			}
			if text := r.log.String(); !strings.Contains(text, tt.logged) || strings.Contains(text, "hunter2") {
				t.Errorf("it logs %s", text)
			}
		})
	}
}

// A collector may take a part.
func TestPartOfSpans(t *testing.T) {
	c := tracingtest.New(t)
	c.Respond = func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Content-Type", "application/x-protobuf")
		w.Write([]byte("\x0a\x08\x08\x02\x12\x04full")) //nolint:errcheck // the tracer reads it
		return true
	}
	r := newRig(t, tracing.Options{URL: c.URL})
	for range 3 {
		_, s := r.Start(t.Context(), "turn", "")
		s.End()
	}
	r.close()
	if r.count(t, spansTotal, "refused") != 2 || r.count(t, spansTotal, "sent") != 1 ||
		!strings.Contains(r.log.String(), "why=full") {
		t.Error(r.log.String())
	}
}

// A collector that never answers stops nobody, neither while spans come nor at the end.
func TestSilentCollector(t *testing.T) {
	c := tracingtest.New(t)
	asked, free := make(chan struct{}, 1), make(chan struct{})
	defer close(free)
	c.Respond = func(_ http.ResponseWriter, r *http.Request) bool {
		asked <- struct{}{}
		select {
		case <-r.Context().Done():
		case <-free:
		}
		return true
	}
	r := newRig(t, tracing.Options{URL: c.URL})
	const spans = 10_000
	start := func() {
		_, s := r.Start(t.Context(), "turn", "")
		s.End()
	}
	start()
	<-asked
	for range spans - 1 {
		start()
	}
	if r.count(t, spansTotal, "dropped") < spans/2 {
		t.Error("the queue has no bound")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	r.Close(ended)
	if sum := r.count(t, spansTotal, "dropped") + r.count(t, spansTotal, "lost"); sum != spans {
		t.Errorf("%d of %d spans are counted", sum, spans)
	}
	start() // does no harm
}

// A collector that is not there stops nobody either, and is logged once.
func TestNoCollector(t *testing.T) {
	c := tracingtest.New(t)
	c.Close()
	r := newRig(t, tracing.Options{URL: c.URL})
	for range 3 {
		_, s := r.Start(t.Context(), "turn", "")
		s.End()
	}
	r.close() // although its context never ends
	if r.count(t, spansTotal, "lost") != 3 || strings.Count(r.log.String(), "\n") != 1 {
		t.Error(r.log.String())
	}
}

const (
	callersTrace = "4bf92f3577b34da6a3ce929d0e0e4736"
	callersLink  = "00-" + callersTrace + "-00f067aa0ba902b7-"
)

// A caller's trace goes on, and our share alone decides whether it is sent.
func TestContinue(t *testing.T) {
	c := tracingtest.New(t)
	all, none := newRig(t, tracing.Options{URL: c.URL}), newRig(t, tracing.Options{URL: c.URL, Percent: -1})
	for _, flags := range []string{"00", "01"} {
		for sampled, r := range map[bool]*rig{true: all, false: none} {
			ctx := r.Continue(t.Context(), tracing.Link{Parent: callersLink + flags, State: "rojo=1"})
			ctx, span := r.Start(ctx, "turn", flags)
			at := trace.SpanContextFromContext(ctx)
			if at.TraceID().String() != callersTrace || at.IsSampled() != sampled ||
				at.TraceState().String() != "rojo=1" {
				t.Errorf("flags %s: %v", flags, at)
			}
			link := r.LinkTo(ctx)
			joined := trace.SpanContextFromContext(r.Join(t.Context(), link))
			if !joined.IsRemote() || joined.SpanID() != at.SpanID() || joined.IsSampled() != sampled {
				t.Errorf("%+v leads to %v", link, joined)
			}
			h := http.Header{"Tracestate": {"old=1"}}
			if link.AddTo(h); all.LinkOf(h) != link {
				t.Errorf("%v", h)
			}
			span.End()
		}
	}
	all.close()
	none.close()
	for _, s := range c.Spans() {
		if s.Kind != "server" || !s.Remote || s.State != "rojo=1" {
			t.Errorf("%+v", s)
		}
	}
	if len(c.Spans()) != 2 || none.count(t, spansTotal, "sent") != 0 {
		t.Errorf("%+v", c.Spans())
	}
}

// Links that are none begin a new trace.
func TestNoLink(t *testing.T) {
	r := newRig(t, tracing.Options{URL: tracingtest.New(t).URL})
	for _, text := range []string{"", "x", callersLink, callersLink + "1", callersLink + "01-x",
		"ff-" + callersTrace + "-00f067aa0ba902b7-01", "00-" + strings.Repeat("0", 32) + "-00f067aa0ba902b7-01",
		"00-" + callersTrace + "-" + strings.Repeat("0", 16) + "-01", strings.ToUpper(callersLink) + "01"} {
		if ctx := r.Continue(t.Context(), tracing.Link{Parent: text}); ctx != t.Context() {
			t.Errorf("%q is continued", text)
		}
	}
	ctx := r.Continue(t.Context(), tracing.Link{Parent: callersLink + "01", State: strings.Repeat("a=1,", 2000)})
	if at := trace.SpanContextFromContext(ctx); !at.IsValid() || at.TraceState().Len() != 0 {
		t.Errorf("%v", at)
	}
}

// Tracing that is off costs nothing.
func TestOff(t *testing.T) {
	off := tracing.New(tracing.Options{})
	h := http.Header{"Traceparent": {callersLink + "01"}}
	ctx := t.Context()
	if n := testing.AllocsPerRun(100, func() {
		in := off.Continue(ctx, off.LinkOf(h))
		in, turn := off.Start(off.Under(in, ctx), "turn", "lingzhu")
		turn.Text("a", "b")
		turn.Listed("a", "b")
		_, call := off.StartClient(in, "tools/call", "x", "http://x")
		call.Number("a", 1)
		call.Fail("x")
		call.End()
		off.Join(in, off.LinkTo(in))
		off.LinkTo(in).AddTo(h)
		turn.End()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	off.Close(ctx)
	if h.Get("Traceparent") != callersLink+"01" {
		t.Errorf("%v", h)
	}
}

// The check tells what is wrong with the collector.
func TestCheck(t *testing.T) {
	gone := tracingtest.New(t)
	gone.Close()
	answer := func(status int) string {
		c := tracingtest.New(t)
		if status != 0 {
			c.Respond = func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(status); return true }
		}
		return c.URL
	}
	for _, tt := range []struct {
		url   string
		state check.State
		words string
	}{
		{answer(0), check.OK, "takes them"},
		{answer(401), check.Fail, "refuses the headers (401 Unauthorized)"},
		{answer(404), check.Fail, "does not take traces (404 Not Found)"},
		{answer(503), check.Fail, "does not take traces (503 Service Unavailable)"},
		{gone.URL, check.Fail, "does not answer"},
	} {
		r := &check.Report{Lang: "en"}
		tracing.Check(t.Context(), r, tracing.Options{URL: tt.url, Headers: map[string]string{"X-Key": "hunter2"}})
		if len(r.Findings) != 1 || r.Findings[0].State != tt.state ||
			!strings.Contains(r.Findings[0].Found, tt.words) || tt.state != check.OK && r.Findings[0].Advice == "" {
			t.Errorf("%+v", r.Findings)
		}
	}
	r := &check.Report{Lang: "en"}
	if tracing.Check(t.Context(), r, tracing.Options{}); len(r.Findings) > 0 {
		t.Errorf("%+v", r.Findings)
	}
}

// No header makes it panic, and none is changed.
func FuzzContinue(f *testing.F) {
	f.Add(callersLink+"01", "rojo=1,congo=t61rcWkgMzE")
	f.Add("01-"+callersTrace+"-00f067aa0ba902b7-ff-more", "=")
	f.Add("00-x", ",,,")
	r := tracing.New(tracing.Options{URL: "http://127.0.0.1:1", Percent: 100, Logger: slog.New(slog.DiscardHandler)})
	f.Cleanup(func() { r.Close(context.Background()) })
	f.Fuzz(func(t *testing.T, parent, state string) {
		ctx := r.Continue(t.Context(), tracing.Link{Parent: parent, State: state})
		at := trace.SpanContextFromContext(ctx)
		if at.IsValid() && !strings.Contains(parent, at.TraceID().String()) {
			t.Errorf("%q is continued as %v", parent, at)
		}
		if link := r.LinkTo(ctx); at.IsValid() && r.Join(t.Context(), link) == t.Context() {
			t.Errorf("%+v cannot be joined", link)
		}
	})
}
