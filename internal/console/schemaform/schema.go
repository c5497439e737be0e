package schemaform

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
)

// members are the values of a JSON object by their names; nil if it is none.
func members(raw json.RawMessage) map[string]json.RawMessage {
	var m map[string]json.RawMessage
	if json.Unmarshal(raw, &m) != nil {
		return nil
	}
	return m
}

// order are the names in a JSON object, in the order in which they were written: that
// is how somebody meant them to be read.
func order(raw json.RawMessage) (names []string) {
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

// text is a JSON text; empty if it is something else.
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

// decimal is a JSON number.
func decimal(raw json.RawMessage) (float64, bool) {
	var n float64
	if len(raw) == 0 || raw[0] == 'n' || json.Unmarshal(raw, &n) != nil || math.IsInf(n, 0) {
		return 0, false
	}
	return n, true
}

// begins says with which byte a JSON value begins, which tells what it is.
func begins(raw json.RawMessage, c byte) bool {
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

// resolve is a schema with what it refers to, and without the null that it allows
// beside something else: programs write that for what may be left out.
func (r *reader) resolve(raw json.RawMessage) map[string]json.RawMessage {
	s := members(raw)
	for range maxRefs {
		inner := r.behind(s)
		if inner == nil {
			return s
		}
		// What is said beside the reference goes before what is said there.
		for key, v := range s {
			if key != "$ref" && key != "anyOf" && key != "oneOf" && key != "allOf" {
				inner[key] = v
			}
		}
		s = inner
	}
	return s
}

// behind is what a schema only points to; nil if it says something itself.
func (r *reader) behind(s map[string]json.RawMessage) map[string]json.RawMessage {
	if ref := text(s["$ref"]); ref != "" {
		for _, at := range []string{"$defs", "definitions"} {
			if name, ok := strings.CutPrefix(ref, "#/"+at+"/"); ok {
				def := r.shared(at)[name]
				if r.referred += len(def); r.referred > maxReferred {
					return nil
				}
				return members(def)
			}
		}
		return nil
	}
	for _, word := range []string{"anyOf", "oneOf", "allOf"} {
		list := slices.DeleteFunc(elements(s[word]), func(e json.RawMessage) bool { return text(members(e)["type"]) == "null" })
		if len(list) == 1 {
			return members(list[0])
		}
	}
	return nil
}

// shared are the schemas that others refer to, which are read once.
func (r *reader) shared(at string) map[string]json.RawMessage {
	known, ok := r.defs[at]
	if !ok {
		if r.defs == nil {
			r.defs = map[string]map[string]json.RawMessage{}
		}
		known = members(r.root[at])
		r.defs[at] = known
	}
	return known
}

// kindOf is the only type of a schema beside null; empty if there are several, or none.
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

// options are the values that a schema lists, if they are plain ones.
func options(s map[string]json.RawMessage) []Option {
	values, names := elements(s["enum"]), texts(s["enumNames"])
	if c := s["const"]; len(c) > 0 {
		values = []json.RawMessage{c}
	}
	if len(values) == 0 {
		values, names = alternatives(s)
	}
	if len(values) > 2*maxOptions { // too many to look which are the same
		return nil
	}
	var out []Option
	for i, v := range values {
		if string(v) == "null" {
			continue
		}
		if begins(v, '{') || begins(v, '[') || len(out) == maxOptions {
			return nil
		}
		o := Option{Value: compact(v), Label: compact(v)}
		if begins(v, '"') {
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

// alternatives are values that are listed with their titles.
func alternatives(s map[string]json.RawMessage) (values []json.RawMessage, names []string) {
	for _, word := range []string{"oneOf", "anyOf"} {
		for _, e := range elements(s[word]) {
			m := members(e)
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

// whole is a number without a fraction, as JSON; empty if it is none.
func whole(s string) string {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return ""
	}
	return strconv.FormatInt(n, 10)
}
