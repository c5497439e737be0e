package tool

import (
	"context"
	"encoding/json"
	"errors"
)

// ErrNotFound is returned for a resource or prompt that does not exist.
var ErrNotFound = errors.New("no such thing")

// ResourceProvider is a [Provider] that also has resources.
type ResourceProvider interface {
	// Resources returns a page of the resources that the caller may read, in a stable order.
	// The first page has an empty cursor; an empty next means that there are no more.
	Resources(ctx context.Context, who Caller, cursor string) (list []Resource, next string, err error)
	// Templates returns the URI templates of resources that are not listed.
	Templates(ctx context.Context, who Caller) ([]Template, error)
	// Read returns a resource's contents, or [ErrNotFound].
	Read(ctx context.Context, who Caller, uri string) ([]Contents, error)
}

// Resource is an MCP resource.
type Resource struct {
	URI         string          `json:"uri"`
	Name        string          `json:"name"`
	Title       string          `json:"title,omitempty"`
	Description string          `json:"description,omitempty"`
	MIME        string          `json:"mimeType,omitempty"`
	Size        int64           `json:"size,omitempty"`
	Annotations json.RawMessage `json:"annotations,omitempty"`
	Meta        json.RawMessage `json:"_meta,omitempty"`
	// Raw, if not nil, is the whole resource as a JSON object, as in the other types below.
	Raw json.RawMessage `json:"-"`
}

// MarshalJSON implements [json.Marshaler].
func (r Resource) MarshalJSON() ([]byte, error) {
	type plain Resource
	return rawOr(r.Raw, plain(r))
}

// rawOr returns raw, or v as JSON if raw is nil.
func rawOr(raw json.RawMessage, v any) ([]byte, error) {
	if raw != nil {
		return raw, nil
	}
	return json.Marshal(v)
}

// Template is an MCP resource template: a URI template (RFC 6570) of resources.
type Template struct {
	URITemplate string          `json:"uriTemplate"`
	Name        string          `json:"name"`
	Title       string          `json:"title,omitempty"`
	Description string          `json:"description,omitempty"`
	MIME        string          `json:"mimeType,omitempty"`
	Raw         json.RawMessage `json:"-"`
}

// MarshalJSON implements [json.Marshaler].
func (t Template) MarshalJSON() ([]byte, error) {
	type plain Template
	return rawOr(t.Raw, plain(t))
}

// Contents is the content of a resource or of a part of it: text, or bytes in base64.
type Contents struct {
	URI  string          `json:"uri"`
	MIME string          `json:"mimeType,omitempty"`
	Text *string         `json:"text,omitempty"`
	Blob []byte          `json:"blob,omitempty"`
	Meta json.RawMessage `json:"_meta,omitempty"`
	Raw  json.RawMessage `json:"-"`
}

// MarshalJSON implements [json.Marshaler].
func (c Contents) MarshalJSON() ([]byte, error) {
	type plain Contents
	return rawOr(c.Raw, plain(c))
}

// Subscriber is a [ResourceProvider] that has to know which of its resources somebody watches.
type Subscriber interface {
	// Subscribe is called when one more caller watches a resource, and unsubscribe when it does no
	// longer. It returns [ErrNotFound] for a resource that cannot be one of the provider.
	Subscribe(ctx context.Context, who Caller, uri string) (unsubscribe func(), err error)
}

// PromptProvider is a [Provider] that also has prompts, which a person picks to start with.
type PromptProvider interface {
	// Prompts returns the prompts for a caller, in a stable order.
	Prompts(ctx context.Context, who Caller) ([]Prompt, error)
	// Prompt renders a prompt. It returns [ErrNotFound] for an unknown name and an *[Error] of
	// code [BadArgs] for invalid arguments. Only Tool, Args, Caller, Answers, State and
	// Capabilities of the call are set.
	Prompt(ctx context.Context, c *Call) (*PromptResult, error)
	// Complete returns values of an argument that begin with value.
	Complete(ctx context.Context, who Caller, prompt, argument, value string) ([]string, error)
}

// Completer is a provider with completions of its own. It is asked instead of
// [PromptProvider.Complete].
type Completer interface {
	// CompleteRef returns the result's member completion, a JSON object, for what is requested:
	// ref is the provider's own name of a prompt, or the URI template of a resource, and rest the
	// other parameters of MCP's completion/complete. It returns [ErrNotFound] for a template of
	// another provider.
	CompleteRef(ctx context.Context, who Caller, kind, ref string, rest json.RawMessage) (json.RawMessage, error)
}

// Prompt is an MCP prompt: a text with arguments that a person fills in.
type Prompt struct {
	Name        string     `json:"name"`
	Title       string     `json:"title,omitempty"`
	Description string     `json:"description,omitempty"`
	Arguments   []Argument `json:"arguments,omitempty"`
	// Raw, if not nil, is the whole prompt as a JSON object, but for the name.
	Raw json.RawMessage `json:"-"`
}

// Argument is an argument of a prompt.
type Argument struct {
	Name        string `json:"name"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	Required    bool   `json:"required,omitempty"`
}

// PromptResult is a rendered prompt.
type PromptResult struct {
	Description string    `json:"description,omitempty"`
	Messages    []Message `json:"messages"`
	// Raw, if not nil, is the whole result as a JSON object.
	Raw json.RawMessage `json:"-"`
	// InputRequired means that the provider needs input first, as in [Result].
	InputRequired *InputRequired `json:"-"`
}

// Message is one message of a prompt.
type Message struct {
	Role    string          `json:"role"`    // user or assistant
	Content json.RawMessage `json:"content"` // one content block
}

// TextMessage returns a message with one text block.
func TextMessage(role, text string) Message {
	return Message{Role: role, Content: encode(block{Type: "text", Text: text})}
}
