package mcp

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"

	"patchbay/internal/hub"
	"patchbay/internal/jsonrpc"
	"patchbay/internal/tool"
)

// maxCompletions limits the number of proposed values (2025-11-25 server/utilities/completion,
// "Completion Results").
const maxCompletions = 100

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
	for _, s := range x.resourceSets(v) {
		contents, err := s.Read(ctx, x.access.Caller, uri)
		switch {
		case errors.Is(err, tool.ErrNotFound):
			continue
		case err != nil:
			x.server.Logger.WarnContext(ctx, "a resource cannot be read", "provider", s.ID, "error", err)
			return nil, &jsonrpc.Error{Code: jsonrpc.InternalError, Message: "the resource cannot be read now"}
		}
		o := x.beginResult(4096, true)
		o.raw("contents", encode(contents))
		return x.endResult(o, nil), nil
	}
	code := codeResourceNotFound
	if x.isStateless() {
		code = jsonrpc.InvalidParams
	}
	return nil, &jsonrpc.Error{Code: code, Message: "Resource not found", Data: encode(map[string]string{"uri": uri})}
}

// maxSubscriptions limits the resources that one client subscribes to.
const maxSubscriptions = 1000

func (x *exchange) subscribe(context.Context) ([]byte, *jsonrpc.Error) {
	uri := x.text("uri")
	if uri == "" {
		return nil, invalid("uri is missing: which resource?")
	}
	if !x.session.listener.setSubscription(uri, true) {
		return nil, invalid("%d resources are watched already", maxSubscriptions)
	}
	return []byte("{}"), nil
}

func (x *exchange) unsubscribe(context.Context) ([]byte, *jsonrpc.Error) {
	x.session.listener.setSubscription(x.text("uri"), false)
	return []byte("{}"), nil
}

func (x *exchange) listPrompts(ctx context.Context) ([]byte, *jsonrpc.Error) {
	v, e := x.view()
	if e != nil {
		return nil, e
	}
	list := []tool.Prompt{}
	for _, b := range x.promptSets(v) {
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
	o := x.beginResult(1024, true)
	o.raw("prompts", encode(list))
	return x.endResult(o, nil), nil
}

// findPrompt resolves a prompt name to its provider and the provider's own name for it.
func (x *exchange) findPrompt(ctx context.Context, name string) (hub.PromptSet, string, *jsonrpc.Error) {
	v, e := x.view()
	if e != nil {
		return hub.PromptSet{}, "", e
	}
	for _, b := range x.promptSets(v) {
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
	return hub.PromptSet{}, "", invalid("Unknown prompt: %s", name)
}

func (x *exchange) getPrompt(ctx context.Context) ([]byte, *jsonrpc.Error) {
	full := x.text("name")
	b, name, e := x.findPrompt(ctx, full)
	if e != nil {
		return nil, e
	}
	c := tool.Call{Tool: name, Args: x.param("arguments"), Caller: x.access.Caller, Capabilities: x.abilities}
	if len(c.Args) == 0 || c.Args[0] != '{' {
		c.Args = json.RawMessage("{}")
	}
	if e := x.readInputResponses(full, &c); e != nil {
		return nil, e
	}
	for range maxRounds {
		w, err := b.Prompt(ctx, &c)
		switch {
		case errors.Is(err, tool.ErrNotFound):
			return nil, invalid("Unknown prompt: %s", full)
		case err != nil:
			return nil, promptError(err)
		case w.InputRequired == nil:
			o := x.beginResult(1024, false)
			if w.Description != "" {
				o.text("description", w.Description)
			}
			o.raw("messages", encode(append([]tool.Message{}, w.Messages...)))
			return x.endResult(o, nil), nil
		case x.isStateless():
			return x.inputRequired(full, w.InputRequired), nil
		}
		if err := x.ask(ctx, w.InputRequired, &c); err != nil {
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
		return &jsonrpc.Error{Code: codeCancelled, Message: t.Told}
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
		values = append(values, some[:min(len(some), maxCompletions)]...)
	}
	o := x.beginResult(256, false)
	o.raw("completion", encode(map[string][]string{"values": values}))
	return x.endResult(o, nil), nil
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
