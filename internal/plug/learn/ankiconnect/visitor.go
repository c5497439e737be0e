package ankiconnect

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"

	"patchbay/internal/account"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

// visitor is who makes a request.
type visitor struct {
	secret string // the key; empty: nobody is known yet
	who    account.Principal
	caller control.Caller
	ctx    context.Context // ends with the key
	end    func()
}

func (v *visitor) known() bool { return v != nil && v.secret != "" }

// leave gives back the place among the requests of the key. It may be called several times.
func (v *visitor) leave() {
	if v != nil && v.end != nil {
		v.end()
		v.end = nil
	}
}

// denial is why somebody may not make a request.
type denial struct {
	cause      string // empty: they have gone away
	status     int
	retryAfter string
	text       string
}

// causeGuessing is the cause of refusals after too many wrong keys.
const causeGuessing = "guessing"

// deny answers a request that is refused.
func (s *Server) deny(w http.ResponseWriter, r *http.Request, d *denial) {
	if d.cause == "" {
		return
	}
	if d.retryAfter != "" {
		w.Header().Set("Retry-After", d.retryAfter)
	}
	s.refuse(w, r, d.cause, d.status, d.text)
}

// early returns who is known without the body: by the header Authorization, or by the key of those
// who send none; nobody if there is neither. It answers a refused request.
func (s *Server) early(w http.ResponseWriter, r *http.Request) (*visitor, bool) {
	kind, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if strings.EqualFold(kind, "Bearer") && token != "" {
		return s.enter(w, r, token)
	}
	key := s.keyWithout(r)
	if key == "" {
		return &visitor{}, true
	}
	who, err := s.identify(r.Context(), key)
	if err != nil { // the body may have another
		return &visitor{}, true
	}
	v, d := s.admit(r.Context(), r, key, who)
	if d != nil {
		s.deny(w, r, d)
	}
	return v, d == nil
}

// enter returns who has a key. It answers a refused request.
func (s *Server) enter(w http.ResponseWriter, r *http.Request, secret string) (*visitor, bool) {
	v, d := s.visit(r.Context(), r, secret)
	if d != nil {
		s.deny(w, r, d)
	}
	return v, d == nil
}

// visit returns who has a key. Their context is part of ctx.
func (s *Server) visit(ctx context.Context, r *http.Request, secret string) (*visitor, *denial) {
	who, err := s.identify(ctx, secret)
	switch {
	case err == nil:
		return s.admit(ctx, r, secret, who)
	case account.Guessed(err) && s.Guard.Refuse(s.Address(r)):
		return nil, &denial{causeGuessing, http.StatusTooManyRequests, "60",
			"too many refused keys from this address; wait a minute"}
	case account.Refused(err):
		// Clients expect a refusal with status 200 (plugin/__init__.py, handler).
		return nil, &denial{"key", http.StatusOK, "", textKey}
	case errors.Is(err, context.Canceled):
		return nil, &denial{}
	}
	s.Logger.ErrorContext(ctx, "a key could not be checked", "error", err)
	return nil, &denial{"database", http.StatusServiceUnavailable, "",
		"the key could not be checked; try again later"}
}

func (s *Server) identify(ctx context.Context, secret string) (account.Principal, error) {
	who, err := s.Control.Accounts.Authenticate(ctx, secret, account.ScopeLearn, account.ScopeOperator,
		account.ScopeAdmin)
	if err == nil && who.Key.Client != "" { // a token is for the MCP endpoints (RFC 8707 §2)
		err = account.ErrScope
	}
	return who, err
}

// admit gives a request a place among those of its key.
func (s *Server) admit(ctx context.Context, r *http.Request, secret string, who account.Principal) (*visitor, *denial) {
	in, leave, err := s.Streams.Key(ctx, who)
	if err != nil {
		leave()
		return nil, &denial{"busy", http.StatusTooManyRequests, "60",
			"this key, or its person, has too many requests open; wait for some to end"}
	}
	c := control.LearnCaller(who, Channel)
	c.Agent, c.Address = r.UserAgent(), s.Address(r).String()
	c.Lang = i18n.ParseLang(r.Header.Get("Accept-Language"), i18n.English)
	return &visitor{secret, who, c, in, leave}, nil
}

// work is what the parts of a request have together.
type work struct {
	root    context.Context // of the request
	actions int             // in multi so far
	size    int             // bytes of their answers
	keys    map[string]*exchange
	closed  string // why no more keys are checked; empty: they are
}

// leave gives back the places of all keys.
func (w *work) leave() {
	for _, x := range w.keys {
		x.visitor.leave()
	}
}

// with returns the exchange of a part of the request, which may have a key of its own, or why it is
// refused. A key is checked once.
func (x *exchange) with(q *request) (in *exchange, refused string) {
	if q.Key == "" || q.Action == actionPermission {
		return x, ""
	}
	in = x.work.keys[q.Key]
	if in == nil {
		in = x.check(q.Key)
		x.work.keys[q.Key] = in
	}
	return in, in.refused
}

func (x *exchange) check(secret string) *exchange {
	if x.work.closed != "" {
		return &exchange{refused: x.work.closed}
	}
	v, d := x.server.visit(x.work.root, x.from, secret)
	if d == nil {
		return x.server.exchange(x.from, v, x.work)
	}
	if d.cause != "" {
		x.server.logRefusal(x.from, d.cause)
	}
	if d.cause == causeGuessing {
		x.work.closed = d.text
	}
	return &exchange{refused: cmp.Or(d.text, textKey)}
}
