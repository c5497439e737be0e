package upstream

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"

	"patchbay/internal/tool"
)

// maxWatched limits the resources of one upstream that callers watch.
const maxWatched = 2000

// Subscribe implements [tool.Subscriber]. The server is asked once, however many callers watch a
// resource.
func (u *upstream) Subscribe(ctx context.Context, _ tool.Caller, uri string) (func(), error) {
	own, ok := tool.UnmapURI(u.spec.Slug, uri)
	if !ok || len(own) > maxURI || !u.passes["resources"] {
		return nil, tool.ErrNotFound
	}
	u.mu.Lock()
	if u.watched[own] == 0 && len(u.watched) >= maxWatched {
		u.mu.Unlock()
		return nil, tool.Fail(tool.Busy, "Too many resources of "+u.spec.name()+" are watched.", nil)
	}
	u.watched[own]++
	s, first := u.session, u.watched[own] == 1
	u.mu.Unlock()
	if s == nil {
		signal(u.connectNow) // it may rest; a connection watches what is in watched
	}
	if first && s != nil {
		ctx, cancel := context.WithTimeout(ctx, u.spec.Settings.timeout())
		defer cancel()
		if err := s.watch(ctx, own, true); err != nil {
			u.unwatch(own)
			return nil, u.callError(err)
		}
	}
	return sync.OnceFunc(func() { u.unwatch(own) }), nil
}

// unwatch is called when a caller no longer watches a resource.
func (u *upstream) unwatch(uri string) {
	u.mu.Lock()
	last := u.watched[uri] == 1
	if u.watched[uri]--; last {
		delete(u.watched, uri)
	}
	s := u.session
	u.mu.Unlock()
	if last && s != nil {
		s.start(func() {
			ctx, cancel := context.WithTimeout(s.ctx, notifyTimeout)
			defer cancel()
			_ = s.watch(ctx, uri, false) // at worst, it goes on reporting changes
		})
	}
}

// watchAll has a new session watch what callers watched before it was used.
func (s *session) watchAll(uris []string) {
	for _, uri := range uris {
		if s.watch(s.ctx, uri, true) != nil && s.ctx.Err() != nil {
			return
		}
	}
}

// watch begins or ends to watch a resource. A server that cannot tell of changes is not asked.
func (s *session) watch(ctx context.Context, uri string, on bool) error {
	if s.has.Resources == nil || !s.has.Resources.Subscribe {
		return nil
	}
	if s.modern {
		s.watchModern(uri, on)
		return nil
	}
	method := "resources/subscribe"
	if !on {
		method = "resources/unsubscribe"
	}
	_, err := s.requestResult(ctx, method, map[string]string{"uri": uri})
	return err
}

// watchModern changes what the subscription of a session of 2026-07-28 is for: another one replaces
// it.
func (s *session) watchModern(uri string, on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if on {
		s.watching[uri] = true
	} else {
		delete(s.watching, uri)
	}
	if s.rewatch != nil {
		close(s.rewatch)
		s.rewatch = nil
		s.cancelWatch()
	}
}

// nextWatch returns what the next subscription is for, and a channel that is closed when that has
// changed; cancel ends the subscription then.
func (s *session) nextWatch(cancel func()) (uris []string, again <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed := make(chan struct{})
	s.rewatch, s.cancelWatch = changed, cancel
	return slices.Sorted(maps.Keys(s.watching)), changed
}

// handleUpdated passes on that a resource has changed.
func (s *session) handleUpdated(params json.RawMessage) {
	var p struct {
		URI string `json:"uri"`
	}
	if json.Unmarshal(params, &p) == nil && p.URI != "" && len(p.URI) <= maxURI {
		s.onUpdated(tool.MapURI(s.slug, p.URI))
	}
}

// resourceUpdated tells callers that a resource has changed.
func (u *upstream) resourceUpdated(uri string) {
	u.mu.Lock()
	r := u.live
	u.mu.Unlock()
	if r != nil {
		r.NotifyResourceUpdated(uri)
	}
}
