package mcp

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"patchbay/internal/board"
	"patchbay/internal/jsonrpc"
	"patchbay/internal/tool"
)

// doorRokid is the name of the older door in traces and metrics.
const doorRokid = "rokid-mcp"

const (
	// rokidPing is how often the platform expects to hear from us.
	rokidPing = 5 * time.Second
	// rokidIdle is how long a session may go without a question.
	rokidIdle = 30 * time.Minute
)

// rokidTools are the tools that this door has, whatever else is plugged in.
var rokidTools = []string{"send_message", "get_bot_info"}

// rokidList is the list of tools as the platform was told it at the beginning.
const rokidList = `{"tools":[` +
	`{"name":"send_message","description":"Send a message to the bot and get response","inputSchema":{"type":"object","properties":{` +
	`"botId":{"type":"string","description":"Bot ID (required)"},` +
	`"message":{"type":"string","description":"Message content to send to the bot"},` +
	`"deviceId":{"type":"string","description":"Device ID for authentication (optional)"}},"required":["botId","message"]}},` +
	`{"name":"get_bot_info","description":"Get bot information and status","inputSchema":{"type":"object","properties":{` +
	`"botId":{"type":"string","description":"Bot ID (required)"}},"required":["botId"]}}]}`

// OpenBots says whether there is a bot that anybody may reach through the older
// door.
type OpenBots func(context.Context) (bool, error)

// rokidDialect picks the words: those of the standard for clients that ask for a
// stream of events, as every MCP client does.
func rokidDialect(r *http.Request) dialect {
	d := dialect{door: doorRokid, messages: "/messages/", idle: rokidIdle}
	switch r.URL.Query().Get("dialect") {
	case "mcp":
	case "rokid":
		d.rokid = true
	default:
		d.rokid = !strings.Contains(r.Header.Get("Accept"), "text/event-stream")
	}
	return d
}

// enterRokid finds out who calls at the older door: somebody with a key, or
// anybody if there is a bot that is open.
func (s *Server) enterRokid(w http.ResponseWriter, r *http.Request) (caller, bool) {
	if bearer(r) == "" && s.hosts.allows(r) {
		open, err := s.OpenBots(r.Context())
		if err != nil {
			s.Logger.ErrorContext(r.Context(), "which bots are open could not be found out", "error", err)
		}
		if open {
			return caller{access: board.Access{Caller: tool.Caller{Door: doorRokid, Open: true, Address: s.Address(r).String()}}}, true
		}
	}
	return s.enter(w, r, doorRokid)
}

// ServeRokid is GET /mcp/rokid/sse.
func (s *Server) ServeRokid(w http.ResponseWriter, r *http.Request) {
	if c, ok := s.enterRokid(w, r); ok {
		s.openPipe(w, r, c, rokidDialect(r))
	}
}

// ServeRokidMessages is POST /messages/.
func (s *Server) ServeRokidMessages(w http.ResponseWriter, r *http.Request) {
	c, ok := s.enterRokid(w, r)
	if !ok {
		return
	}
	c.access.Device = r.Header.Get("X-Device-Id")
	c.access.Rules = board.Narrow(c.access.Rules, rokidTools)
	id := r.URL.Query().Get("session_id")
	session := s.sessions.piped(id, c)
	d := dialect{door: doorRokid}
	switch {
	case session != nil && session.door == doorRokid:
		d.rokid = session.pipe.rokid
	case session != nil || s.Relay == nil:
		s.noPipe(w, d)
		return
	}
	s.postPipe(w, r, c, session, id, d)
}

// rokidAnswer answers in the older words: no handshake is needed, the list is
// short, a message is sent without waiting for its reply, and what is wrong is an
// error of JSON-RPC.
func (x *exchange) rokidAnswer(ctx context.Context) []byte {
	switch x.msg.Method {
	case "tools/list":
		return jsonrpc.AppendResult(nil, x.msg.ID, []byte(rokidList))
	case "tools/call":
	default:
		msg, _ := x.answer(ctx)
		return msg
	}
	x.server.metrics.requests.WithLabelValues(x.access.Door, x.msg.Method).Inc()
	name := x.text("name")
	args, e := rokidArguments(name, x.param("arguments"))
	if e == nil {
		var res *tool.Result
		var err error
		if res, err = x.server.Board.Call(ctx, x.access, name, &tool.Call{Args: args}); err == nil {
			return jsonrpc.AppendResult(nil, x.msg.ID, x.result(res))
		}
		e = rokidError(tool.AsError(err))
	}
	return jsonrpc.AppendError(nil, x.msg.ID, e)
}

// rokidArguments checks arguments in the older words, and makes them what the
// tools take.
func rokidArguments(name string, raw json.RawMessage) (json.RawMessage, *jsonrpc.Error) {
	if !slices.Contains(rokidTools, name) {
		return nil, &jsonrpc.Error{Code: jsonrpc.MethodNotFound, Message: "Unknown tool: " + name}
	}
	given := map[string]json.RawMessage{}
	if len(raw) > 0 && json.Unmarshal(raw, &given) != nil {
		return nil, invalid("Missing required parameter: botId")
	}
	args := map[string]any{}
	for _, field := range []string{"botId", "message", "deviceId"} {
		text := jsonrpc.Text(given[field])
		if n := given[field]; field == "botId" && len(n) > 0 && '0' <= n[0] && n[0] <= '9' {
			text = string(n)
		}
		switch {
		case text != "":
			args[field] = text
		case field == "botId", field == "message" && name == "send_message":
			return nil, invalid("Missing required parameter: %s", field)
		}
	}
	if name == "send_message" {
		args["wait"] = false
	} else {
		delete(args, "message")
	}
	text, err := json.Marshal(args)
	if err != nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.InternalError, Message: "Internal error"}
	}
	return text, nil
}

func rokidError(e *tool.Error) *jsonrpc.Error {
	code := jsonrpc.InternalError
	switch e.Code {
	case tool.BadArgs:
		code = jsonrpc.InvalidParams
	case tool.Unknown:
		code = jsonrpc.MethodNotFound
	}
	return &jsonrpc.Error{Code: code, Message: e.Told}
}
