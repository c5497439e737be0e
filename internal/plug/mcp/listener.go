package mcp

import (
	"context"
	"sync"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/hub"
	"patchbay/internal/jsonrpc"
	"patchbay/internal/netx"
)

const (
	// coalesceDelay is how long changes are collected before one notification is sent.
	coalesceDelay = 20 * time.Millisecond
	// keyCheckInterval is how often the keys of listeners are validated again.
	keyCheckInterval = 10 * time.Second
)

// listener receives change notifications for one client. It is safe for concurrent use.
type listener struct {
	// subscribed kinds
	tools, prompts, resources bool

	mu             sync.Mutex
	access         hub.Access
	only           string            // the rules of the address, see choice
	unkeyed        bool              // its access is not that of a key, as a cloud's, and lasts
	subscribedURIs map[string]func() // with what ends the subscription
	closed         bool
	// state at the last notification
	toolsFingerprint, otherFingerprint uint64
	// pending notifications
	changed     [3]bool // tools, prompts, resources
	updatedURIs map[string]bool
	logs        [][]byte
	// logLevel is the least important level of logs outside of calls; levelOff until the client
	// sets one.
	logLevel int
	// tasks are those that the client hears of, by id: true if the state has changed.
	tasks map[string]bool
	// taskState returns the members of a task, or nil; set if there are tasks.
	taskState func(ctx context.Context, id string) []byte
	wake      chan struct{}
}

// newListener returns a listener whose state is that of view v.
func newListener(access hub.Access, v *hub.View) *listener {
	return &listener{
		access: access, toolsFingerprint: v.Fingerprint, otherFingerprint: v.RestFingerprint,
		subscribedURIs: map[string]func(){}, updatedURIs: map[string]bool{}, logLevel: levelOff,
		wake: make(chan struct{}, 1),
	}
}

// markToolsSeen records that the client has read the tool list.
func (l *listener) markToolsSeen(v *hub.View) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.toolsFingerprint, l.changed[0] = v.Fingerprint, false
}

func (l *listener) isSubscribed(uri string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.subscribedURIs[uri] != nil
}

// addSubscription subscribes to a resource; forget is called when that ends. It returns false if
// the client has too many subscriptions, or is gone.
func (l *listener) addSubscription(uri string, forget func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.subscribedURIs[uri] != nil || len(l.subscribedURIs) >= maxSubscriptions {
		return false
	}
	l.subscribedURIs[uri] = forget
	return true
}

func (l *listener) removeSubscription(uri string) {
	l.mu.Lock()
	forget := l.subscribedURIs[uri]
	delete(l.subscribedURIs, uri)
	l.mu.Unlock()
	if forget != nil {
		forget()
	}
}

// close ends all subscriptions to resources.
func (l *listener) close() {
	l.mu.Lock()
	all := l.subscribedURIs
	l.subscribedURIs, l.closed = map[string]func(){}, true
	l.mu.Unlock()
	for _, forget := range all {
		forget()
	}
}

// refresh compares what a view shows with the last state and marks what has changed.
func (l *listener) refresh(v *hub.View) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.toolsFingerprint != v.Fingerprint {
		l.toolsFingerprint, l.changed[0] = v.Fingerprint, l.tools
	}
	if l.otherFingerprint != v.RestFingerprint {
		l.otherFingerprint, l.changed[1], l.changed[2] = v.RestFingerprint, l.prompts, l.resources
	}
	l.signal()
}

// markUpdated records that the contents of a resource have changed.
func (l *listener) markUpdated(uri string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.subscribedURIs[uri] != nil {
		l.updatedURIs[uri] = true
		l.signal()
	}
}

// signal wakes the goroutine that sends the notifications. The caller holds mu.
func (l *listener) signal() {
	if l.changed == [3]bool{} && len(l.updatedURIs)+len(l.logs) == 0 {
		return
	}
	l.wakeUp()
}

func (l *listener) wakeUp() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// takeNotifications returns the notifications that are due. Meta is put into each of them; nil
// for none.
func (l *listener) takeNotifications(meta []byte) [][]byte {
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
			out = append(out, jsonrpc.AppendRequest(nil, nil, "notifications/"+what+"/list_changed", params("")))
		}
	}
	for uri := range l.updatedURIs {
		out = append(out, jsonrpc.AppendRequest(nil, nil, "notifications/resources/updated", params(uri)))
	}
	for _, text := range l.logs {
		out = append(out, jsonrpc.AppendRequest(nil, nil, "notifications/message", text))
	}
	l.changed, l.logs = [3]bool{}, nil
	clear(l.updatedURIs)
	return out
}

// listeners holds all listeners, each with the function that ends it.
type listeners struct {
	mu  sync.Mutex
	all map[*listener]context.CancelFunc
}

// add registers a listener until remove is called; end is called when its key is no longer
// valid.
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

// watchChanges notifies listeners of changes, and ends those whose key is no longer valid.
func (s *Server) watchChanges(changes <-chan struct{}) {
	check := time.NewTicker(keyCheckInterval)
	defer check.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-check.C:
			s.refreshListeners()
		case <-changes:
			if netx.Wait(s.ctx, coalesceDelay) != nil { // collects changes that come shortly after
				return
			}
			select {
			case <-changes:
			default:
			}
			s.refreshListeners()
		}
	}
}

func (s *Server) refreshListeners() {
	for l, end := range s.listeners.list() {
		access, ok := s.recheckAccess(l)
		if !ok {
			end()
			continue
		}
		if v, err := s.Hub.View(access.Person, access.Rules); err == nil {
			l.refresh(v)
		}
	}
}

// recheckAccess returns what a listener may access now; false if its key is no longer valid.
func (s *Server) recheckAccess(l *listener) (hub.Access, bool) {
	l.mu.Lock()
	access := l.access
	l.mu.Unlock()
	if access.Key == "" || l.unkeyed {
		return access, true
	}
	scope := account.ScopeMCP
	if access.Channel == channelLearn {
		scope = account.ScopeLearn
	}
	p, err := s.Accounts.Recheck(s.ctx, access.Key, scope)
	if err != nil {
		return access, !account.Refused(err) // a database error does not invalidate the key
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	c := newCaller(p, l.access.Channel)
	if l.access.Channel == channelLearn {
		c = s.limitToLearn(c)
	}
	l.access.Rules, l.access.KeyRules = c.access.Rules, c.access.KeyRules
	if l.only != "" {
		l.access.Rules = hub.JoinRules(l.access.Rules, l.only)
	}
	return l.access, true
}

// acquireStream counts one more stream for the caller; the context ends when the key is no
// longer valid. It returns false if the caller has too many streams.
func (s *Server) acquireStream(ctx context.Context, c caller) (in context.Context, release func(), ok bool) {
	if c.principal.Key.ID == "" {
		return ctx, func() {}, true
	}
	in, release, err := s.Streams.Key(ctx, c.principal)
	return in, release, err == nil
}

// withKeyLifetime returns a context for long calls that ends when the caller's key is no longer
// valid.
func (s *Server) withKeyLifetime(ctx context.Context, c caller) (in context.Context, release func()) {
	if c.principal.Key.ID == "" {
		return ctx, func() {}
	}
	return s.Streams.Watch(ctx, c.principal)
}

// onResourceUpdated is called by the hub when the contents of a resource have changed.
func (s *Server) onResourceUpdated(o hub.ProviderRef, uri string) {
	for l := range s.listeners.list() {
		if !l.isSubscribed(uri) {
			continue
		}
		l.mu.Lock()
		access := l.access
		l.mu.Unlock()
		if v, err := s.Hub.View(access.Person, access.Rules); err == nil && v.HasContent(o.ID) {
			l.markUpdated(uri)
		}
	}
}
