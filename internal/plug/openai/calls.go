package openai

import (
	"encoding/json"
	"errors"

	"patchbay/internal/toolbox"
)

// maxCalls limits the calls of one answer.
const maxCalls = 16

// maxExtra limits the extra_content of a call, in bytes. Signatures have some KiB.
const maxExtra = 16 << 10

var errTooManyCalls = errors.New("the model called too many functions at once")

// call is a function call of the model.
type call struct {
	id, name  string
	arguments string
	// extra is the call's extra_content. Gemini 3 accepts results only together with the thought
	// signature in it (ai.google.dev/gemini-api/docs/thought-signatures).
	extra json.RawMessage
}

// fragment is a piece of a call as it is streamed.
type fragment struct {
	index     *int
	id, name  string
	arguments []byte // valid only during add
	extra     json.RawMessage
}

// callAssembler assembles the calls of an answer from their fragments. The zero value is ready to
// use.
//
// In OpenAI's API, the first fragment of a call has index, id and name, and the others have only
// the index. Other servers send whole calls at once, all with index 0 (ollama/ollama, issue 15457)
// or without an index (ollama/ollama, issue 7881, and Gemini's compatible endpoint), without ids,
// with the name repeated in every fragment, or with a new id in every fragment.
type callAssembler struct {
	open []openCall
}

type openCall struct {
	id, name  string
	index     *int
	arguments []byte
	extra     json.RawMessage
}

func (c *callAssembler) add(f fragment) error {
	o := c.pick(f)
	if o == nil {
		if len(c.open) == maxCalls {
			return errTooManyCalls
		}
		c.open = append(c.open, openCall{id: f.id, name: f.name, index: f.index})
		o = &c.open[len(c.open)-1]
	}
	if o.name == "" {
		o.name = f.name
	}
	if o.id == "" {
		o.id = f.id
	}
	if o.extra == nil && len(f.extra) <= maxExtra && string(f.extra) != "null" {
		o.extra = f.extra
	}
	// One byte more than allowed is kept, so that the excess is detected.
	room := toolbox.MaxArguments + 1 - len(o.arguments)
	o.arguments = append(o.arguments, f.arguments[:min(room, len(f.arguments))]...)
	return nil
}

// pick returns the call that a fragment belongs to, or nil if it begins a new one.
func (c *callAssembler) pick(f fragment) *openCall {
	o := c.last(f)
	if o == nil || f.name == "" || o.name == "" {
		return o
	}
	// The call has a name already: a repetition or the next call.
	switch {
	case f.name != o.name:
		return nil
	case f.id != "" && o.id != "" && f.id != o.id:
		return nil
	case (f.id == "" || o.id == "") && isCompleteObject(o.arguments) && len(f.arguments) > 0:
		return nil
	}
	return o
}

// last returns the newest call that a fragment may belong to: by index; without an index, by id;
// without a known id, the newest call of all.
func (c *callAssembler) last(f fragment) *openCall {
	for i := len(c.open) - 1; i >= 0; i-- {
		o := &c.open[i]
		if f.index != nil && o.index != nil && *f.index == *o.index {
			return o
		}
		if f.index == nil && f.id != "" && f.id == o.id {
			return o
		}
	}
	if len(c.open) == 0 || f.index != nil {
		return nil
	}
	return &c.open[len(c.open)-1]
}

// isComplete reports whether there are calls and all of them are certainly complete.
func (c *callAssembler) isComplete() bool {
	for i := range c.open {
		if c.open[i].name == "" || !isCompleteObject(c.open[i].arguments) {
			return false
		}
	}
	return len(c.open) > 0
}

// take returns the calls and forgets them. Calls without a name are dropped, because they cannot be
// executed.
func (c *callAssembler) take() []call {
	var out []call
	for i := range c.open {
		if o := &c.open[i]; o.name != "" {
			out = append(out, call{id: o.id, name: o.name, arguments: string(o.arguments), extra: o.extra})
		}
	}
	c.open = nil
	return out
}

// argumentBytes returns the "arguments" of a call. In OpenAI's API they are a string that contains
// JSON; some servers send the JSON itself.
func argumentBytes(raw json.RawMessage) []byte {
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	if raw[0] != '"' {
		return raw
	}
	var text string
	if json.Unmarshal(raw, &text) != nil {
		return nil
	}
	return []byte(text)
}
