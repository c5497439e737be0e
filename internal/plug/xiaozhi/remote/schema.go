package remote

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"patchbay/internal/jsonrpc"
)

const (
	// maxArgs limits the arguments of a tool, and the values of an enum.
	maxArgs = 64
	// maxNesting limits the depth of array schemas.
	maxNesting = 3
	// maxNumber limits the numbers in schemas: above it, float64 does not represent all whole
	// numbers.
	maxNumber = 1 << 53
)

// schema is the schema of a tool's arguments, reduced to common keywords: strict model APIs reject
// a whole list of tools for one unknown keyword.
type schema struct {
	props []property
	// open means that the board did not list its arguments.
	open bool
}

type property struct {
	name     string
	text     []byte // the JSON Schema, without braces
	required bool
}

// readSchema parses a schema and drops what it does not understand.
func readSchema(raw []byte) (s schema) {
	var props, required []byte
	for in := jsonrpc.Scan(raw); in.Next(); {
		switch string(in.Key) {
		case "properties":
			props = in.Value
		case "required":
			required = in.Value
		}
	}
	in := jsonrpc.Scan(props)
	s.open = !in.IsObject()
	for in.Next() {
		name := string(in.Key)
		if !isValidName(name) || len(s.props) == maxArgs || s.find(name) != nil || in.Value[0] != '{' {
			continue
		}
		s.props = append(s.props, readProperty(name, in.Value))
	}
	if len(required) > 0 {
		for _, raw := range jsonrpc.Elements(required) {
			if p := s.find(jsonrpc.Text(raw)); p != nil {
				p.required = true
			}
		}
	}
	return s
}

func (s *schema) find(name string) *property {
	i := slices.IndexFunc(s.props, func(p property) bool { return p.name == name })
	if i < 0 {
		return nil
	}
	return &s.props[i]
}

// hasNetworkAccess reports whether a tool's arguments make it fetch from or send to any address, or
// join another network.
func (s *schema) hasNetworkAccess() bool {
	return slices.ContainsFunc(s.props, func(p property) bool {
		return isAddress(p.name) ||
			slices.Contains(words(p.name), "ssid")
	})
}

// isAddress reports whether an argument is a URL, judging by its name.
func isAddress(name string) bool {
	name = strings.ToLower(name)
	return strings.HasSuffix(name, "url") || slices.ContainsFunc(words(name),
		func(w string) bool { return w == "url" || w == "uri" })
}

// append appends the schema as JSON.
func (s *schema) append(b []byte) []byte {
	b = append(b, `{"type":"object"`...)
	if s.open {
		return append(b, '}')
	}
	b = append(b, `,"properties":{`...)
	for i, p := range s.props {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(append(jsonrpc.AppendText(b, p.name), ":{"...), p.text...), '}')
	}
	b = append(b, '}')
	sep := `,"required":[`
	for _, p := range s.props {
		if p.required {
			b = jsonrpc.AppendText(append(b, sep...), p.name)
			sep = ","
		}
	}
	if sep == "," {
		b = append(b, ']')
	}
	return append(b, '}')
}

func readProperty(name string, raw []byte) property {
	p := property{name: name}
	k := readKeywords(raw, 0)
	if s := jsonrpc.Text(k.def); isAddress(name) && s != "" && !strings.Contains(s, "://") {
		// Firmware passes the description of a URL as its default value (xiaozhi-esp32
		// main/mcp_server.cc, self.upgrade_firmware): a call without it would fetch that sentence.
		k.def, p.required = nil, true
		if k.description == "" {
			k.description = s
		}
	}
	p.text = k.append(nil)
	return p
}

// keywords are the JSON Schema keywords that are kept.
type keywords struct {
	types              []string
	title, description string
	def                []byte
	min, max           *float64
	enum               [][]byte
	items              *keywords
}

var typeNames = []string{"boolean", "integer", "number", "string", "array", "object"}

func readKeywords(raw []byte, depth int) (k keywords) {
	var enum, items []byte
	for in := jsonrpc.Scan(raw); in.Next(); {
		switch string(in.Key) {
		case "type":
			k.types = readTypes(in.Value)
		case "title":
			k.title = jsonrpc.Text(in.Value)
		case "description":
			k.description = jsonrpc.Text(in.Value)
		case "default":
			k.def = plain(in.Value)
		case "minimum":
			k.min = number(in.Value)
		case "maximum":
			k.max = number(in.Value)
		case "enum":
			enum = in.Value
		case "items":
			items = in.Value
		}
	}
	if k.min != nil && k.max != nil && *k.min > *k.max || !k.hasType("integer") && !k.hasType("number") {
		k.min, k.max = nil, nil
	}
	if k.def != nil && !k.accepts(k.def) {
		k.def = nil
	}
	if len(enum) > 0 {
		k.readEnum(enum)
	}
	if len(items) > 0 && items[0] == '{' && k.hasType("array") && depth < maxNesting {
		inner := readKeywords(items, depth+1)
		k.items = &inner
	}
	return k
}

// readEnum parses an enum of scalar values. An enum with any other value is dropped.
func (k *keywords) readEnum(raw []byte) {
	var out [][]byte
	for _, e := range jsonrpc.Elements(raw) {
		v := plain(e)
		if v == nil || !k.accepts(v) || len(out) == maxArgs {
			return
		}
		if !slices.ContainsFunc(out, func(have []byte) bool { return string(have) == string(v) }) {
			out = append(out, v)
		}
	}
	k.enum = out
}

func readTypes(raw []byte) (out []string) {
	list := jsonrpc.Elements(raw)
	if list == nil {
		list = append(list, raw)
	}
	for _, e := range list {
		name := jsonrpc.Text(e)
		if slices.Contains(typeNames, name) && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

func (k *keywords) hasType(name string) bool { return slices.Contains(k.types, name) }

// accepts reports whether a scalar value has one of the types.
func (k *keywords) accepts(v []byte) bool {
	switch {
	case len(k.types) == 0:
		return true
	case v[0] == '"':
		return k.hasType("string")
	case v[0] == 't' || v[0] == 'f':
		return k.hasType("boolean")
	}
	return k.hasType("number") || k.hasType("integer") && !strings.ContainsAny(string(v), ".e")
}

// append appends the keywords without braces.
func (k *keywords) append(b []byte) []byte {
	begin := len(b)
	add := func(name string) {
		if len(b) > begin {
			b = append(b, ',')
		}
		b = append(append(append(b, '"'), name...), `":`...)
	}
	switch len(k.types) {
	case 0:
	case 1:
		add("type")
		b = jsonrpc.AppendText(b, k.types[0])
	default:
		add("type")
		b = append(append(append(b, `["`...), strings.Join(k.types, `","`)...), `"]`...)
	}
	if k.title != "" {
		add("title")
		b = jsonrpc.AppendText(b, k.title)
	}
	if k.description != "" {
		add("description")
		b = jsonrpc.AppendText(b, k.description)
	}
	if k.def != nil {
		add("default")
		b = append(b, k.def...)
	}
	if k.min != nil {
		add("minimum")
		b = appendNumber(b, *k.min)
	}
	if k.max != nil {
		add("maximum")
		b = appendNumber(b, *k.max)
	}
	for i, e := range k.enum {
		if i == 0 {
			add("enum")
			b = append(b, '[')
		} else {
			b = append(b, ',')
		}
		b = append(b, e...)
	}
	if len(k.enum) > 0 {
		b = append(b, ']')
	}
	if k.items != nil {
		add("items")
		b = append(k.items.append(append(b, '{')), '}')
	}
	return b
}

// plain returns a string, number or boolean, re-encoded; nil for anything else.
func plain(v []byte) []byte {
	switch {
	case v[0] == '"':
		return jsonrpc.AppendText(nil, jsonrpc.Text(v))
	case string(v) == "true" || string(v) == "false":
		return v
	}
	if f := number(v); f != nil {
		return appendNumber(nil, *f)
	}
	return nil
}

// number parses a number of at most maxNumber.
func number(v []byte) *float64 {
	f, err := strconv.ParseFloat(string(v), 64)
	if err != nil || math.Abs(f) > maxNumber || v[0] != '-' && (v[0] < '0' || '9' < v[0]) {
		return nil
	}
	return &f
}

// appendNumber appends a number, without a fraction if it is whole.
func appendNumber(b []byte, f float64) []byte {
	if f == math.Trunc(f) {
		return strconv.AppendInt(b, int64(f), 10)
	}
	return strconv.AppendFloat(b, f, 'g', -1, 64)
}
