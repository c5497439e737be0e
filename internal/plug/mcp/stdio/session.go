package stdio

import (
	"context"
	"errors"
	"net/http"
	"time"

	"patchbay/internal/jsonrpc"
)

// initialize begins a session for the program and returns the answer.
func (p *proxy) initialize(m *jsonrpc.Message) []byte {
	p.endSession() // it begins anew
	answer, err := p.begin(p.ctx, m)
	if err != nil {
		return p.failed(m, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hello = *m
	return answer
}

// begin begins a session.
func (p *proxy) begin(ctx context.Context, m *jsonrpc.Message) (answer []byte, err error) {
	answer, id, err := p.exchange(ctx, session{}, m)
	if err != nil {
		return nil, err
	}
	got, err := jsonrpc.Parse(answer)
	if err != nil || got.Error != nil {
		return answer, nil // the server says what is wrong
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

var errNoHello = errors.New("the session has not begun")

// renew begins a new session as the program began the one that the server has
// forgotten, unless that was done in the meantime.
func (p *proxy) renew(ctx context.Context, old session) error {
	p.renewing.Lock()
	defer p.renewing.Unlock()
	p.mu.Lock()
	now, hello := p.session, p.hello
	p.mu.Unlock()
	switch {
	case now.id != old.id:
		return nil
	case hello.Method == "":
		return errNoHello
	}
	answer, err := p.begin(ctx, &hello)
	if err != nil {
		return err
	}
	if now = p.current(); now.id == old.id {
		return &refused{http.StatusOK, said(&http.Response{}, answer)}
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
	p.Logger.Info("the session was begun again", "server", p.door)
	if now.version != old.version {
		p.Logger.Warn("the server speaks another revision now; if something goes wrong, start again", "was", old.version, "is", now.version)
	}
	return nil
}

// endSession tells the server that the session is over, if there is one.
func (p *proxy) endSession() {
	p.mu.Lock()
	s := p.session
	p.session = session{}
	p.mu.Unlock()
	if s.id == "" {
		return
	}
	// Also when everything else has to end.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.ctx), farewell)
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

// tell brings the server a message that has no answer.
func (p *proxy) tell(m *jsonrpc.Message) {
	s := p.current()
	for range 2 {
		resp, err := p.post(p.ctx, s, m)
		if err != nil {
			p.Logger.Error("the server was not told", "method", m.Method, "server", p.door, "error", err)
			return
		}
		resp.Body.Close()
		switch {
		case resp.StatusCode == http.StatusNotFound && s.id != "" && m.Method != "": // what answers a question of the old session is of no use in a new one
			if err := p.renew(p.ctx, s); err != nil {
				p.Logger.Error("the session could not be begun again", "server", p.door, "error", err)
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

// hear begins to hear of what the server says on its own.
func (p *proxy) hear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hears {
		return
	}
	p.hears = true
	ctx, cancel := context.WithCancel(p.ctx)
	p.deaf = cancel
	p.work.Go(func() {
		defer cancel()
		p.notices(ctx)
	})
}

// notices passes on what the server says on its own, and connects again when the
// connection breaks.
func (p *proxy) notices(ctx context.Context) {
	told := false
	for pause := firstPause; ctx.Err() == nil; pause = min(2*pause, lastPause) {
		s, began := p.current(), time.Now()
		err := p.noticesOf(ctx, s)
		var r *refused
		switch {
		case ctx.Err() != nil:
			return
		case errors.As(err, &r) && r.status == http.StatusMethodNotAllowed:
			if p.deafTo(s) {
				return
			}
		case errors.Is(err, errSession):
			if err := p.renew(ctx, s); err != nil && ctx.Err() == nil {
				p.Logger.Warn("the session could not be begun again", "server", p.door, "error", err)
			}
		case err != nil && told:
		case err != nil:
			told = true
			p.Logger.Warn("what the server says on its own is not heard; it is tried again", "server", p.door, "error", err)
		case time.Since(began) > lastPause:
			pause, told = firstPause, false // it was good for a while
		}
		wait(ctx, pause)
	}
}

// deafTo ends the hearing if the server says nothing on its own, in what still is
// the session.
func (p *proxy) deafTo(s session) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.session == s {
		p.hears = false
	}
	return !p.hears
}

// noticesOf passes on what the server says on its own in a session, until the
// stream ends.
func (p *proxy) noticesOf(ctx context.Context, s session) error {
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
		return errSession
	case resp.StatusCode != http.StatusOK || !streams(resp):
		return &refused{status: resp.StatusCode}
	}
	_, err = p.pass(newEvents(watch(resp.Body, cancel)), nil)
	return err
}
