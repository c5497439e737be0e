package remote

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"

	"patchbay/internal/jsonrpc"
	"patchbay/internal/tool"
)

// maxWords bounds what is told of a board's error, in bytes.
const maxWords = 1 << 10

func clip(s string) string {
	if len(s) <= maxWords {
		return s
	}
	return strings.ToValidUTF8(s[:maxWords], "") + "…"
}

// readRefusal reads an error: an object, or whatever a fork made of it.
func readRefusal(raw []byte) *refusal {
	no := &refusal{text: jsonrpc.Text(raw)}
	for in := jsonrpc.Scan(raw); in.Next(); {
		switch string(in.Key) {
		case "message":
			no.text = jsonrpc.Text(in.Value)
		case "code":
			if f := number(in.Value); f != nil {
				no.code = int(*f)
			}
		}
	}
	if no.text = clip(no.text); strings.TrimSpace(no.text) == "" {
		no.text = "The board refused, and did not say why."
	}
	return no
}

// readResult reads what came of a call.
func readResult(raw []byte) (*tool.Result, error) {
	r := &tool.Result{}
	var content []byte
	for in := jsonrpc.Scan(raw); in.Next(); {
		switch string(in.Key) {
		case "content":
			content = in.Value
		case "isError":
			r.IsError = string(in.Value) == "true"
		}
	}
	if len(content) == 0 || content[0] != '[' {
		return nil, tool.Fail(tool.Garbled, "The board gave an answer that cannot be used.", nil)
	}
	b := []byte{'['}
	var texts []string
	blocks := jsonrpc.Elements(content)
	for _, raw := range blocks {
		block, text := readBlock(raw)
		if block == nil {
			continue
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(b, block...)
		texts = append(texts, text)
	}
	r.Content = append(b, ']')
	if len(texts) == 0 && len(blocks) > 0 {
		return nil, tool.Fail(tool.Garbled, "The board gave an answer that cannot be used.", nil)
	}
	if len(texts) == 1 {
		r.Structured = object([]byte(texts[0]))
		r.Derived = len(r.Structured) > 0
	}
	return r, nil
}

// object is a text that is a JSON object, without space; nil if it is none.
func object(text []byte) json.RawMessage {
	text = bytes.TrimSpace(text)
	var b bytes.Buffer
	if len(text) == 0 || text[0] != '{' || json.Compact(&b, text) != nil {
		return nil
	}
	return b.Bytes()
}

// picture is a picture as MCP writes it, and as firmware writes it into a text.
type picture struct {
	Type string `json:"type"`
	MIME string `json:"mimeType"`
	Data string `json:"data"`
}

// readBlock reads one block of a result and writes it as MCP has it, with its text
// if it is one. It returns nil for what is no block at all.
func readBlock(raw []byte) (block []byte, text string) {
	var kind string
	var words, image, data []byte
	in := jsonrpc.Scan(raw)
	for in.Next() {
		switch string(in.Key) {
		case "type":
			kind = jsonrpc.Text(in.Value)
		case "text":
			words = in.Value
		case "image":
			image = in.Value
		case "data":
			data = in.Value
		}
	}
	switch {
	case kind == "text" && words != nil:
		text = readText(words)
	case kind == "image" && image != nil:
		if p := readPicture(image); p != nil {
			return p, ""
		}
		text = "(a picture that cannot be read)"
	case kind == "image" && data != nil:
		if p := readPicture(raw); p != nil {
			return p, ""
		}
		text = "(a picture that cannot be read)"
	case kind == "audio", kind == "resource", kind == "resource_link":
		return raw, "" // forks that know more of MCP
	default:
		return nil, ""
	}
	block = jsonrpc.AppendText([]byte(`{"type":"text","text":`), text)
	return append(block, '}'), text
}

// readText reads a text, also if a number or a truth value stands where it belongs,
// or if an object was made a text twice.
func readText(raw []byte) string {
	if raw[0] != '"' {
		return string(raw)
	}
	text := jsonrpc.Text(raw)
	if strings.HasPrefix(text, `"`) {
		var inner string
		if json.Unmarshal([]byte(text), &inner) == nil && object([]byte(inner)) != nil {
			return inner
		}
	}
	return text
}

// readPicture reads a picture, in a text or as it is.
func readPicture(raw []byte) []byte {
	if raw[0] == '"' {
		raw = []byte(jsonrpc.Text(raw))
	}
	p := picture{}
	if json.Unmarshal(raw, &p) != nil {
		return nil
	}
	if !strings.HasPrefix(p.MIME, "image/") {
		p.MIME = "image/jpeg" // what cameras of boards make
	}
	if size := base64.StdEncoding.DecodedLen(len(p.Data)); size == 0 {
		return nil
	}
	if _, err := base64.StdEncoding.DecodeString(p.Data); err != nil {
		return nil
	}
	p.Type = "image"
	out, err := json.Marshal(p)
	if err != nil {
		return nil
	}
	return out
}
