// Package toolresult shows the result of a tool call to people: text, pictures, sounds and JSON, or
// an error.
package toolresult

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"patchbay/internal/console/toolwords"
	"patchbay/internal/i18n"
	"patchbay/internal/tool"
)

// Kind is the type of a block.
type Kind string

// Kinds of blocks.
const (
	Text  Kind = "text"
	JSON  Kind = "json"
	Image Kind = "image"
	Audio Kind = "audio"
	Link  Kind = "link"
	Other Kind = "other" // only its name is shown
)

// Block is one part of a result.
type Block struct {
	Kind Kind
	// Text is the content or the name.
	Text string
	// URL is the data: URL of a picture or a sound, or the target of a link.
	URL  string
	File string // file name for saving a sound
	Size int64  // of a picture or a sound, in bytes

	facts []factGroup // of JSON that people can read by name
}

// content is an MCP content block.
type content struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	Data     string `json:"data"`
	MIME     string `json:"mimeType"`
	URI      string `json:"uri"`
	Name     string `json:"name"`
	Title    string `json:"title"`
	Resource *struct {
		URI  string `json:"uri"`
		MIME string `json:"mimeType"`
		Text string `json:"text"`
		Blob string `json:"blob"`
	} `json:"resource"`
}

// shownImages and heardSounds map the types that browsers can show and play to file name
// extensions. Images of other types, such as SVG, may contain active content.
var (
	shownImages = []string{"image/png", "image/jpeg", "image/gif", "image/webp", "image/avif", "image/bmp"}
	heardSounds = map[string]string{
		"audio/ogg": ".ogg", "audio/wav": ".wav", "audio/x-wav": ".wav", "audio/wave": ".wav", "audio/mpeg": ".mp3",
		"audio/mp3": ".mp3",
		"audio/mp4": ".m4a", "audio/aac": ".aac", "audio/flac": ".flac", "audio/webm": ".webm",
	}
)

// Blocks splits a result into blocks.
func Blocks(r *tool.Result) []Block {
	var list []json.RawMessage
	var out []Block
	if len(r.Content) > 0 && json.Unmarshal(r.Content, &list) != nil {
		list = nil
	}
	said := false // the structured content is also there as text
	for _, raw := range list {
		var c content
		if json.Unmarshal(raw, &c) != nil {
			continue
		}
		b := c.block()
		said = said || sameJSON(c.Text, r.Structured)
		if b.Kind == Text && b.Text == "" {
			continue
		}
		out = append(out, b)
	}
	if len(r.Structured) > 0 && string(r.Structured) != "null" && !said {
		out = append(out, Block{Kind: JSON, Text: indented(r.Structured)})
	}
	return out
}

func (c *content) block() Block {
	switch c.Type {
	case "text":
		return textBlock(c.Text)
	case "image", "audio":
		return mediaBlock(c.MIME, c.Data)
	case "resource_link":
		b := Block{Kind: Other, Text: firstNonEmpty(c.Title, c.Name, c.URI)}
		if u, err := url.Parse(c.URI); err == nil && (u.Scheme == "http" || u.Scheme == "https") {
			b.Kind, b.URL = Link, c.URI
		}
		return b
	case "resource":
		switch r := c.Resource; {
		case r == nil:
		case r.Text != "":
			return textBlock(r.Text)
		case r.Blob != "":
			return mediaBlock(r.MIME, r.Blob)
		default:
			return Block{Kind: Other, Text: r.URI}
		}
	}
	return Block{Kind: Other, Text: firstNonEmpty(c.Type, "?")}
}

// textBlock returns a block with a text, or with JSON if the text is JSON.
func textBlock(text string) Block {
	if t := strings.TrimSpace(text); strings.HasPrefix(t, "{") || strings.HasPrefix(t, "[") {
		if s := indented([]byte(t)); s != "" {
			return Block{Kind: JSON, Text: s}
		}
	}
	return Block{Kind: Text, Text: text}
}

// mediaBlock returns a block with a picture or a sound, or only its name if browsers cannot show
// it.
func mediaBlock(mime, data string) Block {
	mime, _, _ = strings.Cut(strings.ToLower(strings.TrimSpace(mime)), ";")
	raw, err := base64.StdEncoding.DecodeString(data)
	end, sound := heardSounds[mime]
	b := Block{Kind: Other, Text: mime, Size: int64(len(raw))}
	switch {
	case err != nil || len(raw) == 0:
		return b
	case slices.Contains(shownImages, mime):
		b.Kind = Image
	case sound:
		b.Kind, b.File = Audio, "sound"+end
	default:
		return b
	}
	b.URL = "data:" + mime + ";base64," + data
	return b
}

func firstNonEmpty(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}

func indented(raw []byte) string {
	var b bytes.Buffer
	if json.Indent(&b, raw, "", "  ") != nil {
		return ""
	}
	return b.String()
}

// sameJSON reports whether a text is the same JSON as other.
func sameJSON(text string, other json.RawMessage) bool {
	var a, b bytes.Buffer
	return len(other) > 0 && json.Compact(&a, []byte(text)) == nil && json.Compact(&b, other) == nil &&
		a.String() == b.String()
}

var saysOf = map[tool.Code]i18n.Message{
	tool.Unknown: msgUnknown, tool.BadArgs: msgBadArgs, tool.Denied: msgDenied, tool.RateLimited: msgTooMany,
	tool.Held:       msgHeld,
	tool.Unapproved: msgUnapproved,
	tool.Busy:       msgBusy,
	tool.Stopping:   msgStopping, tool.Offline: msgOffline, tool.Lost: msgLost, tool.TimedOut: msgTimedOut,
	tool.Cancelled: msgCancelled, tool.Garbled: msgGarbled,
	tool.TooLarge: msgTooLarge, tool.Refused: msgRefused, tool.Failed: msgFailed,
}

// ErrorText says why a call failed.
func ErrorText(l i18n.Lang, e *tool.Error) string {
	if own, ok := toolwords.Lookup(l, e.Told); ok {
		return own
	}
	say, known := saysOf[e.Code]
	if !known {
		say = msgFailed
	}
	return say.In(l)
}
