// Package note describes note types as flashcard programs keep them: which fields a note has, and
// the templates by which cards are made of them.
//
// The form is the JSON of Anki's collections of schema 11
// (github.com/ankitects/anki, rslib/src/notetype/schema11.rs). Attributes that are not named here
// are kept, so that a type comes out of Patchbay as it went in.
package note

import (
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"regexp"
	"slices"
	"strconv"
)

// Type is a note type.
type Type struct {
	ID        int64 // milliseconds since 1970 when it was made
	Name      string
	Cloze     bool // its only template makes one card of each number in {{c1::…}}
	Fields    []Field
	Templates []Template
	CSS       string
	Modified  int64 // seconds since 1970

	raw map[string]json.RawMessage
}

// Field is a field of a note type.
type Field struct {
	Name string
	Font string // CSS font family of the editor
	Size int    // of the font, in pixels
	RTL  bool   // written from right to left

	raw map[string]json.RawMessage
}

// Template makes one card of a note.
type Template struct {
	Name         string
	Front, Back  string // HTML with replacements in {{…}}
	BrowserFront string // for lists; usually empty
	BrowserBack  string
	raw          map[string]json.RawMessage
}

// Parse reads a note type.
func Parse(data []byte) (*Type, error) {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		return nil, fmt.Errorf("note type: %w", err)
	}
	t := &Type{raw: raw, ID: number(raw["id"]), Name: text(raw["name"]), Cloze: number(raw["type"]) == 1,
		CSS: text(raw["css"]), Modified: number(raw["mod"])}
	var fields, templates []map[string]json.RawMessage
	if err := json.Unmarshal(raw["flds"], &fields); err != nil {
		return nil, fmt.Errorf("fields of a note type: %w", err)
	}
	if err := json.Unmarshal(raw["tmpls"], &templates); err != nil {
		return nil, fmt.Errorf("templates of a note type: %w", err)
	}
	for _, f := range fields {
		t.Fields = append(t.Fields, Field{Name: text(f["name"]), Font: text(f["font"]), Size: int(number(f["size"])),
			RTL: string(f["rtl"]) == "true", raw: f})
	}
	for _, m := range templates {
		t.Templates = append(t.Templates, Template{Name: text(m["name"]), Front: text(m["qfmt"]), Back: text(m["afmt"]),
			BrowserFront: text(m["bqfmt"]), BrowserBack: text(m["bafmt"]), raw: m})
	}
	return t, nil
}

// number reads a number that may be written as a text; 0 if it is neither.
func number(raw json.RawMessage) int64 {
	var n json.Number
	if json.Unmarshal(raw, &n) != nil {
		return 0
	}
	if i, err := n.Int64(); err == nil {
		return i
	}
	f, _ := n.Float64()
	return int64(f)
}

// text reads a text; empty if it is none.
func text(raw json.RawMessage) (s string) {
	_ = json.Unmarshal(raw, &s)
	return s
}

// JSON returns the type in the form that [Parse] reads, with all attributes that it was read with.
func (t *Type) JSON() (json.RawMessage, error) {
	fields, templates := []map[string]json.RawMessage{}, []map[string]json.RawMessage{}
	for i, f := range t.Fields {
		fields = append(fields, with(f.raw, map[string]any{"name": f.Name, "ord": i, "font": f.Font, "size": f.Size,
			"rtl": f.RTL}, map[string]any{"sticky": false, "media": []string{}}))
	}
	for i, m := range t.Templates {
		templates = append(templates, with(m.raw, map[string]any{"name": m.Name, "ord": i, "qfmt": m.Front,
			"afmt": m.Back, "bqfmt": m.BrowserFront, "bafmt": m.BrowserBack}, map[string]any{"did": nil}))
	}
	kind := 0
	if t.Cloze {
		kind = 1
	}
	return json.Marshal(with(t.raw, map[string]any{"id": t.ID, "name": t.Name, "type": kind, "css": t.CSS,
		"mod": t.Modified, "flds": fields, "tmpls": templates},
		map[string]any{"usn": -1, "sortf": 0, "did": nil, "vers": []int{}, "tags": []string{},
			"latexPre": "\\documentclass[12pt]{article}\n\\begin{document}\n", "latexPost": "\\end{document}",
			"latexsvg": false, "req": []any{}}))
}

// with returns a copy of attributes with some set, and others added where they are missing.
func with(raw map[string]json.RawMessage, set, missing map[string]any) map[string]json.RawMessage {
	out := make(map[string]json.RawMessage, len(raw)+len(set))
	for k, v := range raw {
		out[k] = v
	}
	for k, v := range missing {
		if _, ok := out[k]; !ok {
			out[k] = encode(v)
		}
	}
	for k, v := range set {
		out[k] = encode(v)
	}
	return out
}

// encode encodes values that always can be.
func encode(v any) json.RawMessage {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return data
}

// Origin returns what identifies the type in the store.
func (t *Type) Origin() string { return "anki:" + strconv.FormatInt(t.ID, 10) }

// Merge combines a note type with another version of it, as Anki does when it imports a package: of
// fields and templates that both have, by name, the newer version's are taken; what only one has is
// kept, what only other has at the end. fields and templates tell where those of other are in the
// result; nil: where they were. changed is false if the result is t. Both must be cloze types or
// none.
func Merge(t, other *Type) (merged *Type, fields, templates []int, changed bool) {
	newer := other.Modified > t.Modified
	sameFields := slices.EqualFunc(t.Fields, other.Fields, func(a, b Field) bool { return a.Name == b.Name })
	sameTemplates := slices.EqualFunc(t.Templates, other.Templates,
		func(a, b Template) bool { return a.Name == b.Name })
	if sameFields && sameTemplates {
		if newer {
			return other, nil, nil, true
		}
		return t, nil, nil, false
	}
	base := t
	if newer {
		base = other
	}
	out := *base
	out.Fields, fields = mergeNamed(t.Fields, other.Fields, newer, func(f Field) string { return f.Name })
	out.Templates, templates = t.Templates, nil
	if !t.Cloze {
		out.Templates, templates = mergeNamed(t.Templates, other.Templates, newer,
			func(m Template) string { return m.Name })
	} else if newer {
		out.Templates = other.Templates
	}
	added := len(out.Fields) > len(t.Fields) || len(out.Templates) > len(t.Templates)
	if !newer && !added {
		return t, fields, templates, false
	}
	return &out, fields, templates, true
}

// mergeNamed merges two lists by the names of their elements, and tells where those of other are.
func mergeNamed[T any](list, other []T, newer bool, name func(T) string) (merged []T, at []int) {
	merged = slices.Clone(list)
	for _, v := range other {
		i := slices.IndexFunc(merged, func(w T) bool { return name(w) == name(v) })
		switch {
		case i < 0:
			i = len(merged)
			merged = append(merged, v)
		case newer:
			merged[i] = v
		}
		at = append(at, i)
	}
	return merged, at
}

// reference matches where the HTML of a field names a picture, a sound or a font.
var reference = regexp.MustCompile(`(?i)(\[sound:)([^\]]*)` +
	`|(\b(?:src|data)\s*=\s*")([^"]*)|(\b(?:src|data)\s*=\s*')([^']*)|(\b(?:src|data)\s*=\s*)([^\s>"']+)` +
	`|(\burl\(\s*["']?)([^"')]*)`)

// References returns the names of the media that the HTML of a field refers to, as they are kept.
func References(field string) []string {
	var names []string
	for _, m := range reference.FindAllStringSubmatch(field, -1) {
		for i := 2; i < len(m); i += 2 {
			if m[i] != "" {
				names = append(names, mediaName(m[i], i == 2))
			}
		}
	}
	return names
}

// Rename replaces the names of media in the HTML of a field.
func Rename(field string, names map[string]string) string {
	if len(names) == 0 {
		return field
	}
	return reference.ReplaceAllStringFunc(field, func(s string) string {
		m := reference.FindStringSubmatch(s)
		for i := 2; i < len(m); i += 2 {
			if to, ok := names[mediaName(m[i], i == 2)]; ok && m[i] != "" {
				if i != 2 {
					to = html.EscapeString(to)
				}
				return m[i-1] + to
			}
		}
		return s
	})
}

// mediaName decodes a name as it stands in HTML; a sound's is not encoded.
func mediaName(s string, sound bool) string {
	s = html.UnescapeString(s)
	if decoded, err := url.PathUnescape(s); err == nil && !sound {
		return decoded
	}
	return s
}
