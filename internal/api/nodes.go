package api

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"
)

// The acts of a [NodeAct].
const (
	NodeList     = "list"     // of nodes
	NodeDescribe = "describe" // Node
	NodeInvoke   = "invoke"   // Node, Command, Params, Timeout, Once
	NodeRename   = "rename"   // Node, Name
	NodeRemove   = "remove"   // Node
	PairList     = "pairs"    // of whoever asks to be let in, and what nodes want to do
	PairApprove  = "approve"  // Request
	PairReject   = "reject"   // Request
)

// NodeAct is something that is to be done about OpenClaw's nodes.
type NodeAct struct {
	Act string
	// Node is an id, the beginning of one, or a name.
	Node, Name, Request string

	Command string
	Params  json.RawMessage // nil: none
	Timeout time.Duration   // 0: 30 s
	// Once is a key by which a call is carried out once, however often it comes. Empty:
	// each is another one.
	Once string

	// Who does it. An empty Person is the operator of this machine.
	Person, Key, Rules, Program string
	Only                        int64
	Admin                       bool
}

// NodeError is why it was not done, as the caller is told it.
type NodeError struct {
	Status  int    // of HTTP
	Code    string // as OpenClaw has it
	Message string
	Details json.RawMessage // nil: none
}

// Error implements error.
func (e *NodeError) Error() string { return e.Message }

const (
	// maxInvoke bounds the body of a call of a node's command, in bytes: what a frame of
	// OpenClaw's may have.
	maxInvoke = 25 << 20
	// maxInvokeTime bounds how long a caller may wait for a node.
	maxInvokeTime = 10 * time.Minute
)

// nodeRoutes are the addresses below /api/v1 that are about nodes.
func (s *Server) nodeRoutes() {
	s.mux.HandleFunc("GET /api/v1/nodes", s.guarded(s.onNodes(NodeList, nil)))
	s.mux.HandleFunc("GET /api/v1/nodes/{node}", s.guarded(s.onNodes(NodeDescribe, nil)))
	s.mux.HandleFunc("POST /api/v1/nodes/{node}/invoke", s.guarded(s.onNodes(NodeInvoke, readInvoke)))
	s.mux.HandleFunc("PATCH /api/v1/nodes/{node}", s.guarded(s.onNodes(NodeRename, readRename)))
	s.mux.HandleFunc("DELETE /api/v1/nodes/{node}", s.guarded(s.onNodes(NodeRemove, nil)))
	s.mux.HandleFunc("GET /api/v1/pairs", s.guarded(s.onNodes(PairList, nil)))
	s.mux.HandleFunc("POST /api/v1/pairs/{request}/approve", s.guarded(s.onNodes(PairApprove, nil)))
	s.mux.HandleFunc("POST /api/v1/pairs/{request}/reject", s.guarded(s.onNodes(PairReject, nil)))
}

// onNodes answers by an act, whose body is read by read, if it has one.
func (s *Server) onNodes(act string, read func([]byte, *NodeAct) error) func(http.ResponseWriter, *http.Request, caller) {
	return func(w http.ResponseWriter, r *http.Request, c caller) {
		a := NodeAct{
			Act: act, Node: r.PathValue("node"), Request: r.PathValue("request"),
			Person: c.Person, Key: c.Key, Rules: c.Rules, Only: c.Only, Admin: c.Admin, Program: "api",
		}
		if read != nil {
			body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxInvoke))
			if err == nil {
				err = read(body, &a)
			}
			if err != nil {
				fail(w, http.StatusBadRequest, err.Error())
				return
			}
		}
		out, err := s.Nodes(r.Context(), a)
		var e *NodeError
		switch {
		case err == nil:
			w.Header().Set("Content-Type", "application/json; charset=utf-8")
			w.Write(out) //nolint:errcheck // the caller has gone
		case errors.Is(err, context.Canceled):
		case errors.As(err, &e):
			w.Header().Set("Content-Type", "application/json; charset=utf-8")
			w.WriteHeader(e.Status)
			json.NewEncoder(w).Encode(NodeFailure{e.Message, e.Code, e.Details}) //nolint:errcheck // the caller has gone
		default:
			s.broken(w, r, err)
		}
	}
}

// NodeFailure is the answer about nodes that is none.
type NodeFailure struct {
	Error   string          `json:"error"`
	Code    string          `json:"code,omitempty"`
	Details json.RawMessage `json:"details,omitempty"`
}

// NodeCall is the body of /api/v1/nodes/{node}/invoke.
type NodeCall struct {
	Command string          `json:"command"`
	Params  json.RawMessage `json:"params,omitempty"`
	Timeout int64           `json:"timeout_ms,omitempty"`
	Once    string          `json:"idempotency_key,omitempty"`
}

func readInvoke(body []byte, a *NodeAct) error {
	var c NodeCall
	if err := json.Unmarshal(body, &c); err != nil {
		return errors.New(`the body has to look like {"command":"system.which","params":{"bins":["git"]}}`)
	}
	if c.Command == "" {
		return errors.New("command is missing: what is the node to do?")
	}
	a.Command, a.Params, a.Once, a.Timeout = c.Command, c.Params, c.Once, time.Duration(c.Timeout)*time.Millisecond
	if a.Timeout < 0 || a.Timeout > maxInvokeTime {
		return errors.New("timeout_ms has to be between 0 and 600000")
	}
	return nil
}

func readRename(body []byte, a *NodeAct) error {
	var c struct {
		Name string `json:"name"`
	}
	if err := json.Unmarshal(body, &c); err != nil || c.Name == "" {
		return errors.New(`the body has to look like {"name":"Desktop"}`)
	}
	a.Name = c.Name
	return nil
}
