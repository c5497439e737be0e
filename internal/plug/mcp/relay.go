package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"patchbay/internal/board"
	"patchbay/internal/jsonrpc"
)

// Relay carries messages between instances, for a client whose requests reach
// another one than its stream did.
type Relay interface {
	// Serve hands over what is asked of a name on other instances, and tells them
	// what comes back, until stop is called.
	Serve(name string, handle func(data []byte) []byte) (stop func(), err error)
	// Ask asks whoever serves a name. Nobody does is an error, at once.
	Ask(ctx context.Context, name string, data []byte) ([]byte, error)
	// Tell tells all other instances.
	Tell(data []byte) error
	// Hear hears what they tell.
	Hear(handle func(data []byte)) error
}

// relayed is a message of a session that reached another instance.
type relayed struct {
	Session string          `json:"session"`
	Access  board.Access    `json:"access"`
	Message json.RawMessage `json:"message,omitempty"`
	End     bool            `json:"end,omitempty"` // the client has ended the session
}

const (
	// relayLimit bounds how long another instance may take to accept a message.
	relayLimit = 5 * time.Second
	// relayPause is how long to wait at first before asking again who holds a
	// session; three times in all, each twice as long.
	relayPause = 50 * time.Millisecond
	// relayBytes bounds such a message, below what the bus takes at once.
	relayBytes = 512 << 10
)

// The answers of an instance that holds a session.
var (
	relayTaken   = []byte("taken")
	relayUnknown = []byte("unknown")
)

var errElsewhere = errors.New("the instance that holds the session did not take the message")

// offer lets messages for a session with a pipe come from other instances.
func (s *session) offer(d dialect) (stop func()) {
	r := s.server.Relay
	if r == nil {
		return func() {}
	}
	stop, err := r.Serve("mcp."+s.id, func(data []byte) []byte {
		var x relayed
		if json.Unmarshal(data, &x) != nil || x.Access.Key != s.key || x.Access.Door != s.door {
			return relayUnknown
		}
		m, err := jsonrpc.Parse(x.Message)
		if err != nil {
			return relayUnknown
		}
		s.touch()
		s.receive(caller{access: x.Access}, m, d)
		return relayTaken
	})
	if err != nil {
		s.server.Logger.Warn("a session cannot be reached from other instances", "error", err)
		return func() {}
	}
	return stop
}

// forward hands a message to the instance that holds a session. It is false if
// none does.
func (s *Server) forward(ctx context.Context, id string, c caller, body []byte) (bool, error) {
	if s.Relay == nil || len(id) != pipeIDLength || len(body) > relayBytes {
		return false, nil
	}
	data, err := json.Marshal(relayed{Session: id, Access: c.access, Message: body})
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, relayLimit)
	defer cancel()
	answer, err := s.Relay.Ask(ctx, "mcp."+id, data)
	// That a session has just begun at another instance may not have got about yet.
	for pause := relayPause; err != nil && pause <= 4*relayPause && ctx.Err() == nil; pause *= 2 {
		wait(ctx, pause)
		answer, err = s.Relay.Ask(ctx, "mcp."+id, data)
	}
	switch {
	case err != nil:
		return false, nil // nobody holds it
	case string(answer) == string(relayTaken):
		return true, nil
	}
	return false, errElsewhere
}

// spread tells the other instances what a client says about requests that may be
// running there: that it cancels one, or answers one of ours, or ends the
// session.
func (s *session) spread(x relayed) {
	r := s.server.Relay
	if r == nil {
		return
	}
	x.Session, x.Access.Key = s.id, s.key
	data, err := json.Marshal(x)
	if err == nil && len(data) <= relayBytes {
		err = r.Tell(data)
	}
	if err != nil {
		s.server.Logger.Warn("other instances were not told what a client says", "error", err)
	}
}

// heard takes what another instance tells.
func (s *Server) heard(data []byte) {
	var x relayed
	if json.Unmarshal(data, &x) != nil {
		return
	}
	t := s.sessions
	t.mu.RLock()
	session := t.all[x.Session]
	t.mu.RUnlock()
	if x.End {
		t.forget(x.Session, x.Access.Key)
		return
	}
	if session == nil || session.key != x.Access.Key {
		return
	}
	m, err := jsonrpc.Parse(x.Message)
	if err != nil {
		return
	}
	if m.Method == "" {
		session.response(&m)
	} else if !m.Call() {
		session.note(&m)
	}
}
