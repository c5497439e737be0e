package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"patchbay/internal/hub"
	"patchbay/internal/jsonrpc"
	"patchbay/internal/netx"
)

// Relay carries messages between instances, for clients whose request reaches another instance
// than the one that holds their stream.
type Relay interface {
	// Serve answers the requests that other instances send to a name, with handle's result,
	// until stop is called.
	Serve(name string, handle func(data []byte) []byte) (stop func(), err error)
	// Request sends data to the instance that serves a name. It fails at once if there is none.
	Request(ctx context.Context, name string, data []byte) ([]byte, error)
	// Broadcast sends data to all other instances.
	Broadcast(data []byte) error
	// Subscribe calls handle with every broadcast of other instances.
	Subscribe(handle func(data []byte)) error
}

// relayMessage is a message for a session that reached another instance, or for the listeners of a
// task.
type relayMessage struct {
	Session string          `json:"session"`
	Task    string          `json:"task,omitempty"` // whose state has changed
	Access  hub.Access      `json:"access"`
	Message json.RawMessage `json:"message,omitempty"`
	End     bool            `json:"end,omitempty"` // the client has ended the session
}

const (
	// relayTimeout limits how long another instance may take to accept a message.
	relayTimeout = 5 * time.Second
	// relayRetryDelay is the first delay before asking again which instance holds a session,
	// relayRetries times; the delay doubles each time.
	relayRetryDelay = 50 * time.Millisecond
	relayRetries    = 3
	// maxRelayBytes limits a relayed message, below the maximum message size of the bus.
	maxRelayBytes = 512 << 10
)

// The replies of an instance that holds a session.
var (
	relayAccepted = []byte("taken")
	relayUnknown  = []byte("unknown")
)

var errNotForwarded = errors.New("the instance that holds the session did not take the message")

// serveRelay accepts messages from other instances for a session with a pipe.
func (s *session) serveRelay(d dialect) (stop func()) {
	r := s.server.Relay
	if r == nil {
		return func() {}
	}
	stop, err := r.Serve("mcp."+s.id, func(data []byte) []byte {
		var x relayMessage
		if json.Unmarshal(data, &x) != nil || x.Access.Key != s.key || x.Access.Channel != s.channel {
			return relayUnknown
		}
		m, err := jsonrpc.Parse(x.Message)
		if err != nil {
			return relayUnknown
		}
		s.touch()
		s.handleMessage(caller{access: x.Access}, m, d)
		return relayAccepted
	})
	if err != nil {
		s.server.Logger.Warn("a session cannot be reached from other instances", "error", err)
		return func() {}
	}
	return stop
}

// forward sends a message to the instance that holds a session. It returns false if none does.
func (s *Server) forward(ctx context.Context, id string, c caller, body []byte) (bool, error) {
	if s.Relay == nil || len(id) != pipeIDLength || len(body) > maxRelayBytes {
		return false, nil
	}
	data, err := json.Marshal(relayMessage{Session: id, Access: c.access, Message: body})
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, relayTimeout)
	defer cancel()
	answer, err := s.Relay.Request(ctx, "mcp."+id, data)
	// Other instances may not know yet that the session exists.
	pause := netx.Backoff{First: relayRetryDelay}
	for try := 0; try < relayRetries && err != nil && netx.Wait(ctx, pause.Next()) == nil; try++ {
		answer, err = s.Relay.Request(ctx, "mcp."+id, data)
	}
	switch {
	case err != nil:
		return false, nil // no instance holds it
	case string(answer) == string(relayAccepted):
		return true, nil
	}
	return false, errNotForwarded
}

// broadcast forwards to the other instances what a client sends about requests that may run
// there: a cancellation, a response to a server request, or the end of the session.
func (s *session) broadcast(x relayMessage) {
	r := s.server.Relay
	if r == nil {
		return
	}
	x.Session, x.Access.Key = s.id, s.key
	data, err := json.Marshal(x)
	if err == nil && len(data) <= maxRelayBytes {
		err = r.Broadcast(data)
	}
	if err != nil {
		s.server.Logger.Warn("other instances were not told what a client says", "error", err)
	}
}

// onRelayMessage handles a broadcast of another instance.
func (s *Server) onRelayMessage(data []byte) {
	var x relayMessage
	if json.Unmarshal(data, &x) != nil {
		return
	}
	if x.Task != "" {
		s.listeners.markTask(x.Task)
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
		session.handleResponse(&m)
	} else if !m.IsRequest() {
		session.handleNotification(&m)
	}
}
