package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/control"
	"patchbay/internal/problem"
	"patchbay/internal/tool"
)

// Operations.
var (
	ListTools      = define("GET /api/v1/tools", "List tools; with name or schemas, include their input schemas", (*control.Service).ListTools)
	DecideTool     = define("POST /api/v1/tools/{name}/rule", "Allow or deny tools, by name or pattern, for programs and bots", (*control.Service).DecideTool)
	ToolSets       = define("GET /api/v1/sets", "List the named sets of tools", (*control.Service).ToolSets)
	SaveToolSet    = define("PUT /api/v1/sets/{set}", "Make a named set of tools, or change its tools", (*control.Service).SaveToolSet)
	RemoveToolSet  = define("DELETE /api/v1/sets/{set}", "Remove a named set of tools", (*control.Service).RemoveToolSet)
	ToolWords      = define("GET /api/v1/words", "List the tools that have names or descriptions of their owners", (*control.Service).ToolWords)
	SetToolWords   = define("PUT /api/v1/tools/{name}/words", "Give a tool another name, title or description", (*control.Service).SetToolWords)
	ClearToolWords = define("DELETE /api/v1/tools/{name}/words", "Give a tool back the name and texts of its server", (*control.Service).ClearToolWords)
	ListToolRules  = define("GET /api/v1/rules", "List the rules of tools", (*control.Service).ListToolRules)
)

// toolOperations adds the operations on tools and upstreams.
func (s *Server) toolOperations() {
	s.operate(ListTools, DecideTool, ListToolRules, ToolSets, SaveToolSet, RemoveToolSet, ToolWords, SetToolWords,
		ClearToolWords)
	s.handle(Operation{Method: http.MethodPost, Path: "/api/v1/tools/{name}/call",
		Summary: "Call a tool and stream progress and result as JSON lines; keys of scope learn can call Learn's tools only",
		In:      reflect.TypeFor[ToolCall](), Out: reflect.TypeFor[ToolLine](), Kind: "application/x-ndjson",
		Scope: account.ScopeLearn}, s.call)
	s.upstreamOperations()
	s.voiceOperations()
}

// ToolCall is the body of /api/v1/tools/{name}/call.
type ToolCall struct {
	Name      string          `path:"name" json:"-"`
	Arguments json.RawMessage `json:"arguments,omitempty"` // an object
	// User is the person for whom an admin calls.
	User string `json:"user,omitempty"`
}

// ToolLine is one line of the response of /api/v1/tools/{name}/call: progress, or the end.
type ToolLine struct {
	Progress *tool.Progress `json:"progress,omitempty"`
	End      bool           `json:"end,omitempty"`
	Result   *tool.Result   `json:"result,omitempty"`
	Error    string         `json:"error,omitempty"` // for the caller
	Code     tool.Code      `json:"code,omitempty"`
	Cause    string         `json:"cause,omitempty"` // for the tool's owner
}

const (
	// maxToolCall limits the arguments of a call, as at the MCP endpoints.
	maxToolCall = 4 << 20
	// lineLimit limits the time to write a line. A client that does not read for that long is
	// disconnected.
	lineLimit = 10 * time.Second
)

// call calls a tool and streams its progress and result as JSON lines.
func (s *Server) call(w http.ResponseWriter, r *http.Request, c control.Caller) {
	q, ok := readToolCall(w, r)
	if !ok {
		return
	}
	s.streamCall(w, r, func(ctx context.Context, progress func(tool.Progress)) (*tool.Result, error) {
		return s.CallTool(ctx, c, control.ToolCall{Name: r.PathValue("name"), User: q.User, Args: q.Arguments,
			Progress: progress})
	})
}

// streamCall streams the progress and the result of a call as JSON lines.
func (s *Server) streamCall(w http.ResponseWriter, r *http.Request,
	call func(context.Context, func(tool.Progress)) (*tool.Result, error)) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	lines := newToolLines(w)
	res, err := call(ctx, func(p tool.Progress) {
		if lines.write(ToolLine{Progress: &p}) != nil {
			cancel() // the client has disconnected
		}
	})
	if e, ok := errors.AsType[*tool.Error](err); ok {
		lines.write(ToolLine{End: true, Error: e.Told, Code: e.Code, Cause: e.Cause}) //nolint:errcheck // as above
		return
	}
	if err != nil { // nothing was called
		s.fails(w, r, err)
		return
	}
	lines.write(ToolLine{End: true, Result: res}) //nolint:errcheck // as above
}

// readToolCall reads the body of a call. If it returns false, it has responded.
func readToolCall(w http.ResponseWriter, r *http.Request) (q ToolCall, ok bool) {
	// All of it is read, so that the server notices when the client disconnects.
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxToolCall))
	if err != nil {
		fail(w, problem.TooLarge, fmt.Sprintf("the body may have %d MiB", maxToolCall>>20))
		return q, false
	}
	if len(body) > 0 && json.Unmarshal(body, &q) != nil {
		fail(w, problem.Invalid, `the request body must have the form {"arguments":{…}}`)
		return q, false
	}
	return q, true
}

// toolLines writes the lines of a response as they arrive.
type toolLines struct {
	lines   *json.Encoder
	control *http.ResponseController
}

func newToolLines(w http.ResponseWriter) *toolLines {
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("X-Accel-Buffering", "no")
	lines := json.NewEncoder(w)
	lines.SetEscapeHTML(false)
	return &toolLines{lines, http.NewResponseController(w)}
}

func (l *toolLines) write(line ToolLine) error {
	l.control.SetWriteDeadline(time.Now().Add(lineLimit)) //nolint:errcheck // not every connection supports deadlines
	if err := l.lines.Encode(line); err != nil {
		return err
	}
	return l.control.Flush()
}
