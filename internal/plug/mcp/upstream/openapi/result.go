package openapi

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"strings"
	"unicode/utf8"
)

const (
	// MaxResponse limits the body of a response, in bytes: a result has it twice if it is JSON.
	MaxResponse = 3 << 20
	// maxErrorBody limits how much of an error is passed on, in bytes.
	maxErrorBody = 8 << 10
)

// Response is the response to a [Request].
type Response struct {
	Status int
	Header http.Header
	Body   []byte
	// TooLarge means that the body exceeded MaxResponse.
	TooLarge bool
}

// Result returns the result of a tool that a response is, as an MCP server returns it.
func (o *Operation) Result(r *Response, redact func(string) string) json.RawMessage {
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	out := map[string]any{}
	line := fmt.Sprintf("%d %s", r.Status, http.StatusText(r.Status))
	say := func(text string) { out["content"] = []any{map[string]any{"type": "text", "text": text}} }
	body := bytes.TrimSpace(r.Body)
	switch {
	case r.Status/100 != 2:
		out["isError"] = true
		say(redact(failure(line, r, kind)))
	case r.TooLarge:
		out["isError"] = true
		say(fmt.Sprintf("The request was carried out (%s), but its response is larger than %d bytes.", line, MaxResponse))
	case o.method == http.MethodHead:
		say(line + "\n" + shownHeaders(r.Header))
	case len(body) == 0:
		say(line)
	case (isJSON(kind) || kind == "") && json.Valid(body) && utf8.Valid(body):
		say(string(body))
		if body[0] == '{' {
			out["structuredContent"] = json.RawMessage(body)
		}
	case isText(kind) || kind == "":
		say(strings.ToValidUTF8(string(r.Body), "\ufffd"))
	default:
		out["content"] = []any{o.binary(kind, r.Body)}
	}
	if o.hasOutput && out["isError"] == nil && out["structuredContent"] == nil {
		out["structuredContent"] = struct{}{}
	}
	raw, err := json.Marshal(out)
	if err != nil {
		return json.RawMessage(`{"content":[],"isError":true}`)
	}
	return raw
}

// failure describes a response that is no success.
func failure(line string, r *Response, kind string) string {
	switch {
	case r.Status/100 == 3:
		return line + ". The server points elsewhere, which is not followed."
	case isJSON(kind) || isText(kind):
		if text := strings.TrimSpace(strings.ToValidUTF8(string(r.Body), "\ufffd")); text != "" {
			return line + "\n" + clip(text, maxErrorBody)
		}
	}
	return line
}

func isText(kind string) bool {
	switch kind {
	case "application/xml", "application/yaml", "application/x-yaml", "application/javascript", "application/x-ndjson",
		"application/x-www-form-urlencoded":
		return true
	}
	return strings.HasPrefix(kind, "text/") || strings.HasSuffix(kind, "+xml") || isJSON(kind)
}

// binary returns a block of content.
func (o *Operation) binary(kind string, data []byte) map[string]any {
	text := base64.StdEncoding.EncodeToString(data)
	switch kind {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
		return map[string]any{"type": "image", "mimeType": kind, "data": text}
	}
	if strings.HasPrefix(kind, "audio/") {
		return map[string]any{"type": "audio", "mimeType": kind, "data": text}
	}
	return map[string]any{"type": "resource", "resource": map[string]any{"uri": "openapi:/" + o.Name, "mimeType": kind,
		"blob": text}}
}

// shownHeaders returns the headers of a response that say something about its body.
func shownHeaders(h http.Header) string {
	var b strings.Builder
	for _, name := range []string{"Content-Type", "Content-Length", "Last-Modified", "Etag", "Location"} {
		if v := h.Get(name); v != "" {
			fmt.Fprintf(&b, "%s: %s\n", name, clip(v, 500))
		}
	}
	return strings.TrimSpace(b.String())
}
