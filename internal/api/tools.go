package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"patchbay/internal/control"
	"patchbay/internal/hub"
	"patchbay/internal/store"
	"patchbay/internal/tool"
)

// Operations.
var (
	ListTools     = define("GET /api/v1/tools", "List tools; with name or schemas, also what they take", (*control.Service).ListTools)
	DecideTool    = define("POST /api/v1/tools/{name}/rule", "Allow or deny a tool, or all that a pattern matches, to programs and bots", (*control.Service).DecideTool)
	ListToolRules = define("GET /api/v1/rules", "List what was decided about tools", (*control.Service).ListToolRules)
)

// toolOperations adds the operations on tools and upstreams.
func (s *Server) toolOperations() {
	s.operate(ListTools, DecideTool, ListToolRules)
	s.document("POST /api/v1/tools/{name}/call", "Call a tool, and hear how it goes, an object a line",
		"application/x-ndjson", ToolCall{}, ToolLine{}, s.call)
	s.upstreamOperations()
}

// person returns the person that a request names, which only admins may do for others. If it
// returns false, it has responded.
func (s *Server) person(w http.ResponseWriter, r *http.Request, c control.Caller, name string) (store.Person, bool) {
	p, err := s.Hub.Store.People.ByName(r.Context(), name)
	switch {
	case err != nil && !errors.Is(err, store.ErrNotFound):
		s.internalError(w, r, err)
	case !c.Admin && (err != nil || p.ID != c.Person):
		fail(w, http.StatusForbidden, "a key with scope admin is needed to name somebody else")
	case err != nil:
		fail(w, http.StatusNotFound, fmt.Sprintf("there is nobody named %q", name))
	default:
		return p, true
	}
	return p, false
}

// subjects returns the people that a request is about: the one it names, or the caller. With the
// key of this machine it is everybody if nobody is named.
func (s *Server) subjects(w http.ResponseWriter, r *http.Request, c control.Caller,
	name string) ([]store.Person, bool) {
	if name != "" {
		p, ok := s.person(w, r, c, name)
		return []store.Person{p}, ok
	}
	var people []store.Person
	var err error
	if c.Person == "" {
		people, err = s.Hub.Store.People.All(r.Context())
	} else {
		people = make([]store.Person, 1)
		people[0], err = s.Hub.Store.People.ByID(r.Context(), c.Person)
	}
	if err != nil {
		s.internalError(w, r, err)
		return nil, false
	}
	return people, true
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
	people, ok := s.subjects(w, r, c, q.User)
	if !ok {
		return
	}
	if len(people) != 1 {
		fail(w, http.StatusBadRequest, fmt.Sprintf("there are %d people; say for whom (user, or --user NAME)",
			len(people)))
		return
	}
	s.stream(w, r, access(r, c, people[0].ID), r.PathValue("name"), q.Arguments)
}

// readToolCall reads the body of a call. If it returns false, it has responded.
func readToolCall(w http.ResponseWriter, r *http.Request) (q ToolCall, ok bool) {
	// All of it is read, so that the server notices when the client disconnects.
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxToolCall))
	if err != nil {
		fail(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("the body may have %d MiB", maxToolCall>>20))
		return q, false
	}
	if len(body) > 0 && json.Unmarshal(body, &q) != nil {
		fail(w, http.StatusBadRequest, `the body is not what is wanted: {"arguments":{…}}`)
		return q, false
	}
	return q, true
}

// access returns the rights of a caller on somebody's tools.
func access(r *http.Request, c control.Caller, person string) hub.Access {
	return hub.Access{Rules: c.Rules, Caller: tool.Caller{
		Person: person, Actor: c.ActsFor(person), Address: c.Address, Key: c.Key, OnlyBot: c.Only, KeyRules: c.Bound,
		Channel: "cli", Program: r.UserAgent(), Lang: string(lang(r)),
	}}
}

// stream calls a tool by its full name and writes its progress.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, who hub.Access, name string, args json.RawMessage) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	lines := newToolLines(w)
	res, err := s.Hub.Call(ctx, who, name, &tool.Call{
		Args: args, Progress: func(p tool.Progress) {
			if lines.write(ToolLine{Progress: &p}) != nil {
				cancel() // the client has disconnected
			}
		},
	})
	if err == nil && res.InputRequired != nil {
		err = tool.Fail(tool.Failed, "The tool asks back before it goes on, and nobody can be asked here.", nil)
	}
	lines.end(res, err)
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

// end writes the last line: the result or the error.
func (l *toolLines) end(res *tool.Result, err error) {
	last := ToolLine{End: true, Result: res}
	if e := tool.AsError(err); e != nil {
		last = ToolLine{End: true, Error: e.Told, Code: e.Code, Cause: e.Cause}
	}
	l.write(last) //nolint:errcheck // the caller has disconnected
}
