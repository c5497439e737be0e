package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"unicode/utf8"

	"patchbay/internal/jsonrpc"
	"patchbay/internal/pin"
	"patchbay/internal/tool"
)

const (
	// maxPrompts limits the prompts of an upstream, and maxEntries their bytes and those of a page
	// of resources: clients hold a list in memory.
	maxPrompts, maxEntries = 1000, 2 << 20
	// maxEntry limits a prompt or a resource in a list, in bytes.
	maxEntry = 64 << 10
	// maxURI limits the URI of a resource, in bytes.
	maxURI = 4 << 10
)

// Resources implements [tool.ResourceProvider].
func (u *upstream) Resources(ctx context.Context, who tool.Caller, cursor string) ([]tool.Resource, string, error) {
	entries, next, err := u.entries(ctx, who, "resources/list", "resources", cursor, "uri", resourceEntry,
		pin.OfResource)
	list := make([]tool.Resource, len(entries))
	for i, e := range entries {
		list[i].Raw = e
	}
	return list, next, err
}

// Templates implements [tool.ResourceProvider].
func (u *upstream) Templates(ctx context.Context, who tool.Caller) ([]tool.Template, error) {
	var list []tool.Template
	for cursor, page := "", 0; page < maxPages; page++ {
		entries, next, err := u.entries(ctx, who, "resources/templates/list", "resourceTemplates", cursor,
			"uriTemplate", templateEntry, pin.OfTemplate)
		if err != nil {
			return list, err
		}
		for _, e := range entries {
			list = append(list, tool.Template{Raw: e})
		}
		if next == "" || next == cursor {
			break
		}
		cursor = next
	}
	return list, nil
}

// entries returns a page of a list whose entries have a URI, which is mapped.
func (u *upstream) entries(ctx context.Context, who tool.Caller, method, name, cursor, uri string,
	entry memberType, form func(json.RawMessage) pin.Form) ([]json.RawMessage, string, error) {
	params := map[string]any{}
	if cursor != "" {
		params["cursor"] = cursor
	}
	raw, err := u.ask(ctx, who, method, params)
	if e, ok := errors.AsType[*tool.Error](err); ok && e.RPC == codeMethodNotFound {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", err
	}
	list, next, err := readPage(raw, name)
	if err != nil {
		return nil, "", u.callError(err)
	}
	out, size := list[:0], 0
	for _, e := range list {
		if size += len(e); size > maxEntries {
			break
		}
		if e, ok := cleanEntry(e, entry); ok && !u.isHeld(form, e) {
			e = mapMember(u.spec.Slug, e, uri)
			if meta := jsonrpc.Member(e, "_meta"); meta != nil {
				e = jsonrpc.With(e, "_meta", mapMeta(u.spec.Slug, meta))
			}
			out = append(out, e)
		}
	}
	return out, next, nil
}

// isUsable reports whether all clients can read an entry of a list.
func isUsable(raw json.RawMessage) bool {
	return isObject(raw) && len(raw) <= maxEntry && utf8.Valid(raw) && jsonrpc.Depth(raw) <= maxToolDepth
}

// Read implements [tool.ResourceProvider].
func (u *upstream) Read(ctx context.Context, who tool.Caller, uri string) ([]tool.Contents, error) {
	own, ok := tool.UnmapURI(u.spec.Slug, uri)
	if !ok || len(own) > maxURI {
		return nil, tool.ErrNotFound
	}
	raw, err := u.ask(ctx, who, "resources/read", map[string]any{"uri": own})
	if e, ok := errors.AsType[*tool.Error](err); ok && isNotFound(e) {
		return nil, tool.ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	var page struct {
		Contents []json.RawMessage `json:"contents"`
	}
	if need, err := readInputRequired(raw); err != nil || need != nil || json.Unmarshal(raw, &page) != nil {
		return nil, u.callError(errMalformed)
	}
	out := make([]tool.Contents, len(page.Contents))
	for i, c := range page.Contents {
		if !contentsEntry(c) {
			return nil, u.callError(errMalformed)
		}
		if meta := jsonrpc.Member(c, "_meta"); meta != nil {
			c = jsonrpc.With(c, "_meta", mapMeta(u.spec.Slug, meta))
		}
		out[i].Raw = mapMember(u.spec.Slug, c, "uri")
	}
	return out, nil
}

// isNotFound reports whether a server has no such resource, or no resources: it says so with its
// own code up to 2025-11-25, and as invalid parameters since 2026-07-28 (server/resources, "Error
// Handling").
func isNotFound(e *tool.Error) bool {
	return slices.Contains([]int{-32002, jsonrpc.InvalidParams, codeMethodNotFound}, e.RPC)
}

// ask sends a request about resources for a caller, and returns its result.
func (u *upstream) ask(ctx context.Context, who tool.Caller, method string,
	params map[string]any) (raw json.RawMessage, err error) {
	ctx, span := u.trace(ctx, method, "")
	defer func() { endSpan(ctx, span, err) }()
	if !u.passes["resources"] && strings.HasPrefix(method, "resources/") {
		return nil, tool.ErrNotFound
	}
	if err := u.acquireSlot(ctx); err != nil {
		return nil, err
	}
	defer func() { <-u.slots }()
	s, _, err := u.awaitSession(ctx)
	if err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, u.spec.Settings.timeout())
	defer cancel()
	raw, err = s.requestFor(limited, who, method, params)
	if err != nil && ctx.Err() == nil {
		err = u.callError(err)
	}
	return raw, err
}

// metaVia is the member of a request's _meta with the installations of Patchbay that it came
// through, which ends a circle of installations that have one another as upstreams.
const metaVia = "patchbay/via"

// requestFor sends a request for a caller.
func (s *session) requestFor(ctx context.Context, who tool.Caller, method string,
	params map[string]any) (json.RawMessage, error) {
	meta := map[string]any{}
	if s.modern {
		meta = s.meta(nil)
	}
	if via := strings.Fields(who.Via + " " + s.client.installation); len(via) > 0 {
		meta[metaVia] = via
	}
	link := s.traced(ctx)
	s.linkMeta(meta, link)
	if len(meta) > 0 {
		params["_meta"] = meta
	}
	p := s.newPending()
	m, err := request(p.id, method, params)
	if err != nil {
		s.removePending(p)
		return nil, err
	}
	m.trace = link
	if uri, ok := params["uri"].(string); ok {
		m.name = uri
	}
	return s.roundTrip(ctx, p, m)
}

// listPrompts reads the prompts of the server. What cannot be read is missing, since the tools are
// what most servers are for; truncated means that there may be more.
func (s *session) listPrompts(ctx context.Context) (list []tool.Prompt, truncated bool) {
	if s.has.Prompts == nil || !s.passes["prompts"] {
		return nil, false
	}
	seen, size := map[string]bool{}, 0
	for cursor, page := "", 0; page < maxPages; page++ {
		params := s.params(nil)
		if cursor != "" {
			params["cursor"] = cursor
		}
		raw, err := s.requestResult(ctx, "prompts/list", params)
		if err != nil {
			return list, true
		}
		entries, next, err := readPage(raw, "prompts")
		if err != nil {
			return list, true
		}
		for _, e := range entries {
			if size += len(e); len(list) == maxPrompts || size > maxEntries {
				return list, true
			}
			e, ok := cleanEntry(e, promptEntry)
			if name := jsonrpc.Text(jsonrpc.Member(e, "name")); ok && isValidName(name) && !seen[name] &&
				!isOwnTool(jsonrpc.Member(e, "_meta"), s.client.installation) {
				seen[name] = true
				list = append(list, tool.Prompt{Name: name, Raw: e})
			}
		}
		if next == "" || next == cursor {
			return list, false
		}
		cursor = next
	}
	return list, true
}

// prompt has the server render one of its own prompts.
func (u *upstream) prompt(ctx context.Context, c *tool.Call) (*tool.PromptResult, error) {
	ctx, span := u.trace(ctx, "prompts/get", c.Tool)
	span.Text("gen_ai.prompt.name", c.Tool)
	res := &tool.PromptResult{}
	need, err := u.query(ctx, c, func(*session, *catalog) query {
		return query{method: "prompts/get", name: c.Tool}
	}, func(s *session, raw json.RawMessage) (err error) {
		res.InputRequired, err = readInputRequired(raw)
		res.Raw = mapPrompt(s.slug, raw)
		return err
	})
	endSpan(ctx, span, err)
	if need != nil {
		res.InputRequired = need
	}
	return res, err
}

// mapPrompt returns a rendered prompt whose links are mapped.
func mapPrompt(slug string, raw json.RawMessage) json.RawMessage {
	messages := jsonrpc.Member(raw, "messages")
	if slug == "" || messages == nil {
		return raw
	}
	out := []byte{'['}
	for i, m := range jsonrpc.Elements(messages) {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, jsonrpc.With(m, "content", mapBlock(slug, jsonrpc.Member(m, "content")))...)
	}
	return jsonrpc.With(raw, "messages", append(out, ']'))
}

// CompleteRef implements [tool.Completer].
func (u *upstream) CompleteRef(ctx context.Context, who tool.Caller, kind, ref string,
	rest json.RawMessage) (json.RawMessage, error) {
	reference := map[string]string{"type": kind, "name": ref}
	if kind == "ref/resource" {
		own, ok := tool.UnmapURI(u.spec.Slug, ref)
		if !ok || !u.passes["resources"] {
			return nil, tool.ErrNotFound
		}
		reference = map[string]string{"type": kind, "uri": own}
	} else if !u.hasPrompt(ref) {
		return nil, tool.ErrNotFound
	}
	params := map[string]any{}
	for in := jsonrpc.Scan(rest); in.Next(); {
		params[string(in.Key)] = json.RawMessage(in.Value)
	}
	params["ref"] = reference
	raw, err := u.ask(ctx, who, "completion/complete", params)
	if e, ok := errors.AsType[*tool.Error](err); ok && e.RPC == codeMethodNotFound {
		return nil, tool.ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	completion := jsonrpc.Member(raw, "completion")
	if !isUsable(completion) {
		return nil, u.callError(errMalformed)
	}
	return completion, nil
}

// hasPrompt reports whether the server has a prompt of that name.
func (u *upstream) hasPrompt(name string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.ContainsFunc(u.catalog.prompts, func(p tool.Prompt) bool { return p.Name == name })
}
