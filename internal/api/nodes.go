package api

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"patchbay/internal/control"
)

const (
	// maxInvoke bounds the body of a call of a node's command, in bytes: what a frame of
	// OpenClaw's may have.
	maxInvoke = 25 << 20
	// maxInvokeTime bounds how long a caller may wait for a node.
	maxInvokeTime = 10 * time.Minute
)

// nodeOperations are about OpenClaw's nodes.
func (s *Server) nodeOperations() {
	s.mux.HandleFunc("GET /api/v1/nodes", s.guarded(s.onNodes(control.NodeList, nil)))
	s.mux.HandleFunc("GET /api/v1/nodes/{node}", s.guarded(s.onNodes(control.NodeDescribe, nil)))
	s.mux.HandleFunc("POST /api/v1/nodes/{node}/invoke", s.guarded(s.onNodes(control.NodeInvoke, readInvoke)))
	s.mux.HandleFunc("PATCH /api/v1/nodes/{node}", s.guarded(s.onNodes(control.NodeRename, readRename)))
	s.mux.HandleFunc("DELETE /api/v1/nodes/{node}", s.guarded(s.onNodes(control.NodeRemove, nil)))
	s.mux.HandleFunc("GET /api/v1/pairs", s.guarded(s.onNodes(control.PairList, nil)))
	s.mux.HandleFunc("POST /api/v1/pairs/{request}/approve", s.guarded(s.onNodes(control.PairApprove, nil)))
	s.mux.HandleFunc("POST /api/v1/pairs/{request}/reject", s.guarded(s.onNodes(control.PairReject, nil)))
}

// onNodes answers by an act, whose body is read by read, if it has one.
func (s *Server) onNodes(act string, read func([]byte, *control.NodeAct) error) func(http.ResponseWriter, *http.Request, control.Caller) {
	return func(w http.ResponseWriter, r *http.Request, c control.Caller) {
		a := control.NodeAct{
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
		var e *control.NodeError
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

func readInvoke(body []byte, a *control.NodeAct) error {
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

func readRename(body []byte, a *control.NodeAct) error {
	var c struct {
		Name string `json:"name"`
	}
	if err := json.Unmarshal(body, &c); err != nil || c.Name == "" {
		return errors.New(`the body has to look like {"name":"Desktop"}`)
	}
	a.Name = c.Name
	return nil
}
