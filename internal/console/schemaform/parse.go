package schemaform

import (
	"bytes"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"patchbay/internal/i18n"
)

// Parse converts the submitted values into the JSON object that the schema asks for. It keeps the
// values, so that the form can be shown again. If ok is false, the fields hold localized errors,
// and there is no object.
func (f *Form) Parse(l i18n.Lang, typed url.Values) (args json.RawMessage, ok bool) {
	var out bytes.Buffer
	ok = true
	add := func(key string, value []byte) {
		if out.Len() > 0 {
			out.WriteByte(',')
		}
		out.Write(quote(key))
		out.WriteByte(':')
		out.Write(value)
	}
	for i := range f.Fields {
		x := &f.Fields[i]
		value, wrong, about := x.parse(typed[x.Name])
		x.Wrong = ""
		switch {
		case wrong != (i18n.Message("")):
			x.Wrong, ok = wrong.In(l, about...), false
		case value != nil:
			add(x.Key, value)
		}
	}
	if f.Rest != nil {
		value, wrong, about := f.Rest.parse(typed[f.Rest.Name])
		f.Rest.Wrong = ""
		if wrong != (i18n.Message("")) {
			f.Rest.Wrong, ok = wrong.In(l, about...), false
		}
		more := objectMembers(value)
		for _, key := range memberNames(value) {
			if f.Get(key) == nil {
				add(key, more[key])
			}
		}
	}
	if !ok {
		return nil, false
	}
	return json.RawMessage("{" + out.String() + "}"), true
}

// parse reads one field. It returns its JSON, nil if the field is left out, or what is wrong with
// it.
func (f *Field) parse(typed []string) (value []byte, wrong i18n.Message, about []any) {
	one := ""
	if len(typed) > 0 {
		one = strings.ReplaceAll(typed[0], "\r\n", "\n")
	}
	switch f.Kind {
	case Some:
		return f.parseSome(typed)
	case Switch:
		// Browsers do not send unchecked boxes.
		f.Value = strconv.FormatBool(one != "")
		return []byte(f.Value), "", nil
	case Line, Text:
	default:
		one = strings.TrimSpace(one)
	}
	f.Value = one
	if one == "" {
		if f.Required && f.Kind != Lines {
			return nil, msgNeeded, nil
		}
		if f.Required {
			return []byte("[]"), "", nil
		}
		return nil, "", nil
	}
	switch f.Kind {
	case Line, Text:
		if f.MaxLength > 0 && utf8.RuneCountInString(one) > f.MaxLength {
			return nil, msgLong, []any{f.MaxLength}
		}
		return quote(one), "", nil
	case Number, Slider:
		n, wrong := f.readNumber(one)
		if wrong != (i18n.Message("")) {
			return nil, wrong, f.bounds(wrong)
		}
		return []byte(n), "", nil
	case Choice:
		if !slices.ContainsFunc(f.Options, func(o Option) bool { return o.Value == one }) {
			return nil, msgNoChoice, nil
		}
		return []byte(one), "", nil
	case Lines:
		return f.parseLines(one)
	}
	if !json.Valid([]byte(one)) {
		return nil, msgNoJSON, nil
	}
	switch {
	case f.want == '{' && !startsWith([]byte(one), '{'):
		return nil, msgNoObject, nil
	case f.want == '[' && !startsWith([]byte(one), '['):
		return nil, msgNoList, nil
	}
	return []byte(compact([]byte(one))), "", nil
}

// parseSome reads the checked boxes, in the order of the options.
func (f *Field) parseSome(typed []string) ([]byte, i18n.Message, []any) {
	f.Chosen = nil
	for _, o := range f.Options {
		if slices.Contains(typed, o.Value) {
			f.Chosen = append(f.Chosen, o.Value)
		}
	}
	if len(f.Chosen) == 0 && !f.Required && f.def == "" {
		return nil, "", nil
	}
	return []byte("[" + strings.Join(f.Chosen, ",") + "]"), "", nil
}

func (f *Field) parseLines(typed string) ([]byte, i18n.Message, []any) {
	var out [][]byte
	for line := range strings.Lines(typed) {
		line = strings.TrimSpace(line)
		switch {
		case line == "":
		case f.item == "string":
			out = append(out, quote(line))
		default:
			of := Field{IsInteger: f.item == "integer"}
			n, wrong := of.readNumber(line)
			if wrong != (i18n.Message("")) {
				return nil, msgLineNumber, []any{line}
			}
			out = append(out, []byte(n))
		}
	}
	return slices.Concat([]byte("["), bytes.Join(out, []byte(",")), []byte("]")), "", nil
}

// readNumber converts a number to JSON.
func (f *Field) readNumber(typed string) (n string, wrong i18n.Message) {
	n = whole(typed)
	if n == "" {
		v, ok := decimal(json.RawMessage(typed))
		switch {
		case f.IsInteger && ok && v == float64(int64(v)) && v > -1<<53 && v < 1<<53: // such as 2.0 or 1e3
			n = strconv.FormatInt(int64(v), 10)
		case f.IsInteger:
			return "", msgNoWhole
		case !ok:
			return "", msgNoNumber
		default:
			n = typed
		}
	}
	v, _ := decimal(json.RawMessage(n))
	if low, ok := decimal(json.RawMessage(f.Min)); ok && v < low {
		return "", msgLess
	}
	if high, ok := decimal(json.RawMessage(f.Max)); ok && v > high {
		return "", msgMore
	}
	return n, ""
}

// bounds returns the arguments of a message about a number's limits.
func (f *Field) bounds(s i18n.Message) []any {
	switch s {
	case msgLess:
		return []any{f.Min}
	case msgMore:
		return []any{f.Max}
	}
	return nil
}

// quote encodes a text as JSON without the HTML escapes, which tools would see.
func quote(s string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.Encode(s) //nolint:errcheck // a string, into memory
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
