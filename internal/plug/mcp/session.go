package mcp

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/hub"
	"patchbay/internal/jsonrpc"
	"patchbay/internal/seal"
	"patchbay/internal/tool"
	"patchbay/internal/tracing"
)

// session is the server side of one client's session in the revisions with sessions, on any
// channel. It is safe for concurrent use.
type session struct {
	server    *Server
	id        string
	channel   string
	key       string // id of the key that owns it
	version   string
	abilities tool.Capabilities
	program   string
	choice    choice
	listener  *listener
	level     atomic.Int64
	lastUsed  atomic.Int64 // Unix nanoseconds

	ctx    context.Context
	cancel context.CancelFunc

	mu              sync.Mutex
	calls           map[string]context.CancelCauseFunc // cancels running requests, by request id
	pendingRequests map[int64]chan jsonrpc.Message     // requests of the server to the client
	nextID          int64                              // id of the next server request
	streams         map[string]*eventLog
	streamCount     int // streams opened so far
	notifications   *notificationStream
	pipe            *pipe // for transports with a single stream; else nil
}

// notificationStream is an open stream of notifications.
type notificationStream struct{ cancel context.CancelFunc }

const (
	// maxCallsPerSession limits the concurrent requests of one session.
	maxCallsPerSession = 64
	// defaultLevel is the least important log level sent to clients that set none.
	defaultLevel = 1
)

var (
	errCancelled = errors.New("the client cancelled the request")
	errBusy      = errors.New("too many requests of this session are running")
	errSameID    = errors.New("a request with this id is running already")
)

// beginCall registers a running request, so that it can be cancelled by its id. The caller must
// call finishCall.
func (s *session) beginCall(ctx context.Context, id json.RawMessage) (context.Context, context.CancelCauseFunc, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.calls) >= maxCallsPerSession {
		return nil, nil, errBusy
	}
	if s.calls[string(id)] != nil {
		return nil, nil, errSameID
	}
	ctx, cancel := context.WithCancelCause(ctx)
	s.calls[string(id)] = cancel
	return ctx, cancel, nil
}

// finishCall unregisters a running request.
func (s *session) finishCall(id json.RawMessage, cancel context.CancelCauseFunc) {
	cancel(nil)
	s.touch()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.calls, string(id))
}

func (s *session) touch() { s.lastUsed.Store(time.Now().UnixNano()) }

// handleNotification handles a notification from the client.
func (s *session) handleNotification(m *jsonrpc.Message) {
	if m.Method != "notifications/cancelled" {
		return
	}
	for in := jsonrpc.Scan(m.Params); in.Next(); {
		if string(in.Key) == "requestId" {
			s.mu.Lock()
			cancel := s.calls[string(in.Value)]
			s.mu.Unlock()
			if cancel != nil {
				cancel(errCancelled)
			}
		}
	}
}

// handleResponse handles the client's response to a server request.
func (s *session) handleResponse(m *jsonrpc.Message) {
	id, err := strconv.ParseInt(string(m.ID), 10, 64)
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if waiting := s.pendingRequests[id]; waiting != nil {
		waiting <- *m // buffered, never blocks
		delete(s.pendingRequests, id)
	}
}

// request sends the client a request and waits for the response, which is a result, or the error
// object of one that refuses.
func (s *session) request(ctx context.Context, out sender, r tool.Request, version string) (result,
	refusal json.RawMessage, err error) {
	answer := make(chan jsonrpc.Message, 1)
	s.mu.Lock()
	s.nextID++
	id := s.nextID
	s.pendingRequests[id] = answer
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.pendingRequests, id)
	}()
	params := r.Params
	if version < "2025-11-25" {
		params = jsonrpc.Without(params, "mode") // older revisions have a single mode
	}
	if len(params) == 0 {
		params = json.RawMessage("{}")
	}
	if err := out.send(jsonrpc.AppendRequest(nil, strconv.AppendInt(nil, id, 10), r.Method, params)); err != nil {
		return nil, nil, tool.Fail(tool.Cancelled, "The client cannot be asked.", err)
	}
	select {
	case m := <-answer:
		return slices.Clone(m.Result), slices.Clone(m.Error), nil
	case <-ctx.Done():
		return nil, nil, tool.Fail(tool.Cancelled, "The call was cancelled.", context.Cause(ctx))
	}
}

// end ends the session and everything that runs in it.
func (s *session) end() { s.cancel() }

// isBusy reports whether the session has a running request or an open stream.
func (s *session) isBusy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.calls) > 0 || s.notifications != nil || s.pipe != nil
}

// sessions holds the sessions in memory. The id of a Streamable HTTP session contains its state,
// signed: a session that was dropped from memory, or that comes from another instance or from
// before a restart, is restored from its id.
type sessions struct {
	server *Server

	mu     sync.RWMutex
	all    map[string]*session
	perKey map[string]int
	ended  map[string]time.Time // ids of sessions that clients ended
	closed bool
}

func newSessions(s *Server) *sessions {
	return &sessions{server: s, all: map[string]*session{}, perKey: map[string]int{}, ended: map[string]time.Time{}}
}

var (
	errNoSession = errors.New("no such session")
	errTooMany   = errors.New("too many sessions")
)

// maxEndedIDs limits the remembered ids of ended sessions.
const maxEndedIDs = 20_000

// abilityBits returns a client's capabilities as encoded in a session id.
func abilityBits(can tool.Capabilities) (bits byte) {
	for i, b := range []bool{can.Elicit, can.Sample, can.Roots, can.ElicitURL, can.SampleTools, can.Apps} {
		if b {
			bits |= 1 << i
		}
	}
	return bits
}

const (
	idRandom = 12
	idLength = idRandom + 2 // plus revision and capabilities
)

// newID returns a new session id for the caller.
func (s *Server) newID(c caller, version string, can tool.Capabilities) string {
	var raw [idLength]byte
	rand.Read(raw[:idRandom])
	raw[idRandom], raw[idRandom+1] = byte(slices.Index(revisions, version)), abilityBits(can)
	text := base64.RawURLEncoding.EncodeToString(raw[:])
	return text + "." + s.sign("session", text, c.sessionOwner())
}

// sign returns a 128-bit signature of texts that contain no line break.
func (s *Server) sign(texts ...string) string { return sign(s.Box.Key(), texts) }

func sign(k *seal.Key, texts []string) string {
	return k.MAC("mcp\n" + strings.Join(texts, "\n"))[:32]
}

// verifySignature reports whether a signature is valid.
func (s *Server) verifySignature(signature string, texts ...string) bool {
	same := 0
	for _, k := range s.Box.Keys() {
		same |= subtle.ConstantTimeCompare([]byte(signature), []byte(sign(k, texts)))
	}
	return same == 1
}

// readID decodes a session id. It returns false if the id is not one of the caller's.
func (s *Server) readID(id string, c caller) (version string, can tool.Capabilities, ok bool) {
	text, signature, _ := strings.Cut(id, ".")
	if !s.verifySignature(signature, "session", text, c.sessionOwner()) {
		return "", can, false
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(raw) != idLength || int(raw[idRandom]) >= len(revisions) {
		return "", can, false
	}
	bits := raw[idRandom+1]
	return revisions[raw[idRandom]], tool.Capabilities{Elicit: bits&1 != 0, Sample: bits&2 != 0, Roots: bits&4 != 0,
		ElicitURL: bits&8 != 0, SampleTools: bits&16 != 0, Apps: bits&32 != 0}, true
}

// makeSession creates a session without adding it to the table.
func (s *Server) makeSession(id, channel, version string, can tool.Capabilities, p caller) (*session, error) {
	v, err := s.Hub.View(p.access.Person, p.access.Rules)
	if err != nil {
		return nil, err
	}
	x := &session{
		server: s, id: id, channel: channel, key: p.access.Key, version: version, abilities: can,
		choice: p.choice, listener: newListener(p.access, v),
		calls: map[string]context.CancelCauseFunc{}, pendingRequests: map[int64]chan jsonrpc.Message{},
		streams: map[string]*eventLog{},
	}
	x.listener.only, x.listener.unkeyed = p.choice.only, p.principal.Key.ID == ""
	x.listener.tools, x.listener.prompts, x.listener.resources = true, channel != channelLearn, channel != channelLearn
	x.level.Store(defaultLevel)
	x.touch()
	x.ctx, x.cancel = context.WithCancel(s.ctx)
	context.AfterFunc(x.ctx, x.listener.close)
	return x, nil
}

// add adds a session to the table. If the table is full, it drops the session that has been
// unused the longest.
func (t *sessions) add(s *session) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		s.end()
		return errTooMany
	}
	full := t.perKey[s.key] >= t.server.MaxSessionsPerKey
	if full || len(t.all) >= t.server.MaxSessions {
		if !t.makeRoom(s.key, full) {
			s.end()
			return errTooMany
		}
	}
	t.all[s.id] = s
	t.perKey[s.key]++
	return nil
}

// makeRoom drops an idle session: one of the key's own if ofKey. The caller holds mu.
func (t *sessions) makeRoom(key string, ofKey bool) bool {
	var oldest *session
	for _, s := range t.all {
		if ofKey && s.key != key || s.isBusy() {
			continue
		}
		if oldest == nil || s.lastUsed.Load() < oldest.lastUsed.Load() {
			oldest = s
		}
	}
	if oldest == nil {
		return false
	}
	t.drop(oldest)
	return true
}

// drop removes a session from memory. The caller holds mu.
func (t *sessions) drop(s *session) {
	if t.all[s.id] != s {
		return
	}
	delete(t.all, s.id)
	if t.perKey[s.key]--; t.perKey[s.key] == 0 {
		delete(t.perKey, s.key)
	}
	s.end()
}

// find returns a session of a key, from memory or restored from its id.
func (t *sessions) find(id string, p caller) (*session, error) {
	t.mu.RLock()
	s := t.all[id]
	_, ended := t.ended[id]
	t.mu.RUnlock()
	if s != nil && s.key == p.access.Key && s.channel == p.access.Channel {
		s.touch()
		return s, nil
	}
	if s != nil || ended {
		return nil, errNoSession
	}
	version, can, ok := t.server.readID(id, p)
	if !ok {
		return nil, errNoSession
	}
	s, err := t.server.makeSession(id, p.access.Channel, version, can, p)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	if other := t.all[id]; other != nil {
		t.mu.Unlock()
		s.end()
		return other, nil // a concurrent request restored it first
	}
	t.mu.Unlock()
	return s, t.add(s)
}

// remove ends a session permanently.
func (t *sessions) remove(s *session) { t.forget(s.id, s.key) }

// forget ends a key's session permanently, whether it is in memory or not.
func (t *sessions) forget(id, key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.all[id]; s != nil {
		if s.key != key {
			return
		}
		t.drop(s)
	}
	if len(t.ended) >= maxEndedIDs {
		clear(t.ended) // harmless: whoever has the id needs the key too
	}
	t.ended[id] = time.Now()
}

func (t *sessions) count() int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.all)
}

func (t *sessions) closeAll() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	for _, s := range t.all {
		t.drop(s)
	}
}

// sweep drops idle sessions.
func (s *Server) sweep() {
	tick := time.NewTicker(max(s.IdleTimeout/10, time.Second))
	defer tick.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case now := <-tick.C:
			s.sessions.sweep(now.Add(-s.IdleTimeout))
		}
	}
}

func (t *sessions) sweep(before time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var idle []*session
	for _, s := range t.all {
		if s.lastUsed.Load() < before.UnixNano() && !s.isBusy() {
			idle = append(idle, s)
		}
	}
	for _, s := range idle {
		t.drop(s)
	}
	for id, at := range t.ended {
		if at.Before(before) {
			delete(t.ended, id)
		}
	}
}

// caller identifies the sender of one request.
type caller struct {
	access    hub.Access
	principal account.Principal // zero without a key
	choice    choice
	trace     tracing.Link // of the HTTP request
}

// sessionOwner returns the owner that a session id is signed for: the key and its channel. On
// the first channel it is the key alone, as it was when there was only one.
func (c caller) sessionOwner() string {
	if c.access.Channel == channelMCP {
		return c.access.Key
	}
	return c.access.Key + " " + c.access.Channel
}

func newCaller(p account.Principal, channel string) caller {
	rules := p.Key.Rules
	if p.Key.Bot != 0 {
		rules = hub.NarrowRules(rules, hub.BotToolNames) // the key opens one bot and nothing else
	}
	return caller{access: hub.Access{Caller: tool.Caller{
		Person: p.Person.ID, Key: p.Key.ID, OnlyBot: p.Key.Bot, KeyRules: p.Key.Rules, Channel: channel,
		Lang: p.Person.Lang,
	}, Rules: rules}, principal: p}
}
