package upstream

import (
	"maps"
	"reflect"
	"slices"
	"time"

	"patchbay/internal/tool"
)

// publishCatalog passes a changed catalog to the hub.
func (u *upstream) publishCatalog(c *catalog) { u.publish(c, nil) }

// publish makes c the current catalog and s the current session, unless s is nil. It updates the
// hub while holding mu, so that whoever sees new tools also sees the matching status, and vice
// versa.
func (u *upstream) publish(c *catalog, s *session) {
	u.mu.Lock()
	defer u.mu.Unlock()
	same := samePrompts(u.catalog.prompts, c.prompts) && u.catalog.heldContent == c.heldContent
	u.setCatalog(c)
	if s != nil {
		u.useSession(s)
	}
	u.live = u.registration
	if !same {
		defer u.registration.NotifyContentChanged()
	}
	if len(c.tools) == len(u.registeredTools) && (len(c.tools) == 0 || reflect.DeepEqual(c.tools, u.registeredTools)) {
		return
	}
	u.registeredTools = c.tools
	u.registration.SetTools(append([]tool.Tool(nil), c.tools...))
}

func samePrompts(a, b []tool.Prompt) bool {
	return slices.EqualFunc(a, b, func(a, b tool.Prompt) bool { return string(a.Raw) == string(b.Raw) })
}

// setCatalog stores the catalog. The caller holds u.mu.
func (u *upstream) setCatalog(c *catalog) {
	u.catalog = c
	u.status.Tools, u.status.Hidden, u.status.Skipped, u.status.Truncated = len(c.tools), c.hidden, c.skipped,
		c.truncated
	u.status.Held, u.status.Prompts = len(c.held), len(c.prompts)
}

// withdraw removes the tools.
func (u *upstream) withdraw() {
	if !u.spec.Inbound {
		u.publishCatalog(&catalog{})
		return
	}
	// Unregister entirely: a registration here would hide the one of another instance.
	u.mu.Lock()
	defer u.mu.Unlock()
	u.setCatalog(&catalog{})
	if u.registration != nil {
		u.registration.Unregister()
		u.registration, u.registeredTools, u.live = nil, nil, nil
	}
}

func (u *upstream) setState(state State, t *ConnectionError, next time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.status.State != state {
		u.status.State, u.status.Since = state, time.Now()
	}
	if u.status.NextTry = next; t != nil {
		u.status.Err = t
	}
}

// useSession makes s the session for calls, or none if nil. The caller holds u.mu.
func (u *upstream) useSession(s *session) {
	u.session = s
	close(u.changed)
	u.changed = make(chan struct{})
	if s == nil {
		return
	}
	if uris := slices.Sorted(maps.Keys(u.watched)); len(uris) > 0 {
		s.start(func() { s.watchAll(uris) })
	}
	st := &u.status
	st.State, st.Since, st.Err, st.NextTry, st.Stderr = Ready, time.Now(), nil, time.Time{}, nil
	st.Server, st.ServerVersion = u.redact(clip(s.server.Name, maxName)), u.redact(clip(s.server.Version, maxName))
	st.Protocol, st.Transport = s.protocol(), u.lastTransport.transport
}

// keepStderr keeps the last error output of a command.
func (u *upstream) keepStderr(s *session) {
	if s == nil {
		return
	}
	if w, ok := s.wire.(*stdio); ok {
		u.mu.Lock()
		u.status.Stderr = w.stderrLines()
		u.mu.Unlock()
	}
}

func (u *upstream) report() Status {
	u.mu.Lock()
	defer u.mu.Unlock()
	st := u.status
	if u.session != nil {
		if w, ok := u.session.wire.(*stdio); ok {
			st.Stderr = w.stderrLines()
		}
		st.LeftOut = u.session.leftOut()
	}
	return st
}
