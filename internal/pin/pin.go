// Package pin compares what a tool server offers with what its owner has approved: the texts,
// schemas and hints of its tools, and its prompts. It also points out texts that are written for
// models instead of people; see [Scan].
package pin

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strconv"

	"patchbay/internal/jsonrpc"
	"patchbay/internal/tool"
)

// Kinds of what is pinned.
const (
	Tool   = "tool"
	Server = "server" // what the server says about itself: its instructions
	Prompt = "prompt"
	// Template and Resource are templates and resources, by their addresses.
	Template = "template"
	Resource = "resource"
	// Content is a mark that templates were compared before: the first ones are approved.
	Content = "content"
)

// Removed is the fingerprint of something that the server no longer offers.
const Removed = "removed"

// What a change that nobody has approved means.
const (
	Held    = "held"    // it is not offered in the new form, and calls are refused
	Flagged = "flagged" // it is offered, and the owner is told
)

// Key identifies something pinned of a server.
type Key struct{ Kind, Name string }

// List is what a server offers now.
type List struct {
	Forms []Form
	// Partial are the kinds of which Forms may lack some.
	Partial []string
}

// Form is the form in which a server offers something.
type Form struct {
	Key
	Fingerprint string
	// Content is the form as JSON, at most about [maxContent] bytes: longer members are cut.
	Content []byte
}

// Mark is what is known about something pinned: the approved form, and one that waits for approval.
type Mark struct {
	Fingerprint string // of the approved form; empty: none was approved
	Pending     string // of the form that waits; empty: none waits
	Risk        string // of the form that waits: Held or Flagged
}

// Holds reports whether a form is held back.
func (m Mark) Holds(fingerprint string) bool {
	return fingerprint != m.Fingerprint && (fingerprint != m.Pending || m.Risk != Flagged)
}

const (
	// maxContent limits the kept content of one tool: a list of thousands is kept twice.
	maxContent = 64 << 10
	// maxMember limits each member of content that exceeds maxContent.
	maxMember = 8 << 10
)

// content is the JSON of [Form].Content.
type content struct {
	Name         string          `json:"name,omitempty"` // of resources and templates
	Title        string          `json:"title,omitempty"`
	Description  string          `json:"description,omitempty"`
	Input        json.RawMessage `json:"inputSchema,omitempty"`
	Output       json.RawMessage `json:"outputSchema,omitempty"`
	Hints        tool.Hints      `json:"annotations,omitzero"`
	Extra        json.RawMessage `json:"extra,omitempty"`
	Instructions string          `json:"instructions,omitempty"`
}

// OfTool returns the form of a tool as its server lists it. The order of members in schemas does
// not matter.
func OfTool(t *tool.Tool) Form {
	return form(Key{Tool, t.Name}, content{Title: t.Title, Description: t.Description, Input: canonical(t.Input),
		Output: canonical(t.Output), Hints: t.Hints, Extra: canonical(t.Extra)})
}

// OfServer returns the form of a server's instructions.
func OfServer(instructions string) Form {
	return form(Key{Server, ""}, content{Instructions: instructions})
}

// OfPrompt returns the form of a prompt, a JSON object as its server lists it. Icons and _meta do
// not count, as with tools.
func OfPrompt(name string, raw json.RawMessage) Form {
	var in struct {
		Title       string `json:"title"`
		Description string `json:"description"`
	}
	_ = json.Unmarshal(raw, &in) // the entry has been checked
	return form(Key{Prompt, name}, content{Title: in.Title, Description: in.Description,
		Extra: canonical(jsonrpc.Without(raw, "name", "title", "description", "icons", "_meta"))})
}

// OfTemplate returns the form of a template of resources, and OfResource that of a resource: its
// names and description. Its size and its dates do not count, since they change with the contents.
func OfTemplate(raw json.RawMessage) Form { return ofContent(Template, "uriTemplate", raw) }

// OfResource is described at [OfTemplate].
func OfResource(raw json.RawMessage) Form { return ofContent(Resource, "uri", raw) }

func ofContent(kind, address string, raw json.RawMessage) Form {
	var in struct{ Name, Title, Description string }
	for m := jsonrpc.Scan(raw); m.Next(); {
		switch string(m.Key) {
		case "name":
			in.Name = jsonrpc.Text(m.Value)
		case "title":
			in.Title = jsonrpc.Text(m.Value)
		case "description":
			in.Description = jsonrpc.Text(m.Value)
		}
	}
	return form(Key{kind, jsonrpc.Text(jsonrpc.Member(raw, address))},
		content{Name: in.Name, Title: in.Title, Description: in.Description})
}

func form(k Key, c content) Form {
	full := encode(c)
	sum := sha256.Sum256(full)
	f := Form{Key: k, Fingerprint: hex.EncodeToString(sum[:]), Content: full}
	if len(full) > maxContent {
		c.Name, c.Title, c.Description = cut(c.Name), cut(c.Title), cut(c.Description)
		c.Instructions = cut(c.Instructions)
		for _, raw := range []*json.RawMessage{&c.Input, &c.Output, &c.Extra} {
			if len(*raw) > maxMember {
				*raw = encode(cut(string(*raw)))
			}
		}
		f.Content = encode(c)
	}
	return f
}

// cut shortens a text. What is left tells long texts apart.
func cut(text string) string {
	if len(text) <= maxMember {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	return string(bytes.ToValidUTF8([]byte(text[:maxMember]), nil)) + "… (" + strconv.Itoa(len(text)) +
		" bytes, sha256 " + hex.EncodeToString(sum[:]) + ")"
}

func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(v) != nil {
		return nil // raw members are valid JSON
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// canonical returns JSON with sorted members and without spaces: servers whose objects are maps
// list them in another order after each start. Duplicate members stay, since programs disagree
// about which of them counts. Invalid JSON is returned unchanged.
func canonical(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	out, err := appendCanonical(nil, d)
	if err != nil {
		return raw
	}
	return out
}

func appendCanonical(out []byte, d *json.Decoder) ([]byte, error) {
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t {
	case json.Delim('['):
		return appendArray(out, d)
	case json.Delim('{'):
		return appendObject(out, d)
	}
	return append(out, encode(t)...), nil
}

func appendArray(out []byte, d *json.Decoder) (_ []byte, err error) {
	out = append(out, '[')
	for i := 0; d.More(); i++ {
		if i > 0 {
			out = append(out, ',')
		}
		if out, err = appendCanonical(out, d); err != nil {
			return nil, err
		}
	}
	_, err = d.Token()
	return append(out, ']'), err
}

func appendObject(out []byte, d *json.Decoder) ([]byte, error) {
	var members [][2]string
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		value, err := appendCanonical(nil, d)
		if err != nil {
			return nil, err
		}
		members = append(members, [2]string{string(encode(name)), string(value)})
	}
	slices.SortStableFunc(members, func(a, b [2]string) int { return bytes.Compare([]byte(a[0]), []byte(b[0])) })
	out = append(out, '{')
	for i, m := range members {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(append(out, m[0]...), ':'), m[1]...)
	}
	_, err := d.Token()
	return append(out, '}'), err
}
