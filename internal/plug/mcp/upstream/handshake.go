package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Revisions of the protocol.
const (
	oldestSession = "2024-11-05" // the first
	newestSession = "2025-11-25" // the newest that begins with initialize
	modernVersion = "2026-07-28" // the first without sessions
)

// sessionVersions are the revisions with sessions that we can speak.
var sessionVersions = []string{oldestSession, "2025-03-26", "2025-06-18", newestSession}

// discoverTimeout bounds the question whether a server speaks the revision
// without sessions: one that does not may stay silent.
const discoverTimeout = 3 * time.Second

// capabilities of a server, as far as they matter.
type capabilities struct {
	Tools *struct {
		ListChanged bool `json:"listChanged"`
	} `json:"tools"`
}

// open agrees with the server on how to speak. Servers with sessions come first:
// those that have none refuse initialize at once, while the others may answer
// server/discover with silence. If modern was right the last time, it comes
// first.
func (s *session) open(ctx context.Context, modern bool) error {
	if modern {
		if s.discover(ctx) == nil {
			return s.ready(ctx)
		}
	}
	err := s.initialize(ctx)
	if err != nil {
		if !refused(err) || s.discover(ctx) != nil {
			return err
		}
	} else if s.wire.sessionless() && !modern {
		// Without a session a server of the old kind can neither tell that its tools
		// have changed nor ask for anything. If it knows the new kind, take that.
		_ = s.discover(ctx)
	}
	return s.ready(ctx)
}

// refused says that the server answered, and did not like the question.
func refused(err error) bool {
	if _, ok := errors.AsType[*rpcError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*versionError](err); ok {
		return true
	}
	status, ok := errors.AsType[*statusError](err)
	return ok && status.code/100 == 4 && !status.auth()
}

// versionError is an offer of a revision that we do not speak.
type versionError struct{ version string }

func (e *versionError) Error() string {
	return fmt.Sprintf("the server speaks revision %q of the protocol, which is not known here", clip(e.version, 40))
}

func (s *session) initialize(ctx context.Context) error {
	raw, err := s.simple(ctx, "initialize", map[string]any{
		"protocolVersion": s.offers,
		"capabilities":    struct{}{},
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
		return errGarbled
	}
	if !slices.Contains(sessionVersions, r.Version) {
		return &versionError{r.Version}
	}
	s.become(r.Version, false, r.Capabilities, r.Server)
	return nil
}

func (s *session) discover(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, discoverTimeout)
	defer cancel()
	was, version := s.modern, s.version
	s.modern = true
	s.wire.agree(modernVersion, true)
	err := s.tryDiscover(ctx)
	if err != nil {
		s.modern = was
		s.wire.agree(version, was)
	}
	return err
}

func (s *session) tryDiscover(ctx context.Context) error {
	raw, err := s.simple(ctx, "server/discover", s.params(nil))
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
		return errGarbled
	}
	if !slices.Contains(r.Versions, modernVersion) {
		return &versionError{fmt.Sprint(r.Versions)}
	}
	s.become(modernVersion, true, r.Capabilities, r.Meta.Server)
	return nil
}

func (s *session) become(version string, modern bool, has capabilities, server serverInfo) {
	s.version, s.modern, s.server = version, modern, server
	s.tells = has.Tools != nil && has.Tools.ListChanged
	s.wire.agree(version, modern)
}

// ready ends the handshake and begins to listen.
func (s *session) ready(ctx context.Context) error {
	if s.modern {
		if s.tells {
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

// subscribe keeps listening for changes of the list, as servers without sessions
// offer it. It ends with the session, or if the server will not have it.
func (s *session) subscribe() {
	for pause := newPause(time.Second, time.Minute); ; {
		began := time.Now()
		params := s.params(nil)
		params["notifications"] = map[string]bool{"toolsListChanged": true}
		_, err := s.simple(s.ctx, "subscriptions/listen", params)
		s.listening.Store(false)
		if s.ctx.Err() != nil || err != nil && refused(err) {
			return
		}
		if time.Since(began) > steady {
			pause.reset()
		}
		if !sleep(s.ctx, s.dead, pause.next()) {
			return
		}
		s.touch() // something may have changed while nobody listened
	}
}

// params begins the parameters of a request. Servers without sessions have to be
// told with each request who asks.
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

// simple sends a request about which nothing but its result matters.
func (s *session) simple(ctx context.Context, method string, params any) (json.RawMessage, error) {
	p := s.expect(false)
	m, err := request(p.id, method, params)
	if err != nil {
		s.forget(p)
		return nil, err
	}
	return s.ask(ctx, p, m, nil)
}

// alive asks the server for a sign of life. An error of the server's is one too.
func (s *session) alive(ctx context.Context, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var err error
	if s.modern {
		_, err = s.simple(ctx, "server/discover", s.params(nil))
	} else {
		_, err = s.simple(ctx, "ping", nil)
	}
	if _, ok := errors.AsType[*rpcError](err); ok {
		return nil
	}
	return err
}
