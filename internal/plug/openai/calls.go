package openai

import (
	"encoding/json"
	"errors"
)

// maxCalls bounds how many calls one answer can make.
const maxCalls = 16

// maxExtra bounds the extra_content of a call; signatures have some KiB.
const maxExtra = 16 << 10

var errTooManyCalls = errors.New("the model called too many functions at once")

// call is a function call of the model.
type call struct {
	id, name  string
	arguments string
	// extra is the call's extra_content: Gemini takes results only along with the
	// signature that came there.
	extra json.RawMessage
}

// fragment is a piece of a call as it is streamed.
type fragment struct {
	index     *int
	id, name  string
	arguments []byte // valid during the call that gets it
	extra     json.RawMessage
}

// callAssembler puts the calls of an answer together. The zero value is ready.
//
// By the book, the first piece of a call has its index, id and name and the
// others only the index. But there are servers that send whole calls at once,
// all with index 0 or with none, without ids, with the name repeated in every
// piece, or with a new id in every piece.
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
	// One byte more than allowed is kept, so that it shows.
	room := maxArguments + 1 - len(o.arguments)
	o.arguments = append(o.arguments, f.arguments[:min(room, len(f.arguments))]...)
	return nil
}

// pick finds the call that a piece belongs to; nil means that it begins one.
func (c *callAssembler) pick(f fragment) *openCall {
	o := c.last(f)
	if o == nil || f.name == "" || o.name == "" {
		return o
	}
	// A name where there is one already: a repetition or the next call.
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

// last is the newest call that a piece could belong to: by its index, without
// one by its id, without a known id the newest of all.
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

// isComplete reports whether there are calls and all of them surely are complete.
func (c *callAssembler) isComplete() bool {
	for i := range c.open {
		if c.open[i].name == "" || !isCompleteObject(c.open[i].arguments) {
			return false
		}
	}
	return len(c.open) > 0
}

// take returns the calls and forgets them. Pieces that never got a name are left
// out: nothing can be done with them.
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

// argumentBytes is what the "arguments" of a call hold: by the book a string
// with JSON in it, from some servers the JSON itself.
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
