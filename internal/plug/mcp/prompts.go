package mcp

import (
	"context"
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

func (x *exchange) listPrompts(ctx context.Context) ([]byte, *jsonrpc.Error) {
	v, e := x.view()
	if e != nil {
		return nil, e
	}
	list := []json.RawMessage{}
	for _, b := range x.promptSets(v) {
		some, err := b.Prompts(ctx, x.access.Caller)
		if err != nil {
			x.server.Logger.WarnContext(ctx, "a provider's prompts are not listed", "provider", b.ID, "error", err)
			continue
		}
		for _, p := range some {
			list = append(list, x.promptEntry(b, p))
		}
	}
	o := x.beginResult(1024, true)
	o.raw("prompts", encode(list))
	return x.endResult(o, nil), nil
}

// promptEntry returns a prompt as callers see it. Like a tool, it has the installations that it
// came through.
func (x *exchange) promptEntry(b hub.PromptSet, p tool.Prompt) json.RawMessage {
	entry := p.Raw
	if entry == nil {
		entry = encode(p)
	}
	return x.server.Hub.WithVia(jsonrpc.With(entry, "name", encode(b.FullName(p.Name))))
}

// findPrompt resolves a prompt name to its provider and the provider's own name for it.
func (x *exchange) findPrompt(ctx context.Context, name string) (hub.PromptSet, string, *jsonrpc.Error) {
	v, e := x.view()
	if e != nil {
		return hub.PromptSet{}, "", e
	}
	var failed *jsonrpc.Error // of a provider that may have it
	for _, b := range x.promptSets(v) {
		if b.Slug != "" && !strings.HasPrefix(name, b.Slug+"_") {
			continue // see [hub.ProviderRef.FullName]
		}
		prompts, err := b.Prompts(ctx, x.access.Caller)
		if err != nil {
			failed = promptError(err)
			continue
		}
		for _, p := range prompts {
			if b.FullName(p.Name) == name {
				return b, p.Name, nil
			}
		}
	}
	if failed != nil {
		return hub.PromptSet{}, "", failed
	}
	return hub.PromptSet{}, "", invalid("Unknown prompt: %s", name)
}

func (x *exchange) getPrompt(ctx context.Context) ([]byte, *jsonrpc.Error) {
	full := x.text("name")
	b, name, e := x.findPrompt(ctx, full)
	if e != nil {
		return nil, e
	}
	c := tool.Call{Tool: name, Args: x.param("arguments"), Caller: x.access.Caller, Capabilities: x.abilities,
		Meta: x.meta.raw}
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
		case w.InputRequired == nil && w.Raw != nil:
			return x.rawResult(w.Raw), nil
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

// rawResult returns a result of a provider in the form of this revision.
func (x *exchange) rawResult(raw json.RawMessage) []byte {
	o := x.beginResult(len(raw), false)
	o.b = jsonrpc.AppendMembers(o.b, jsonrpc.Without(raw, "_meta", "resultType", "ttlMs", "cacheScope"))
	return x.endResult(o, jsonrpc.Member(raw, "_meta"))
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
	completion, e := x.completion(ctx, p.Ref.Type, p.Ref.Name+p.Ref.URI, p.Argument.Name, p.Argument.Value)
	if e != nil {
		return nil, e
	}
	o := x.beginResult(256, false)
	o.raw("completion", completion)
	return x.endResult(o, nil), nil
}

// noCompletion is the result where nothing is proposed.
var noCompletion = json.RawMessage(`{"values":[]}`)

// completion returns proposals for an argument of a prompt or of a resource template.
func (x *exchange) completion(ctx context.Context, kind, ref, argument, value string) (json.RawMessage,
	*jsonrpc.Error) {
	switch kind {
	case "ref/prompt":
		b, name, e := x.findPrompt(ctx, ref)
		if e != nil {
			return nil, e
		}
		if own, err := x.completionOf(ctx, b.PromptProvider, kind, name); !errors.Is(err, tool.ErrNotFound) {
			return own, promptErrorOf(err)
		}
		some, err := b.Complete(ctx, x.access.Caller, name, argument, value)
		if err != nil {
			return nil, promptError(err)
		}
		return encode(map[string][]string{"values": append([]string{}, some[:min(len(some), maxCompletions)]...)}), nil
	case "ref/resource":
		v, e := x.view()
		if e != nil {
			return nil, e
		}
		var failed error
		for _, s := range x.resourceSets(v) {
			own, err := x.completionOf(ctx, s.ResourceProvider, kind, ref)
			if err == nil {
				return own, nil
			}
			if failed == nil && !errors.Is(err, tool.ErrNotFound) {
				failed = err
			}
		}
		if failed != nil {
			return nil, promptError(failed)
		}
	}
	return noCompletion, nil
}

// completionOf asks a provider that has completions of its own.
func (x *exchange) completionOf(ctx context.Context, provider any, kind, ref string) (json.RawMessage, error) {
	c, ok := provider.(tool.Completer)
	if !ok {
		return nil, tool.ErrNotFound
	}
	return c.CompleteRef(ctx, x.access.Caller, kind, ref, jsonrpc.Without(x.msg.Params, "ref", "_meta"))
}

func promptErrorOf(err error) *jsonrpc.Error {
	if err == nil {
		return nil
	}
	return promptError(err)
}
