package hub

import (
	"context"
	"sync"
	"time"

	"patchbay/internal/tool"
)

// watchTimeout limits how long a provider may take to watch a resource after it has moved.
const watchTimeout = 10 * time.Second

// watches are the resources that callers of this instance watch. A provider may move to another
// instance, or be replaced by its successor: then that watches them.
type watches struct {
	hub  *Hub
	wake chan struct{} // somebody no longer watches; holds 1

	mu  sync.Mutex
	all map[watchKey]*watch
}

// watchKey identifies a watch. What a resource is may depend on the person.
type watchKey struct {
	resourceRef
	person string
}

type watch struct {
	who tool.Caller
	// Both require watches.mu. Missed means that something changed while somebody had the turn.
	callers int
	missed  bool

	// turn holds 1, and guards what follows.
	turn chan struct{}
	at   holding
	end  func() // ends the subscription at the provider; nil: there is none
}

// holding is a provider at one time: which instance holds it, by which connection.
type holding struct {
	instance string // empty: this one
	epoch    int64
}

func newWatches(h *Hub) *watches {
	return &watches{hub: h, wake: make(chan struct{}, 1), all: map[watchKey]*watch{}}
}

// Subscribe has a provider watch a resource for a caller until unsubscribe is called, on whichever
// instance the provider is. It returns [tool.ErrNotFound] for what the provider cannot have.
func (h *Hub) Subscribe(ctx context.Context, provider string, who tool.Caller, uri string) (unsubscribe func(),
	err error) {
	ws, key := h.watches, watchKey{resourceRef{provider, uri}, who.Person}
	ws.mu.Lock()
	w := ws.all[key]
	if w == nil {
		w = &watch{who: who, turn: make(chan struct{}, 1)}
		ws.all[key] = w
	}
	w.callers++
	ws.mu.Unlock()
	release := sync.OnceFunc(func() {
		ws.mu.Lock()
		w.callers--
		ws.mu.Unlock()
		ws.wakeUp()
	})
	select {
	case w.turn <- struct{}{}:
	case <-ctx.Done():
		release()
		return nil, ctx.Err()
	}
	defer ws.endTurn(w)
	p, at, _ := h.catalog.subscriber(provider)
	switch {
	case p == nil:
		err = tool.ErrNotFound
	case w.end == nil || w.at != at:
		err = w.subscribe(ctx, p, at, uri)
	}
	if err != nil {
		release()
		return nil, err
	}
	return release, nil
}

// subscribe has a provider watch the resource instead of another one. The caller has the turn.
func (w *watch) subscribe(ctx context.Context, p tool.Subscriber, at holding, uri string) error {
	end, err := p.Subscribe(ctx, w.who, uri)
	if w.end != nil {
		w.end()
	}
	w.at, w.end = at, end
	return err
}

// subscriber returns what watches the resources of a provider, and where; held reports whether it
// can do so now.
func (c *catalog) subscriber(provider string) (s tool.Subscriber, at holding, held bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch here, elsewhere := c.search(provider); {
	case here != nil:
		s, held = here.provider.(tool.Subscriber)
		return s, holding{"", here.offer.since}, held
	case elsewhere != nil:
		s, _ = elsewhere.offer.backend.(tool.Subscriber)
		return s, holding{elsewhere.instance, elsewhere.Epoch}, s != nil && elsewhere.expiresAt.IsZero()
	}
	return nil, holding{}, false
}

// run makes the watches follow their providers until the hub ends.
func (ws *watches) run() {
	changes, forget := ws.hub.WatchTools()
	defer forget()
	for {
		select {
		case <-changes:
		case <-ws.wake:
		case <-ws.hub.ctx.Done():
			return
		}
		ws.mu.Lock()
		byProvider := map[string][]watchKey{}
		for key := range ws.all {
			byProvider[key.Provider] = append(byProvider[key.Provider], key)
		}
		ws.mu.Unlock()
		var jobs sync.WaitGroup
		for provider, keys := range byProvider {
			jobs.Go(func() { ws.follow(provider, keys) })
		}
		jobs.Wait()
	}
}

// follow makes the watches of a provider follow it, and ends those that nobody needs. If one of
// them fails, the others wait for the next change: the provider may be stuck.
func (ws *watches) follow(provider string, keys []watchKey) {
	p, at, held := ws.hub.catalog.subscriber(provider)
	failed := false
	for _, key := range keys {
		w := ws.takeTurn(key)
		switch {
		case w == nil:
			continue
		case ws.removeUnused(key, w):
			if w.end != nil {
				w.end()
				w.end = nil
			}
		case p != nil && !held:
			w.at = holding{} // what its holder watched is lost, also if the same one comes back
		case held && w.at != at && !failed:
			ctx, cancel := context.WithTimeout(ws.hub.ctx, watchTimeout)
			if err := w.subscribe(ctx, p, at, key.URI); err != nil {
				ws.hub.Logger.Debug("resources are not watched at the moment", "provider", provider, "error", err)
				failed = true
			}
			cancel()
		}
		ws.endTurn(w)
	}
}

// takeTurn takes the turn of a watch; nil if somebody has it, who wakes run then.
func (ws *watches) takeTurn(key watchKey) *watch {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w := ws.all[key]
	if w == nil {
		return nil
	}
	select {
	case w.turn <- struct{}{}:
		return w
	default:
		w.missed = true
		return nil
	}
}

func (ws *watches) endTurn(w *watch) {
	ws.mu.Lock()
	missed := w.missed
	w.missed = false
	<-w.turn
	ws.mu.Unlock()
	if missed {
		ws.wakeUp()
	}
}

// removeUnused removes a watch that nobody needs.
func (ws *watches) removeUnused(key watchKey, w *watch) bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if w.callers > 0 {
		return false
	}
	delete(ws.all, key)
	return true
}

func (ws *watches) wakeUp() {
	select {
	case ws.wake <- struct{}{}:
	default:
	}
}
