package stdio

import (
	"context"
	"errors"
	"net/http"
	"time"

	"patchbay/internal/jsonrpc"
	"patchbay/internal/netx"
)

// initialize creates a session for the program and returns the response.
func (p *proxy) initialize(m *jsonrpc.Message) []byte {
	p.endSession() // it restarts
	answer, err := p.begin(p.ctx, m)
	if err != nil {
		return p.errorResponse(m, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.initializeMessage = *m
	return answer
}

// begin creates a session.
func (p *proxy) begin(ctx context.Context, m *jsonrpc.Message) (answer []byte, err error) {
	answer, id, err := p.exchange(ctx, session{}, m)
	if err != nil {
		return nil, err
	}
	got, err := jsonrpc.Parse(answer)
	if err != nil || got.Error != nil {
		return answer, nil // the server's error response
	}
	version := ""
	for in := jsonrpc.Scan(got.Result); in.Next(); {
		if string(in.Key) == "protocolVersion" {
			version = jsonrpc.Text(in.Value)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.session = session{id, version}
	return answer, nil
}

var errNoSession = errors.New("the session has not begun")

// renew creates a new session with the program's initialize after the server lost the old one,
// unless another goroutine has done it already.
func (p *proxy) renew(ctx context.Context, old session) error {
	p.renewing.Lock()
	defer p.renewing.Unlock()
	p.mu.Lock()
	now, hello := p.session, p.initializeMessage
	p.mu.Unlock()
	switch {
	case now.id != old.id:
		return nil
	case hello.Method == "":
		return errNoSession
	}
	answer, err := p.begin(ctx, &hello)
	if err != nil {
		return err
	}
	if now = p.current(); now.id == old.id {
		return &serverRefusal{http.StatusOK, refusalText(&http.Response{}, answer)}
	}
	ready, err := jsonrpc.Parse([]byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`))
	if err != nil {
		return err
	}
	resp, err := p.post(ctx, now, &ready)
	if err != nil {
		return err
	}
	resp.Body.Close()
	p.Logger.Info("the session was begun again", "server", p.endpoint)
	if now.version != old.version {
		p.Logger.Warn("the server speaks another revision now; if something goes wrong, start again",
			"was", old.version, "is", now.version)
	}
	return nil
}

// endSession ends the session at the server, if there is one.
func (p *proxy) endSession() {
	p.mu.Lock()
	s := p.session
	p.session = session{}
	p.mu.Unlock()
	if s.id == "" {
		return
	}
	// Runs even after p.ctx has ended.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.ctx), endSessionTimeout)
	defer cancel()
	r, err := p.request(ctx, http.MethodDelete, s, nil)
	if err != nil {
		return
	}
	resp, err := p.client.Do(r)
	if err == nil {
		resp.Body.Close()
	}
}

// sendNotification sends a message that has no response.
func (p *proxy) sendNotification(m *jsonrpc.Message) {
	s := p.current()
	for range 2 {
		resp, err := p.post(p.ctx, s, m)
		if err != nil {
			p.Logger.Error("the server was not told", "method", m.Method, "server", p.endpoint, "error", err)
			return
		}
		resp.Body.Close()
		switch {
		// a response for the old session is useless in a new one
		case resp.StatusCode == http.StatusNotFound && s.id != "" && m.Method != "":
			if err := p.renew(p.ctx, s); err != nil {
				p.Logger.Error("the session could not be begun again", "server", p.endpoint, "error", err)
				return
			}
			s = p.current()
			continue
		case resp.StatusCode >= 300:
			p.Logger.Warn("the server did not take a message", "method", m.Method, "status", resp.Status)
		}
		return
	}
}

// startListening starts listening for unsolicited messages.
func (p *proxy) startListening() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listening {
		return
	}
	p.listening = true
	ctx, cancel := context.WithCancel(p.ctx)
	p.stopListening = cancel
	p.work.Go(func() {
		defer cancel()
		p.listen(ctx)
	})
}

// listen forwards unsolicited messages, and reconnects when the connection breaks.
func (p *proxy) listen(ctx context.Context) {
	warned := false
	pause := netx.Backoff{First: minBackoff, Max: maxBackoff}
	for ctx.Err() == nil {
		s, began := p.current(), time.Now()
		err := p.listenOnce(ctx, s)
		var r *serverRefusal
		switch {
		case ctx.Err() != nil:
			return
		case errors.As(err, &r) && r.status == http.StatusMethodNotAllowed:
			if p.stopIfUnsupported(s) {
				return
			}
		case errors.Is(err, errUnknownSession):
			if err := p.renew(ctx, s); err != nil && ctx.Err() == nil {
				p.Logger.Warn("the session could not be begun again", "server", p.endpoint, "error", err)
			}
		case err != nil && warned:
		case err != nil:
			warned = true
			p.Logger.Warn("what the server says on its own is not heard; it is tried again", "server", p.endpoint,
				"error", err)
		case time.Since(began) > maxBackoff:
			pause.Reset() // it worked for a while
			warned = false
		}
		_ = netx.Wait(ctx, pause.Next())
	}
}

// stopIfUnsupported stops listening if the server has no notification stream, unless the session
// has changed.
func (p *proxy) stopIfUnsupported(s session) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.session == s {
		p.listening = false
	}
	return !p.listening
}

// listenOnce forwards unsolicited messages of a session until the stream ends.
func (p *proxy) listenOnce(ctx context.Context, s session) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r, err := p.request(ctx, http.MethodGet, s, nil)
	if err != nil {
		return err
	}
	resp, err := p.client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusNotFound && s.id != "":
		return errUnknownSession
	case resp.StatusCode != http.StatusOK || !isEventStream(resp):
		return &serverRefusal{status: resp.StatusCode}
	}
	_, err = p.forward(newEventReader(withIdleTimeout(resp.Body, cancel)), nil)
	return err
}
