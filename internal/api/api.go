// Package api is how programs run the board over HTTP: /api/v1. The command line
// uses it to reach a running server.
package api

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/board"
	"patchbay/internal/fetch"
	"patchbay/internal/observe"
	"patchbay/internal/seal"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// Options make a server.
type Options struct {
	Board    *board.Board
	Accounts *account.Service
	Guard    *account.Guard
	Logger   *slog.Logger
	Address  func(*http.Request) netip.Addr
	Version  string
	// Health tells how the connection of a bot is.
	Health func(store.Bot) Health
	// Disconnect ends the connections of a bot, which was removed or has another
	// token now.
	Disconnect func(bot int64)
	// Upstream tells how the connection of an upstream is.
	Upstream func(store.Upstream) UpstreamHealth
	// Listen writes what a device hears to w, as an Ogg stream, until ctx ends or the
	// device ends it. Its error is told as it says if it is, or wraps, a *tool.Error.
	// If it is nil, there is nothing to be listened to.
	Listen func(ctx context.Context, device int64, w io.Writer) error
	// Nodes does something about OpenClaw's nodes. Its error is told as it says if it
	// is, or wraps, a [*NodeError].
	Nodes func(context.Context, NodeAct) (json.RawMessage, error)
}

// Health is how the connection of a bot is, for its owner.
type Health struct {
	Connections int       `json:"connections,omitempty"`
	Since       time.Time `json:"connected_since,omitzero"`
	LastSeen    time.Time `json:"last_heard,omitzero"`
	// Gateway is the version of OpenClaw at the far side, if it is known.
	Gateway string   `json:"gateway,omitempty"`
	Trouble talk.Say `json:"-"`
	// Command is what the far side's owner has to run on its machine, if that helps.
	Command string `json:"command,omitempty"`
}

// Server is /api/v1. It is safe for concurrent use.
type Server struct {
	Options
	mux *http.ServeMux
	key string // of this process; good from this machine only
}

// New makes a server, with a key of its own for the command line on this machine.
func New(o Options) (*Server, error) {
	s := &Server{Options: o, mux: http.NewServeMux(), key: "pb_local_" + seal.Token(32)}
	s.mux.HandleFunc("GET /api/v1/status", s.guarded(s.status))
	s.mux.HandleFunc("GET /api/v1/bots", s.guarded(s.bots))
	s.mux.HandleFunc("POST /api/v1/bots/{bot}/disconnect", s.guarded(s.disconnect))
	s.mux.HandleFunc("POST /api/v1/ask", s.guarded(s.ask))
	s.mux.HandleFunc("GET /api/v1/tools", s.guarded(s.tools))
	s.mux.HandleFunc("POST /api/v1/tools/{name}/call", s.guarded(s.call))
	s.mux.HandleFunc("GET /api/v1/upstreams", s.guarded(s.upstreams))
	s.mux.HandleFunc("GET /api/v1/calls", s.guarded(s.calls))
	s.mux.HandleFunc("GET /api/v1/notices", s.guarded(s.notices))
	s.mux.HandleFunc("GET /api/v1/devices", s.guarded(s.devices))
	s.mux.HandleFunc("GET /api/v1/devices/waiting", s.guarded(s.waiting))
	s.mux.HandleFunc("POST /api/v1/devices/approve", s.guarded(s.approve))
	s.mux.HandleFunc("GET /api/v1/devices/{device}", s.guarded(s.showDevice))
	s.mux.HandleFunc("PATCH /api/v1/devices/{device}", s.guarded(s.changeDevice))
	s.mux.HandleFunc("DELETE /api/v1/devices/{device}", s.guarded(s.removeDevice))
	s.mux.HandleFunc("GET /api/v1/devices/{device}/tools", s.guarded(s.deviceTools))
	s.mux.HandleFunc("POST /api/v1/devices/{device}/tools/{tool}/call", s.guarded(s.callDevice))
	s.mux.HandleFunc("GET /api/v1/devices/{device}/listen", s.guarded(s.listen))
	s.nodeRoutes()
	return s, nil
}

// Key is the process's own key.
func (s *Server) Key() string { return s.key }

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// caller is who calls; an empty Person is the operator of this machine.
type caller struct {
	Person string
	Admin  bool
	Key    string // id
	Only   int64  // the only bot that the key opens; 0: any
	Rules  string // of the key, as kept
}

// owner is whose bots the caller sees; empty: everybody's.
func (c caller) owner() string {
	if c.Admin {
		return ""
	}
	return c.Person
}

var errForeign = errors.New("the local key is good on this machine only")

// caller finds out who calls.
func (s *Server) caller(r *http.Request) (caller, error) {
	secret, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if subtle.ConstantTimeCompare([]byte(secret), []byte(s.key)) == 1 {
		if !s.Address(r).IsLoopback() || observe.Forwarded(r) {
			return caller{}, errForeign
		}
		return caller{Admin: true, Rules: peoples}, nil
	}
	p, err := s.Accounts.Authenticate(r.Context(), secret, account.ScopeOperator, account.ScopeAdmin)
	if err != nil {
		return caller{}, err
	}
	return caller{
		Person: p.Person.ID, Key: p.Key.ID, Only: p.Key.Bot, Rules: forPeople(p.Key.Rules),
		Admin: p.Person.Role == account.RoleAdmin && slices.Contains(p.Key.Scopes, account.ScopeAdmin),
	}, nil
}

// peoples are the rules of whoever runs the board: people, by the command line or
// pages, so that what is for people is for them.
var peoples = board.Rules{People: true}.String()

// forPeople are a key's rules here.
func forPeople(rules string) string {
	r, err := board.ParseRules(rules)
	if err != nil {
		return rules // whoever uses them says what is wrong
	}
	r.People = true
	return r.String()
}

// Allows says whether a request shows a good key.
func (s *Server) Allows(r *http.Request) bool {
	_, err := s.caller(r)
	return err == nil
}

func (s *Server) guarded(next func(http.ResponseWriter, *http.Request, caller)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c, err := s.caller(r)
		switch {
		case err == nil:
			next(w, r, c)
		case errors.Is(err, errForeign) || account.Refused(err):
			tooMany := s.Guard.Refuse(s.Address(r))
			s.Logger.WarnContext(r.Context(), "a key was refused", "door", "api", "cause", err, "address", s.Address(r))
			if tooMany {
				w.Header().Set("Retry-After", "60")
				fail(w, http.StatusTooManyRequests, "too many refused keys from this address; wait a minute")
				return
			}
			w.Header().Set("WWW-Authenticate", "Bearer")
			fail(w, http.StatusUnauthorized, "a key with scope operator or admin is needed")
		default:
			s.Logger.ErrorContext(r.Context(), "a key could not be checked", "error", err)
			fail(w, http.StatusServiceUnavailable, "the key could not be checked; try again later")
		}
	}
}

func (s *Server) status(w http.ResponseWriter, _ *http.Request, _ caller) {
	reply(w, map[string]any{
		"version": s.Version, "database": s.Board.Store.Dialect(), "instance": s.Board.Bus.Instance, "others": s.Board.Bus.Peers(),
	})
}

// BotStatus is a bot as /api/v1/bots lists it.
type BotStatus struct {
	store.Bot
	Online  bool   `json:"online"`
	Trouble string `json:"trouble,omitempty"`
	Health
}

func (s *Server) bots(w http.ResponseWriter, r *http.Request, c caller) {
	list, err := s.Board.Store.Bots.ByOwner(r.Context(), c.owner())
	if err != nil {
		s.broken(w, r, err)
		return
	}
	out := make([]BotStatus, len(list))
	for i, b := range list {
		h := s.Health(b)
		out[i] = BotStatus{Bot: b, Online: s.Board.Reachable(b), Health: h, Trouble: h.Trouble.In(lang(r))}
	}
	reply(w, map[string]any{"bots": out})
}

// lang is the language that a caller wants to be told things in.
func lang(r *http.Request) talk.Lang {
	return talk.ParseLang(r.Header.Get("Accept-Language"), talk.English)
}

// disconnect ends a bot's connections. The bot may be gone already, and with it
// whose it was: so this is for those who run the installation.
func (s *Server) disconnect(w http.ResponseWriter, r *http.Request, c caller) {
	bot, err := strconv.ParseInt(r.PathValue("bot"), 10, 64)
	switch {
	case err != nil:
		fail(w, http.StatusNotFound, "a bot is named by its number here")
	case !c.Admin:
		fail(w, http.StatusForbidden, "a key with scope admin is needed")
	default:
		s.Disconnect(bot)
		reply(w, map[string]any{"id": bot, "disconnected": true})
	}
}

// Question is the body of /api/v1/ask.
type Question struct {
	Bot          string `json:"bot"` // number or name
	Text         string `json:"text"`
	Image        []byte `json:"image,omitempty"` // base64
	Conversation string `json:"conversation,omitempty"`
	Lang         string `json:"lang,omitempty"`
}

// Line is one line of the answer of /api/v1/ask: an event, or the end.
type Line struct {
	Event   *talk.Event `json:"event,omitempty"`
	End     bool        `json:"end,omitempty"`
	Turn    string      `json:"turn,omitempty"`
	Error   string      `json:"error,omitempty"` // what a person is told
	Failure string      `json:"cause,omitempty"` // what the owner is told
}

// maxQuestion is a picture of 8 MiB in base64, and the text.
const maxQuestion = 12 << 20

// ask puts a question to a bot and streams the answer, a JSON object a line.
func (s *Server) ask(w http.ResponseWriter, r *http.Request, c caller) {
	var q Question
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxQuestion)).Decode(&q); err != nil {
		fail(w, http.StatusBadRequest, "the body is not a question in JSON, or is too large")
		return
	}
	bot, err := s.Board.Registry.Find(r.Context(), c.owner(), q.Bot)
	if err != nil {
		fail(w, http.StatusNotFound, "there is no bot "+q.Bot)
		return
	}
	person := c.Person
	if person == "" {
		person = bot.Owner // the operator of this machine asks in the owner's place
	}
	turn, err := Turn(bot, q, person)
	if err != nil {
		fail(w, http.StatusBadRequest, err.Error())
		return
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("X-Accel-Buffering", "no")
	lines := json.NewEncoder(w)
	control := http.NewResponseController(w)
	err = s.Board.Answer(r.Context(), turn, func(e talk.Event) error {
		control.SetWriteDeadline(time.Now().Add(10 * time.Second)) //nolint:errcheck // not every connection has one
		if err := lines.Encode(Line{Event: &e}); err != nil {
			return err
		}
		return control.Flush()
	})
	last := Line{End: true, Turn: turn.ID}
	if f := talk.AsFailure(err); f != nil {
		last.Error, last.Failure = f.Sentence(turn.Lang), f.Error()
	}
	lines.Encode(last) //nolint:errcheck // the caller has gone
}

// Turn makes a turn of a question from the command line.
func Turn(bot store.Bot, q Question, person string) (*talk.Turn, error) {
	turn := &talk.Turn{
		Bot: bot.Number, Door: "cli", Lang: talk.ParseLang(q.Lang, talk.English), Conversation: q.Conversation,
		Commands: []string{talk.CommandTakePhoto, talk.CommandNavigate, talk.CommandCalendar, talk.CommandLeave},
	}
	if q.Conversation != "" {
		turn.Person = "cli:" + person
	}
	if q.Text != "" {
		turn.Parts = append(turn.Parts, talk.Part{Text: q.Text})
	}
	if len(q.Image) > 0 {
		im, err := fetch.NewImage(q.Image)
		if err != nil {
			return nil, errors.New("the picture cannot be read; WebP, JPEG, PNG and GIF can")
		}
		turn.Parts = append(turn.Parts, talk.Part{Image: &talk.Image{MIME: im.MIME, Data: im.Data}})
	}
	if len(turn.Parts) == 0 {
		return nil, errors.New("say something, or show a picture")
	}
	return turn, nil
}

// broken answers what is our own fault.
func (s *Server) broken(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	s.Logger.ErrorContext(r.Context(), "api", "path", r.URL.Path, "error", err)
	fail(w, http.StatusInternalServerError, "something is wrong on our side; the log of request "+observe.RequestID(r.Context())+" tells what")
}

func reply(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	json.NewEncoder(w).Encode(v) //nolint:errcheck // the caller has gone
}

func fail(w http.ResponseWriter, status int, message string) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(map[string]string{"error": message}) //nolint:errcheck // the caller has gone
}
