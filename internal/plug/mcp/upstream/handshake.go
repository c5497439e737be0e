package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"patchbay/internal/jsonrpc"
	"patchbay/internal/netx"
)

// Protocol revisions.
const (
	oldestSessionVersion = "2024-11-05" // the first
	newestSessionVersion = "2025-11-25" // the newest with initialize
	modernVersion        = "2026-07-28" // the first without sessions
)

// sessionVersions are the supported revisions with sessions.
var sessionVersions = []string{oldestSessionVersion, "2025-03-26", "2025-06-18", newestSessionVersion}

// discoverTimeout limits server/discover: a server of a revision with sessions may not answer it
// at all.
const discoverTimeout = 3 * time.Second

// capabilities are the server capabilities used here.
type capabilities struct {
	Tools *struct {
		ListChanged bool `json:"listChanged"`
	} `json:"tools"`
	Prompts *struct {
		ListChanged bool `json:"listChanged"`
	} `json:"prompts"`
	Resources *struct {
		ListChanged bool `json:"listChanged"`
		Subscribe   bool `json:"subscribe"`
	} `json:"resources"`
	Completions *struct{}                  `json:"completions"`
	Logging     *struct{}                  `json:"logging"`
	Extensions  map[string]json.RawMessage `json:"extensions"`
}

// handshake negotiates the protocol revision. It tries initialize first, because servers without
// sessions refuse it at once, while others may not answer server/discover at all (2026-07-28
// basic/versioning, "Compatibility Matrix"). If modern worked last time, server/discover comes
// first.
func (s *session) handshake(ctx context.Context, modern bool) error {
	if modern {
		if s.discover(ctx) == nil {
			return s.finishHandshake(ctx)
		}
	}
	err := s.initialize(ctx)
	if err != nil {
		if !isRefusal(err) {
			return err
		}
		if other := s.discover(ctx); isAuthError(other) {
			return other
		} else if other != nil {
			return err
		}
	} else if s.wire.isStateless() && !modern {
		// Without a session, a server of a revision with sessions can neither announce tool
		// changes nor send requests. Prefer the stateless revision if the server supports it.
		_ = s.discover(ctx)
	}
	return s.finishHandshake(ctx)
}

// isRefusal reports whether the server answered with an error.
func isRefusal(err error) bool {
	if _, ok := errors.AsType[*rpcError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*versionError](err); ok {
		return true
	}
	status, ok := errors.AsType[*statusError](err)
	return ok && status.code/100 == 4 && !status.isAuth()
}

// isAuthError reports whether a server wants a token, or refuses the one that it got.
func isAuthError(err error) bool {
	status, ok := errors.AsType[*statusError](err)
	_, signIn := errors.AsType[*SignInError](err)
	return signIn || ok && status.isAuth()
}

// versionError means that the server offered an unsupported revision.
type versionError struct{ version string }

func (e *versionError) Error() string {
	return fmt.Sprintf("the server speaks revision %q of the protocol, which is not known here", clip(e.version, 40))
}

func (s *session) initialize(ctx context.Context) error {
	raw, err := s.requestResult(ctx, "initialize", map[string]any{
		"protocolVersion": s.offeredVersion,
		"capabilities":    s.clientCapabilities(),
		"clientInfo":      s.client,
	})
	if err != nil {
		return err
	}
	var r struct {
		Version      string       `json:"protocolVersion"`
		Capabilities capabilities `json:"capabilities"`
		Server       serverInfo   `json:"serverInfo"`
	}
	if json.Unmarshal(raw, &r) != nil {
		return errMalformed
	}
	if !slices.Contains(sessionVersions, r.Version) {
		return &versionError{r.Version}
	}
	s.instructions = jsonrpc.Text(jsonrpc.Member(raw, "instructions"))
	s.setServer(r.Version, false, r.Capabilities, r.Server)
	return nil
}

func (s *session) discover(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, discoverTimeout)
	defer cancel()
	was, version := s.modern, s.version
	s.modern = true
	s.wire.setVersion(modernVersion, true)
	err := s.tryDiscover(ctx)
	if err != nil {
		s.modern = was
		s.wire.setVersion(version, was)
	}
	return err
}

func (s *session) tryDiscover(ctx context.Context) error {
	raw, err := s.requestResult(ctx, "server/discover", s.params(nil))
	if err != nil {
		return err
	}
	var r struct {
		Versions     []string     `json:"supportedVersions"`
		Capabilities capabilities `json:"capabilities"`
		Meta         struct {
			Server serverInfo `json:"io.modelcontextprotocol/serverInfo"`
		} `json:"_meta"`
	}
	if json.Unmarshal(raw, &r) != nil {
		return errMalformed
	}
	if !slices.Contains(r.Versions, modernVersion) {
		return &versionError{fmt.Sprint(r.Versions)}
	}
	s.instructions = jsonrpc.Text(jsonrpc.Member(raw, "instructions"))
	s.setServer(modernVersion, true, r.Capabilities, r.Meta.Server)
	return nil
}

func (s *session) setServer(version string, modern bool, has capabilities, server serverInfo) {
	s.version, s.modern, s.server, s.has = version, modern, server, has
	s.notifiesChanges = (has.Tools == nil || has.Tools.ListChanged) &&
		(has.Prompts == nil || has.Prompts.ListChanged) &&
		(has.Tools != nil || has.Prompts != nil)
	s.wire.setVersion(version, modern)
}

// finishHandshake ends the handshake and starts listening.
func (s *session) finishHandshake(ctx context.Context) error {
	if s.modern {
		if s.has.announces() {
			s.start(s.subscribe)
		}
		return nil
	}
	if err := s.notify(ctx, "notifications/initialized", nil); err != nil {
		return err
	}
	s.wire.listen()
	return nil
}

// stableAfter is how long a connection must last to reset the back-off.
const stableAfter = 30 * time.Second

// listenBackoff returns the back-off of reopening a stream of notifications.
func listenBackoff() netx.Backoff {
	return netx.Backoff{First: time.Second, Max: time.Minute, Jitter: netx.HalfJitter}
}

// announces reports whether the server announces changes of anything.
func (c *capabilities) announces() bool {
	return c.Tools != nil && c.Tools.ListChanged || c.Prompts != nil && c.Prompts.ListChanged ||
		c.Resources != nil && (c.Resources.ListChanged || c.Resources.Subscribe)
}

// subscribe keeps a subscription to changes open, as servers without sessions offer it (2026-07-28
// basic/patterns/subscriptions), and opens another one when other resources are watched. It ends
// with the session, or when the server refuses it.
func (s *session) subscribe() {
	for pause := listenBackoff(); ; {
		began := time.Now()
		ctx, cancel := context.WithCancel(s.ctx)
		uris, again := s.nextWatch(cancel)
		params := s.params(nil)
		params["notifications"] = s.wanted(uris)
		_, err := s.requestResult(ctx, "subscriptions/listen", params)
		cancel()
		s.listening.Store(false)
		select {
		case <-again:
			pause.Reset()
			continue
		default:
		}
		if s.ctx.Err() != nil || err != nil && isRefusal(err) {
			return
		}
		if time.Since(began) > stableAfter {
			pause.Reset()
		}
		if !netx.WaitUnless(s.ctx, s.done, pause.Next()) {
			return
		}
		s.markChanged() // changes may have been missed
	}
}

// wanted returns what a subscription is for.
func (s *session) wanted(uris []string) map[string]any {
	out := map[string]any{}
	if s.has.Tools != nil && s.has.Tools.ListChanged {
		out["toolsListChanged"] = true
	}
	if s.has.Prompts != nil && s.has.Prompts.ListChanged {
		out["promptsListChanged"] = true
	}
	if s.has.Resources != nil && s.has.Resources.ListChanged {
		out["resourcesListChanged"] = true
	}
	if len(uris) > 0 {
		out["resourceSubscriptions"] = uris
	}
	return out
}

// params returns the base parameters of a request. Stateless servers need the client's version and
// capabilities in every request (2026-07-28 basic/index, "_meta").
func (s *session) params(can map[string]any) map[string]any {
	p := map[string]any{}
	if s.modern {
		p["_meta"] = s.meta(can)
	}
	return p
}

func (s *session) meta(can map[string]any) map[string]any {
	if can == nil {
		can = map[string]any{}
	}
	return map[string]any{
		"io.modelcontextprotocol/protocolVersion":    modernVersion,
		"io.modelcontextprotocol/clientInfo":         s.client,
		"io.modelcontextprotocol/clientCapabilities": can,
	}
}

// requestResult sends a request and returns its result, ignoring progress and logs.
func (s *session) requestResult(ctx context.Context, method string, params any) (json.RawMessage, error) {
	p := s.newPending()
	m, err := request(p.id, method, params)
	if err != nil {
		s.removePending(p)
		return nil, err
	}
	return s.roundTrip(ctx, p, m)
}

// ping checks that the server answers. An error response counts as an answer.
func (s *session) ping(ctx context.Context, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var err error
	if s.modern {
		_, err = s.requestResult(ctx, "server/discover", s.params(nil))
	} else {
		_, err = s.requestResult(ctx, "ping", nil)
	}
	if _, ok := errors.AsType[*rpcError](err); ok {
		return nil
	}
	return err
}
