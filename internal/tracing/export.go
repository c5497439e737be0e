package tracing

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/trace"

	"patchbay/internal/netx"
)

const (
	// maxQueue limits the spans that wait for the collector, about 4 MB. Further ones are dropped:
	// no request waits for a collector.
	maxQueue = 4096
	// maxBatch limits the spans of one request.
	maxBatch = 512
	// batchDelay is how long spans wait for others.
	batchDelay = time.Second
	// maxRetry is how long a batch is retried before it is given up.
	maxRetry = time.Minute
	// maxRetryAfter limits the delay that a collector asks for.
	maxRetryAfter = 5 * time.Minute
	// firstRetry and slowestRetry are the shortest and the longest delay before a retry, unless the
	// collector asks for more.
	firstRetry   = 500 * time.Millisecond
	slowestRetry = 15 * time.Second
	// exportTimeout limits one request: 10 s is the default of OpenTelemetry's exporters.
	exportTimeout = 10 * time.Second
	// maxResponse limits how much of a response is read.
	maxResponse = 64 << 10
	// maxWhy limits what a collector says about an error, in characters.
	maxWhy = 200
)

// exporter sends spans that have ended. It is an [sdk.SpanProcessor].
type exporter struct {
	target  target
	about   []attribute.KeyValue
	version string
	log     *slog.Logger
	spans   *prometheus.CounterVec // by what became of them
	failed  prometheus.Counter

	queue   chan sdk.ReadOnlySpan
	stop    chan struct{}
	stopped sync.Once
	done    chan struct{}
	ctx     context.Context // ends when close may take no longer
	cancel  context.CancelFunc

	failing bool // the last request failed; of run alone
}

// Outcomes of spans in the metric.
const (
	spanSent    = "sent"
	spanDropped = "dropped"
	spanRefused = "refused"
	spanLost    = "lost"
)

func newExporter(o Options) *exporter {
	e := &exporter{
		target: newTarget(o), version: o.Version, log: o.Logger,
		about: []attribute.KeyValue{
			attribute.String("service.name", scope), attribute.String("service.version", o.Version),
			attribute.String("service.instance.id", o.Instance),
			attribute.String("telemetry.sdk.name", "opentelemetry"), attribute.String("telemetry.sdk.language", "go"),
		},
		queue: make(chan sdk.ReadOnlySpan, maxQueue), stop: make(chan struct{}), done: make(chan struct{}),
		spans: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "patchbay_otlp_spans_total",
			Help: "Spans that ended, by what became of them."}, []string{"outcome"}),
		failed: prometheus.NewCounter(prometheus.CounterOpts{Name: "patchbay_otlp_failed_requests_total",
			Help: "Requests to the collector of traces that failed."}),
	}
	for _, outcome := range []string{spanSent, spanDropped, spanRefused, spanLost} {
		e.spans.WithLabelValues(outcome)
	}
	if o.Registerer != nil {
		o.Registerer.MustRegister(e.spans, e.failed)
	}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	go e.run()
	return e
}

// OnStart implements [sdk.SpanProcessor].
func (e *exporter) OnStart(context.Context, sdk.ReadWriteSpan) {}

// OnEnd implements [sdk.SpanProcessor]. It never waits.
func (e *exporter) OnEnd(s sdk.ReadOnlySpan) {
	if !s.SpanContext().IsSampled() {
		return
	}
	select {
	case e.queue <- s:
	default:
		e.count(spanDropped, 1)
	}
}

// Shutdown and ForceFlush implement [sdk.SpanProcessor]. Nobody calls them: see close.
func (e *exporter) Shutdown(context.Context) error { return nil }

// ForceFlush implements [sdk.SpanProcessor].
func (e *exporter) ForceFlush(context.Context) error { return nil }

func (e *exporter) count(outcome string, n int) { e.spans.WithLabelValues(outcome).Add(float64(n)) }

// close sends what is in the queue, without retries, and stops. When ctx ends, the rest is lost.
func (e *exporter) close(ctx context.Context) {
	e.stopped.Do(func() { close(e.stop) })
	defer context.AfterFunc(ctx, e.cancel)()
	<-e.done
	e.cancel()
	e.target.client.CloseIdleConnections()
}

func (e *exporter) stopping() bool {
	select {
	case <-e.stop:
		return true
	default:
		return false
	}
}

func (e *exporter) run() {
	defer close(e.done)
	for {
		batch := e.collect()
		if len(batch) == 0 {
			return // only when it stops
		}
		e.deliver(batch)
		if e.failing && e.stopping() {
			e.count(spanLost, len(e.queue))
			return
		}
	}
}

// collect waits for the next batch. An empty one means that there are no more.
func (e *exporter) collect() []sdk.ReadOnlySpan {
	var batch []sdk.ReadOnlySpan
	select {
	case s := <-e.queue:
		batch = append(batch, s)
	case <-e.stop:
	}
	timer := time.NewTimer(batchDelay)
	defer timer.Stop()
	for len(batch) < maxBatch {
		select {
		case s := <-e.queue:
			batch = append(batch, s)
			continue
		default:
		}
		select {
		case s := <-e.queue:
			batch = append(batch, s)
		case <-timer.C:
			return batch
		case <-e.stop:
			select {
			case s := <-e.queue:
				batch = append(batch, s)
			default:
				return batch
			}
		}
	}
	return batch
}

// deliver sends a batch, and retries until it has arrived or is given up.
func (e *exporter) deliver(batch []sdk.ReadOnlySpan) {
	body := encode(e.about, e.version, batch)
	until := time.Now().Add(maxRetry)
	pause := netx.Backoff{First: firstRetry, Max: slowestRetry, Jitter: netx.HalfJitter}
	for {
		refused, err := e.target.post(e.ctx, body)
		if err == nil {
			e.arrived(len(batch), refused)
			return
		}
		e.failed.Inc()
		if !e.failing {
			e.failing = true
			e.log.Warn("the collector does not take traces", "error", err)
		}
		wait, again := retryDelay(err, pause.Next())
		if !again || !netx.WaitUnless(e.ctx, e.stop, wait) || time.Now().After(until) {
			e.count(spanLost, len(batch))
			return
		}
	}
}

// arrived counts the spans of a batch that the collector has answered.
func (e *exporter) arrived(n int, refused *partialError) {
	if e.failing {
		e.failing = false
		e.log.Info("the collector takes traces again")
	}
	if refused != nil {
		lost := int(min(refused.spans, int64(n)))
		e.count(spanRefused, lost)
		e.log.Warn("the collector does not take all spans", "refused", lost, "why", refused.why)
		n -= lost
	}
	e.count(spanSent, n)
}

// target is a collector.
type target struct {
	url     string
	headers map[string]string
	client  *http.Client
}

// tracesPath is where OTLP over HTTP takes traces (OTLP 1.9.0, "OTLP/HTTP Request").
const tracesPath = "/v1/traces"

func newTarget(o Options) target {
	at := strings.TrimRight(o.URL, "/")
	if !strings.HasSuffix(at, tracesPath) {
		at += tracesPath
	}
	return target{at, o.Headers, &http.Client{
		Timeout: exportTimeout,
		Transport: &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			DialContext:         (&net.Dialer{Timeout: exportTimeout}).DialContext,
			TLSHandshakeTimeout: exportTimeout, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 1,
			IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: maxResponse,
		},
		// The headers are secrets for that server alone.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// statusCode is an error status of a collector.
type statusCode struct {
	code  int
	why   string
	retry time.Duration // what Retry-After asks for; 0: nothing
}

func (e *statusCode) Error() string {
	text := fmt.Sprintf("%d %s", e.code, http.StatusText(e.code))
	if e.why != "" {
		text += ": " + e.why
	}
	return text
}

// partialError tells which spans of a request a collector did not take.
type partialError struct {
	spans int64
	why   string
}

// post sends a request once. Partial is nil if the collector has taken all spans.
func (t *target) post(ctx context.Context, body []byte) (partial *partialError, err error) {
	var packed bytes.Buffer
	zip := gzip.NewWriter(&packed)
	zip.Write(body) //nolint:errcheck // a buffer takes everything
	zip.Close()     //nolint:errcheck // as above
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.url, &packed)
	if err != nil {
		return nil, errors.New("the address is not a web address")
	}
	for name, value := range t.headers {
		req.Header.Set(name, value)
	}
	req.Header.Set("Content-Type", "application/x-protobuf")
	req.Header.Set("Content-Encoding", "gzip")
	req.Header.Set("User-Agent", scope)
	resp, err := t.client.Do(req)
	if err != nil {
		if inner, ok := errors.AsType[*url.Error](err); ok {
			err = inner.Err
		}
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxResponse))
	isMessage := strings.HasPrefix(resp.Header.Get("Content-Type"), "application/x-protobuf")
	if resp.StatusCode/100 == 2 {
		if n, why := rejected(text); isMessage && err == nil && n > 0 {
			return &partialError{n, oneLine(why)}, nil
		}
		return nil, nil // it has taken them, whatever it says
	}
	e := &statusCode{code: resp.StatusCode, retry: retryAfter(resp.Header, time.Now())}
	if isMessage {
		e.why = oneLine(refusal(text))
	}
	return nil, e
}

// oneLine returns a text from outside for a log.
func oneLine(text string) string {
	words := []rune(strings.Join(strings.Fields(strings.ToValidUTF8(text, "")), " "))
	return string(words[:min(len(words), maxWhy)])
}

// retryAfter returns how long a server asks to wait (RFC 9110 §10.2.3); 0 if it does not ask.
func retryAfter(h http.Header, now time.Time) time.Duration {
	value := strings.TrimSpace(h.Get("Retry-After"))
	if seconds, err := strconv.Atoi(value); err == nil && seconds >= 0 {
		return time.Duration(min(seconds, int(maxRetryAfter/time.Second))) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return min(max(at.Sub(now), 0), maxRetryAfter)
	}
	return 0
}

// retryDelay returns the delay before the next attempt after an error: the back-off, or what the
// collector asks for. It reports whether to retry at all (OTLP 1.9.0, "Retryable Response Codes").
func retryDelay(err error, backoff time.Duration) (time.Duration, bool) {
	e, ok := errors.AsType[*statusCode](err)
	if !ok {
		return backoff, true
	}
	switch e.code {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return max(backoff, e.retry), true
	}
	return 0, false
}
