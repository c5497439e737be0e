package mcp

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"

	"patchbay/internal/jsonrpc"
	"patchbay/internal/tool"
)

// listResources lists the pages of one provider after the other. The cursor holds the provider
// and the provider's own cursor.
func (x *exchange) listResources(ctx context.Context) ([]byte, *jsonrpc.Error) {
	v, e := x.view()
	if e != nil {
		return nil, e
	}
	from, inner, e := splitCursor(x.text("cursor"))
	if e != nil {
		return nil, e
	}
	list, next := []tool.Resource{}, ""
	sets := x.resourceSets(v)
	for i, s := range sets {
		if s.ID < from {
			continue
		}
		if s.ID != from {
			inner = ""
		}
		some, more, err := s.Resources(ctx, x.access.Caller, inner)
		if errors.Is(err, tool.ErrNotFound) {
			continue
		}
		if err != nil {
			x.server.Logger.WarnContext(ctx, "a provider's resources are not listed", "provider", s.ID, "error", err)
			continue // one failing provider must not hide the others
		}
		list = append(list, some...)
		if more != "" {
			next = cursor(s.ID + "\n" + more)
			break
		}
		if len(list) > 0 && i+1 < len(sets) {
			next = cursor(sets[i+1].ID + "\n")
			break
		}
	}
	o := x.beginResult(1024, true)
	o.raw("resources", encode(list))
	if next != "" {
		o.text("nextCursor", next)
	}
	return x.endResult(o, nil), nil
}

func splitCursor(text string) (provider, inner string, e *jsonrpc.Error) {
	if text == "" {
		return "", "", nil
	}
	both, err := base64.RawURLEncoding.DecodeString(text)
	provider, inner, ok := strings.Cut(string(both), "\n")
	if err != nil || !ok {
		return "", "", invalid("this cursor is not one of ours")
	}
	return provider, inner, nil
}

func (x *exchange) listTemplates(ctx context.Context) ([]byte, *jsonrpc.Error) {
	v, e := x.view()
	if e != nil {
		return nil, e
	}
	list := []tool.Template{}
	for _, s := range x.resourceSets(v) {
		some, err := s.Templates(ctx, x.access.Caller)
		if errors.Is(err, tool.ErrNotFound) {
			continue
		}
		if err != nil {
			x.server.Logger.WarnContext(ctx, "a provider's templates are not listed", "provider", s.ID, "error", err)
			continue
		}
		list = append(list, some...)
	}
	o := x.beginResult(1024, true)
	o.raw("resourceTemplates", encode(list))
	return x.endResult(o, nil), nil
}

func (x *exchange) readResource(ctx context.Context) ([]byte, *jsonrpc.Error) {
	uri := x.text("uri")
	if uri == "" {
		return nil, invalid("uri is missing: which resource?")
	}
	v, e := x.view()
	if e != nil {
		return nil, e
	}
	var failed *jsonrpc.Error // of the first provider that may have it; of a web address, another may
	for _, s := range x.resourceSets(v) {
		contents, err := s.Read(ctx, x.access.Caller, uri)
		switch {
		case err == nil:
			o := x.beginResult(4096, true)
			o.raw("contents", encode(contents))
			return x.endResult(o, nil), nil
		case failed == nil && !errors.Is(err, tool.ErrNotFound):
			x.server.Logger.WarnContext(ctx, "a resource cannot be read", "provider", s.ID, "error", err)
			failed = readError(err)
		}
	}
	if failed != nil {
		return nil, failed
	}
	code := codeResourceNotFound
	if x.isStateless() {
		code = jsonrpc.InvalidParams
	}
	return nil, &jsonrpc.Error{Code: code, Message: "Resource not found", Data: encode(map[string]string{"uri": uri})}
}

func readError(err error) *jsonrpc.Error {
	e, ok := errors.AsType[*tool.Error](err)
	switch {
	case !ok:
		return &jsonrpc.Error{Code: jsonrpc.InternalError, Message: "the resource cannot be read now"}
	case e.RPC != 0:
		return &jsonrpc.Error{Code: e.RPC, Message: e.Told, Data: e.Data}
	}
	return &jsonrpc.Error{Code: jsonrpc.InternalError, Message: e.Told}
}

// encode returns v as JSON without HTML escapes.
func encode(v any) json.RawMessage {
	var w strings.Builder
	enc := json.NewEncoder(&w)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return json.RawMessage("null") // a provider's raw JSON was invalid
	}
	return json.RawMessage(strings.TrimSuffix(w.String(), "\n"))
}
