// Package toolresult shows people what came of a call of a tool: words, pictures,
// sounds and JSON, or why nothing came.
package toolresult

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"patchbay/internal/talk"
	"patchbay/internal/tool"
)

// Kind is what a block of a result is.
type Kind string

// The kinds of blocks.
const (
	Text  Kind = "text"
	JSON  Kind = "json"
	Image Kind = "image"
	Audio Kind = "audio"
	Link  Kind = "link"
	Other Kind = "other" // it is only named
)

// Block is a part of a result as it is shown.
type Block struct {
	Kind Kind
	// Text is what it says, or how it is called.
	Text string
	// URL is the data: address of a picture or a sound, or where a link leads to.
	URL  string
	File string // what a sound is saved as
	Size int64  // of a picture or a sound, in bytes
}

// content is a content block as MCP has it.
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

// shownImages and heardSounds are the types that browsers show and play, and the end
// of their files' names. A picture of another type may do more than be looked at.
var (
	shownImages = []string{"image/png", "image/jpeg", "image/gif", "image/webp", "image/avif", "image/bmp"}
	heardSounds = map[string]string{
		"audio/ogg": ".ogg", "audio/wav": ".wav", "audio/x-wav": ".wav", "audio/wave": ".wav", "audio/mpeg": ".mp3", "audio/mp3": ".mp3",
		"audio/mp4": ".m4a", "audio/aac": ".aac", "audio/flac": ".flac", "audio/webm": ".webm",
	}
)

// Blocks takes a result apart.
func Blocks(r *tool.Result) []Block {
	var list []json.RawMessage
	var out []Block
	if len(r.Content) > 0 && json.Unmarshal(r.Content, &list) != nil {
		list = nil
	}
	said := false // what is structured has been said in words too
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
		return words(c.Text)
	case "image", "audio":
		return media(c.MIME, c.Data)
	case "resource_link":
		b := Block{Kind: Other, Text: first(c.Title, c.Name, c.URI)}
		if u, err := url.Parse(c.URI); err == nil && (u.Scheme == "http" || u.Scheme == "https") {
			b.Kind, b.URL = Link, c.URI
		}
		return b
	case "resource":
		switch r := c.Resource; {
		case r == nil:
		case r.Text != "":
			return words(r.Text)
		case r.Blob != "":
			return media(r.MIME, r.Blob)
		default:
			return Block{Kind: Other, Text: r.URI}
		}
	}
	return Block{Kind: Other, Text: first(c.Type, "?")}
}

// words are a text, or JSON if it is some.
func words(text string) Block {
	if t := strings.TrimSpace(text); strings.HasPrefix(t, "{") || strings.HasPrefix(t, "[") {
		if s := indented([]byte(t)); s != "" {
			return Block{Kind: JSON, Text: s}
		}
	}
	return Block{Kind: Text, Text: text}
}

// media is a picture or a sound. What browsers cannot show is named.
func media(mime, data string) Block {
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

func first(texts ...string) string {
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

// sameJSON says whether a text is the same JSON as another.
func sameJSON(text string, other json.RawMessage) bool {
	var a, b bytes.Buffer
	return len(other) > 0 && json.Compact(&a, []byte(text)) == nil && json.Compact(&b, other) == nil && a.String() == b.String()
}

var saysOf = map[tool.Code]talk.Say{
	tool.Unknown: sayUnknown, tool.BadArgs: sayBadArgs, tool.Denied: sayDenied, tool.TooMany: sayTooMany, tool.Busy: sayBusy,
	tool.Stopping: sayStopping, tool.Offline: sayOffline, tool.Lost: sayLost, tool.TimedOut: sayTimedOut, tool.Cancelled: sayCancelled, tool.Garbled: sayGarbled,
	tool.TooLarge: sayTooLarge, tool.Refused: sayRefused, tool.Failed: sayFailed,
}

// Why says in words for people why a call brought no result.
func Why(l talk.Lang, e *tool.Error) string {
	say, known := saysOf[e.Code]
	if !known {
		say = sayFailed
	}
	return say.In(l)
}
