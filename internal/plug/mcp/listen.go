package mcp

import (
	"context"
	"sync"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/board"
	"patchbay/internal/jsonrpc"
)

const (
	// coalesce is how long changes are collected before they are told.
	coalesce = 20 * time.Millisecond
	// checkEvery is how often the keys of those who listen are looked at again.
	checkEvery = 10 * time.Second
)

// listener hears of changes. It is safe for concurrent use.
type listener struct {
	// what is wanted
	tools, prompts, resources bool

	mu     sync.Mutex
	access board.Access
	hash   string // of its key; empty: it came without one
	uris   map[string]bool
	// what it was told last
	print, rest uint64
	// what it is to be told
	changed [3]bool // tools, prompts, resources
	updated map[string]bool
	wake    chan struct{}
}

// newListener makes a listener that knows what a view shows.
func newListener(access board.Access, hash string, v *board.View) *listener {
	return &listener{
		access: access, hash: hash, print: v.Print, rest: v.Rest,
		uris: map[string]bool{}, updated: map[string]bool{}, wake: make(chan struct{}, 1),
	}
}

// heard notes that the client has seen the list of tools.
func (l *listener) heard(v *board.View) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.print, l.changed[0] = v.Print, false
}

// want begins or ends to watch a resource. It is false when too many are watched.
func (l *listener) want(uri string, on bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !on {
		delete(l.uris, uri)
		return true
	}
	if len(l.uris) >= maxSubscriptions {
		return false
	}
	l.uris[uri] = true
	return true
}

// look finds out whether what a view shows is news.
func (l *listener) look(v *board.View) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.print != v.Print {
		l.print, l.changed[0] = v.Print, l.tools
	}
	if l.rest != v.Rest {
		l.rest, l.changed[1], l.changed[2] = v.Rest, l.prompts, l.resources
	}
	l.ring()
}

// tell notes that a resource has other contents.
func (l *listener) tell(uri string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.uris[uri] {
		l.updated[uri] = true
		l.ring()
	}
}

// ring wakes whoever takes the notices. With mu held.
func (l *listener) ring() {
	if l.changed == [3]bool{} && len(l.updated) == 0 {
		return
	}
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// notices are the messages that are due. Meta is put into each; nil for none.
func (l *listener) notices(meta []byte) [][]byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out [][]byte
	params := func(uri string) []byte {
		o := object{[]byte{'{'}}
		if uri != "" {
			o.text("uri", uri)
		}
		o.raw("_meta", meta)
		if len(o.b) == 1 {
			return nil
		}
		return append(o.b, '}')
	}
	for i, what := range []string{"tools", "prompts", "resources"} {
		if l.changed[i] {
			out = append(out, jsonrpc.AppendCall(nil, nil, "notifications/"+what+"/list_changed", params("")))
		}
	}
	for uri := range l.updated {
		out = append(out, jsonrpc.AppendCall(nil, nil, "notifications/resources/updated", params(uri)))
	}
	l.changed = [3]bool{}
	clear(l.updated)
	return out
}

// listeners are those who hear of changes, each with what ends it.
type listeners struct {
	mu  sync.Mutex
	all map[*listener]context.CancelFunc
}

// add adds a listener until remove is called; end is called when its key is not
// good any more.
func (ls *listeners) add(l *listener, end context.CancelFunc) (remove func()) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.all == nil {
		ls.all = map[*listener]context.CancelFunc{}
	}
	ls.all[l] = end
	return func() {
		ls.mu.Lock()
		defer ls.mu.Unlock()
		delete(ls.all, l)
	}
}

func (ls *listeners) count() int {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return len(ls.all)
}

func (ls *listeners) list() map[*listener]context.CancelFunc {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	out := make(map[*listener]context.CancelFunc, len(ls.all))
	for l, end := range ls.all {
		out[l] = end
	}
	return out
}

// watch tells listeners of changes, and ends those whose key is not good any
// more.
func (s *Server) watch(changes <-chan struct{}) {
	check := time.NewTicker(checkEvery)
	defer check.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-check.C:
			s.lookAll()
		case <-changes:
			select { // more may come at once
			case <-time.After(coalesce):
			case <-s.ctx.Done():
				return
			}
			select {
			case <-changes:
			default:
			}
			s.lookAll()
		}
	}
}

func (s *Server) lookAll() {
	for l, end := range s.listeners.list() {
		access, ok := s.again(l)
		if !ok {
			end()
			continue
		}
		if v, err := s.Board.View(access.Person, access.Rules); err == nil {
			l.look(v)
		}
	}
}

// again is what a listener may do now; false if its key is good no more.
func (s *Server) again(l *listener) (board.Access, bool) {
	l.mu.Lock()
	hash, access := l.hash, l.access
	l.mu.Unlock()
	if hash == "" {
		return access, true
	}
	scope := account.ScopeMCP
	if access.Door == doorLearn {
		scope = account.ScopeLearn
	}
	p, err := s.Accounts.Again(s.ctx, hash, scope)
	if err != nil {
		return access, !account.Refused(err) // a database that is away is not the key's fault
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	c := newCaller(p, l.access.Door, hash)
	if l.access.Door == doorLearn {
		c = s.learner(c)
	}
	l.access.Rules, l.access.Bound = c.access.Rules, c.access.Bound
	return l.access, true
}

// stream counts in a stream of a caller's, which ends when its key does not hold any
// more. If it is false, there are too many.
func (s *Server) stream(ctx context.Context, c caller) (in context.Context, leave func(), ok bool) {
	if c.who.Key.ID == "" {
		return ctx, func() {}, true
	}
	in, leave, err := s.Streams.Key(ctx, c.who)
	return in, leave, err == nil
}

// working is the context of a call that may last, which ends with the caller's key.
func (s *Server) working(ctx context.Context, c caller) (in context.Context, leave func()) {
	if c.who.Key.ID == "" {
		return ctx, func() {}
	}
	return s.Streams.Watch(ctx, c.who)
}

// updated hears from the board of a resource that has other contents.
func (s *Server) updated(o board.Outlet, uri string) {
	for l := range s.listeners.list() {
		l.mu.Lock()
		mine := o.Owner == "" || o.Owner == l.access.Person
		l.mu.Unlock()
		if mine {
			l.tell(uri)
		}
	}
}
