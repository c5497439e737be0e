package tool

import (
	"context"
	"encoding/json"
	"errors"
)

// ErrNoSuch says that there is no resource, or no prompt, of that name.
var ErrNoSuch = errors.New("no such thing")

// Library is a [Provider] that also has things to read.
type Library interface {
	// Resources lists what the caller may read, in a stable order, a page at a
	// time. An empty cursor begins; an empty next ends.
	Resources(ctx context.Context, who Caller, cursor string) (list []Resource, next string, err error)
	// Templates lists the ways to name resources that are not listed one by one.
	Templates(ctx context.Context, who Caller) ([]Template, error)
	// Read returns a resource's contents, or [ErrNoSuch].
	Read(ctx context.Context, who Caller, uri string) ([]Contents, error)
}

// Resource is something to read. Its fields are MCP's.
type Resource struct {
	URI         string          `json:"uri"`
	Name        string          `json:"name"`
	Title       string          `json:"title,omitempty"`
	Description string          `json:"description,omitempty"`
	MIME        string          `json:"mimeType,omitempty"`
	Size        int64           `json:"size,omitempty"`
	Annotations json.RawMessage `json:"annotations,omitempty"`
	Meta        json.RawMessage `json:"_meta,omitempty"`
}

// Template names resources by a URI template (RFC 6570).
type Template struct {
	URITemplate string `json:"uriTemplate"`
	Name        string `json:"name"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	MIME        string `json:"mimeType,omitempty"`
}

// Contents is a resource or a part of it: text, or bytes in base64.
type Contents struct {
	URI  string          `json:"uri"`
	MIME string          `json:"mimeType,omitempty"`
	Text *string         `json:"text,omitempty"`
	Blob []byte          `json:"blob,omitempty"`
	Meta json.RawMessage `json:"_meta,omitempty"`
}

// Promptbook is a [Provider] that also has prompts: texts that a person picks to
// begin with.
type Promptbook interface {
	// Prompts lists the prompts for a caller, in a stable order.
	Prompts(ctx context.Context, who Caller) ([]Prompt, error)
	// Prompt writes one. It returns [ErrNoSuch] for a name it does not know and an
	// *[Error] of code [BadArgs] for arguments that do not fit. Only Tool, Args,
	// Caller, Answers, State and Can of the call are set.
	Prompt(ctx context.Context, c *Call) (*Written, error)
	// Complete proposes values of an argument that begin like value.
	Complete(ctx context.Context, who Caller, prompt, argument, value string) ([]string, error)
}

// Prompt is a text with gaps that a person fills. Its fields are MCP's.
type Prompt struct {
	Name        string     `json:"name"`
	Title       string     `json:"title,omitempty"`
	Description string     `json:"description,omitempty"`
	Arguments   []Argument `json:"arguments,omitempty"`
}

// Argument is a gap in a prompt.
type Argument struct {
	Name        string `json:"name"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	Required    bool   `json:"required,omitempty"`
}

// Written is a prompt with its gaps filled.
type Written struct {
	Description string    `json:"description,omitempty"`
	Messages    []Message `json:"messages"`
	// Need asks for more first, as [Result].Need does.
	Need *Need `json:"-"`
}

// Message is one message of a prompt.
type Message struct {
	Role    string          `json:"role"`    // user or assistant
	Content json.RawMessage `json:"content"` // one content block
}

// Says is a message of words.
func Says(role, text string) Message {
	return Message{Role: role, Content: encode(block{Type: "text", Text: text})}
}
