package api

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

const (
	// maxInvoke limits the body of a call of a node's command, in bytes: the size of a frame of
	// OpenClaw's.
	maxInvoke = 25 << 20
	// maxInvokeTime limits how long a caller may wait for a node.
	maxInvokeTime = 10 * time.Minute
)

// nodeOperations adds the operations on OpenClaw's nodes.
func (s *Server) nodeOperations() {
	none := struct{}{}
	for _, o := range []struct {
		pattern, summary, act string
		in                    any
		read                  func([]byte, *control.NodeAction) error
	}{
		{"GET /api/v1/nodes", "List nodes", control.NodeList, none, nil},
		{"GET /api/v1/nodes/{node}", "Describe a node", control.NodeDescribe, nodeRef{}, nil},
		{"POST /api/v1/nodes/{node}/invoke", "Have a node carry out a command", control.NodeInvoke, NodeCall{},
			readInvoke},
		{"PATCH /api/v1/nodes/{node}", "Rename a node", control.NodeRename, nodeName{}, readRename},
		{"DELETE /api/v1/nodes/{node}", "Remove a node", control.NodeRemove, nodeRef{}, nil},
		{"GET /api/v1/pairs", "List who waits to be let in, and what nodes want to do", control.PairList, none, nil},
		{"POST /api/v1/pairs/{request}/approve", "Approve such a request", control.PairApprove, pairRef{}, nil},
		{"POST /api/v1/pairs/{request}/reject", "Reject such a request", control.PairReject, pairRef{}, nil},
	} {
		s.document(o.pattern, o.summary, "", o.in, json.RawMessage{}, s.onNodes(o.act, o.read))
	}
}

// Path parameters and bodies of these operations.
type (
	nodeRef struct {
		Node string `path:"node" json:"-"`
	}
	nodeName struct {
		Node string `path:"node" json:"-"`
		Name string `json:"name"`
	}
	pairRef struct {
		Request string `path:"request" json:"-"`
	}
)

// onNodes returns a handler for an action, whose body read parses, if it has one.
func (s *Server) onNodes(act string, read func([]byte, *control.NodeAction) error) func(http.ResponseWriter,
	*http.Request, control.Caller) {
	return func(w http.ResponseWriter, r *http.Request, c control.Caller) {
		a := control.NodeAction{
			Action: act, Node: r.PathValue("node"), Request: r.PathValue("request"),
			Person: c.Person, Key: c.Key, Rules: c.Rules, Only: c.Only, Admin: c.Admin, Program: "api",
		}
		if read != nil {
			body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxInvoke))
			if err == nil {
				err = read(body, &a)
			}
			if err != nil {
				fail(w, http.StatusBadRequest, i18n.Localize(err, lang(r)))
				return
			}
		}
		out, err := s.OnNodes(r.Context(), c, a)
		var e *control.NodeError
		switch {
		case err == nil:
			w.Header().Set("Content-Type", "application/json; charset=utf-8")
			w.Write(out) //nolint:errcheck // the caller has disconnected
		case errors.Is(err, context.Canceled):
		case errors.As(err, &e):
			w.Header().Set("Content-Type", "application/json; charset=utf-8")
			w.WriteHeader(e.Status)
			json.NewEncoder(w).Encode(NodeFailure{e.Message, e.Code, e.Details}) //nolint:errcheck // the caller has disconnected
		default:
			s.internalError(w, r, err)
		}
	}
}

// NodeFailure is the response to a failed operation on nodes.
type NodeFailure struct {
	Error   string          `json:"error"`
	Code    string          `json:"code,omitempty"`
	Details json.RawMessage `json:"details,omitempty"`
}

// NodeCall is the body of /api/v1/nodes/{node}/invoke.
type NodeCall struct {
	Node    string          `path:"node" json:"-"`
	Command string          `json:"command"`
	Params  json.RawMessage `json:"params,omitempty"`
	Timeout int64           `json:"timeout_ms,omitempty"`
	Once    string          `json:"idempotency_key,omitempty"`
}

func readInvoke(body []byte, a *control.NodeAction) error {
	var c NodeCall
	if err := json.Unmarshal(body, &c); err != nil {
		return i18n.Message(`the body has to look like {"command":"system.which","params":{"bins":["git"]}}`).Errorf()
	}
	if c.Command == "" {
		return i18n.Message("command is missing: what is the node to do?").Errorf()
	}
	a.Command, a.Params, a.Once, a.Timeout = c.Command, c.Params, c.Once, time.Duration(c.Timeout)*time.Millisecond
	if a.Timeout < 0 || a.Timeout > maxInvokeTime {
		return i18n.Message("timeout_ms has to be between 0 and 600000").Errorf()
	}
	return nil
}

func readRename(body []byte, a *control.NodeAction) error {
	var c nodeName
	if err := json.Unmarshal(body, &c); err != nil || c.Name == "" {
		return i18n.Message(`the body has to look like {"name":"Desktop"}`).Errorf()
	}
	a.Name = c.Name
	return nil
}
