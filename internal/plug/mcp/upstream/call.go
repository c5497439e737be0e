package upstream

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"patchbay/internal/jsonrpc"
	"patchbay/internal/tool"
	"patchbay/internal/tracing"
)

// envelopeBytes is the room for the JSON around a result.
const envelopeBytes = 64 << 10

// query is a request of a caller to the server: tools/call or prompts/get.
type query struct {
	method, name string
	headers      map[string]string
}

// begin sends the query of a call.
func (s *session) begin(ctx context.Context, q query, c *tool.Call) (*inFlight, error) {
	if c.Log != nil && !s.modern {
		s.lowerLevel(ctx, c.LogLevel)
	}
	p := s.newCall(callerID(&c.Caller), c.Progress != nil || c.Log != nil)
	link := s.traced(ctx)
	m, err := request(p.id, q.method, s.callParams(c, q.name, p.id, link))
	if err != nil {
		s.removePending(p)
		return nil, err
	}
	m.name, m.headers, m.trace, m.limit = q.name, q.headers, link, maxResult+envelopeBytes
	f, err := s.dispatch(p, m)
	if err == nil {
		f.takesTask = q.method == "tools/call" && s.offersTasks()
	}
	return f, err
}

// finish waits for the response to a query. It answers requests of the server that the caller
// cannot answer, and returns others, after which it has to be called again.
func (s *session) finish(ctx context.Context, f *inFlight, c *tool.Call) (json.RawMessage, *serverRequest, error) {
	for {
		raw, q, err := f.wait(ctx, func(n update) { forwardUpdate(c, n) })
		switch {
		case err != nil:
			return nil, nil, err
		case q == nil:
			s.forwardRemaining(c, f.p)
			return raw, nil, nil
		case c.Capabilities.CanAnswer(q.method, q.params):
			return nil, q, nil
		}
		s.queueReply(q.refusal())
	}
}

// forwardUpdate forwards a progress or log notification to the caller.
func forwardUpdate(c *tool.Call, n update) {
	if n.progress != nil && c.Progress != nil {
		c.Progress(*n.progress)
	}
	if n.log != nil && c.Log != nil {
		c.Log(*n.log)
	}
}

// forwardRemaining forwards the updates that arrived before the result and were not forwarded
// yet.
func (s *session) forwardRemaining(c *tool.Call, p *pending) {
	for {
		select {
		case n := <-p.updates:
			forwardUpdate(c, n)
		default:
			return
		}
	}
}

// callParams returns the parameters of tools/call and prompts/get.
func (s *session) callParams(c *tool.Call, name string, id int64, trace tracing.Link) map[string]any {
	args := c.Args
	if isNull(args) {
		args = json.RawMessage("{}")
	}
	p := s.params(s.abilities(c.Capabilities))
	p["name"], p["arguments"] = name, args
	meta := callersMeta(c.Meta)
	if own, ok := p["_meta"].(map[string]any); ok {
		maps.Copy(meta, own)
		if c.Log != nil {
			meta["io.modelcontextprotocol/logLevel"] = cmp.Or(c.LogLevel, "info")
		}
	}
	if c.Progress != nil {
		meta["progressToken"] = id
	}
	s.linkMeta(meta, trace)
	if len(meta) > 0 {
		p["_meta"] = meta
	}
	if s.modern && len(c.Answers) > 0 {
		p["inputResponses"] = c.Answers
	}
	if s.modern && c.State != "" {
		p["requestState"] = c.State
	}
	return p
}

// abilities returns the client capabilities of this caller. Only servers without sessions get
// them with each call; the others get [session.clientCapabilities].
func (s *session) abilities(can tool.Capabilities) map[string]any {
	m := map[string]any{}
	if s.passes["elicitation"] && (can.Elicit || can.ElicitURL) {
		m["elicitation"] = supported(map[string]bool{"form": can.Elicit, "url": can.ElicitURL})
	}
	if s.passes["sampling"] && can.Sample {
		m["sampling"] = supported(map[string]bool{"tools": can.SampleTools})
	}
	if s.passes["roots"] && can.Roots {
		m["roots"] = struct{}{}
	}
	if s.offersTasks() {
		m["extensions"] = map[string]any{tasksExtension: struct{}{}}
	}
	return m
}

// supported returns an object with a member for each feature that is supported.
func supported(features map[string]bool) map[string]struct{} {
	out := map[string]struct{}{}
	for name, is := range features {
		if is {
			out[name] = struct{}{}
		}
	}
	return out
}

// callersMeta returns the caller's _meta for the server, without the members that belong to one
// connection, and those of Patchbay itself.
func callersMeta(raw json.RawMessage) map[string]any {
	var in map[string]json.RawMessage
	_ = json.Unmarshal(raw, &in) // validated before, or null
	out := make(map[string]any, len(in)+4)
	for name, value := range in {
		if name != "progressToken" && !strings.HasPrefix(name, "io.modelcontextprotocol/") &&
			!strings.HasPrefix(name, "patchbay/") {
			out[name] = value
		}
	}
	return out
}

// readInputRequired returns what a server without sessions needs before it can go on (2026-07-28
// basic/patterns/mrtr), or nil if the result is complete.
func readInputRequired(raw json.RawMessage) (*tool.InputRequired, error) {
	if len(raw) > maxResult {
		return nil, errTooLarge
	}
	if !isObject(raw) || !utf8.Valid(raw) {
		return nil, errMalformed
	}
	switch kind := jsonrpc.Member(raw, "resultType"); {
	case isNull(kind) || jsonrpc.Text(kind) == "complete":
		return nil, nil
	case jsonrpc.Text(kind) != "input_required":
		return nil, errMalformed // an unknown resultType is an error (2026-07-28 basic/index, "ResultType")
	}
	var in struct {
		Requests map[string]tool.Request `json:"inputRequests"`
		State    string                  `json:"requestState"`
	}
	if json.Unmarshal(raw, &in) != nil {
		return nil, errMalformed
	}
	for _, q := range in.Requests {
		if q.Method == "" {
			return nil, errMalformed
		}
	}
	return &tool.InputRequired{Requests: in.Requests, State: in.State}, nil
}

// readResult parses the result of a tool, in one pass: it may have megabytes. Everything but the
// envelope stays raw JSON.
func (s *session) readResult(raw json.RawMessage) (*tool.Result, error) {
	if need, err := readInputRequired(raw); err != nil || need != nil {
		return &tool.Result{InputRequired: need}, err
	}
	r, extra, found := &tool.Result{}, []byte{'{'}, false
	for in := jsonrpc.Scan(raw); in.Next(); {
		null := isNull(in.Value)
		switch name := string(in.Key); name {
		case "content":
			if !null && !isArray(in.Value) {
				return nil, errMalformed
			} else if !null {
				r.Content = mapContent(s.slug, in.Value)
			}
			found = true
		case "structuredContent":
			if !null {
				r.Structured, found = in.Value, true
			}
		case "isError":
			if !null && !isBool(in.Value) {
				return nil, errMalformed
			}
			r.IsError = string(in.Value) == "true"
		case "_meta":
			if isObject(in.Value) {
				r.Meta = mapMeta(s.slug, in.Value)
			}
		case "resultType":
		default:
			extra = jsonrpc.AppendMember(extra, name, in.Value)
		}
	}
	if !found {
		return nil, errMalformed
	}
	if len(extra) > 1 {
		r.Extra = append(extra, '}')
	}
	return r, nil
}

// lowerLevel has a server with sessions send logs down to a level, for all callers of the session;
// each gets those that it asked for (2025-11-25 server/utilities/logging). A server that refuses
// goes on with its own level.
func (s *session) lowerLevel(ctx context.Context, level string) {
	at := slices.Index(tool.LogLevels, cmp.Or(level, "info"))
	if s.has.Logging == nil || !s.passes["logging"] || at < 0 {
		return
	}
	s.mu.Lock()
	lower := at < s.level
	if lower {
		s.level = at
	}
	s.mu.Unlock()
	if lower {
		ctx, cancel := context.WithTimeout(ctx, notifyTimeout)
		defer cancel()
		_, _ = s.requestResult(ctx, "logging/setLevel", map[string]string{"level": tool.LogLevels[at]})
	}
}
