package remote

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"

	"patchbay/internal/jsonrpc"
	"patchbay/internal/tool"
)

// maxErrorText limits the text of a board's error, in bytes.
const maxErrorText = 1 << 10

func clip(s string) string {
	if len(s) <= maxErrorText {
		return s
	}
	return strings.ToValidUTF8(s[:maxErrorText], "") + "…"
}

// readBoardError parses an error: an object, or the variants of forks.
func readBoardError(raw []byte) *boardError {
	no := &boardError{text: jsonrpc.Text(raw)}
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

// readResult parses the result of a call.
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

// object returns text, compacted, if it is a JSON object, or else nil.
func object(text []byte) json.RawMessage {
	text = bytes.TrimSpace(text)
	var b bytes.Buffer
	if len(text) == 0 || text[0] != '{' || json.Compact(&b, text) != nil {
		return nil
	}
	return b.Bytes()
}

// picture is an image block of MCP, and the firmware's JSON string in such a block (xiaozhi-esp32
// main/mcp_server.h, ImageContent and McpTool::Call).
type picture struct {
	Type string `json:"type"`
	MIME string `json:"mimeType"`
	Data string `json:"data"`
}

// readBlock parses a content block and converts it to MCP. It also returns the text of a text
// block. It returns nil for an unknown block.
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
		return raw, "" // forks with more of MCP
	default:
		return nil, ""
	}
	block = jsonrpc.AppendText([]byte(`{"type":"text","text":`), text)
	return append(block, '}'), text
}

// readText parses a text. It also accepts a number or a boolean, and an object that was encoded as
// a string twice.
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

// readPicture parses a picture: an object, or a string with its JSON.
func readPicture(raw []byte) []byte {
	if raw[0] == '"' {
		raw = []byte(jsonrpc.Text(raw))
	}
	p := picture{}
	if json.Unmarshal(raw, &p) != nil {
		return nil
	}
	if !strings.HasPrefix(p.MIME, "image/") {
		p.MIME = "image/jpeg" // the format of boards' cameras
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
