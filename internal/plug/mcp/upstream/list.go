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
	"patchbay/internal/pin"
	"patchbay/internal/tool"
)

const (
	// maxPages limits endless lists; with one tool per page it still exceeds what a program
	// offers to a model.
	maxPages = 200
	// maxList limits the size of the tool list in bytes, which stays in memory while the
	// upstream exists.
	maxList = 16 << 20
	// maxDescription keeps one tool from filling a model's context, in bytes.
	maxDescription = 64 << 10
	// maxName limits the name of a tool.
	maxName = 256
	// maxParamHeaders limits the parameter headers of one tool.
	maxParamHeaders = 32
	// maxHeaderDepth limits the depth of the search for parameter headers.
	maxHeaderDepth = 16
	// maxToolDepth limits the nesting depth of a tool's JSON. A response adds four levels, and
	// client parsers refuse a whole response beyond a certain depth: .NET at 64, Rust at 128,
	// pydantic at 200, Python at 1,000.
	maxToolDepth = 56
)

// catalog holds the tools of a server after the owner's choice.
type catalog struct {
	tools []tool.Tool
	// prompts are those of offeredPrompts that are not held back.
	prompts, offeredPrompts []tool.Prompt
	promptsTruncated        bool // there may be more
	// unselected are the tools that the owner's patterns exclude; nil after they were pinned.
	unselected []tool.Tool
	// fingerprints are those of tools and prompts as the server lists them, and held the tools
	// whose change is not approved.
	fingerprints map[pin.Key]string
	held         map[string]bool
	// content are the marks of templates and resources, whose lists are not kept, and heldContent
	// names those that are held back. holdsContent is false if they need no approval.
	content      map[pin.Key]pin.Mark
	heldContent  string
	holdsContent bool
	// paramHeaders are the arguments to repeat in headers, by tool.
	paramHeaders map[string][]paramHeader
	// hidden counts the tools excluded by the owner's patterns, skipped the unusable ones.
	hidden, skipped int
	// truncated means that the list was longer.
	truncated bool
}

// list reads the lists of tools and prompts. An invalid tool does not affect the others, and a
// failing page does not affect earlier pages.
func (s *session) list(ctx context.Context, settings *Settings) (*catalog, error) {
	c, err := s.listTools(ctx, settings)
	if err != nil {
		return nil, err
	}
	c.offeredPrompts, c.promptsTruncated = s.listPrompts(ctx)
	c.prompts = c.offeredPrompts
	return c, nil
}

func (s *session) listTools(ctx context.Context, settings *Settings) (*catalog, error) {
	c := &catalog{paramHeaders: make(map[string][]paramHeader)}
	seen := make(map[string]bool)
	size, cursor := 0, ""
	for page := range maxPages {
		raw, err := s.page(ctx, cursor)
		if e, ok := errors.AsType[*rpcError](err); ok && page == 0 && e.Code == codeMethodNotFound {
			return c, nil // the server has no tools
		}
		var list []json.RawMessage
		var next string
		if err == nil {
			list, next, err = readPage(raw, "tools")
		}
		if err != nil {
			if page == 0 || ctx.Err() != nil || s.isDone() {
				return nil, err
			}
			c.truncated = true
			return c, nil
		}
		if size += len(raw); size > maxList {
			c.truncated = true
			return c, nil
		}
		if !c.addPage(list, seen, settings, s) {
			return c, nil
		}
		if next == "" {
			return c, nil
		}
		if next == cursor {
			break // the cursor repeats
		}
		cursor = next
	}
	c.truncated = true
	return c, nil
}

func (s *session) isDone() bool {
	select {
	case <-s.done:
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
	return s.requestResult(ctx, "tools/list", params)
}

// readPage parses one page of a list, which is the member of that name.
func readPage(raw json.RawMessage, name string) (list []json.RawMessage, next string, err error) {
	var page map[string]json.RawMessage
	if !isObject(raw) || json.Unmarshal(raw, &page) != nil ||
		!isNull(page[name]) && json.Unmarshal(page[name], &list) != nil ||
		!isNull(page["nextCursor"]) && json.Unmarshal(page["nextCursor"], &next) != nil {
		return nil, "", errMalformed
	}
	return list, next, nil
}

// addPage adds the tools of a page. It returns false if the catalog is full.
func (c *catalog) addPage(list []json.RawMessage, seen map[string]bool, settings *Settings, s *session) bool {
	for _, raw := range list {
		t, ok := readTool(raw)
		switch {
		case !ok || seen[t.Name]:
			c.skipped++
		case isOwnTool(t.Meta, s.client.installation):
			seen[t.Name] = true
			c.hidden++
		case !settings.isAllowed(t.Name):
			seen[t.Name] = true
			if c.hidden++; len(c.unselected) < maxToolsLimit {
				c.unselected = append(c.unselected, t)
			}
		case len(c.tools) == settings.maxTools():
			c.truncated = true
			return false
		default:
			seen[t.Name] = true
			t.Meta = mapMeta(s.slug, t.Meta)
			c.tools = append(c.tools, t)
			if paramHeaders := findParamHeaders(t.Input); paramHeaders != nil {
				c.paramHeaders[t.Name] = paramHeaders
			}
		}
	}
	return true
}

// isOwnTool reports whether a tool already passed through this installation: otherwise it would
// be offered again, under a longer name each time the list is read.
func isOwnTool(meta json.RawMessage, installation string) bool {
	var m struct {
		Via []string `json:"patchbay/via"`
	}
	return installation != "" && isObject(meta) && json.Unmarshal(meta, &m) == nil &&
		slices.Contains(m.Via, installation)
}

// readTool parses a tool. It returns false if the tool is unusable.
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
	// encoding/json repairs invalid UTF-8 in some places and not in others.
	if jsonrpc.Depth(raw) > maxToolDepth || !utf8.Valid(raw) || !isObject(raw) || json.Unmarshal(raw, &in) != nil {
		return tool.Tool{}, false
	}
	input, ok := inputSchema(in.Input)
	if !ok || !isValidName(in.Name) || len(in.Description) > maxDescription ||
		!isNull(in.Output) && !isObject(in.Output) {
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
	t.Output = outputSchema(in.Output)
	if isArray(in.Icons) && icons(in.Icons) {
		t.Icons = in.Icons
	}
	if isObject(in.Meta) {
		t.Meta = in.Meta
	}
	t.Extra = furtherMembers(raw)
	t.Dangerous = t.Hints.Destructive != nil && *t.Hints.Destructive
	return t, true
}

// furtherMembers returns the members of a listed tool that are not in [tool.Tool]. Tools that can
// only be called as tasks are an exception (2025-11-25 basic/utilities/tasks): tasks are not
// offered.
func furtherMembers(raw json.RawMessage) json.RawMessage {
	rest := jsonrpc.Without(raw, "name", "title", "description", "inputSchema", "outputSchema", "annotations", "icons",
		"_meta", "execution")
	hints := jsonrpc.Without(jsonrpc.Member(raw, "annotations"), "readOnlyHint", "destructiveHint", "idempotentHint",
		"openWorldHint")
	if string(jsonrpc.Member(hints, "title")) == "null" {
		hints = jsonrpc.Without(hints, "title") // the TypeScript SDK refuses null
	}
	if hints == nil {
		return rest
	}
	if rest == nil {
		rest = json.RawMessage("{}")
	}
	return jsonrpc.With(rest, "annotations", hints)
}

func isValidName(name string) bool {
	control := func(r rune) bool { return r < 0x20 || r == 0x7f }
	return strings.TrimSpace(name) != "" && len(name) <= maxName && !strings.ContainsFunc(name, control)
}

// paramHeader is an argument that stateless servers want repeated in a header, so that proxies can
// route by it (2026-07-28 server/tools, "x-mcp-header").
type paramHeader struct {
	path []string
	name string
}

// findParamHeaders returns the parameter headers that a schema declares.
func findParamHeaders(schema json.RawMessage) []paramHeader {
	if !strings.Contains(string(schema), "x-mcp-header") {
		return nil
	}
	var list []paramHeader
	var walk func(raw json.RawMessage, path []string)
	walk = func(raw json.RawMessage, path []string) {
		var s struct {
			Header     string                     `json:"x-mcp-header"`
			Properties map[string]json.RawMessage `json:"properties"`
		}
		if len(path) > maxHeaderDepth || json.Unmarshal(raw, &s) != nil || len(list) == maxParamHeaders {
			return
		}
		if len(path) > 0 && s.Header != "" && httpguts.ValidHeaderFieldName(s.Header) {
			list = append(list, paramHeader{append([]string(nil), path...), "Mcp-Param-" + s.Header})
		}
		for name, sub := range s.Properties {
			walk(sub, append(path[:len(path):len(path)], name))
		}
	}
	walk(schema, nil)
	return list
}

// paramHeaderValues returns the headers for the given arguments.
func paramHeaderValues(paramHeaders []paramHeader, args json.RawMessage) map[string]string {
	var out map[string]string
	for _, h := range paramHeaders {
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

// maxParam limits the value of such a header; servers refuse larger ones.
const maxParam = 4 << 10

// headerText returns a scalar JSON value as header text, and false for other values.
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
