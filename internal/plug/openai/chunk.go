package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// chunk holds the used fields of a response: of one chunk of a stream, or of a whole response,
// which has message instead of delta.
type chunk struct {
	Choices []choice        `json:"choices"`
	Error   json.RawMessage `json:"error"`
	Usage   *usage          `json:"usage"`
	// Object and Message are the form of an error {"object":"error","message":…}, as Mistral's API
	// and vLLM send it (jackmpcollins/magentic, issue 276; microsoft/autogen, issue 1037).
	Object  string          `json:"object"`
	Message json.RawMessage `json:"message"`
}

type choice struct {
	Index        int      `json:"index"`
	Delta        *message `json:"delta"`
	Message      *message `json:"message"`
	FinishReason string   `json:"finish_reason"`
}

type message struct {
	Content      content       `json:"content"`
	Refusal      content       `json:"refusal"`
	ToolCalls    []toolCall    `json:"tool_calls"`
	FunctionCall *functionCall `json:"function_call"`
	// Reasoning is the model's reasoning. DeepSeek requires it back with the results of calls
	// (api-docs.deepseek.com/guides/thinking_mode, Tool Calls).
	Reasoning content `json:"reasoning_content"`
}

type toolCall struct {
	Index    *int            `json:"index"`
	ID       string          `json:"id"`
	Function functionCall    `json:"function"`
	Extra    json.RawMessage `json:"extra_content"`
}

type functionCall struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

type usage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
}

// content is a string, or the text parts of a list of parts.
type content string

func (c *content) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '[' {
		var parts []struct {
			Type string  `json:"type"`
			Text content `json:"text"`
		}
		if err := json.Unmarshal(data, &parts); err != nil {
			return err
		}
		var all strings.Builder
		for _, p := range parts {
			if p.Type == "" || p.Type == "text" {
				all.WriteString(string(p.Text))
			}
		}
		*c = content(all.String())
		return nil
	}
	var text string
	err := json.Unmarshal(data, &text)
	*c = content(text)
	return err
}

var (
	errNotJSON = errors.New("the server sent what is not JSON")
	errShape   = errors.New("the server sent JSON of another shape")
)

// delta is the content of one chunk. It is reused for the next chunk.
type delta struct {
	text string
	// thought is a piece of the reasoning_content.
	thought string
	finish  string
	calls   []fragment
	// complete reports whether this is a complete message, not a piece of one.
	complete bool
	usage    *usage
}

// decode reads a chunk or a whole response. An error that the server reports in it is returned as a
// [*serverError].
func (d *delta) decode(data []byte) error {
	*d = delta{calls: d.calls[:0]}
	if text, finish, ok := quickDelta(data); ok {
		d.text, d.finish = text, finish
		return nil
	}
	return d.decodeSlow(data)
}

func (d *delta) decodeSlow(data []byte) error {
	var c chunk
	if err := json.Unmarshal(data, &c); err != nil {
		if _, ok := errors.AsType[*json.SyntaxError](err); ok || !bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
			return errNotJSON
		}
		return fmt.Errorf("%w: %v", errShape, err)
	}
	if len(c.Error) > 0 && string(c.Error) != "null" {
		return readServerError(data)
	}
	if c.Object == "error" {
		return readServerError(data)
	}
	d.usage = c.Usage
	for i := range c.Choices {
		if c.Choices[i].Index == 0 {
			d.take(&c.Choices[i])
			break
		}
	}
	return nil
}

func (d *delta) take(c *choice) {
	m := c.Delta
	if m == nil {
		m, d.complete = c.Message, c.Message != nil
	}
	d.finish = c.FinishReason
	if m == nil {
		return
	}
	d.text, d.thought = string(m.Content)+string(m.Refusal), string(m.Reasoning)
	for _, t := range m.ToolCalls {
		d.calls = append(d.calls, fragment{
			index: t.Index, id: t.ID, name: t.Function.Name, arguments: argumentBytes(t.Function.Arguments),
			extra: t.Extra,
		})
	}
	if f := m.FunctionCall; f != nil {
		d.calls = append(d.calls, fragment{name: f.Name, arguments: argumentBytes(f.Arguments)})
	}
}
