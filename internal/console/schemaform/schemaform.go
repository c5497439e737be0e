// Package schemaform generates HTML forms from JSON Schemas for people who call tools, and converts
// the submitted values back into the JSON that the schema asks for.
//
// It is no validator: the hub validates arguments before a tool gets them. A form covers what most
// schemas have: texts, numbers, switches, choices and lists. Everything else is typed as JSON.
//
//	f := schemaform.Read(t.Input)
//	@schemaform.Fields(v, "lamp", f)          // within a <form>
//	args, ok := f.Parse(v.Lang, v.PostForm)   // if not ok, show f again: it holds the errors
package schemaform

import (
	"encoding/json"
	"slices"
	"strings"

	"patchbay/internal/console/toolwords"
	"patchbay/internal/i18n"
)

// Kind is the type of a field in the form.
type Kind string

// Kinds of fields.
const (
	Line   Kind = "line"   // single-line text
	Text   Kind = "text"   // multi-line text
	Number Kind = "number" // integer or decimal
	Slider Kind = "slider" // integer with a small range
	Switch Kind = "switch" // yes or no, with a default
	Choice Kind = "choice" // one of several values
	Some   Kind = "some"   // any number of several values
	Lines  Kind = "lines"  // a list, one value per line
	JSON   Kind = "json"   // anything else
)

const (
	// maxSchema is the maximum size of a schema, in bytes. It protects pages with many tools; a
	// larger schema gets a single JSON field.
	maxSchema = 64 << 10
	// maxFields and maxOptions limit what a page shows of a schema. Anything beyond is typed as
	// JSON.
	maxFields, maxOptions = 64, 200
	// maxRefs is how many references in a row are followed within a schema.
	maxRefs = 4
	// maxResolvedBytes is how many bytes of definitions are read for all references of a schema:
	// many fields may refer to one large definition. Anything beyond is typed as JSON.
	maxResolvedBytes = 4 * maxSchema
	// maxSliderSteps is the largest range of a slider: its values must be easy to hit.
	maxSliderSteps = 100
	// longText is the maximum length, in characters, from which a text gets several lines.
	longText = 200
)

// Form is a form generated from a schema.
type Form struct {
	Fields []Field
	// Rest is a JSON object with arguments that the schema allows without naming them; nil if it
	// allows none.
	Rest *Field
}

// Field is one argument.
type Field struct {
	Kind Kind
	// Key is the argument's name in JSON, and Name that of the input in the form.
	Key, Name string
	Label     string
	Hint      string
	Required  bool
	// Type is the HTML type of a Line input: text, url, email, date.
	Type string
	// Min and Max are the limits of a number; empty means no limit.
	Min, Max  string
	IsInteger bool // only integers
	// MaxLength is the maximum length of a text, in characters; 0 means no limit.
	MaxLength int
	Options   []Option
	// Value is the content of the field: the default or the submitted value. It is "true" or
	// "false" for a Switch, and the option's Value for a Choice.
	Value string
	// Chosen holds the values of a field of kind Some.
	Chosen []string
	// Wrong is the validation error.
	Wrong string

	item string // type of a list's items
	want byte   // required first byte of the JSON; 0 means any
	def  string // default, in the format of Value
}

// Option is one value of a choice.
type Option struct {
	Label string
	Value string // as JSON
}

// IsChosen reports whether an option of a field of kind Some is chosen.
func (f *Field) IsChosen(o Option) bool { return slices.Contains(f.Chosen, o.Value) }

// IsOptional reports whether the field may stay empty.
func (f *Field) IsOptional() bool { return !f.Required && f.def == "" }

// Localize translates the names of arguments and the values to choose from, and returns the form.
// It is for Patchbay's own tools; what is sent stays the same.
func (f *Form) Localize(l i18n.Lang) *Form {
	for i := range f.Fields {
		x := &f.Fields[i]
		x.Label = toolwords.Word(l, x.Label)
		for n := range x.Options {
			x.Options[n].Label = toolwords.Word(l, x.Options[n].Label)
		}
	}
	return f
}

// IsEmpty reports whether the schema names no arguments.
func (f *Form) IsEmpty() bool { return len(f.Fields) == 0 }

// prefix distinguishes the fields of a schema from the page's own ones.
const prefix = "arg."

// Read returns the form of a schema. It never fails.
func Read(schema json.RawMessage) *Form {
	rest := &Field{Kind: JSON, Name: "rest", want: '{'}
	if len(schema) > maxSchema {
		return &Form{Rest: rest}
	}
	r := reader{root: objectMembers(schema)}
	f := &Form{}
	more := r.root["additionalProperties"]
	if p := r.root["patternProperties"]; len(p) > 0 || startsWith(more, '{') || string(more) == "true" {
		f.Rest = rest
	}
	names, required := memberNames(r.root["properties"]), texts(r.root["required"])
	props := objectMembers(r.root["properties"])
	if len(names) > maxFields {
		names, f.Rest = names[:maxFields], rest
	}
	for _, name := range names {
		f.Fields = append(f.Fields, r.field(name, props[name], slices.Contains(required, name)))
	}
	// Some schemas require arguments without describing them.
	for _, name := range required {
		if len(f.Fields) == maxFields {
			break
		}
		if _, known := props[name]; !known {
			f.Fields = append(f.Fields, r.field(name, nil, true))
		}
	}
	// An empty list of properties means that the tool takes no arguments.
	if len(f.Fields) == 0 && props == nil && string(more) != "false" {
		f.Rest = rest
	}
	return f
}

// Get returns the field of an argument; nil if there is none.
func (f *Form) Get(key string) *Field {
	i := slices.IndexFunc(f.Fields, func(x Field) bool { return x.Key == key })
	if i < 0 {
		return nil
	}
	return &f.Fields[i]
}

// reader reads the properties of one schema.
type reader struct {
	root          map[string]json.RawMessage
	defs          map[string]map[string]json.RawMessage
	resolvedBytes int // size of the definitions read so far
}

// field returns the field of a property.
func (r *reader) field(name string, raw json.RawMessage, required bool) Field {
	s := r.resolve(raw)
	f := Field{Kind: JSON, Key: name, Name: prefix + name, Required: required, Hint: text(s["description"]),
		Label: text(s["title"])}
	if f.Label == "" {
		f.Label = name
	}
	typ := kindOf(s)
	f.Options = options(s)
	switch {
	case len(f.Options) > 0:
		f.Kind = Choice
	case typ == "boolean":
		f.Kind = Choice
		f.Options = []Option{{"true", "true"}, {"false", "false"}}
		if d := string(s["default"]); required || d == "true" || d == "false" {
			f.Kind, f.Options = Switch, nil
		}
	case typ == "integer", typ == "number":
		f.number(s, typ == "integer")
	case typ == "string":
		f.setText(s)
	case typ == "array":
		f.list(r.resolve(s["items"]))
	case typ == "object":
		f.want = '{'
	}
	f.setDefault(s["default"])
	if f.Kind == Slider && f.def == "" {
		f.Kind = Number // a slider always has a value, and the middle would be a wrong one
	}
	return f
}

// number reads the limits of a number.
func (f *Field) number(s map[string]json.RawMessage, whole bool) {
	f.Kind, f.IsInteger = Number, whole
	low, isLow := decimal(s["minimum"])
	high, isHigh := decimal(s["maximum"])
	if isLow && isHigh && low > high {
		return
	}
	if isLow {
		f.Min = string(s["minimum"])
	}
	if isHigh {
		f.Max = string(s["maximum"])
	}
	if whole && isLow && isHigh && high-low >= 1 && high-low <= maxSliderSteps {
		f.Kind = Slider
	}
}

// longTextNames are names of arguments that usually are multi-line texts.
var longTextNames = []string{"text", "content", "body", "message", "prompt", "markdown", "code", "script", "answer",
	"notes"}

// setText reads the keywords about strings.
func (f *Field) setText(s map[string]json.RawMessage) {
	f.Kind, f.Type = Line, "text"
	switch text(s["format"]) {
	case "uri", "url":
		f.Type = "url"
	case "email":
		f.Type = "email"
	case "date":
		f.Type = "date"
	}
	if n, ok := decimal(s["maxLength"]); ok && n >= 1 && n < 1<<31 {
		f.MaxLength = int(n)
	}
	if f.Type != "text" {
		return
	}
	if f.MaxLength > longText || f.MaxLength == 0 && slices.Contains(longTextNames, strings.ToLower(f.Key)) ||
		strings.Contains(text(s["default"]), "\n") {
		f.Kind = Text
	}
}

// list reads the item type of a list. A list of anything but scalars is typed as JSON.
func (f *Field) list(items map[string]json.RawMessage) {
	f.want = '['
	if all := options(items); len(all) > 0 {
		f.Kind, f.Options = Some, all
		return
	}
	switch typ := kindOf(items); typ {
	case "string", "integer", "number":
		f.Kind, f.item = Lines, typ
	}
}

// setDefault sets the default of a field.
func (f *Field) setDefault(def json.RawMessage) {
	if string(def) != "null" {
		f.setValue(def)
	}
	if f.Kind == Switch && f.Value == "" {
		f.Value = "false"
	}
	f.def = f.Value
	if f.Kind == Some && len(f.Chosen) > 0 {
		f.def = "[]"
	}
}

// setValue fills in a value, if it fits.
func (f *Field) setValue(v json.RawMessage) {
	if len(v) == 0 || !json.Valid(v) {
		return
	}
	switch f.Kind {
	case Line, Text:
		f.Value = text(v)
	case Number, Slider:
		if s, wrong := f.readNumber(string(v)); wrong == (i18n.Message("")) {
			f.Value = s
		}
	case Switch:
		if s := string(v); s == "true" || s == "false" {
			f.Value = s
		}
	case Choice:
		if i := slices.IndexFunc(f.Options, func(o Option) bool { return o.Value == compact(v) }); i >= 0 {
			f.Value = f.Options[i].Value
		}
	case Some:
		f.Chosen = nil
		for _, e := range elements(v) {
			if slices.ContainsFunc(f.Options, func(o Option) bool { return o.Value == compact(e) }) {
				f.Chosen = append(f.Chosen, compact(e))
			}
		}
	case Lines:
		var lines []string
		for _, e := range elements(v) {
			line := string(e)
			if startsWith(e, '"') {
				line = text(e)
			}
			if f.item == "string" == startsWith(e, '"') && !strings.ContainsAny(line, "\r\n") {
				lines = append(lines, line)
			}
		}
		f.Value = strings.Join(lines, "\n")
	case JSON:
		f.Value = indent(v)
	}
}
