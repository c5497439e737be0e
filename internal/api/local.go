package api

import (
	"context"
	"io"
	"net/http"
	"sync"

	"patchbay/internal/i18n"
)

// localURL is the URL of a server in this process, which nothing resolves.
const localURL = "http://patchbay.local"

// NewLocalClient returns a client for a handler in this process. Responses are streamed as over a
// network. Wait waits until the handler has returned from all requests; the caller has closed the
// bodies of all responses before.
func NewLocalClient(handler http.Handler, key string, lang i18n.Lang) (c *Client, wait func()) {
	c = NewClient(localURL, key, lang)
	t := &localTransport{handler: handler}
	c.HTTP.Transport = t
	return c, t.running.Wait
}

// localTransport has a handler answer requests.
type localTransport struct {
	handler http.Handler
	running sync.WaitGroup
}

// RoundTrip implements [http.RoundTripper]. The handler runs until it returns, and its context ends
// with that of the request, or when the body of the response is closed.
func (t *localTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(req.Context())
	r := req.Clone(ctx)
	r.RequestURI, r.RemoteAddr = req.URL.RequestURI(), "127.0.0.1:0"
	if r.Body == nil {
		r.Body = http.NoBody
	}
	body, to := io.Pipe()
	w := &localResponse{header: http.Header{}, to: to, begun: make(chan struct{})}
	t.running.Go(func() {
		defer func() {
			if broken := recover(); broken != nil {
				if broken != http.ErrAbortHandler { //nolint:errorlint // it is that value
					panic(broken)
				}
				to.CloseWithError(io.ErrUnexpectedEOF)
			}
			w.WriteHeader(http.StatusOK)
			to.Close()
		}()
		t.handler.ServeHTTP(w, r)
		w.Flush()
	})
	select {
	case <-w.begun:
	case <-ctx.Done():
		cancel()
		body.CloseWithError(ctx.Err())
		return nil, req.Context().Err()
	}
	return &http.Response{
		Status: http.StatusText(w.status), StatusCode: w.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.sent, Body: &localBody{body, cancel}, ContentLength: -1, Request: req,
	}, nil
}

// localBody ends the handler when it is closed.
type localBody struct {
	*io.PipeReader
	cancel context.CancelFunc
}

func (b *localBody) Close() error {
	b.cancel()
	return b.PipeReader.Close()
}

// localResponse is the [http.ResponseWriter] of such a handler.
type localResponse struct {
	header http.Header
	sent   http.Header // header as it was when the response began; the handler may still write header
	once   sync.Once
	status int
	begun  chan struct{}
	to     *io.PipeWriter
}

func (w *localResponse) Header() http.Header { return w.header }

func (w *localResponse) WriteHeader(status int) {
	w.once.Do(func() {
		w.status, w.sent = status, w.header.Clone()
		close(w.begun)
	})
}

func (w *localResponse) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.to.Write(p)
}

// Flush implements [http.Flusher]. Nothing is buffered.
func (w *localResponse) Flush() { w.WriteHeader(http.StatusOK) }
