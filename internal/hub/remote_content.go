package hub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"patchbay/internal/tool"
)

// Prompts and resources of a provider that another instance holds are asked for like its calls: a
// query takes the place of the tool's name. So it is bounded, cancelled and lost as they are.

// contentQuery asks the holder of a provider for prompts or resources.
type contentQuery struct {
	// Method is the one of MCP that asks for the same, or methodComplete.
	Method string `json:"method"`
	Cursor string `json:"cursor,omitempty"`
	URI    string `json:"uri,omitempty"`
	// Kind, Ref and Rest are those of [tool.Completer].
	Kind string          `json:"kind,omitempty"`
	Ref  string          `json:"ref,omitempty"`
	Rest json.RawMessage `json:"rest,omitempty"`
	// Argument and Value are those of [tool.PromptProvider].
	Argument string `json:"argument,omitempty"`
	Value    string `json:"value,omitempty"`
}

const (
	methodResources   = "resources/list"
	methodTemplates   = "resources/templates/list"
	methodRead        = "resources/read"
	methodSubscribe   = "resources/subscribe"
	methodPrompts     = "prompts/list"
	methodPrompt      = "prompts/get"
	methodCompleteRef = "completion/complete"
	// methodComplete is [tool.PromptProvider.Complete].
	methodComplete = "completion/values"
)

// page is a page of a list; its entries are JSON objects.
type page struct {
	Entries []json.RawMessage `json:"entries"`
	Next    string            `json:"next,omitempty"`
}

// promptEntry is a [tool.Prompt] whose other members are in Raw.
type promptEntry struct {
	Name string          `json:"name"`
	Raw  json.RawMessage `json:"raw"`
}

// promptAnswer is a [tool.PromptResult] whose members are in Raw.
type promptAnswer struct {
	Raw  json.RawMessage     `json:"raw,omitempty"`
	Need *tool.InputRequired `json:"need,omitempty"`
}

// remoteContent is the backend of a provider on another instance that has prompts or resources.
type remoteContent struct {
	backend
	holder  holder
	slug    string
	timeout time.Duration
}

// holder is the instance that holds a provider.
type holder interface {
	backend
	// exchange asks it.
	exchange(ctx context.Context, c *tool.Call, q *contentQuery) (*callResult, error)
	// unwatch ends what the subscription with an id began. It does not block.
	unwatch(uri, id string)
}

// withContent returns a backend that also has the prompts and resources of a provider, if it has
// any.
func withContent(h holder, a *remoteProvider) backend {
	if a.Content == 0 {
		return h
	}
	return &remoteContent{h, h, a.Slug, a.Timeout}
}

// query asks the holder, and decodes its answer.
func (f *remoteContent) query(ctx context.Context, c *tool.Call, q *contentQuery, into any) error {
	ctx, cancel := context.WithTimeoutCause(ctx, f.timeout, errProviderTimeout)
	defer cancel()
	if c.ID == "" {
		c.ID = uuid.Must(uuid.NewV7()).String()
	}
	end, err := f.holder.exchange(ctx, c, q)
	switch {
	case errors.Is(err, errProviderTimeout):
		return tool.Fail(tool.TimedOut, fmt.Sprintf("There was no answer within %s.", f.timeout), err)
	case err != nil:
		return err
	case end.NotFound:
		return tool.ErrNotFound
	}
	if err := json.Unmarshal(end.Content, into); err != nil {
		return tool.Fail(tool.Garbled, "The answer cannot be used.", err)
	}
	return nil
}

// isForeign reports whether a resource or template is certainly another provider's. Providers that
// instances hold map their URIs by [tool.MapURI].
func (f *remoteContent) isForeign(uri string) bool {
	_, ok := tool.UnmapURI(f.slug, uri)
	return !ok
}

// Resources implements [tool.ResourceProvider].
func (f *remoteContent) Resources(ctx context.Context, who tool.Caller, cursor string) ([]tool.Resource, string,
	error) {
	var p page
	err := f.query(ctx, &tool.Call{Caller: who}, &contentQuery{Method: methodResources, Cursor: cursor}, &p)
	list := make([]tool.Resource, len(p.Entries))
	for i, e := range p.Entries {
		list[i].Raw = e
	}
	return list, p.Next, err
}

// Templates implements [tool.ResourceProvider].
func (f *remoteContent) Templates(ctx context.Context, who tool.Caller) ([]tool.Template, error) {
	var p page
	err := f.query(ctx, &tool.Call{Caller: who}, &contentQuery{Method: methodTemplates}, &p)
	list := make([]tool.Template, len(p.Entries))
	for i, e := range p.Entries {
		list[i].Raw = e
	}
	return list, err
}

// Read implements [tool.ResourceProvider].
func (f *remoteContent) Read(ctx context.Context, who tool.Caller, uri string) ([]tool.Contents, error) {
	if f.isForeign(uri) {
		return nil, tool.ErrNotFound
	}
	var p page
	if err := f.query(ctx, &tool.Call{Caller: who}, &contentQuery{Method: methodRead, URI: uri}, &p); err != nil {
		return nil, err
	}
	list := make([]tool.Contents, len(p.Entries))
	for i, e := range p.Entries {
		list[i].Raw = e
	}
	return list, nil
}

// Subscribe implements [tool.Subscriber].
func (f *remoteContent) Subscribe(ctx context.Context, who tool.Caller, uri string) (func(), error) {
	if f.isForeign(uri) {
		return nil, tool.ErrNotFound
	}
	c := tool.Call{Caller: who}
	err := f.query(ctx, &c, &contentQuery{Method: methodSubscribe, URI: uri}, new(struct{}))
	end := func() { f.holder.unwatch(uri, c.ID) }
	if err != nil {
		end() // perhaps only the answer was lost
		return nil, err
	}
	return end, nil
}

// Prompts implements [tool.PromptProvider].
func (f *remoteContent) Prompts(ctx context.Context, who tool.Caller) ([]tool.Prompt, error) {
	var entries []promptEntry
	err := f.query(ctx, &tool.Call{Caller: who}, &contentQuery{Method: methodPrompts}, &entries)
	list := make([]tool.Prompt, len(entries))
	for i, e := range entries {
		list[i].Name, list[i].Raw = e.Name, e.Raw
	}
	return list, err
}

// Prompt implements [tool.PromptProvider].
func (f *remoteContent) Prompt(ctx context.Context, c *tool.Call) (*tool.PromptResult, error) {
	asked, a := *c, promptAnswer{}
	asked.ID = ""
	if err := f.query(ctx, &asked, &contentQuery{Method: methodPrompt}, &a); err != nil {
		return nil, err
	}
	return &tool.PromptResult{Raw: a.Raw, InputRequired: a.Need}, nil
}

// Complete implements [tool.PromptProvider].
func (f *remoteContent) Complete(ctx context.Context, who tool.Caller, prompt, argument, value string) ([]string,
	error) {
	var values []string
	err := f.query(ctx, &tool.Call{Caller: who}, &contentQuery{Method: methodComplete, Ref: prompt,
		Argument: argument, Value: value}, &values)
	return values, err
}

// CompleteRef implements [tool.Completer].
func (f *remoteContent) CompleteRef(ctx context.Context, who tool.Caller, kind, ref string,
	rest json.RawMessage) (json.RawMessage, error) {
	if kind == "ref/resource" && f.isForeign(ref) {
		return nil, tool.ErrNotFound
	}
	var completion json.RawMessage
	err := f.query(ctx, &tool.Call{Caller: who}, &contentQuery{Method: methodCompleteRef, Kind: kind, Ref: ref,
		Rest: rest}, &completion)
	return completion, err
}

// answerQuery answers a query of another instance.
func (x *catalogSync) answerQuery(ctx context.Context, p tool.Provider, o *callRequest) (end callResult) {
	var v any
	var err error
	if o.Content.Method == methodSubscribe {
		v, err = struct{}{}, x.watch(ctx, p, o)
	} else {
		v, err = content(ctx, p, o)
	}
	switch {
	case errors.Is(err, tool.ErrNotFound):
		end.NotFound = true
	case err != nil:
		end.Error = tool.AsError(err)
	default:
		if end.Content, err = json.Marshal(v); err != nil {
			end.Error = tool.Fail(tool.Garbled, "The answer cannot be used.", err)
		}
	}
	return end
}

// content returns what a query asks a provider for.
func content(ctx context.Context, p tool.Provider, o *callRequest) (any, error) {
	q, who := o.Content, o.Call.Caller
	resources, _ := p.(tool.ResourceProvider)
	prompts, _ := p.(tool.PromptProvider)
	completer, _ := p.(tool.Completer)
	switch {
	case q.Method == methodResources && resources != nil:
		list, next, err := resources.Resources(ctx, who, q.Cursor)
		return pageOf(list, next, err)
	case q.Method == methodTemplates && resources != nil:
		list, err := resources.Templates(ctx, who)
		return pageOf(list, "", err)
	case q.Method == methodRead && resources != nil:
		list, err := resources.Read(ctx, who, q.URI)
		return pageOf(list, "", err)
	case q.Method == methodPrompts && prompts != nil:
		list, err := prompts.Prompts(ctx, who)
		return promptEntries(list, err)
	case q.Method == methodPrompt && prompts != nil:
		w, err := prompts.Prompt(ctx, &o.Call)
		return answerOf(w, err)
	case q.Method == methodComplete && prompts != nil:
		return prompts.Complete(ctx, who, q.Ref, q.Argument, q.Value)
	case q.Method == methodCompleteRef && completer != nil:
		return completer.CompleteRef(ctx, who, q.Kind, q.Ref, q.Rest)
	case q.Method == methodResources, q.Method == methodTemplates:
		return page{}, nil
	case q.Method == methodPrompts:
		return []promptEntry{}, nil
	}
	return nil, tool.ErrNotFound
}

// pageOf returns a page of entries as they are listed.
func pageOf[T any](list []T, next string, err error) (page, error) {
	p := page{Entries: make([]json.RawMessage, len(list)), Next: next}
	for i := range list {
		if err == nil {
			p.Entries[i], err = json.Marshal(list[i])
		}
	}
	return p, err
}

func promptEntries(list []tool.Prompt, err error) ([]promptEntry, error) {
	out := make([]promptEntry, len(list))
	for i, p := range list {
		out[i] = promptEntry{p.Name, p.Raw}
		if err == nil && p.Raw == nil {
			out[i].Raw, err = json.Marshal(p)
		}
	}
	return out, err
}

func answerOf(w *tool.PromptResult, err error) (promptAnswer, error) {
	switch {
	case err != nil:
		return promptAnswer{}, err
	case w.Raw != nil || w.InputRequired != nil:
		return promptAnswer{w.Raw, w.InputRequired}, nil
	}
	raw, err := json.Marshal(w)
	return promptAnswer{Raw: raw}, err
}
