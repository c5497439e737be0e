// Package schemaform makes forms of JSON Schemas, for people who call tools, and reads
// what was typed into them back as the JSON that the schema asks for.
//
// It is no validator: the board checks arguments before a tool gets them. A form helps
// to fill in what most schemas have: texts, numbers, switches, choices and lists. What
// it has no field for is typed as JSON.
//
//	f := schemaform.Read(t.Input)
//	@schemaform.Fields(v, "lamp", f)          // within a <form>
//	args, ok := f.Parse(v.Lang, v.PostForm)   // if not ok, show f again: it says why
package schemaform

import (
	"encoding/json"
	"slices"
	"strings"

	"patchbay/internal/talk"
)

// Kind is what a field looks like.
type Kind string

// The kinds of fields.
const (
	Line   Kind = "line"   // a text of one line
	Text   Kind = "text"   // a text of several lines
	Number Kind = "number" // whole or not
	Slider Kind = "slider" // a whole number of a small range
	Switch Kind = "switch" // yes or no, and one of them if nobody touches it
	Choice Kind = "choice" // one of some values
	Some   Kind = "some"   // some of some values
	Lines  Kind = "lines"  // a list, with one value on each line
	JSON   Kind = "json"   // whatever
)

const (
	// maxSchema is how large a schema may be of which a form is made, in bytes. It
	// protects pages with many tools; a larger schema has one field for JSON.
	maxSchema = 64 << 10
	// maxFields and maxOptions bound what a page shows of a schema. What is more is
	// typed as JSON.
	maxFields, maxOptions = 64, 200
	// maxRefs is how many references within a schema are followed one after another.
	maxRefs = 4
	// maxReferred is how many bytes of definitions are read for all references of a schema:
	// many fields may refer to one large definition. What is beyond is typed as JSON.
	maxReferred = 4 * maxSchema
	// sliderMost is the largest range that a slider has: one has to hit its values.
	sliderMost = 100
	// longText is from how many characters on a text gets several lines.
	longText = 200
)

// Form is what a schema asks for.
type Form struct {
	Fields []Field
	// Rest is for arguments that the schema allows without naming them, as a JSON
	// object; nil if it allows none.
	Rest *Field
}

// Field is one argument.
type Field struct {
	Kind Kind
	// Key is the argument's name in JSON, and Name that of the field in the form.
	Key, Name string
	Label     string
	Hint      string
	Required  bool
	// Type is that of an input of kind Line, as HTML has it: text, url, email, date.
	Type string
	// Min and Max bound numbers; empty: nothing does.
	Min, Max string
	Whole    bool // only whole numbers
	// MaxLength bounds a text, in characters; 0: nothing does.
	MaxLength int
	Options   []Option
	// Value is what is in the field: the default, or what was typed. Of a Switch it is
	// "true" or "false", of a Choice the option's Value.
	Value string
	// Chosen are the values of a field of kind Some.
	Chosen []string
	// Wrong says what is wrong with what was typed.
	Wrong string

	item string // the type of what is in a list
	want byte   // how the JSON has to begin; 0: anyhow
	def  string // the default, as Value
}

// Option is one of the values of a choice.
type Option struct {
	Label string
	Value string // as JSON
}

// Picked says whether an option of kind Some is chosen.
func (f *Field) Picked(o Option) bool { return slices.Contains(f.Chosen, o.Value) }

// Optional says whether the field may stay empty.
func (f *Field) Optional() bool { return !f.Required && f.def == "" }

// Empty says that there is nothing to fill in but what nobody has described.
func (f *Form) Empty() bool { return len(f.Fields) == 0 }

// prefix keeps the fields of a schema apart from those that a page has itself.
const prefix = "arg."

// Read makes a form. Every schema has one.
func Read(schema json.RawMessage) *Form {
	rest := &Field{Kind: JSON, Name: "rest", want: '{'}
	if len(schema) > maxSchema {
		return &Form{Rest: rest}
	}
	r := reader{root: members(schema)}
	f := &Form{}
	more := r.root["additionalProperties"]
	if p := r.root["patternProperties"]; len(p) > 0 || begins(more, '{') || string(more) == "true" {
		f.Rest = rest
	}
	names, required := order(r.root["properties"]), texts(r.root["required"])
	props := members(r.root["properties"])
	if len(names) > maxFields {
		names, f.Rest = names[:maxFields], rest
	}
	for _, name := range names {
		f.Fields = append(f.Fields, r.field(name, props[name], slices.Contains(required, name)))
	}
	// Some say what they need without saying what it is.
	for _, name := range required {
		if len(f.Fields) == maxFields {
			break
		}
		if _, known := props[name]; !known {
			f.Fields = append(f.Fields, r.field(name, nil, true))
		}
	}
	// One that has an empty list of properties has said that it takes nothing.
	if len(f.Fields) == 0 && props == nil && string(more) != "false" {
		f.Rest = rest
	}
	return f
}

// Get finds the field of an argument; nil if there is none.
func (f *Form) Get(key string) *Field {
	i := slices.IndexFunc(f.Fields, func(x Field) bool { return x.Key == key })
	if i < 0 {
		return nil
	}
	return &f.Fields[i]
}

// reader reads the properties of one schema.
type reader struct {
	root     map[string]json.RawMessage
	defs     map[string]map[string]json.RawMessage
	referred int // bytes of definitions that were read
}

// field makes the field of a property.
func (r *reader) field(name string, raw json.RawMessage, required bool) Field {
	s := r.resolve(raw)
	f := Field{Kind: JSON, Key: name, Name: prefix + name, Required: required, Hint: text(s["description"]), Label: text(s["title"])}
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
		f.line(s)
	case typ == "array":
		f.list(r.resolve(s["items"]))
	case typ == "object":
		f.want = '{'
	}
	f.start(s["default"])
	if f.Kind == Slider && !required && f.def == "" {
		f.Kind = Number // a slider always says something
	}
	return f
}

// number reads the bounds of a number.
func (f *Field) number(s map[string]json.RawMessage, whole bool) {
	f.Kind, f.Whole = Number, whole
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
	if whole && isLow && isHigh && high-low >= 1 && high-low <= sliderMost {
		f.Kind = Slider
	}
}

// roomy are arguments that are texts of several lines, as a rule.
var roomy = []string{"text", "content", "body", "message", "prompt", "markdown", "code", "script", "answer", "notes"}

// line reads what is known about a text.
func (f *Field) line(s map[string]json.RawMessage) {
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
	if f.MaxLength > longText || f.MaxLength == 0 && slices.Contains(roomy, strings.ToLower(f.Key)) || strings.Contains(text(s["default"]), "\n") {
		f.Kind = Text
	}
}

// list reads what a list has in it. A list of anything but plain values is JSON.
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

// start puts the default into a field.
func (f *Field) start(def json.RawMessage) {
	if string(def) != "null" {
		f.put(def)
	}
	if f.Kind == Switch && f.Value == "" {
		f.Value = "false"
	}
	f.def = f.Value
	if f.Kind == Some && len(f.Chosen) > 0 {
		f.def = "[]"
	}
}

// Put fills in what is known about arguments, a JSON object: values that do not fit
// are left out.
func (f *Form) Put(args json.RawMessage) {
	for key, v := range members(args) {
		if x := f.Get(key); x != nil {
			x.put(v)
		}
	}
}

// put fills in a value, if it fits.
func (f *Field) put(v json.RawMessage) {
	if len(v) == 0 || !json.Valid(v) {
		return
	}
	switch f.Kind {
	case Line, Text:
		f.Value = text(v)
	case Number, Slider:
		if s, wrong := f.readNumber(string(v)); wrong == (talk.Say{}) {
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
			if begins(e, '"') {
				line = text(e)
			}
			if f.item == "string" == begins(e, '"') && !strings.ContainsAny(line, "\r\n") {
				lines = append(lines, line)
			}
		}
		f.Value = strings.Join(lines, "\n")
	case JSON:
		f.Value = indent(v)
	}
}
