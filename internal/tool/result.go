package tool

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"
)

// Text returns a result with one text block.
func Text(text string) *Result {
	return &Result{Content: textBlock(text)}
}

// ErrorResult returns a result of a tool that ran and failed, with the reason as text.
func ErrorResult(text string) *Result {
	return &Result{Content: textBlock(text), IsError: true}
}

// JSON returns a result with v as structured content and as text. It panics if v cannot be
// marshalled, which only a mistake in this project's own types causes.
func JSON(v any) *Result {
	text := encode(v)
	return &Result{Content: textBlock(string(text)), Structured: text}
}

// Picture returns a result with one image block.
func Picture(mime string, data []byte) *Result {
	return &Result{Content: encode([]any{map[string]string{"type": "image", "mimeType": mime,
		"data": base64.StdEncoding.EncodeToString(data)}})}
}

func textBlock(text string) json.RawMessage {
	return encode([]block{{Type: "text", Text: text}})
}

// encode marshals v without HTML escapes, which models would read aloud.
func encode(v any) json.RawMessage {
	var w bytes.Buffer
	enc := json.NewEncoder(&w)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err)
	}
	return bytes.TrimSuffix(w.Bytes(), []byte("\n"))
}

type block struct {
	Type     string          `json:"type"`
	Text     string          `json:"text"`
	MIME     string          `json:"mimeType,omitempty"`
	URI      string          `json:"uri,omitempty"`
	Resource json.RawMessage `json:"resource,omitempty"`
}

// PlainText returns the result as text alone. Blocks that are not text are named in brackets.
func (r *Result) PlainText() string {
	var blocks []block
	if len(r.Content) > 0 && json.Unmarshal(r.Content, &blocks) != nil {
		return ""
	}
	var parts []string
	for _, b := range blocks {
		switch b.Type {
		case "text":
			parts = append(parts, b.Text)
		case "resource":
			parts = append(parts, resourceText(b.Resource))
		case "resource_link":
			parts = append(parts, "["+b.URI+"]")
		default:
			parts = append(parts, "["+strings.TrimSpace(b.Type+" "+b.MIME)+"]")
		}
	}
	if len(parts) == 0 && len(r.Structured) > 0 {
		return string(r.Structured)
	}
	return strings.Join(parts, "\n")
}

// RepeatsStructured reports whether the only content block is a text that repeats the structured
// content.
func (r *Result) RepeatsStructured() bool {
	var blocks []block
	if len(r.Structured) == 0 || len(r.Content) == 0 || json.Unmarshal(r.Content, &blocks) != nil || len(blocks) != 1 ||
		blocks[0].Type != "text" {
		return false
	}
	var text, fields bytes.Buffer
	return json.Compact(&text, []byte(blocks[0].Text)) == nil && json.Compact(&fields, r.Structured) == nil &&
		bytes.Equal(text.Bytes(), fields.Bytes())
}

func resourceText(raw json.RawMessage) string {
	var c struct{ URI, Text string }
	if json.Unmarshal(raw, &c) != nil || c.Text == "" {
		return "[" + c.URI + "]"
	}
	return c.Text
}
