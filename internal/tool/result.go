package tool

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"
)

// Text is a result of words.
func Text(text string) *Result {
	return &Result{Content: textBlock(text)}
}

// Trouble is a result that says that the tool failed, and why.
func Trouble(text string) *Result {
	return &Result{Content: textBlock(text), IsError: true}
}

// JSON is a result for programs, which readers get as text too. It panics if v
// cannot be written as JSON, which only a mistake in our own types causes.
func JSON(v any) *Result {
	text := encode(v)
	return &Result{Content: textBlock(string(text)), Structured: text}
}

// Picture is a result of one picture.
func Picture(mime string, data []byte) *Result {
	return &Result{Content: encode([]any{map[string]string{"type": "image", "mimeType": mime, "data": base64.StdEncoding.EncodeToString(data)}})}
}

func textBlock(text string) json.RawMessage {
	return encode([]block{{Type: "text", Text: text}})
}

// encode writes JSON without HTML escapes, which models would read aloud.
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

// Words is the result as words alone, for a reader that takes nothing else.
// What is not text is named in brackets.
func (r *Result) Words() string {
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
			parts = append(parts, resourceWords(b.Resource))
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

// Repeats says whether all that the result contains is a text that is its structured
// contents once more.
func (r *Result) Repeats() bool {
	var blocks []block
	if len(r.Structured) == 0 || len(r.Content) == 0 || json.Unmarshal(r.Content, &blocks) != nil || len(blocks) != 1 || blocks[0].Type != "text" {
		return false
	}
	var text, fields bytes.Buffer
	return json.Compact(&text, []byte(blocks[0].Text)) == nil && json.Compact(&fields, r.Structured) == nil && bytes.Equal(text.Bytes(), fields.Bytes())
}

func resourceWords(raw json.RawMessage) string {
	var c struct{ URI, Text string }
	if json.Unmarshal(raw, &c) != nil || c.Text == "" {
		return "[" + c.URI + "]"
	}
	return c.Text
}
