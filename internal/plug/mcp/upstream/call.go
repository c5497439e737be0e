package upstream

import (
	"context"
	"encoding/json"
	"maps"
	"strings"
	"unicode/utf8"

	"patchbay/internal/tool"
)

// envelope is what stands around a result.
const envelope = 64 << 10

// call carries out one call. The error is one of the wire's or of the server's.
func (s *session) call(ctx context.Context, c *tool.Call, heads []paramHead) (*tool.Result, error) {
	tells := c.Progress != nil || c.Log != nil
	p := s.expect(tells)
	m, err := request(p.id, "tools/call", s.callParams(c, p.id))
	if err != nil {
		s.forget(p)
		return nil, err
	}
	m.name, m.limit = c.Tool, maxResult+envelope
	if s.modern {
		m.heads = headers(heads, c.Args)
	}
	raw, err := s.ask(ctx, p, m, func(n note) { pass(c, n) })
	if err != nil {
		return nil, err
	}
	if tells {
		s.passRest(c, p)
	}
	return readResult(raw)
}

// pass tells the caller how the work goes.
func pass(c *tool.Call, n note) {
	if n.progress != nil && c.Progress != nil {
		c.Progress(*n.progress)
	}
	if n.log != nil && c.Log != nil {
		c.Log(*n.log)
	}
}

// passRest passes on what came before the result and had no turn yet.
func (s *session) passRest(c *tool.Call, p *pending) {
	for {
		select {
		case n := <-p.notes:
			pass(c, n)
		default:
			return
		}
	}
}

// callParams writes the parameters of a call.
func (s *session) callParams(c *tool.Call, id int64) map[string]any {
	args := c.Args
	if isNull(args) {
		args = json.RawMessage("{}")
	}
	p := s.params(abilities(c.Can))
	p["name"], p["arguments"] = c.Tool, args
	meta := callersMeta(c.Meta)
	if own, ok := p["_meta"].(map[string]any); ok {
		maps.Copy(meta, own)
		if c.Log != nil {
			meta["io.modelcontextprotocol/logLevel"] = "info"
		}
	}
	if c.Progress != nil {
		meta["progressToken"] = id
	}
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

// abilities are what this caller can be asked for. Only servers without sessions
// can be told with each call; the others are told that nobody can be asked.
func abilities(can tool.Abilities) map[string]any {
	m := map[string]any{}
	if can.Elicit {
		m["elicitation"] = struct{}{}
	}
	if can.Sample {
		m["sampling"] = struct{}{}
	}
	if can.Roots {
		m["roots"] = struct{}{}
	}
	return m
}

// callersMeta is what the caller sent along for the server, without what is the
// business of each connection.
func callersMeta(raw json.RawMessage) map[string]any {
	var in map[string]json.RawMessage
	_ = json.Unmarshal(raw, &in) // it has been checked, or is null
	out := make(map[string]any, len(in)+4)
	for name, value := range in {
		if name != "progressToken" && !strings.HasPrefix(name, "io.modelcontextprotocol/") {
			out[name] = value
		}
	}
	return out
}

// readResult reads what came of a call. All but the frame stays as it came.
func readResult(raw json.RawMessage) (*tool.Result, error) {
	var in struct {
		Type       string                  `json:"resultType"`
		Content    json.RawMessage         `json:"content"`
		Structured json.RawMessage         `json:"structuredContent"`
		IsError    bool                    `json:"isError"`
		Meta       json.RawMessage         `json:"_meta"`
		Requests   map[string]tool.Request `json:"inputRequests"`
		State      string                  `json:"requestState"`
	}
	if len(raw) > maxResult {
		return nil, errTooLarge
	}
	if !isObject(raw) || !utf8.Valid(raw) || json.Unmarshal(raw, &in) != nil {
		return nil, errGarbled
	}
	r := &tool.Result{IsError: in.IsError}
	switch in.Type {
	case "", "complete":
	case "input_required":
		r.Need = &tool.Need{Requests: in.Requests, State: in.State}
		for _, q := range in.Requests {
			if q.Method == "" {
				return nil, errGarbled
			}
		}
		return r, nil
	default:
		return nil, errGarbled // the protocol says so: what is not known is no result
	}
	if !isNull(in.Content) {
		if !isArray(in.Content) {
			return nil, errGarbled
		}
		r.Content = in.Content
	}
	if !isNull(in.Structured) {
		r.Structured = in.Structured
	}
	if isObject(in.Meta) {
		r.Meta = in.Meta
	}
	if r.Content == nil && r.Structured == nil && in.Content == nil {
		return nil, errGarbled
	}
	return r, nil
}
