// Package observe provides logging, HTTP metrics, and a request id that joins the two. Log lines of
// work that is traced have the id of its trace too.
package observe

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
)

// NewLogger returns the logger of the process. level is debug, info, warn or error; format is text,
// json, or terminal, which is for people.
func NewLogger(w io.Writer, level, format string) *slog.Logger {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		l = slog.LevelInfo
	}
	o := &slog.HandlerOptions{Level: l}
	var h slog.Handler = slog.NewTextHandler(w, o)
	switch format {
	case "json":
		h = slog.NewJSONHandler(w, o)
	case "terminal":
		h = &terminalHandler{mu: new(sync.Mutex), w: w, level: l}
	}
	return slog.New(withRequestID{h})
}

type requestIDKey struct{}

// RequestID returns the id of the request that ctx belongs to, or "".
func RequestID(ctx context.Context) string {
	id, _ := ctx.Value(requestIDKey{}).(string)
	return id
}

// withRequestID adds the ids of the request and of the trace to every line that is logged with
// their context.
type withRequestID struct{ slog.Handler }

func (h withRequestID) Handle(ctx context.Context, r slog.Record) error {
	if id := RequestID(ctx); id != "" {
		r.AddAttrs(slog.String("request", id))
	}
	if span := trace.SpanContextFromContext(ctx); span.IsValid() {
		r.AddAttrs(slog.String("trace_id", span.TraceID().String()))
	}
	return h.Handler.Handle(ctx, r)
}

func (h withRequestID) WithAttrs(a []slog.Attr) slog.Handler {
	return withRequestID{h.Handler.WithAttrs(a)}
}
func (h withRequestID) WithGroup(n string) slog.Handler { return withRequestID{h.Handler.WithGroup(n)} }

// HandleRequests gives each request an id (X-Request-Id in the response), logs it without its
// query, which may contain secrets, counts it by route, and turns a panic into status 500 without
// details.
func HandleRequests(log *slog.Logger, reg prometheus.Registerer, next http.Handler) http.Handler {
	requests := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "patchbay_http_request_seconds",
		Help:    "Time to serve an HTTP request, to the end of the answer.",
		Buckets: []float64{.001, .005, .025, .1, .5, 2.5, 10, 60},
	}, []string{"route", "status"})
	reg.MustRegister(requests)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		id := uuid.Must(uuid.NewV7()).String()
		w.Header()["X-Request-Id"] = []string{id}
		r = r.WithContext(context.WithValue(r.Context(), requestIDKey{}, id))
		rec := &statusRecorder{ResponseWriter: w, body: withBodyDeadline(w, r)}
		defer func() {
			if p := recover(); p != nil {
				if p == http.ErrAbortHandler {
					panic(p)
				}
				log.ErrorContext(r.Context(), "a request panicked", "path", logged(r), "panic", p,
					"stack", string(debug.Stack()))
				if rec.status == 0 {
					http.Error(rec, "internal error, request "+id, http.StatusInternalServerError)
				}
			}
			took := time.Since(start)
			requests.WithLabelValues(route(r), strconv.Itoa(rec.code())).Observe(took.Seconds())
			if log.Enabled(r.Context(), slog.LevelDebug) {
				log.DebugContext(r.Context(), "request", "method", r.Method, "path", logged(r), "status", rec.code(),
					"took", took)
			}
		}()
		next.ServeHTTP(rec, r)
	})
}

// secretPaths begin paths whose rest is a secret: codes for nodes of OpenClaw's, and the links of
// people who are invited.
var secretPaths = []string{"/j/", "/welcome/"}

// logged returns the path of a request for the log.
func logged(r *http.Request) string {
	for _, begin := range secretPaths {
		if strings.HasPrefix(r.URL.Path, begin) {
			return begin + "…"
		}
	}
	return r.URL.Path
}

// route is the pattern that matched the request: a bounded set, unlike paths.
func route(r *http.Request) string {
	if r.Pattern == "" {
		return "none"
	}
	return r.Pattern
}

// statusRecorder records the status of a response. http.ResponseController reaches the underlying
// writer through Unwrap.
type statusRecorder struct {
	http.ResponseWriter
	status int
	body   *deadlineBody
}

// SetReadDeadline implements [http.ResponseController.SetReadDeadline].
func (r *statusRecorder) SetReadDeadline(at time.Time) error { return r.body.setHandlerDeadline(at) }

func (r *statusRecorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

func (r *statusRecorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *statusRecorder) Write(b []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	return r.ResponseWriter.Write(b)
}

func (r *statusRecorder) code() int {
	if r.status == 0 {
		return http.StatusOK
	}
	return r.status
}
