package schemaform

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
)

// objectMembers returns the values of a JSON object by name; nil if raw is no object.
func objectMembers(raw json.RawMessage) map[string]json.RawMessage {
	var m map[string]json.RawMessage
	if json.Unmarshal(raw, &m) != nil {
		return nil
	}
	return m
}

// memberNames returns the names in a JSON object in their written order, which is how the author
// meant them to be read.
func memberNames(raw json.RawMessage) (names []string) {
	d := json.NewDecoder(bytes.NewReader(raw))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil
	}
	seen := map[string]bool{}
	for d.More() {
		name, err := d.Token()
		var v json.RawMessage
		if err != nil || d.Decode(&v) != nil {
			return names
		}
		if s, ok := name.(string); ok && !seen[s] {
			seen[s] = true
			names = append(names, s)
		}
	}
	return names
}

func elements(raw json.RawMessage) (list []json.RawMessage) {
	if json.Unmarshal(raw, &list) != nil {
		return nil
	}
	return list
}

// text decodes a JSON string; it returns an empty string for other types.
func text(raw json.RawMessage) (s string) {
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

func texts(raw json.RawMessage) (list []string) {
	for _, e := range elements(raw) {
		if s := text(e); s != "" {
			list = append(list, s)
		}
	}
	return list
}

// decimal decodes a JSON number.
func decimal(raw json.RawMessage) (float64, bool) {
	var n float64
	if len(raw) == 0 || raw[0] == 'n' || json.Unmarshal(raw, &n) != nil || math.IsInf(n, 0) {
		return 0, false
	}
	return n, true
}

// startsWith reports whether a JSON value starts with a byte, which tells its type.
func startsWith(raw json.RawMessage, c byte) bool {
	raw = bytes.TrimLeft(raw, " \t\r\n")
	return len(raw) > 0 && raw[0] == c
}

func compact(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return ""
	}
	return b.String()
}

func indent(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Indent(&b, raw, "", "  ") != nil {
		return ""
	}
	return b.String()
}

// resolve returns a schema with its references resolved, and without a null that it allows besides
// another type: generators write that for optional values.
func (r *reader) resolve(raw json.RawMessage) map[string]json.RawMessage {
	s := objectMembers(raw)
	for range maxRefs {
		inner := r.followRef(s)
		if inner == nil {
			return s
		}
		// Keywords beside the reference take precedence over those of its target.
		for key, v := range s {
			if key != "$ref" && key != "anyOf" && key != "oneOf" && key != "allOf" {
				inner[key] = v
			}
		}
		s = inner
	}
	return s
}

// followRef returns the target of a schema that is only a reference; nil otherwise.
func (r *reader) followRef(s map[string]json.RawMessage) map[string]json.RawMessage {
	if ref := text(s["$ref"]); ref != "" {
		for _, at := range []string{"$defs", "definitions"} {
			if name, ok := strings.CutPrefix(ref, "#/"+at+"/"); ok {
				def := r.definition(at)[name]
				if r.resolvedBytes += len(def); r.resolvedBytes > maxResolvedBytes {
					return nil
				}
				return objectMembers(def)
			}
		}
		return nil
	}
	for _, word := range []string{"anyOf", "oneOf", "allOf"} {
		list := slices.DeleteFunc(elements(s[word]),
			func(e json.RawMessage) bool { return text(objectMembers(e)["type"]) == "null" })
		if len(list) == 1 {
			return objectMembers(list[0])
		}
	}
	return nil
}

// definition returns the schema at a reference; each is read once.
func (r *reader) definition(at string) map[string]json.RawMessage {
	known, ok := r.defs[at]
	if !ok {
		if r.defs == nil {
			r.defs = map[string]map[string]json.RawMessage{}
		}
		known = objectMembers(r.root[at])
		r.defs[at] = known
	}
	return known
}

// kindOf returns the only type of a schema besides null; empty if there are several or none.
func kindOf(s map[string]json.RawMessage) string {
	if t := text(s["type"]); t != "" {
		return t
	}
	types := slices.DeleteFunc(texts(s["type"]), func(t string) bool { return t == "null" })
	if len(types) != 1 {
		return ""
	}
	return types[0]
}

// options returns the values that a schema lists, if they are scalars.
func options(s map[string]json.RawMessage) []Option {
	values, names := elements(s["enum"]), texts(s["enumNames"])
	if c := s["const"]; len(c) > 0 {
		values = []json.RawMessage{c}
	}
	if len(values) == 0 {
		values, names = alternatives(s)
	}
	if len(values) > 2*maxOptions { // too many to look for duplicates
		return nil
	}
	var out []Option
	for i, v := range values {
		if string(v) == "null" {
			continue
		}
		if startsWith(v, '{') || startsWith(v, '[') || len(out) == maxOptions {
			return nil
		}
		o := Option{Value: compact(v), Label: compact(v)}
		if startsWith(v, '"') {
			o.Label = text(v)
		}
		if len(names) == len(values) {
			o.Label = names[i]
		}
		if slices.ContainsFunc(out, func(have Option) bool { return have.Value == o.Value }) {
			continue
		}
		out = append(out, o)
	}
	return out
}

// alternatives returns values that are listed with their titles.
func alternatives(s map[string]json.RawMessage) (values []json.RawMessage, names []string) {
	for _, word := range []string{"oneOf", "anyOf"} {
		for _, e := range elements(s[word]) {
			m := objectMembers(e)
			c := m["const"]
			if len(c) == 0 {
				return nil, nil
			}
			name := text(m["title"])
			if name == "" {
				name = strings.Trim(compact(c), `"`)
			}
			values, names = append(values, c), append(names, name)
		}
	}
	return values, names
}

// whole returns a number without a fraction as JSON; empty if s is none.
func whole(s string) string {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return ""
	}
	return strconv.FormatInt(n, 10)
}
