package schemaform

import (
	"bytes"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"patchbay/internal/talk"
)

// Parse reads what was typed as the JSON object that the schema asks for. It keeps
// what was typed, so that the form can be shown again. If it is false, fields say in
// the language what is wrong with them, and there is no object.
func (f *Form) Parse(l talk.Lang, typed url.Values) (args json.RawMessage, ok bool) {
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
		case wrong != (talk.Say{}):
			x.Wrong, ok = wrong.In(l, about...), false
		case value != nil:
			add(x.Key, value)
		}
	}
	if f.Rest != nil {
		value, wrong, about := f.Rest.parse(typed[f.Rest.Name])
		f.Rest.Wrong = ""
		if wrong != (talk.Say{}) {
			f.Rest.Wrong, ok = wrong.In(l, about...), false
		}
		more := members(value)
		for _, key := range order(value) {
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

// parse reads one field: its JSON, nil if it is left out, or what is wrong.
func (f *Field) parse(typed []string) (value []byte, wrong talk.Say, about []any) {
	one := ""
	if len(typed) > 0 {
		one = strings.ReplaceAll(typed[0], "\r\n", "\n")
	}
	switch f.Kind {
	case Some:
		return f.parseSome(typed)
	case Switch:
		// A box that is not ticked is not sent at all.
		f.Value = strconv.FormatBool(one != "")
		return []byte(f.Value), talk.Say{}, nil
	case Line, Text:
	default:
		one = strings.TrimSpace(one)
	}
	f.Value = one
	if one == "" {
		if f.Required && f.Kind != Lines {
			return nil, sayNeeded, nil
		}
		if f.Required {
			return []byte("[]"), talk.Say{}, nil
		}
		return nil, talk.Say{}, nil
	}
	switch f.Kind {
	case Line, Text:
		if f.MaxLength > 0 && utf8.RuneCountInString(one) > f.MaxLength {
			return nil, sayLong, []any{f.MaxLength}
		}
		return quote(one), talk.Say{}, nil
	case Number, Slider:
		n, wrong := f.readNumber(one)
		if wrong != (talk.Say{}) {
			return nil, wrong, f.bounds(wrong)
		}
		return []byte(n), talk.Say{}, nil
	case Choice:
		if !slices.ContainsFunc(f.Options, func(o Option) bool { return o.Value == one }) {
			return nil, sayNoChoice, nil
		}
		return []byte(one), talk.Say{}, nil
	case Lines:
		return f.parseLines(one)
	}
	if !json.Valid([]byte(one)) {
		return nil, sayNoJSON, nil
	}
	switch {
	case f.want == '{' && !begins([]byte(one), '{'):
		return nil, sayNoObject, nil
	case f.want == '[' && !begins([]byte(one), '['):
		return nil, sayNoList, nil
	}
	return []byte(compact([]byte(one))), talk.Say{}, nil
}

// parseSome reads the boxes that are ticked, in the order in which they stand.
func (f *Field) parseSome(typed []string) ([]byte, talk.Say, []any) {
	f.Chosen = nil
	for _, o := range f.Options {
		if slices.Contains(typed, o.Value) {
			f.Chosen = append(f.Chosen, o.Value)
		}
	}
	if len(f.Chosen) == 0 && !f.Required && f.def == "" {
		return nil, talk.Say{}, nil
	}
	return []byte("[" + strings.Join(f.Chosen, ",") + "]"), talk.Say{}, nil
}

func (f *Field) parseLines(typed string) ([]byte, talk.Say, []any) {
	var out [][]byte
	for line := range strings.Lines(typed) {
		line = strings.TrimSpace(line)
		switch {
		case line == "":
		case f.item == "string":
			out = append(out, quote(line))
		default:
			of := Field{Whole: f.item == "integer"}
			n, wrong := of.readNumber(line)
			if wrong != (talk.Say{}) {
				return nil, sayLineNumber, []any{line}
			}
			out = append(out, []byte(n))
		}
	}
	return slices.Concat([]byte("["), bytes.Join(out, []byte(",")), []byte("]")), talk.Say{}, nil
}

// readNumber reads a number as JSON has it.
func (f *Field) readNumber(typed string) (n string, wrong talk.Say) {
	n = whole(typed)
	if n == "" {
		v, ok := decimal(json.RawMessage(typed))
		switch {
		case f.Whole && ok && v == float64(int64(v)) && v > -1<<53 && v < 1<<53: // 2.0, or 1e3
			n = strconv.FormatInt(int64(v), 10)
		case f.Whole:
			return "", sayNoWhole
		case !ok:
			return "", sayNoNumber
		default:
			n = typed
		}
	}
	v, _ := decimal(json.RawMessage(n))
	if low, ok := decimal(json.RawMessage(f.Min)); ok && v < low {
		return "", sayLess
	}
	if high, ok := decimal(json.RawMessage(f.Max)); ok && v > high {
		return "", sayMore
	}
	return n, talk.Say{}
}

// bounds are what a sentence about a number has in it.
func (f *Field) bounds(s talk.Say) []any {
	switch s {
	case sayLess:
		return []any{f.Min}
	case sayMore:
		return []any{f.Max}
	}
	return nil
}

// quote is a text as JSON, without the escapes of HTML, which tools would see.
func quote(s string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.Encode(s) //nolint:errcheck // a text, into memory
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
