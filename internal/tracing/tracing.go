// Package tracing sends OpenTelemetry traces of turns, calls and requests to other servers to a
// collector, by OTLP over HTTP.
//
// A [Tracer] is passed to whoever starts spans. A nil Tracer is tracing that is off: its methods do
// nothing, and allocate nothing. The span that work belongs to is in its context, as
// go.opentelemetry.io/otel/trace has it there.
//
// Names and attributes are those of OpenTelemetry's semantic conventions for generative AI and MCP
// (github.com/open-telemetry/semantic-conventions-genai, docs/gen-ai, at 002c8a6) where those have
// one, and begin with "patchbay." otherwise. What people and bots say, arguments and results of
// tools, the ids of people and of sessions, and secrets are never part of a span.
package tracing

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Options configure a [Tracer].
type Options struct {
	// URL is the address of the collector, such as http://localhost:4318. Empty means no tracing.
	URL string
	// Headers are sent with every request to it. They are secret.
	Headers map[string]string
	// Percent is the share of traces that are sent.
	Percent int
	// Version and Instance are those of this process.
	Version, Instance string
	Logger            *slog.Logger
	Registerer        prometheus.Registerer
}

const (
	// maxAttributes and maxEvents limit the memory of a span. No span of ours has as many.
	maxAttributes = 64
	maxEvents     = 16
	// maxText limits the text of an attribute, in characters: names of tools come from others.
	maxText = 256
	// maxState limits the tracestate that is carried on. W3C Trace Context, "Tracestate Limits",
	// requires 512 bytes.
	maxState = 4 << 10
)

// Tracer starts spans. It is safe for concurrent use; nil starts none.
type Tracer struct {
	tracer   trace.Tracer
	share    sdk.Sampler
	exporter *exporter
}

// New returns a tracer, or nil if there is no address. [Tracer.Close] has to be called.
func New(o Options) *Tracer {
	if o.URL == "" {
		return nil
	}
	e := newExporter(o)
	share := sdk.TraceIDRatioBased(float64(o.Percent) / 100)
	limits := sdk.SpanLimits{AttributeCountLimit: maxAttributes, EventCountLimit: maxEvents,
		AttributePerEventCountLimit: maxAttributes, AttributeValueLengthLimit: maxText}
	// Everything is set here, so that no OTEL_ variable of the environment has an effect.
	provider := sdk.NewTracerProvider(sdk.WithSampler(sdk.ParentBased(share)), sdk.WithRawSpanLimits(limits),
		sdk.WithResource(resource.Empty()), sdk.WithSpanProcessor(e))
	return &Tracer{tracer: provider.Tracer(scope), share: share, exporter: e}
}

// Close sends the spans that have ended, and stops. It takes no longer than ctx. The tracer may
// still be used; its spans are dropped.
func (t *Tracer) Close(ctx context.Context) {
	if t != nil {
		t.exporter.close(ctx)
	}
}

// Span is a span, or nothing. Its methods are for one goroutine at a time.
type Span struct{ span trace.Span }

// Start starts a span for an operation of this process, named after the operation and, if it is
// known, its target. The span is one of a server if the work begins with it here.
func (t *Tracer) Start(ctx context.Context, operation, target string) (context.Context, Span) {
	if t == nil {
		return ctx, Span{}
	}
	kind := trace.SpanKindInternal
	if parent := trace.SpanContextFromContext(ctx); !parent.IsValid() || parent.IsRemote() {
		kind = trace.SpanKindServer
	}
	ctx, span := t.tracer.Start(ctx, spanName(operation, target), trace.WithSpanKind(kind))
	return ctx, Span{span}
}

// StartClient starts a span for a request to another server. Requests that belong to no turn or
// call, such as those that keep a connection alive, have none.
func (t *Tracer) StartClient(ctx context.Context, operation, target, address string) (context.Context, Span) {
	if t == nil || !trace.SpanContextFromContext(ctx).IsValid() {
		return ctx, Span{}
	}
	ctx, span := t.tracer.Start(ctx, spanName(operation, target), trace.WithSpanKind(trace.SpanKindClient))
	s := Span{span}
	s.server(address)
	return ctx, s
}

func spanName(operation, target string) string {
	if target == "" {
		return operation
	}
	return operation + " " + target
}

// server adds the host and the port of a web address. Its path may be a secret.
func (s Span) server(address string) {
	if !s.recording() {
		return
	}
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" {
		return
	}
	s.Text("server.address", u.Hostname())
	port, err := strconv.Atoi(u.Port())
	switch {
	case err == nil:
	case u.Scheme == "http" || u.Scheme == "ws":
		port = 80
	default:
		port = 443
	}
	s.Number("server.port", int64(port))
}

func (s Span) recording() bool { return s.span != nil && s.span.IsRecording() }

// Rename names the span after an operation and its target, once they are known.
func (s Span) Rename(operation, target string) {
	if s.recording() {
		s.span.SetName(spanName(operation, target))
	}
}

// Text adds an attribute; an empty text adds none.
func (s Span) Text(key, value string) {
	if value != "" && s.recording() {
		s.span.SetAttributes(attribute.String(key, value))
	}
}

// Listed adds an attribute that is a list, with one text; an empty text adds none.
func (s Span) Listed(key, value string) {
	if value != "" && s.recording() {
		s.span.SetAttributes(attribute.StringSlice(key, []string{value}))
	}
}

// Number adds an attribute.
func (s Span) Number(key string, value int64) {
	if s.recording() {
		s.span.SetAttributes(attribute.Int64(key, value))
	}
}

// Seconds adds a duration as an attribute; 0 adds none.
func (s Span) Seconds(key string, d time.Duration) {
	if d != 0 && s.recording() {
		s.span.SetAttributes(attribute.Float64(key, d.Seconds()))
	}
}

// Event adds that something happened at a time.
func (s Span) Event(name string, at time.Time) {
	if s.recording() {
		s.span.AddEvent(name, trace.WithTimestamp(at))
	}
}

// Fail marks the span as failed, with the kind of the error; an empty kind does nothing. Texts of
// errors are not part of spans: they may repeat what somebody said.
func (s Span) Fail(kind string) {
	if kind != "" && s.recording() {
		s.span.SetAttributes(attribute.String("error.type", kind))
		s.span.SetStatus(codes.Error, "")
	}
}

// End ends the span.
func (s Span) End() {
	if s.span != nil {
		s.span.End()
	}
}

// FromContext returns the span that the work of a context belongs to.
func FromContext(ctx context.Context) Span { return Span{trace.SpanFromContext(ctx)} }

// Under returns ctx with the span of another context, for work that goes on when that has ended.
func (t *Tracer) Under(ctx, other context.Context) context.Context {
	if t == nil {
		return ctx
	}
	return trace.ContextWithSpan(ctx, trace.SpanFromContext(other))
}

// Link names a span to other processes, in the form of the headers of W3C Trace Context.
type Link struct {
	Parent string `json:"traceparent,omitempty"`
	State  string `json:"tracestate,omitempty"`
}

// The names of the headers, and of the members of a request's _meta in MCP (SEP-414).
const (
	HeaderParent = "traceparent"
	HeaderState  = "tracestate"
)

// LinkOf returns the link in the headers of a request.
func (t *Tracer) LinkOf(h http.Header) Link {
	if t == nil {
		return Link{}
	}
	return Link{h.Get(HeaderParent), h.Get(HeaderState)}
}

// LinkTo returns a link to the span of a context; the zero value if there is none.
func (t *Tracer) LinkTo(ctx context.Context) Link {
	if t == nil {
		return Link{}
	}
	l := new(Link)
	propagation.TraceContext{}.Inject(ctx, l)
	return *l
}

// AddTo adds the link to the headers of a request.
func (l Link) AddTo(h http.Header) {
	if l.Parent == "" {
		return
	}
	h.Set(HeaderParent, l.Parent)
	if h.Del(HeaderState); l.State != "" {
		h.Set(HeaderState, l.State)
	}
}

// Get, Set and Keys implement [propagation.TextMapCarrier].
func (l *Link) Get(key string) string {
	switch key {
	case HeaderParent:
		return l.Parent
	case HeaderState:
		return l.State
	}
	return ""
}

// Set implements [propagation.TextMapCarrier].
func (l *Link) Set(key, value string) {
	switch key {
	case HeaderParent:
		l.Parent = value
	case HeaderState:
		l.State = value
	}
}

// Keys implements [propagation.TextMapCarrier].
func (l *Link) Keys() []string { return []string{HeaderParent, HeaderState} }

// Continue returns ctx as part of the trace of a caller that has proved who it is. Whether the
// trace is sent is decided by its id and our share alone: the caller's flag neither forces that nor
// prevents it. Platforms set it by what they store themselves, not by what their users want. A link
// that is not valid is ignored.
func (t *Tracer) Continue(ctx context.Context, l Link) context.Context {
	in := t.extract(l)
	if !in.IsValid() {
		return ctx
	}
	drop := t.share.ShouldSample(sdk.SamplingParameters{TraceID: in.TraceID()}).Decision == sdk.Drop
	return trace.ContextWithRemoteSpanContext(ctx, in.WithTraceFlags(in.TraceFlags().WithSampled(!drop)))
}

// Join returns ctx as part of the trace of another instance, which has decided whether it is sent.
func (t *Tracer) Join(ctx context.Context, l Link) context.Context {
	if in := t.extract(l); in.IsValid() {
		return trace.ContextWithRemoteSpanContext(ctx, in)
	}
	return ctx
}

func (t *Tracer) extract(l Link) trace.SpanContext {
	if t == nil || l.Parent == "" {
		return trace.SpanContext{}
	}
	carrier := &Link{Parent: l.Parent, State: l.State}
	if len(l.State) > maxState {
		carrier.State = ""
	}
	return trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), carrier))
}
