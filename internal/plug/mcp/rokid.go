package mcp

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"patchbay/internal/hub"
	"patchbay/internal/jsonrpc"
	"patchbay/internal/tool"
)

// channelRokid is the name of the Rokid MCP endpoint in traces and metrics.
const channelRokid = "rokid-mcp"

const (
	// rokidPingInterval is how often Rokid's platform expects a message from the server.
	rokidPingInterval = 5 * time.Second
	// rokidIdleTimeout is how long a session may last without a request.
	rokidIdleTimeout = 30 * time.Minute
)

// rokidTools are the tools of this endpoint, whatever else is registered.
var rokidTools = []string{"send_message", "get_bot_info"}

// rokidToolList is the tool list in the exact form that Rokid's platform first received.
const rokidToolList = `{"tools":[` +
	`{"name":"send_message","description":"Send a message to the bot and get response","inputSchema":{"type":"object","properties":{` +
	`"botId":{"type":"string","description":"Bot ID (required)"},` +
	`"message":{"type":"string","description":"Message content to send to the bot"},` +
	`"deviceId":{"type":"string","description":"Device ID for authentication (optional)"}},"required":["botId","message"]}},` +
	`{"name":"get_bot_info","description":"Get bot information and status","inputSchema":{"type":"object","properties":{` +
	`"botId":{"type":"string","description":"Bot ID (required)"}},"required":["botId"]}}]}`

// OpenBotCheck reports whether there is a bot that the Rokid endpoint opens to callers without a
// key.
type OpenBotCheck func(context.Context) (bool, error)

// rokidDialect returns the dialect of a client: the standard one for clients that accept event
// streams, as every MCP client does.
func rokidDialect(r *http.Request) dialect {
	d := dialect{channel: channelRokid, messagesPath: "/messages/", idleTimeout: rokidIdleTimeout}
	switch r.URL.Query().Get("dialect") {
	case "mcp":
	case "rokid":
		d.rokid = true
	default:
		d.rokid = !strings.Contains(r.Header.Get("Accept"), "text/event-stream")
	}
	return d
}

// authenticateRokid identifies the caller of the Rokid endpoint: a key's owner, or anybody if
// there is an open bot.
func (s *Server) authenticateRokid(w http.ResponseWriter, r *http.Request) (caller, bool) {
	if bearer(r) == "" && s.hosts.isAllowed(r) {
		open, err := s.HasOpenBots(r.Context())
		if err != nil {
			s.Logger.ErrorContext(r.Context(), "which bots are open could not be found out", "error", err)
		}
		if open {
			return caller{access: hub.Access{Caller: tool.Caller{Channel: channelRokid, Anonymous: true,
				Address: s.Address(r).String()}}}, true
		}
	}
	return s.authenticate(w, r, channelRokid)
}

// ServeRokid serves GET /mcp/rokid/sse.
func (s *Server) ServeRokid(w http.ResponseWriter, r *http.Request) {
	if c, ok := s.authenticateRokid(w, r); ok {
		s.openPipe(w, r, c, rokidDialect(r))
	}
}

// ServeRokidMessages serves POST /messages/.
func (s *Server) ServeRokidMessages(w http.ResponseWriter, r *http.Request) {
	c, ok := s.authenticateRokid(w, r)
	if !ok {
		return
	}
	c.access.Device = r.Header.Get("X-Device-Id")
	c.access.Rules = hub.NarrowRules(c.access.Rules, rokidTools)
	id := r.URL.Query().Get("session_id")
	session := s.sessions.findPiped(id, c)
	d := dialect{channel: channelRokid}
	switch {
	case session != nil && session.channel == channelRokid:
		d.rokid = session.pipe.rokid
	case session != nil || s.Relay == nil:
		s.refuseUnknownSession(w, d)
		return
	}
	s.postPipe(w, r, c, session, id, d)
}

// rokidAnswer answers in Rokid's dialect: no handshake is needed, the tool list is short, a
// message is sent without waiting for its reply, and failures are JSON-RPC errors.
func (x *exchange) rokidAnswer(ctx context.Context) []byte {
	ctx = x.traced(ctx)
	switch x.msg.Method {
	case "tools/list":
		return jsonrpc.AppendResult(nil, x.msg.ID, []byte(rokidToolList))
	case "tools/call":
	default:
		msg, _ := x.answer(ctx)
		return msg
	}
	x.server.metrics.requests.WithLabelValues(x.access.Channel, x.msg.Method).Inc()
	name := x.text("name")
	args, e := rokidArguments(name, x.param("arguments"))
	if e == nil {
		var res *tool.Result
		var err error
		if res, err = x.server.Hub.Call(ctx, x.access, name, &tool.Call{Args: args}); err == nil {
			return jsonrpc.AppendResult(nil, x.msg.ID, x.result(res))
		}
		e = rokidError(tool.AsError(err))
	}
	return jsonrpc.AppendError(nil, x.msg.ID, e)
}

// rokidArguments validates arguments in Rokid's dialect and converts them to the tools' own
// arguments.
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
