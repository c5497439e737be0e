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

// legacy is the wire of 2024-11-05: a stream on which everything comes from the
// server, and an address, told on that stream, to which everything is posted.
type legacy struct {
	s        *session
	settings *Settings
	client   *http.Client
	stop     context.CancelFunc
	where    string
	begin    func() // reads the stream to its end
}

var (
	errNoEndpoint = errors.New("the stream did not begin with the address to post to")
	errElsewhere  = errors.New("the server wants messages posted to another server, which would get the token")
)

// newLegacy opens the stream. It is read when begin is called.
func newLegacy(ctx context.Context, s *session, settings *Settings, dial DialFunc) (*legacy, error) {
	w := &legacy{s: s, settings: settings, client: newClient(dial)}
	// The stream outlives ctx, which is that of connecting.
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
		w.client.CloseIdleConnections()
		return nil, err
	}
	w.begin = func() {
		defer body.Close()
		w.read(in)
	}
	return w, nil
}

func (w *legacy) open(ctx context.Context) (*events, io.Closer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.settings.URL, nil)
	if err != nil {
		return nil, nil, errors.New("the address is not a web address") // err would tell it
	}
	w.settings.sign(req)
	req.Header.Set("Accept", "text/event-stream")
	resp, err := w.client.Do(req)
	if err != nil {
		return nil, nil, trouble(err)
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		return nil, nil, refusal(resp)
	}
	if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind != "text/event-stream" {
		return nil, resp.Body, errNoEndpoint
	}
	in := newEvents(resp.Body, maxMessage)
	e, err := in.next()
	if err != nil {
		return nil, resp.Body, trouble(err)
	}
	if e.name != "endpoint" || e.huge {
		return nil, resp.Body, errNoEndpoint
	}
	w.where, err = w.endpoint(string(bytes.TrimSpace(e.data)))
	return in, resp.Body, err
}

// endpoint is the address to post to. It has to be on the same server: our
// requests carry secrets.
func (w *legacy) endpoint(told string) (string, error) {
	base, err := url.Parse(w.settings.URL)
	if err != nil {
		return "", errNoEndpoint
	}
	to, err := base.Parse(told)
	if err != nil {
		return "", errNoEndpoint
	}
	if to.Scheme != base.Scheme || to.Host != base.Host {
		return "", errElsewhere
	}
	return to.String(), nil
}

func (w *legacy) read(in *events) {
	for {
		e, err := in.next()
		if err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			w.s.fail(trouble(err))
			return
		}
		if len(e.data) > 0 || e.huge {
			if err := w.s.deliver(0, e); err != nil {
				w.s.log.Debug("upstream: an event is no message", "error", err)
			}
		}
	}
}

func (w *legacy) send(ctx context.Context, m *outgoing) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.where, bytes.NewReader(m.body))
	if err != nil {
		return errors.New("the address to post to is not a web address")
	}
	w.settings.sign(req)
	req.Header.Set("Content-Type", "application/json")
	resp, err := w.client.Do(req)
	if err != nil {
		return trouble(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 == 2 {
		_, _ = io.CopyN(io.Discard, resp.Body, 4<<10)
		return nil
	}
	e := refusal(resp)
	if forgotten(e) {
		return &unsentError{e}
	}
	return e
}

func (w *legacy) agree(string, bool) {}
func (w *legacy) listen()            { w.s.listening.Store(true) }
func (w *legacy) sessionless() bool  { return false }
func (w *legacy) hangsUp() bool      { return false }

func (w *legacy) close() {
	w.stop()
	w.client.CloseIdleConnections()
}
