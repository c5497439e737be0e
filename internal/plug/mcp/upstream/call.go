package upstream

import (
	"context"
	"encoding/json"
	"maps"
	"strings"
	"unicode/utf8"

	"patchbay/internal/tool"
)

// envelopeBytes is the room for the JSON around a result.
const envelopeBytes = 64 << 10

// call executes one call. The error is one of the wire or of the server.
func (s *session) call(ctx context.Context, c *tool.Call, paramHeaders []paramHeader) (*tool.Result, error) {
	wantsUpdates := c.Progress != nil || c.Log != nil
	p := s.newPending(wantsUpdates)
	m, err := request(p.id, "tools/call", s.callParams(c, p.id))
	if err != nil {
		s.removePending(p)
		return nil, err
	}
	m.name, m.limit = c.Tool, maxResult+envelopeBytes
	if s.modern {
		m.headers = paramHeaderValues(paramHeaders, c.Args)
	}
	raw, err := s.roundTrip(ctx, p, m, func(n update) { forwardUpdate(c, n) })
	if err != nil {
		return nil, err
	}
	if wantsUpdates {
		s.forwardRemaining(c, p)
	}
	return readResult(raw)
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

// callParams returns the parameters of tools/call.
func (s *session) callParams(c *tool.Call, id int64) map[string]any {
	args := c.Args
	if isNull(args) {
		args = json.RawMessage("{}")
	}
	p := s.params(abilities(c.Capabilities))
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

// abilities returns the client capabilities of this caller. Only servers without sessions get
// them with each call; the others learn at the handshake that the client supports no requests.
func abilities(can tool.Capabilities) map[string]any {
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

// callersMeta returns the caller's _meta for the server, without the members that belong to one
// connection.
func callersMeta(raw json.RawMessage) map[string]any {
	var in map[string]json.RawMessage
	_ = json.Unmarshal(raw, &in) // validated before, or null
	out := make(map[string]any, len(in)+4)
	for name, value := range in {
		if name != "progressToken" && !strings.HasPrefix(name, "io.modelcontextprotocol/") {
			out[name] = value
		}
	}
	return out
}

// readResult parses the result of a call. Everything but the envelope stays raw JSON.
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
		return nil, errMalformed
	}
	r := &tool.Result{IsError: in.IsError}
	switch in.Type {
	case "", "complete":
	case "input_required":
		r.InputRequired = &tool.InputRequired{Requests: in.Requests, State: in.State}
		for _, q := range in.Requests {
			if q.Method == "" {
				return nil, errMalformed
			}
		}
		return r, nil
	default:
		return nil, errMalformed // an unknown resultType is an error (2026-07-28 basic/index, "ResultType")
	}
	if !isNull(in.Content) {
		if !isArray(in.Content) {
			return nil, errMalformed
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
		return nil, errMalformed
	}
	return r, nil
}
