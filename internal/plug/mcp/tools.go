package mcp

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"patchbay/internal/hub"
	"patchbay/internal/jsonrpc"
	"patchbay/internal/tool"
)

const (
	// toolsPerPage and pageBytes limit a page of tools/list.
	toolsPerPage = 250
	pageBytes    = 256 << 10
	// maxRounds limits how often a provider may ask for input in one call.
	maxRounds = 10
	// abandonTimeout limits the call that reports to a provider that its caller has disconnected.
	abandonTimeout = 2 * time.Second
)

func (x *exchange) listTools(context.Context) ([]byte, *jsonrpc.Error) {
	v, e := x.view()
	if e != nil {
		return nil, e
	}
	if x.finds(v) {
		if x.session != nil {
			x.session.listener.markToolsSeen(v)
		}
		o := x.beginResult(len(finderTools)+64, true)
		o.raw("tools", []byte(finderTools))
		return x.endResult(o, nil), nil
	}
	all := v.Tools
	if x.maxTools > 0 {
		all = all[:min(len(all), x.maxTools)]
	}
	tools, e := after(all, x.text("cursor"))
	if e != nil {
		return nil, e
	}
	n, size := 0, 0
	for n < len(tools) && (x.plain || n < toolsPerPage && (n == 0 || size+len(tools[n].ListEntry()) <= pageBytes)) {
		size += len(tools[n].ListEntry()) + 1
		n++
	}
	page := tools[:n]
	if x.access.Channel == channelLearn {
		// In the provider's order: programs and people expect the most important tools first.
		at := func(t *hub.RegisteredTool) int { return slices.Index(x.server.LearnTools, t.OriginalName()) }
		page = slices.SortedStableFunc(slices.Values(page), func(a,
			b *hub.RegisteredTool) int {
			return cmp.Compare(at(a), at(b))
		})
	}
	o := x.beginResult(size+64, true)
	o.name("tools")
	o.b = append(o.b, '[')
	for i, t := range page {
		if i > 0 {
			o.b = append(o.b, ',')
		}
		o.b = append(o.b, x.listEntry(t)...)
	}
	o.b = append(o.b, ']')
	if n < len(tools) {
		o.text("nextCursor", cursor(tools[n-1].Name))
	}
	if x.session != nil {
		x.session.listener.markToolsSeen(v)
	}
	return x.endResult(o, nil), nil
}

// after returns the tools after a cursor. The cursor is the name of the last listed tool, so
// that paging stays correct when the list changes in between.
func after(tools []*hub.RegisteredTool, cursor string) ([]*hub.RegisteredTool, *jsonrpc.Error) {
	if cursor == "" {
		return tools, nil
	}
	last, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || len(last) == 0 {
		return nil, invalid("this cursor is not one of ours")
	}
	i, found := slices.BinarySearchFunc(tools, string(last),
		func(t *hub.RegisteredTool, name string) int { return cmp.Compare(t.Name, name) })
	if found {
		i++
	}
	return tools[i:], nil
}

func cursor(name string) string { return base64.RawURLEncoding.EncodeToString([]byte(name)) }

func (x *exchange) callTool(ctx context.Context) ([]byte, *jsonrpc.Error) {
	c := tool.Call{Capabilities: x.abilities, Meta: x.meta.raw}
	if !x.isStateless() && x.out == nil {
		c.Capabilities = tool.Capabilities{} // it can be asked nothing
	}
	name := ""
	for in := jsonrpc.Scan(x.msg.Params); in.Next(); {
		switch string(in.Key) {
		case "name":
			name = jsonrpc.Text(in.Value)
		case "arguments":
			c.Args = in.Value
		}
	}
	if name == "" {
		return nil, invalid("name is missing: which tool?")
	}
	if x.isFinder(name) {
		if name == findTools {
			return x.findTools(c.Args)
		}
		var e *jsonrpc.Error
		if name, c.Args, e = readFoundCall(c.Args); e != nil {
			return nil, e
		}
	}
	if e := x.readInputResponses(name, &c); e != nil {
		return nil, e
	}
	if x.takesTasks() {
		if result, e, begun := x.callAsTask(ctx, name, &c); begun {
			return result, e
		}
	}
	x.forwardProgress(&c)
	for range maxRounds {
		res, err := x.server.Hub.Call(ctx, x.access, name, &c)
		switch {
		case err != nil:
			return x.callError(x.hideDenied(name, err))
		case res.InputRequired == nil:
			return x.result(x.dropDuplicate(res)), nil
		case x.isStateless():
			return x.inputRequired(name, res.InputRequired), nil
		}
		if err := x.ask(ctx, res.InputRequired, &c); err != nil {
			x.abandon(name, &c, res.InputRequired)
			return x.callError(err)
		}
	}
	return x.callError(tool.Fail(tool.Failed, "The tool kept asking back.", nil))
}

// forwardProgress forwards the call's progress if the caller asked for it.
func (x *exchange) forwardProgress(c *tool.Call) {
	if x.out == nil {
		return
	}
	if token := x.meta.token; token != nil {
		reported := -1.0
		c.Progress = func(p tool.Progress) {
			if p.Done <= reported {
				return // progress must increase (2025-11-25 basic/utilities/progress)
			}
			reported = p.Done
			x.notify("notifications/progress", progressParams(token, p))
		}
	}
	if x.level < levelOff {
		c.LogLevel = tool.LogLevels[x.level]
		c.Log = func(l tool.Log) {
			if levelOf(l.Level) >= x.level && levelOf(l.Level) < levelOff && json.Valid(l.Data) {
				params, _ := json.Marshal(l)
				x.notify("notifications/message", params)
			}
		}
	}
	c.Detach = x.closeForReconnect
}

func progressParams(token json.RawMessage, p tool.Progress) []byte {
	o := object{[]byte{'{'}}
	o.raw("progressToken", token)
	o.raw("progress", strconv.AppendFloat(nil, p.Done, 'f', -1, 64))
	if p.Total > 0 {
		o.raw("total", strconv.AppendFloat(nil, p.Total, 'f', -1, 64))
	}
	if p.Message != "" {
		o.text("message", p.Message)
	}
	return append(o.b, '}')
}

// structuredSince is the first revision with structured content (2025-06-18 server/tools,
// "Structured Content").
const structuredSince = "2025-06-18"

// dropDuplicate returns a result without duplicate content. Many programs pass both the text and
// the structured content to their model, which costs twice the tokens. Structured content that
// repeats the text is dropped for revisions that do not define it, and for all revisions if it
// was only parsed out of the text: every program reads text. What an output schema declares stays:
// clients refuse the result without it.
func (x *exchange) dropDuplicate(r *tool.Result) *tool.Result {
	if x.plain || x.mergeStructured || r.Declared || !r.RepeatsStructured() ||
		x.version >= structuredSince && !r.Derived {
		return r
	}
	brief := *r
	brief.Structured = nil
	return &brief
}

// result encodes the result of a call.
func (x *exchange) result(r *tool.Result) []byte {
	if x.resultBytes > 0 {
		r = truncateResult(r, x.resultBytes)
	}
	o := x.beginResult(len(r.Content)+len(r.Structured)+len(r.Meta), false)
	content := r.Content
	if len(content) == 0 {
		content = []byte("[]")
	}
	o.raw("content", content)
	if len(r.Structured) > 0 {
		o.raw("structuredContent", r.Structured)
		if x.mergeStructured {
			mergeFields(&o, r.Structured)
		}
	}
	if r.IsError {
		o.raw("isError", []byte("true"))
	} else if x.mergeStructured {
		o.raw("isError", []byte("false"))
	}
	o.b = jsonrpc.AppendMembers(o.b, r.Extra)
	return x.endResult(o, r.Meta)
}

// mergeFields puts the fields of a structured result beside content.
func mergeFields(o *object, structured json.RawMessage) {
	o.b = jsonrpc.AppendMembers(o.b, jsonrpc.Without(structured, "content", "structuredContent", "isError", "_meta"))
}

// callError returns the error of a call: as a tool result if the model can act on it, otherwise
// as a JSON-RPC error.
func (x *exchange) callError(err error) ([]byte, *jsonrpc.Error) {
	e := tool.AsError(err)
	switch {
	case e.RPC != 0:
		return nil, &jsonrpc.Error{Code: e.RPC, Message: e.Told, Data: e.Data}
	case e.Code == tool.Unknown, e.Code == tool.BadArgs && x.plain:
		return nil, &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: e.Told}
	case e.Code == tool.Cancelled:
		return nil, &jsonrpc.Error{Code: codeCancelled, Message: e.Told}
	}
	return x.result(tool.ErrorResult(e.Told)), nil
}

// abandon reports to a provider that waits for an answer that its caller has disconnected, or
// cannot be asked.
func (x *exchange) abandon(name string, c *tool.Call, n *tool.InputRequired) {
	if !n.Refusable {
		return
	}
	ctx, cancel := context.WithTimeout(x.server.ctx, abandonTimeout)
	defer cancel()
	c.Abandoned, c.State, c.Progress, c.Log = true, n.State, nil, nil
	_, _ = x.server.Hub.Call(ctx, x.access, name, c) // at worst, the provider waits for its own limit
}

// ask requests the input that a provider needs from the caller, in a session, and adds the
// answers to the call.
func (x *exchange) ask(ctx context.Context, n *tool.InputRequired, c *tool.Call) error {
	c.State, c.Answers, c.Refusals = n.State, map[string]json.RawMessage{}, nil
	names := make([]string, 0, len(n.Requests))
	for name := range n.Requests {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		r := n.Requests[name]
		if x.out == nil || !x.abilities.CanAnswer(r.Method, r.Params) {
			return tool.Fail(tool.Failed, "The tool needs to ask back ("+r.Method+"), which this client cannot do.",
				nil)
		}
		answer, refusal, err := x.session.request(ctx, x.out, r, x.version)
		switch {
		case err != nil:
			return err
		case refusal == nil:
			c.Answers[name] = answer
		case n.Refusable:
			c.Refusals = map[string]json.RawMessage{name: refusal}
		default:
			return tool.Fail(tool.Failed, "The tool asked back, and the client could not answer.",
				fmt.Errorf("%w: %.300s", errClient, refusal))
		}
	}
	return nil
}

var errClient = errors.New("the client answered with an error")

// abilities parses the server requests that a client's capabilities allow.
func abilities(capabilities json.RawMessage) (can tool.Capabilities) {
	for in := jsonrpc.Scan(capabilities); in.Next(); {
		if in.Value[0] != '{' {
			continue
		}
		switch string(in.Key) {
		case "elicitation":
			can.Elicit, can.ElicitURL = elicitsForms(in.Value), jsonrpc.Member(in.Value, "url") != nil
		case "sampling":
			can.Sample, can.SampleTools = true, jsonrpc.Member(in.Value, "tools") != nil
		case "roots":
			can.Roots = true
		case "extensions":
			can.Apps = declaresApps(in.Value)
		}
	}
	return can
}

// elicitsForms reports whether a client supports form elicitation: it declares it, or names no mode
// at all, as clients did before there were several (2025-11-25 client/elicitation, "Capabilities").
func elicitsForms(elicitation json.RawMessage) bool {
	none := true
	for in := jsonrpc.Scan(elicitation); in.Next(); none = false {
		if string(in.Key) == "form" {
			return true
		}
	}
	return none
}

// truncateResult returns a result as text only, no longer than the client accepts.
func truncateResult(r *tool.Result, most int) *tool.Result {
	out := tool.Text(shorten(r.PlainText(), most))
	out.IsError = r.IsError
	return out
}

// shorten returns a text of at most so many bytes; three or more.
func shorten(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most-len("…")], "") + "…"
}
