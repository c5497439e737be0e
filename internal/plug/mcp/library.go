package mcp

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"

	"patchbay/internal/board"
	"patchbay/internal/jsonrpc"
	"patchbay/internal/tool"
)

// completions bounds how many values are proposed; the protocol says so too.
const completions = 100

// listResources lists one provider's page after the other. The cursor names the
// provider and its own cursor.
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
	shelves := x.shelves(v)
	for i, s := range shelves {
		if s.ID < from {
			continue
		}
		if s.ID != from {
			inner = ""
		}
		some, more, err := s.Resources(ctx, x.access.Caller, inner)
		if err != nil {
			x.server.Logger.WarnContext(ctx, "a provider's resources are not listed", "provider", s.ID, "error", err)
			continue // one that fails must not hide the others
		}
		list = append(list, some...)
		if more != "" {
			next = cursor(s.ID + "\n" + more)
			break
		}
		if len(list) > 0 && i+1 < len(shelves) {
			next = cursor(shelves[i+1].ID + "\n")
			break
		}
	}
	o := x.begin(1024, true)
	o.raw("resources", encode(list))
	if next != "" {
		o.text("nextCursor", next)
	}
	return x.end(o, nil), nil
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
	for _, s := range x.shelves(v) {
		some, err := s.Templates(ctx, x.access.Caller)
		if err != nil {
			x.server.Logger.WarnContext(ctx, "a provider's templates are not listed", "provider", s.ID, "error", err)
			continue
		}
		list = append(list, some...)
	}
	o := x.begin(1024, true)
	o.raw("resourceTemplates", encode(list))
	return x.end(o, nil), nil
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
	for _, s := range x.shelves(v) {
		contents, err := s.Read(ctx, x.access.Caller, uri)
		switch {
		case errors.Is(err, tool.ErrNoSuch):
			continue
		case err != nil:
			x.server.Logger.WarnContext(ctx, "a resource cannot be read", "provider", s.ID, "error", err)
			return nil, &jsonrpc.Error{Code: jsonrpc.InternalError, Message: "the resource cannot be read now"}
		}
		o := x.begin(4096, true)
		o.raw("contents", encode(contents))
		return x.end(o, nil), nil
	}
	code := codeNoResource
	if x.stateless() {
		code = jsonrpc.InvalidParams
	}
	return nil, &jsonrpc.Error{Code: code, Message: "Resource not found", Data: encode(map[string]string{"uri": uri})}
}

// maxSubscriptions bounds the resources that one client watches.
const maxSubscriptions = 1000

func (x *exchange) subscribe(context.Context) ([]byte, *jsonrpc.Error) {
	uri := x.text("uri")
	if uri == "" {
		return nil, invalid("uri is missing: which resource?")
	}
	if !x.session.listener.want(uri, true) {
		return nil, invalid("%d resources are watched already", maxSubscriptions)
	}
	return []byte("{}"), nil
}

func (x *exchange) unsubscribe(context.Context) ([]byte, *jsonrpc.Error) {
	x.session.listener.want(x.text("uri"), false)
	return []byte("{}"), nil
}

func (x *exchange) listPrompts(ctx context.Context) ([]byte, *jsonrpc.Error) {
	v, e := x.view()
	if e != nil {
		return nil, e
	}
	list := []tool.Prompt{}
	for _, b := range x.books(v) {
		some, err := b.Prompts(ctx, x.access.Caller)
		if err != nil {
			x.server.Logger.WarnContext(ctx, "a provider's prompts are not listed", "provider", b.ID, "error", err)
			continue
		}
		for _, p := range some {
			p.Name = b.FullName(p.Name)
			list = append(list, p)
		}
	}
	o := x.begin(1024, true)
	o.raw("prompts", encode(list))
	return x.end(o, nil), nil
}

// findPrompt finds whose prompt a name is, and what its provider calls it.
func (x *exchange) findPrompt(ctx context.Context, name string) (board.Book, string, *jsonrpc.Error) {
	v, e := x.view()
	if e != nil {
		return board.Book{}, "", e
	}
	for _, b := range x.books(v) {
		prompts, err := b.Prompts(ctx, x.access.Caller)
		if err != nil {
			continue
		}
		for _, p := range prompts {
			if b.FullName(p.Name) == name {
				return b, p.Name, nil
			}
		}
	}
	return board.Book{}, "", invalid("Unknown prompt: %s", name)
}

func (x *exchange) getPrompt(ctx context.Context) ([]byte, *jsonrpc.Error) {
	full := x.text("name")
	b, name, e := x.findPrompt(ctx, full)
	if e != nil {
		return nil, e
	}
	c := tool.Call{Tool: name, Args: x.param("arguments"), Caller: x.access.Caller, Can: x.can}
	if len(c.Args) == 0 || c.Args[0] != '{' {
		c.Args = json.RawMessage("{}")
	}
	if e := x.returned(full, &c); e != nil {
		return nil, e
	}
	for range rounds {
		w, err := b.Prompt(ctx, &c)
		switch {
		case errors.Is(err, tool.ErrNoSuch):
			return nil, invalid("Unknown prompt: %s", full)
		case err != nil:
			return nil, promptError(err)
		case w.Need == nil:
			o := x.begin(1024, false)
			if w.Description != "" {
				o.text("description", w.Description)
			}
			o.raw("messages", encode(append([]tool.Message{}, w.Messages...)))
			return x.end(o, nil), nil
		case x.stateless():
			return x.need(full, w.Need), nil
		}
		if err := x.ask(ctx, w.Need, &c); err != nil {
			return nil, promptError(err)
		}
	}
	return nil, promptError(errors.New("the prompt kept asking back"))
}

func promptError(err error) *jsonrpc.Error {
	t := tool.AsError(err)
	switch {
	case t.RPC != 0:
		return &jsonrpc.Error{Code: t.RPC, Message: t.Told, Data: t.Data}
	case t.Code == tool.BadArgs:
		return invalid("%s", t.Told)
	case t.Code == tool.Cancelled:
		return &jsonrpc.Error{Code: codeGone, Message: t.Told}
	}
	return &jsonrpc.Error{Code: jsonrpc.InternalError, Message: t.Told}
}

func (x *exchange) complete(ctx context.Context) ([]byte, *jsonrpc.Error) {
	var p struct {
		Ref      struct{ Type, Name, URI string }
		Argument struct{ Name, Value string }
	}
	if err := json.Unmarshal(x.msg.Params, &p); err != nil || p.Ref.Type == "" {
		return nil, invalid("ref and argument are needed")
	}
	values := []string{}
	if p.Ref.Type == "ref/prompt" {
		b, name, e := x.findPrompt(ctx, p.Ref.Name)
		if e != nil {
			return nil, e
		}
		some, err := b.Complete(ctx, x.access.Caller, name, p.Argument.Name, p.Argument.Value)
		if err != nil {
			return nil, promptError(err)
		}
		values = append(values, some[:min(len(some), completions)]...)
	}
	o := x.begin(256, false)
	o.raw("completion", encode(map[string][]string{"values": values}))
	return x.end(o, nil), nil
}

// encode writes JSON as it is read by people too, without HTML escapes.
func encode(v any) json.RawMessage {
	var w strings.Builder
	enc := json.NewEncoder(&w)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return json.RawMessage("null") // a provider's raw JSON that is none
	}
	return json.RawMessage(strings.TrimSuffix(w.String(), "\n"))
}
