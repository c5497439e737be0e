// Package tracingtest is a collector of OpenTelemetry traces for tests. It reads what it gets with
// the code that OpenTelemetry generates from its definitions.
package tracingtest

import (
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	common "go.opentelemetry.io/proto/otlp/common/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Span is a span that the collector got.
type Span struct {
	Trace, ID, Parent, State string // ids in hex; no parent: empty
	Name, Kind               string // such as "server"
	Failed                   bool
	Remote                   bool // the parent is in another process
	// Attributes have their values as texts; Events are their names.
	Attributes map[string]string
	Events     []string
	// Instance is the process that sent the span.
	Instance string
	Span     *trace.Span
}

// Collector takes traces over HTTP. It is safe for concurrent use.
type Collector struct {
	// URL is its address, without the path.
	URL string
	// Respond, if not nil, is called with each request, before it is taken. It returns true if it
	// has responded, so that the request is not taken. Set it before the first request.
	Respond func(w http.ResponseWriter, r *http.Request) bool

	server *httptest.Server

	mu      sync.Mutex
	arrived chan struct{} // closed and replaced when spans arrive
	spans   []Span
	raw     bytes.Buffer
	headers []http.Header
}

// New starts a collector, which ends with the test.
func New(t testing.TB) *Collector {
	t.Helper()
	c := &Collector{arrived: make(chan struct{})}
	c.server = httptest.NewServer(c)
	c.URL = c.server.URL
	t.Cleanup(c.server.Close)
	return c
}

// Close ends the collector before the test ends.
func (c *Collector) Close() { c.server.Close() }

// ServeHTTP takes traces (OTLP 1.9.0, "OTLP/HTTP Request").
func (c *Collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if c.Respond != nil && c.Respond(w, r) {
		return
	}
	if err := c.take(r); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

func (c *Collector) take(r *http.Request) error {
	switch {
	case r.Method != http.MethodPost || r.URL.Path != "/v1/traces":
		return fmt.Errorf("%s %s is no export", r.Method, r.URL.Path)
	case r.Header.Get("Content-Type") != "application/x-protobuf" || r.Header.Get("Content-Encoding") != "gzip":
		return fmt.Errorf("the headers %v are not those of an export", r.Header)
	}
	packed, err := gzip.NewReader(r.Body)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(packed)
	if err != nil {
		return err
	}
	var data trace.TracesData // the same fields as ExportTraceServiceRequest
	if err := proto.Unmarshal(body, &data); err != nil {
		return err
	}
	spans, err := read(&data)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.raw.Write(body)
	c.headers = append(c.headers, r.Header)
	c.spans = append(c.spans, spans...)
	close(c.arrived)
	c.arrived = make(chan struct{})
	return nil
}

// read returns the spans of a request. Fields that OpenTelemetry does not define are an error.
func read(data *trace.TracesData) (out []Span, err error) {
	for _, resource := range data.ResourceSpans {
		about := texts(resource.Resource.GetAttributes())
		if about["service.name"] == "" {
			return nil, fmt.Errorf("there is no service.name in %v", about)
		}
		for _, scope := range resource.ScopeSpans {
			for _, s := range scope.Spans {
				if len(s.ProtoReflect().GetUnknown()) > 0 || len(s.TraceId) != 16 || len(s.SpanId) != 8 ||
					s.StartTimeUnixNano == 0 || s.EndTimeUnixNano < s.StartTimeUnixNano {
					return nil, fmt.Errorf("this is no span: %v", s)
				}
				out = append(out, Span{
					Trace: hex.EncodeToString(s.TraceId), ID: hex.EncodeToString(s.SpanId),
					Parent: hex.EncodeToString(s.ParentSpanId), State: s.TraceState, Name: s.Name,
					Kind:   strings.ToLower(strings.TrimPrefix(s.Kind.String(), "SPAN_KIND_")),
					Failed: s.Status.GetCode() == trace.Status_STATUS_CODE_ERROR,
					Remote: s.Flags&uint32(trace.SpanFlags_SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK) != 0,

					Attributes: texts(s.Attributes), Events: names(s.Events), Span: s,
					Instance: about["service.instance.id"],
				})
			}
		}
	}
	return out, nil
}

func names(events []*trace.Span_Event) (out []string) {
	for _, e := range events {
		out = append(out, e.Name)
	}
	return out
}

func texts(list []*common.KeyValue) map[string]string {
	out := map[string]string{}
	for _, a := range list {
		switch v := a.Value.GetValue().(type) {
		case *common.AnyValue_StringValue:
			out[a.Key] = v.StringValue
		case *common.AnyValue_IntValue:
			out[a.Key] = fmt.Sprint(v.IntValue)
		case *common.AnyValue_DoubleValue:
			out[a.Key] = fmt.Sprint(v.DoubleValue)
		case *common.AnyValue_ArrayValue:
			for _, one := range v.ArrayValue.Values {
				out[a.Key] += "[" + one.GetStringValue() + "]"
			}
		default:
			out[a.Key] = fmt.Sprintf("?%v", a.Value)
		}
	}
	return out
}

// Spans returns the spans so far.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.spans)
}

// patience is how long a span may take to arrive.
const patience = time.Minute

// Await waits until there is a span that the function accepts, and returns it.
func (c *Collector) Await(t testing.TB, what string, is func(*Span) bool) Span {
	t.Helper()
	limit := time.After(patience)
	for {
		c.mu.Lock()
		arrived := c.arrived
		at := slices.IndexFunc(c.spans, func(s Span) bool { return is(&s) })
		if at >= 0 {
			found := c.spans[at]
			c.mu.Unlock()
			return found
		}
		have := slices.Clone(c.spans)
		c.mu.Unlock()
		select {
		case <-arrived:
		case <-limit:
			t.Fatalf("there is no span %s among %v", what, have)
		}
	}
}

// Bytes returns the bodies of all requests, unpacked.
func (c *Collector) Bytes() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return bytes.Clone(c.raw.Bytes())
}

// Headers returns those of all requests.
func (c *Collector) Headers() []http.Header {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.headers)
}
