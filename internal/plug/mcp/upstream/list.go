package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/http/httpguts"

	"patchbay/internal/jsonrpc"
	"patchbay/internal/tool"
)

const (
	// maxPages ends lists that never do; with a page for each tool it is still
	// more than a program offers to a model.
	maxPages = 200
	// maxList bounds a list, which is held for as long as the upstream is.
	maxList = 16 << 20
	// maxDescription keeps one tool from filling a model's context.
	maxDescription = 64 << 10
	// maxName bounds the name of a tool.
	maxName = 256
	// maxParamHeads bounds the headers that a tool can ask for.
	maxParamHeads = 32
	// maxHeadDepth bounds the search for them.
	maxHeadDepth = 16
	// maxToolDepth bounds how deep a tool is nested as it is written. In an answer it
	// stands four levels deep, and parsers of clients refuse the whole answer from some
	// depth on: .NET at 64, Rust at 128, pydantic at 200, Python at 1,000.
	maxToolDepth = 56
)

// catalog is what a server offers, after the owner's choice.
type catalog struct {
	tools []tool.Tool
	// heads are the arguments that have to be repeated in headers, by tool.
	heads map[string][]paramHead
	// hidden counts what the owner's patterns leave out, and skipped what cannot
	// be used.
	hidden, skipped int
	// cut says that the list went on.
	cut bool
}

// list asks for all tools. What is wrong with one of them does not touch the
// others, and what is wrong with a later page does not touch those before it.
func (s *session) list(ctx context.Context, settings *Settings) (*catalog, error) {
	c := &catalog{heads: make(map[string][]paramHead)}
	seen := make(map[string]bool)
	size, cursor := 0, ""
	for page := range maxPages {
		raw, err := s.page(ctx, cursor)
		if e, ok := errors.AsType[*rpcError](err); ok && page == 0 && e.Code == codeMethodNotFound {
			return c, nil // it has no tools
		}
		var list []json.RawMessage
		var next string
		if err == nil {
			list, next, err = readPage(raw)
		}
		if err != nil {
			if page == 0 || ctx.Err() != nil || s.ended() {
				return nil, err
			}
			c.cut = true
			return c, nil
		}
		if size += len(raw); size > maxList {
			c.cut = true
			return c, nil
		}
		if !c.take(list, seen, settings, s.client.home) {
			return c, nil
		}
		if next == "" {
			return c, nil
		}
		if next == cursor {
			break // it would go on for ever
		}
		cursor = next
	}
	c.cut = true
	return c, nil
}

func (s *session) ended() bool {
	select {
	case <-s.dead:
		return true
	default:
		return false
	}
}

func (s *session) page(ctx context.Context, cursor string) (json.RawMessage, error) {
	params := s.params(nil)
	if cursor != "" {
		params["cursor"] = cursor
	}
	return s.simple(ctx, "tools/list", params)
}

// readPage reads one page of a list.
func readPage(raw json.RawMessage) (list []json.RawMessage, next string, err error) {
	var page struct {
		Tools json.RawMessage `json:"tools"`
		Next  json.RawMessage `json:"nextCursor"`
	}
	if !isObject(raw) || json.Unmarshal(raw, &page) != nil || !isNull(page.Tools) && json.Unmarshal(page.Tools, &list) != nil {
		return nil, "", errGarbled
	}
	if !isNull(page.Next) && json.Unmarshal(page.Next, &next) != nil {
		return nil, "", errGarbled
	}
	return list, next, nil
}

// take adds the tools of a page. It reports false when there is no room for more.
func (c *catalog) take(list []json.RawMessage, seen map[string]bool, settings *Settings, home string) bool {
	for _, raw := range list {
		t, ok := readTool(raw)
		switch {
		case !ok || seen[t.Name]:
			c.skipped++
		case !settings.allowed(t.Name), cameThrough(t.Meta, home):
			seen[t.Name] = true
			c.hidden++
		case len(c.tools) == settings.maxTools():
			c.cut = true
			return false
		default:
			seen[t.Name] = true
			c.tools = append(c.tools, t)
			if heads := paramHeads(t.Input); heads != nil {
				c.heads[t.Name] = heads
			}
		}
	}
	return true
}

// cameThrough says whether a tool came through our own installation before: it
// would be offered again under a longer name each time that the list is read.
func cameThrough(meta json.RawMessage, home string) bool {
	var m struct {
		Via []string `json:"patchbay/via"`
	}
	return home != "" && isObject(meta) && json.Unmarshal(meta, &m) == nil && slices.Contains(m.Via, home)
}

// readTool reads a tool as its server wrote it, if it can be used.
func readTool(raw json.RawMessage) (tool.Tool, bool) {
	var in struct {
		Name        string          `json:"name"`
		Title       string          `json:"title"`
		Description string          `json:"description"`
		Input       json.RawMessage `json:"inputSchema"`
		Output      json.RawMessage `json:"outputSchema"`
		Annotations struct {
			tool.Hints
			Title string `json:"title"`
		} `json:"annotations"`
		Icons json.RawMessage `json:"icons"`
		Meta  json.RawMessage `json:"_meta"`
	}
	// Go repairs text that is not UTF-8 in some places and not in others.
	if jsonrpc.Depth(raw) > maxToolDepth || !utf8.Valid(raw) || !isObject(raw) || json.Unmarshal(raw, &in) != nil {
		return tool.Tool{}, false
	}
	input, ok := inputSchema(in.Input)
	if !ok || !goodName(in.Name) || len(in.Description) > maxDescription || !isNull(in.Output) && !isObject(in.Output) {
		return tool.Tool{}, false
	}
	t := tool.Tool{
		Name:        in.Name,
		Title:       in.Title,
		Description: in.Description,
		Input:       input,
		Hints:       in.Annotations.Hints,
	}
	if t.Title == "" {
		t.Title = in.Annotations.Title
	}
	if isObject(in.Output) {
		t.Output = in.Output
	}
	if isArray(in.Icons) {
		t.Icons = in.Icons
	}
	if isObject(in.Meta) {
		t.Meta = in.Meta
	}
	t.Dangerous = t.Hints.Destructive != nil && *t.Hints.Destructive
	return t, true
}

func goodName(name string) bool {
	control := func(r rune) bool { return r < 0x20 || r == 0x7f }
	return strings.TrimSpace(name) != "" && len(name) <= maxName && !strings.ContainsFunc(name, control)
}

// inputSchema checks the schema of the arguments. One that does not say of what
// type they are is made to say object, which they always are.
func inputSchema(raw json.RawMessage) (json.RawMessage, bool) {
	var s struct {
		Type json.RawMessage `json:"type"`
	}
	if !isObject(raw) || json.Unmarshal(raw, &s) != nil {
		return nil, false
	}
	if s.Type == nil {
		rest := strings.TrimSpace(string(raw[1:]))
		if rest != "}" {
			rest = "," + rest
		}
		return json.RawMessage(`{"type":"object"` + rest), true
	}
	return raw, string(s.Type) == `"object"`
}

// paramHead is an argument that servers without sessions want repeated in a
// header, so that what stands between us can route by it.
type paramHead struct {
	path []string
	name string
}

// paramHeads finds such arguments in a schema.
func paramHeads(schema json.RawMessage) []paramHead {
	if !strings.Contains(string(schema), "x-mcp-header") {
		return nil
	}
	var list []paramHead
	var walk func(raw json.RawMessage, path []string)
	walk = func(raw json.RawMessage, path []string) {
		var s struct {
			Header     string                     `json:"x-mcp-header"`
			Properties map[string]json.RawMessage `json:"properties"`
		}
		if len(path) > maxHeadDepth || json.Unmarshal(raw, &s) != nil || len(list) == maxParamHeads {
			return
		}
		if len(path) > 0 && s.Header != "" && httpguts.ValidHeaderFieldName(s.Header) {
			list = append(list, paramHead{append([]string(nil), path...), "Mcp-Param-" + s.Header})
		}
		for name, sub := range s.Properties {
			walk(sub, append(path[:len(path):len(path)], name))
		}
	}
	walk(schema, nil)
	return list
}

// headers are the headers for the given arguments.
func headers(heads []paramHead, args json.RawMessage) map[string]string {
	var out map[string]string
	for _, h := range heads {
		value, ok := headerText(lookUp(args, h.path))
		if !ok {
			continue
		}
		if out == nil {
			out = make(map[string]string)
		}
		out[h.name] = headerValue(value)
	}
	return out
}

func lookUp(raw json.RawMessage, path []string) json.RawMessage {
	for _, name := range path {
		var object map[string]json.RawMessage
		if json.Unmarshal(raw, &object) != nil {
			return nil
		}
		raw = object[name]
	}
	return raw
}

// maxParam bounds the value of such a header; servers refuse larger ones.
const maxParam = 4 << 10

// headerText is a plain value as it stands in a header.
func headerText(raw json.RawMessage) (string, bool) {
	if isNull(raw) || isObject(raw) || isArray(raw) || len(raw) > maxParam {
		return "", false
	}
	if raw[0] != '"' {
		return string(raw), true
	}
	var text string
	return text, json.Unmarshal(raw, &text) == nil
}
