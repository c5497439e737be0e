// Package api serves /api/v1, the HTTP API for programs. The command line uses it to reach a
// running server.
package api

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"patchbay/internal/account"
	"patchbay/internal/control"
	"patchbay/internal/hub"
	"patchbay/internal/i18n"
	"patchbay/internal/observe"
	"patchbay/internal/problem"
	"patchbay/internal/seal"
	"patchbay/internal/tracing"
)

// Options configures a [Server].
type Options struct {
	Control *control.Service
	Guard   *account.Guard
	Streams *account.Streams // counts requests, and ends those of revoked keys; may be nil
	Logger  *slog.Logger
	Tracer  *tracing.Tracer // continues the traces of programs; nil: nothing is traced
	Address func(*http.Request) netip.Addr
}

// Server serves /api/v1. It is safe for concurrent use.
type Server struct {
	*control.Service
	Options
	mux        *http.ServeMux
	operations []Operation
	key        string // of this process; valid only from this machine
}

// New returns a server, with a key of its own for the command line on this machine.
func New(o Options) (*Server, error) {
	s := &Server{Service: o.Control, Options: o, mux: http.NewServeMux(), key: "pb_local_" + seal.NewToken(32)}
	s.instanceOperations()
	s.homeOperations()
	s.botOperations()
	s.deviceOperations()
	s.nodeOperations()
	s.toolOperations()
	s.recordOperations()
	s.keyOperations()
	s.approvalOperations()
	if o.Control.Points != nil {
		s.learnOperations()
	}
	s.describe()
	return s, nil
}

// Key returns the process's own key.
func (s *Server) Key() string { return s.key }

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store") // responses contain keys, tokens and personal data
	s.mux.ServeHTTP(w, r)
}

var errForeign = errors.New("the local key is good on this machine only")

// allScopes are the scopes of keys that may call all operations.
var allScopes = []string{account.ScopeOperator, account.ScopeAdmin}

// withKeyLifetime counts a request, and cancels it when its key becomes invalid. The key of this
// process never does.
func (s *Server) withKeyLifetime(ctx context.Context, who account.Principal) (in context.Context, leave func(),
	err error) {
	if who.Key.ID == "" {
		return ctx, func() {}, nil
	}
	return s.Streams.Key(ctx, who)
}

// caller authenticates a request with a key that has one of the scopes. The caller of the key of
// this process is its command line, and has no account.
func (s *Server) caller(r *http.Request, scopes []string) (c control.Caller, who account.Principal, err error) {
	secret, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	from := s.Address(r)
	if subtle.ConstantTimeCompare([]byte(secret), []byte(s.key)) == 1 {
		if !from.IsLoopback() || observe.IsForwarded(r) {
			return control.Caller{}, who, errForeign
		}
		return control.Caller{Admin: true, Rules: control.PeoplesRules, Program: "cli", Agent: r.UserAgent(),
			Address: from.String(), Lang: lang(r)}, who, nil
	}
	p, err := s.Accounts.Authenticate(r.Context(), secret, scopes...)
	if err == nil && p.Key.Client != "" { // a token is for the MCP endpoints (RFC 8707 §2)
		err = account.ErrScope
	}
	if err != nil {
		return control.Caller{}, who, err
	}
	rules := forPeople(p.Key.Rules)
	bound := rules
	if p.Key.Bot != 0 {
		rules = hub.NarrowRules(rules, hub.BotToolNames)
	}
	onlyLearn := !slices.ContainsFunc(p.Key.Scopes, func(s string) bool { return slices.Contains(allScopes, s) })
	if onlyLearn {
		rules = control.LearnRules(rules)
	}
	return control.Caller{
		Person: p.Person.ID, Key: p.Key.ID, Only: p.Key.Bot, Ends: p.Key.Expires, Rules: rules, Bound: bound,
		Learn:   onlyLearn,
		Admin:   p.Person.Role == account.RoleAdmin && slices.Contains(p.Key.Scopes, account.ScopeAdmin),
		Program: "api", Agent: r.UserAgent(), Address: from.String(), Lang: lang(r),
	}, p, nil
}

// forPeople returns a key's rules for this API.
func forPeople(rules string) string {
	r, err := hub.ParseRules(rules)
	if err != nil {
		return rules // the caller of the rules reports the error
	}
	r.People = true
	return r.String()
}

// AllowsAdmin reports whether a request has a valid key of an administrator with scope admin.
func (s *Server) AllowsAdmin(r *http.Request) bool {
	c, _, err := s.caller(r, allScopes)
	return err == nil && c.Admin
}

// guarded requires a key with one of the scopes of an operation.
func (s *Server) guarded(o Operation, next handler) http.HandlerFunc {
	open := allScopes
	if o.Scope != "" {
		open = append([]string{o.Scope}, open...)
	}
	wanted := "a key with scope " + strings.Join(open[:len(open)-1], ", ") + " or " + open[len(open)-1] + " is needed"
	return func(w http.ResponseWriter, r *http.Request) {
		if _, password, ok := r.BasicAuth(); ok && o.basic {
			r.Header.Set("Authorization", "Bearer "+password)
		}
		c, who, err := s.caller(r, open)
		switch {
		case err == nil:
			ctx, leave, err := s.withKeyLifetime(r.Context(), who)
			defer leave()
			if err != nil {
				w.Header().Set("Retry-After", "60")
				fail(w, problem.RateLimited,
					"this key, or its person, has too many requests open; wait for some to end")
				return
			}
			next(w, r.WithContext(s.Tracer.Continue(ctx, s.Tracer.LinkOf(r.Header))), c)
		case errors.Is(err, errForeign) || account.Refused(err):
			tooMany := !errors.Is(err, account.ErrPaused) && s.Guard.Refuse(s.Address(r))
			s.Logger.WarnContext(r.Context(), "a key was refused", "channel", "api", "cause", err,
				"address", s.Address(r))
			if tooMany {
				w.Header().Set("Retry-After", "60")
				fail(w, problem.RateLimited, "too many refused keys from this address; wait a minute")
				return
			}
			w.Header().Set("WWW-Authenticate", "Bearer")
			if o.basic {
				w.Header().Add("WWW-Authenticate", `Basic realm="patchbay"`)
			}
			if errors.Is(err, account.ErrPaused) {
				fail(w, problem.Unauthorized, control.MsgPaused.In(lang(r)))
			} else {
				fail(w, problem.Unauthorized, wanted)
			}
		default:
			s.Logger.ErrorContext(r.Context(), "a key could not be checked", "error", err)
			fail(w, problem.Unavailable, "the key could not be checked; try again later")
		}
	}
}

// lang returns the language that a caller prefers.
func lang(r *http.Request) i18n.Lang {
	return i18n.ParseLang(r.Header.Get("Accept-Language"), i18n.English)
}

// internalError responds to an internal error.
func (s *Server) internalError(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	s.Logger.ErrorContext(r.Context(), "api", "path", r.URL.Path, "error", err)
	fail(w, problem.Internal, "something is wrong on our side; the log of request "+
		observe.RequestID(r.Context())+" tells what")
}

func reply(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	json.NewEncoder(w).Encode(v) //nolint:errcheck // the caller has disconnected
}

// fail responds with an error.
func fail(w http.ResponseWriter, c problem.Code, message string) {
	respond(w, c.Status(), Failure{Message: message, Code: string(c)})
}

func respond(w http.ResponseWriter, status int, f Failure) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(f) //nolint:errcheck // the caller has disconnected
}
