package upstream

import (
	"context"
	"encoding/json"
	"errors"
)

// inFlight is a request to a server that waits for its response. One goroutine at a time uses it.
type inFlight struct {
	s          *session
	p          *pending
	sent       chan error // gets one value; nil after that
	cancelSend context.CancelFunc
	takesTask  bool // the server may answer with a task
}

// dispatch sends the request that p was registered for.
func (s *session) dispatch(p *pending, m *outgoing) (*inFlight, error) {
	// send may outlive the response by a moment, so it has its own context.
	sending, cancel := context.WithCancel(s.ctx)
	sent := make(chan error, 1)
	if !s.start(func() {
		defer cancel()
		sent <- s.wire.send(sending, m)
	}) {
		cancel()
		s.removePending(p)
		return nil, &unsentError{errClosed}
	}
	return &inFlight{s: s, p: p, sent: sent, cancelSend: cancel}, nil
}

// wait waits for the response, or for a request of the server, which comes first. Updates that
// arrive meanwhile are passed to tell, in the caller's goroutine; tell may be nil. After a request
// it has to be waited for again, or abandoned.
func (f *inFlight) wait(ctx context.Context, tell func(update)) (json.RawMessage, *serverRequest, error) {
	for {
		select {
		case a := <-f.p.answer:
			return f.end(a.result, a.err)
		case n := <-f.p.updates:
			tell(n)
		case q := <-f.p.requests:
			return nil, q, nil
		case err := <-f.sent:
			f.sent = nil
			if err != nil {
				f.s.handleSendError(err)
				return f.end(f.p.answerOr(err))
			}
		case <-f.s.done:
			f.cancelSend()
			return f.end(f.p.answerOr(&connectionLostError{f.s.err}))
		case <-ctx.Done():
			f.abandon(ctx.Err())
			return nil, nil, ctx.Err()
		}
	}
}

func (f *inFlight) end(result json.RawMessage, err error) (json.RawMessage, *serverRequest, error) {
	f.s.removePending(f.p)
	return result, nil, err
}

// abandon tells the server that nobody waits any more.
func (f *inFlight) abandon(why error) {
	if !f.takesTask || !f.s.start(func() { f.abandonTask(why) }) {
		f.drop(why)
	}
}

func (f *inFlight) drop(why error) {
	f.cancelSend()
	f.s.cancelRequest(f.p.id, why, f.sent)
	f.s.removePending(f.p)
}

// roundTrip sends a request and waits for its result. Without requests in p, the server cannot ask
// for anything meanwhile.
func (s *session) roundTrip(ctx context.Context, p *pending, m *outgoing) (json.RawMessage, error) {
	f, err := s.dispatch(p, m)
	if err != nil {
		return nil, err
	}
	raw, _, err := f.wait(ctx, nil)
	return raw, err
}

// Requests of a server to its client.
const (
	methodElicit = "elicitation/create"
	methodSample = "sampling/createMessage"
	methodRoots  = "roots/list"
)

// passOf has the [Settings.Pass] of requests of a server.
var passOf = map[string]string{methodElicit: "elicitation", methodSample: "sampling", methodRoots: "roots"}

// maxRequests limits the requests of a server that wait during one call. Further ones are refused.
const maxRequests = 8

// serverRequest is a request of the server.
type serverRequest struct {
	id     json.RawMessage
	method string
	params json.RawMessage
}

// noRoots is the answer for callers without roots (2025-11-25 client/roots, "Listing Roots").
var noRoots = json.RawMessage(`{"roots":[]}`)

// handleRequest passes a request of the server to the call that it belongs to, or answers it.
func (s *session) handleRequest(from int64, m *message) {
	switch q := (&serverRequest{m.ID, m.Method, m.Params}); m.Method {
	case "ping":
		s.queueReply(response(m.ID, json.RawMessage("{}"), nil))
	case methodElicit, methodSample, methodRoots:
		if !s.passes[passOf[m.Method]] {
			s.queueReply(q.refusal())
			return
		}
		if m.Method == methodRoots && s.roots != nil {
			s.queueReply(response(m.ID, s.roots, nil))
			return
		}
		if p := s.callOf(from); p != nil {
			select {
			case p.requests <- q:
				return
			default: // it asks for too much at once
			}
		}
		s.queueReply(q.refusal())
	default:
		s.queueReply(response(m.ID, nil, rpcFailure(codeMethodNotFound, "not supported by this client")))
	}
}

// refusal is the response to a request that nobody can answer.
func (q *serverRequest) refusal() *outgoing {
	if q.method == methodRoots {
		return response(q.id, noRoots, nil)
	}
	return response(q.id, nil, rpcFailure(codeInternal, "there is nobody who can be asked"))
}

func rpcFailure(code int, text string) json.RawMessage {
	raw, _ := encode(map[string]any{"code": code, "message": text})
	return raw
}

func (s *session) queueReply(m *outgoing) {
	if m == nil {
		return
	}
	select {
	case s.replies <- m:
	default: // the server does not read
	}
}

// callOf returns the call that a message of the server belongs to: that on whose stream it came, or
// the newest one, if all running calls are of one caller. Otherwise it could reach somebody who has
// nothing to do with it, so it belongs to none.
func (s *session) callOf(from int64) *pending {
	s.mu.Lock()
	defer s.mu.Unlock()
	if from != 0 {
		if p := s.pending[from]; p != nil && p.requests != nil {
			return p
		}
		return nil
	}
	var newest *pending
	for _, p := range s.pending {
		switch {
		case p.requests == nil:
		case newest != nil && p.caller != newest.caller:
			return nil
		case newest == nil || p.id > newest.id:
			newest = p
		}
	}
	return newest
}

// errAbandoned is the reason for ending a call whose caller has not answered the server.
var errAbandoned = errors.New("the caller did not answer in time")
