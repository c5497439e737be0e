package upstream

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
)

// sseWire is the HTTP+SSE transport of 2024-11-05: the server sends everything on one stream,
// whose first event names the address for POSTs.
type sseWire struct {
	s        *session
	settings *Settings
	sender   sender
	stop     context.CancelFunc
	postURL  string
	begin    func() // reads the stream until it ends
}

var (
	errNoEndpoint      = errors.New("the stream did not begin with the address to post to")
	errForeignEndpoint = errors.New("the server wants messages posted to another server, which would get the token")
)

// newSSEWire opens the stream. begin starts reading it.
func newSSEWire(ctx context.Context, s *session, settings *Settings, out sender) (*sseWire, error) {
	w := &sseWire{s: s, settings: settings, sender: out}
	// The stream outlives ctx, which ends with connecting.
	life, stop := context.WithCancel(s.ctx)
	w.stop = stop
	opening := context.AfterFunc(ctx, stop)
	in, body, err := w.open(life)
	if !opening() {
		err = context.Cause(ctx)
	}
	if err != nil {
		stop()
		if body != nil {
			body.Close()
		}
		w.sender.client.CloseIdleConnections()
		return nil, err
	}
	w.begin = func() {
		defer body.Close()
		w.read(in)
	}
	return w, nil
}

func (w *sseWire) open(ctx context.Context) (*eventReader, io.Closer, error) {
	resp, err := w.sender.do(ctx, func() (*http.Request, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.settings.URL, nil)
		if err != nil {
			return nil, errors.New("the address is not a web address") // err would show the address
		}
		w.settings.setHeaders(req)
		req.Header.Set("Accept", "text/event-stream")
		return req, nil
	})
	if err != nil {
		return nil, nil, err
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		return nil, nil, readStatusError(resp)
	}
	if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind != "text/event-stream" {
		return nil, resp.Body, errNoEndpoint
	}
	in := newEventReader(resp.Body, maxMessage)
	e, err := in.next()
	if err != nil {
		return nil, resp.Body, transportError(err)
	}
	if e.name != "endpoint" || e.tooLarge {
		return nil, resp.Body, errNoEndpoint
	}
	w.postURL, err = w.endpoint(string(bytes.TrimSpace(e.data)))
	return in, resp.Body, err
}

// endpoint returns the address for POSTs. It must be on the same server, because requests carry
// secrets.
func (w *sseWire) endpoint(told string) (string, error) {
	base, err := url.Parse(w.settings.URL)
	if err != nil {
		return "", errNoEndpoint
	}
	to, err := base.Parse(told)
	if err != nil {
		return "", errNoEndpoint
	}
	if to.Scheme != base.Scheme || to.Host != base.Host {
		return "", errForeignEndpoint
	}
	return to.String(), nil
}

func (w *sseWire) read(in *eventReader) {
	for {
		e, err := in.next()
		if err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			w.s.fail(transportError(err))
			return
		}
		if len(e.data) > 0 || e.tooLarge {
			if err := w.s.deliver(0, e); err != nil {
				w.s.log.Debug("upstream: an event is no message", "error", err)
			}
		}
	}
}

func (w *sseWire) send(ctx context.Context, m *outgoing) error {
	resp, err := w.sender.do(ctx, func() (*http.Request, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.postURL, bytes.NewReader(m.body))
		if err != nil {
			return nil, errors.New("the address to post to is not a web address")
		}
		w.settings.setHeaders(req)
		req.Header.Set("Content-Type", "application/json")
		m.trace.AddTo(req.Header)
		return req, nil
	})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 == 2 {
		_, _ = io.CopyN(io.Discard, resp.Body, 4<<10)
		return nil
	}
	e := readStatusError(resp)
	if isUnknownSession(e) {
		return &unsentError{e}
	}
	return e
}

func (w *sseWire) setVersion(string, bool)   {}
func (w *sseWire) listen()                   { w.s.listening.Store(true) }
func (w *sseWire) isStateless() bool         { return false }
func (w *sseWire) cancelsByDisconnect() bool { return false }

func (w *sseWire) close() {
	w.stop()
	w.sender.client.CloseIdleConnections()
}
