package mcp

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"

	"patchbay/internal/board"
	"patchbay/internal/jsonrpc"
	"patchbay/internal/tool"
)

const (
	// toolsPerPage and pageBytes bound a page of tools/list.
	toolsPerPage = 250
	pageBytes    = 256 << 10
	// rounds bounds how often a provider may ask back in one call.
	rounds = 10
)

func (x *exchange) listTools(context.Context) ([]byte, *jsonrpc.Error) {
	v, e := x.view()
	if e != nil {
		return nil, e
	}
	all := v.Tools
	if x.most > 0 {
		all = all[:min(len(all), x.most)]
	}
	tools, e := after(all, x.text("cursor"))
	if e != nil {
		return nil, e
	}
	n, size := 0, 0
	for n < len(tools) && (x.plain || n < toolsPerPage && (n == 0 || size+len(tools[n].Listed()) <= pageBytes)) {
		size += len(tools[n].Listed()) + 1
		n++
	}
	page := tools[:n]
	if x.access.Door == doorLearn {
		// As the provider offers them: programs and people know the first ones first.
		at := func(t *board.Offered) int { return slices.Index(x.server.LearnTools, t.Name) }
		page = slices.SortedStableFunc(slices.Values(page), func(a, b *board.Offered) int { return cmp.Compare(at(a), at(b)) })
	}
	o := x.begin(size+64, true)
	o.name("tools")
	o.b = append(o.b, '[')
	for i, t := range page {
		if i > 0 {
			o.b = append(o.b, ',')
		}
		o.b = append(o.b, t.Listed()...)
	}
	o.b = append(o.b, ']')
	if n < len(tools) {
		o.text("nextCursor", cursor(tools[n-1].Name))
	}
	if x.session != nil {
		x.session.listener.heard(v)
	}
	return x.end(o, nil), nil
}

// after are the tools behind a cursor, which names the last one that was told:
// so a page is right even if the list has changed in between.
func after(tools []*board.Offered, cursor string) ([]*board.Offered, *jsonrpc.Error) {
	if cursor == "" {
		return tools, nil
	}
	last, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || len(last) == 0 {
		return nil, invalid("this cursor is not one of ours")
	}
	i, found := slices.BinarySearchFunc(tools, string(last), func(t *board.Offered, name string) int { return cmp.Compare(t.Name, name) })
	if found {
		i++
	}
	return tools[i:], nil
}

func cursor(name string) string { return base64.RawURLEncoding.EncodeToString([]byte(name)) }

func (x *exchange) callTool(ctx context.Context) ([]byte, *jsonrpc.Error) {
	c := tool.Call{Can: x.can}
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
	if e := x.returned(name, &c); e != nil {
		return nil, e
	}
	x.listen(&c)
	for range rounds {
		res, err := x.server.Board.Call(ctx, x.access, name, &c)
		switch {
		case err != nil:
			return x.failed(x.unseen(name, err))
		case res.Need == nil:
			return x.result(x.once(res)), nil
		case x.stateless():
			return x.need(name, res.Need), nil
		}
		if err := x.ask(ctx, res.Need, &c); err != nil {
			return x.failed(err)
		}
	}
	return x.failed(tool.Fail(tool.Failed, "The tool kept asking back.", nil))
}

// listen passes on how the call goes, if the caller wants to know.
func (x *exchange) listen(c *tool.Call) {
	if x.out == nil {
		return
	}
	if token := x.meta.token; token != nil {
		told := -1.0
		c.Progress = func(p tool.Progress) {
			if p.Done <= told {
				return // it must grow
			}
			told = p.Done
			x.notify("notifications/progress", progressParams(token, p))
		}
	}
	if x.level < levelOff {
		c.Log = func(l tool.Log) {
			if levelOf(l.Level) >= x.level && levelOf(l.Level) < levelOff && json.Valid(l.Data) {
				params, _ := json.Marshal(l)
				x.notify("notifications/message", params)
			}
		}
	}
	c.Pause = x.pause
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

// structuredSince is the first revision that knows structured contents.
const structuredSince = "2025-06-18"

// once is a result that does not say the same twice. Many programs show their model the
// text and the structured contents both, which costs it twice. Structured contents that the
// text repeats are left out in revisions that do not know of them, and in all revisions if
// they were only parsed out of the text: every program reads text.
func (x *exchange) once(r *tool.Result) *tool.Result {
	if x.plain || x.merge || !r.Repeats() || x.version >= structuredSince && !r.Derived {
		return r
	}
	brief := *r
	brief.Structured = nil
	return &brief
}

// result writes what came of a call.
func (x *exchange) result(r *tool.Result) []byte {
	if x.resultBytes > 0 {
		r = brief(r, x.resultBytes)
	}
	o := x.begin(len(r.Content)+len(r.Structured)+len(r.Meta), false)
	content := r.Content
	if len(content) == 0 {
		content = []byte("[]")
	}
	o.raw("content", content)
	if len(r.Structured) > 0 {
		o.raw("structuredContent", r.Structured)
		if x.merge {
			mergeFields(&o, r.Structured)
		}
	}
	if r.IsError {
		o.raw("isError", []byte("true"))
	} else if x.merge {
		o.raw("isError", []byte("false"))
	}
	return x.end(o, r.Meta)
}

// mergeFields puts the fields of a structured result beside the content.
func mergeFields(o *object, structured json.RawMessage) {
	for in := jsonrpc.Scan(structured); in.Next(); {
		switch name := string(in.Key); name {
		case "content", "structuredContent", "isError", "_meta":
		default:
			quoted, _ := json.Marshal(name)
			o.raw(string(quoted[1:len(quoted)-1]), in.Value)
		}
	}
}

// failed says why a call brought no result: to the model if it can do something
// about it, else to the program.
func (x *exchange) failed(err error) ([]byte, *jsonrpc.Error) {
	e := tool.AsError(err)
	switch {
	case e.RPC != 0:
		return nil, &jsonrpc.Error{Code: e.RPC, Message: e.Told, Data: e.Data}
	case e.Code == tool.Unknown, e.Code == tool.BadArgs && x.plain:
		return nil, &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: e.Told}
	case e.Code == tool.Cancelled:
		return nil, &jsonrpc.Error{Code: codeGone, Message: e.Told}
	}
	return x.result(tool.Trouble(e.Told)), nil
}

// ask asks the caller for what a provider needs, in a session, and puts the
// answers into the call.
func (x *exchange) ask(ctx context.Context, n *tool.Need, c *tool.Call) error {
	c.State, c.Answers = n.State, map[string]json.RawMessage{}
	names := make([]string, 0, len(n.Requests))
	for name := range n.Requests {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		r := n.Requests[name]
		if x.out == nil || !x.able(r.Method) {
			return tool.Fail(tool.Failed, "The tool needs to ask back ("+r.Method+"), which this client cannot do.", nil)
		}
		answer, err := x.session.request(ctx, x.out, r, x.version)
		if err != nil {
			return err
		}
		c.Answers[name] = answer
	}
	return nil
}

// able says whether the caller declared that it can be asked something.
func (x *exchange) able(method string) bool {
	switch method {
	case "elicitation/create":
		return x.can.Elicit
	case "sampling/createMessage":
		return x.can.Sample
	case "roots/list":
		return x.can.Roots
	}
	return false
}

var errClient = errors.New("the client answered with an error")

// abilities reads what a client declares it can be asked for.
func abilities(capabilities json.RawMessage) (can tool.Abilities) {
	for in := jsonrpc.Scan(capabilities); in.Next(); {
		if in.Value[0] != '{' {
			continue
		}
		switch string(in.Key) {
		case "elicitation":
			can.Elicit = elicitsForms(in.Value)
		case "sampling":
			can.Sample = true
		case "roots":
			can.Roots = true
		}
	}
	return can
}

// elicitsForms says whether a client shows forms: it says so, or names no way at
// all, as clients did when there was no other.
func elicitsForms(elicitation json.RawMessage) bool {
	none := true
	for in := jsonrpc.Scan(elicitation); in.Next(); none = false {
		if string(in.Key) == "form" {
			return true
		}
	}
	return none
}

// brief is a result as words alone, no longer than a client can take.
func brief(r *tool.Result, most int) *tool.Result {
	words := r.Words()
	if len(words) > most {
		words = strings.ToValidUTF8(words[:most-len("…")], "") + "…"
	}
	out := tool.Text(words)
	out.IsError = r.IsError
	return out
}
