package mcp

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/board"
	"patchbay/internal/jsonrpc"
	"patchbay/internal/seal"
	"patchbay/internal/tool"
)

// session is what a client of a revision with sessions has with us, whatever
// door it came through. It is safe for concurrent use.
type session struct {
	server   *Server
	id       string
	door     string
	key      string // id of the key it belongs to
	version  string
	can      tool.Abilities
	program  string
	listener *listener
	level    atomic.Int64
	used     atomic.Int64 // Unix nanoseconds

	ctx    context.Context
	cancel context.CancelFunc

	mu      sync.Mutex
	calls   map[string]context.CancelCauseFunc // running requests by id
	asked   map[int64]chan jsonrpc.Message     // our requests
	next    int64                              // of our requests
	streams map[string]*eventLog
	opened  int // streams so far
	getting *getting
	pipe    *pipe // of doors that have one connection for everything; else nil
}

// getting is an open stream of notices.
type getting struct{ cancel context.CancelFunc }

const (
	// callsPerSession bounds the requests of one session at a time.
	callsPerSession = 64
	// defaultLevel is the least important log line for clients that said nothing.
	defaultLevel = 1
)

var (
	errCancelled = errors.New("the client cancelled the request")
	errBusy      = errors.New("too many requests of this session are running")
	errSameID    = errors.New("a request with this id is running already")
)

// begin counts a request in, so that it can be cancelled by its id. It is to be
// finished.
func (s *session) begin(ctx context.Context, id json.RawMessage) (context.Context, context.CancelCauseFunc, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.calls) >= callsPerSession {
		return nil, nil, errBusy
	}
	if s.calls[string(id)] != nil {
		return nil, nil, errSameID
	}
	ctx, cancel := context.WithCancelCause(ctx)
	s.calls[string(id)] = cancel
	return ctx, cancel, nil
}

// finish counts a request out.
func (s *session) finish(id json.RawMessage, cancel context.CancelCauseFunc) {
	cancel(nil)
	s.touch()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.calls, string(id))
}

func (s *session) touch() { s.used.Store(time.Now().UnixNano()) }

// note takes a notification of the client's.
func (s *session) note(m *jsonrpc.Message) {
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

// response takes the client's answer to a request of ours.
func (s *session) response(m *jsonrpc.Message) {
	id, err := strconv.ParseInt(string(m.ID), 10, 64)
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if waiting := s.asked[id]; waiting != nil {
		waiting <- *m // it has room for one
		delete(s.asked, id)
	}
}

// request asks the client for something, and waits for the answer.
func (s *session) request(ctx context.Context, out sender, r tool.Request, version string) (json.RawMessage, error) {
	answer := make(chan jsonrpc.Message, 1)
	s.mu.Lock()
	s.next++
	id := s.next
	s.asked[id] = answer
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.asked, id)
	}()
	params := r.Params
	if len(params) == 0 {
		params = json.RawMessage("{}")
	}
	if version < "2025-11-25" {
		params = without(params, "mode") // there was one mode only
	}
	if err := out.send(jsonrpc.AppendCall(nil, strconv.AppendInt(nil, id, 10), r.Method, params)); err != nil {
		return nil, tool.Fail(tool.Cancelled, "The client cannot be asked.", err)
	}
	select {
	case m := <-answer:
		if m.Error != nil {
			return nil, tool.Fail(tool.Failed, "The tool asked back, and the client could not answer.", fmt.Errorf("%w: %.300s", errClient, m.Error))
		}
		return slices.Clone(m.Result), nil
	case <-ctx.Done():
		return nil, tool.Fail(tool.Cancelled, "The call was cancelled.", context.Cause(ctx))
	}
}

// without is an object without one of its members.
func without(obj json.RawMessage, name string) json.RawMessage {
	o := object{[]byte{'{'}}
	for in := jsonrpc.Scan(obj); in.Next(); {
		if key := string(in.Key); key != name {
			quoted, _ := json.Marshal(key)
			o.raw(string(quoted[1:len(quoted)-1]), in.Value)
		}
	}
	return append(o.b, '}')
}

// end ends the session and all that runs in it.
func (s *session) end() { s.cancel() }

// busy says whether something of the session runs or is open.
func (s *session) busy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.calls) > 0 || s.getting != nil || s.pipe != nil
}

// sessions are those in memory. What a session of Streamable HTTP is stands in
// its id, signed: one that is not in memory any more, or came from another
// instance or from before a restart, goes on where it was.
type sessions struct {
	server *Server

	mu     sync.RWMutex
	all    map[string]*session
	perKey map[string]int
	ended  map[string]time.Time // ids that were ended by their clients
	closed bool
}

func newSessions(s *Server) *sessions {
	return &sessions{server: s, all: map[string]*session{}, perKey: map[string]int{}, ended: map[string]time.Time{}}
}

var (
	errNoSession = errors.New("no such session")
	errTooMany   = errors.New("too many sessions")
)

// endedMost bounds the ids of ended sessions that are remembered.
const endedMost = 20_000

// abilityBits are a client's abilities as they stand in a session's id.
func abilityBits(can tool.Abilities) (bits byte) {
	for i, b := range []bool{can.Elicit, can.Sample, can.Roots} {
		if b {
			bits |= 1 << i
		}
	}
	return bits
}

const (
	idRandom = 12
	idLength = idRandom + 2 // and the revision, and the abilities
)

// newID makes the id of a session of a caller's.
func (s *Server) newID(c caller, version string, can tool.Abilities) string {
	var raw [idLength]byte
	rand.Read(raw[:idRandom])
	raw[idRandom], raw[idRandom+1] = byte(slices.Index(revisions, version)), abilityBits(can)
	text := base64.RawURLEncoding.EncodeToString(raw[:])
	return text + "." + s.sign("session", text, c.holder())
}

// sign is a signature, of 128 bits, of texts that contain no line break.
func (s *Server) sign(texts ...string) string { return sign(s.Box.Key(), texts) }

func sign(k *seal.Key, texts []string) string {
	return k.MAC("mcp\n" + strings.Join(texts, "\n"))[:32]
}

// signed says whether a signature is good.
func (s *Server) signed(signature string, texts ...string) bool {
	same := 0
	for _, k := range s.Box.Keys() {
		same |= subtle.ConstantTimeCompare([]byte(signature), []byte(sign(k, texts)))
	}
	return same == 1
}

// readID takes an id apart, if it is one of the caller's.
func (s *Server) readID(id string, c caller) (version string, can tool.Abilities, ok bool) {
	text, signature, _ := strings.Cut(id, ".")
	if !s.signed(signature, "session", text, c.holder()) {
		return "", can, false
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(raw) != idLength || int(raw[idRandom]) >= len(revisions) {
		return "", can, false
	}
	bits := raw[idRandom+1]
	return revisions[raw[idRandom]], tool.Abilities{Elicit: bits&1 != 0, Sample: bits&2 != 0, Roots: bits&4 != 0}, true
}

// make makes a session that the table does not know yet.
func (s *Server) makeSession(id, door, version string, can tool.Abilities, p caller) (*session, error) {
	v, err := s.Board.View(p.access.Person, p.access.Rules)
	if err != nil {
		return nil, err
	}
	x := &session{
		server: s, id: id, door: door, key: p.access.Key, version: version, can: can,
		listener: newListener(p.access, p.hash, v),
		calls:    map[string]context.CancelCauseFunc{}, asked: map[int64]chan jsonrpc.Message{}, streams: map[string]*eventLog{},
	}
	x.listener.tools, x.listener.prompts, x.listener.resources = true, door != doorLearn, door != doorLearn
	x.level.Store(defaultLevel)
	x.touch()
	x.ctx, x.cancel = context.WithCancel(s.ctx)
	return x, nil
}

// add takes a session into the table. When that is full, the one that has been
// unused for longest makes room.
func (t *sessions) add(s *session) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		s.end()
		return errTooMany
	}
	full := t.perKey[s.key] >= t.server.PerKey
	if full || len(t.all) >= t.server.Sessions {
		if !t.makeRoom(s.key, full) {
			s.end()
			return errTooMany
		}
	}
	t.all[s.id] = s
	t.perKey[s.key]++
	return nil
}

// makeRoom forgets an idle session: one of the key's if that has too many. With
// mu held.
func (t *sessions) makeRoom(key string, ofKey bool) bool {
	var oldest *session
	for _, s := range t.all {
		if ofKey && s.key != key || s.busy() {
			continue
		}
		if oldest == nil || s.used.Load() < oldest.used.Load() {
			oldest = s
		}
	}
	if oldest == nil {
		return false
	}
	t.drop(oldest)
	return true
}

// drop takes a session out. With mu held.
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

// find finds a session of a key, in memory or by what its id says.
func (t *sessions) find(id string, p caller) (*session, error) {
	t.mu.RLock()
	s := t.all[id]
	_, ended := t.ended[id]
	t.mu.RUnlock()
	if s != nil && s.key == p.access.Key && s.door == p.access.Door {
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
	s, err := t.server.makeSession(id, p.access.Door, version, can, p)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	if other := t.all[id]; other != nil {
		t.mu.Unlock()
		s.end()
		return other, nil // two requests came at once
	}
	t.mu.Unlock()
	return s, t.add(s)
}

// remove ends a session for good.
func (t *sessions) remove(s *session) { t.forget(s.id, s.key) }

// forget ends a key's session for good, whether it is in memory or not.
func (t *sessions) forget(id, key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.all[id]; s != nil {
		if s.key != key {
			return
		}
		t.drop(s)
	}
	if len(t.ended) >= endedMost {
		clear(t.ended) // they are no danger: whoever has the id has the key too
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

// sweep forgets sessions that nobody uses.
func (s *Server) sweep() {
	tick := time.NewTicker(max(s.Idle/10, time.Second))
	defer tick.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case now := <-tick.C:
			s.sessions.sweep(now.Add(-s.Idle))
		}
	}
}

func (t *sessions) sweep(before time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var idle []*session
	for _, s := range t.all {
		if s.used.Load() < before.UnixNano() && !s.busy() {
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

// caller is who calls, in one request.
type caller struct {
	access board.Access
	hash   string            // of its key
	who    account.Principal // whose key it is; nobody's without one
}

// holder is whose a session is, as its id is signed: the key's, at its door. At
// the first door it is the key alone, as it was when there was no other.
func (c caller) holder() string {
	if c.access.Door == doorStandard {
		return c.access.Key
	}
	return c.access.Key + " " + c.access.Door
}

func newCaller(p account.Principal, door, hash string) caller {
	rules := p.Key.Rules
	if p.Key.Bot != 0 {
		rules = board.Narrow(rules, board.BotTools) // it opens one bot, and nothing else
	}
	return caller{board.Access{Caller: tool.Caller{
		Person: p.Person.ID, Key: p.Key.ID, Only: p.Key.Bot, Bound: p.Key.Rules, Door: door, Lang: p.Person.Lang,
	}, Rules: rules}, hash, p}
}
