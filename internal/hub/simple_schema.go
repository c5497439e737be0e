package hub

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"patchbay/internal/jsonrpc"
)

// simpleSchema is a schema that says no more than which arguments there are, of which
// types, within which bounds or of which few, and which of them are needed. Most tools have such a
// one, and arguments are held against it without being taken apart first. It can only approve: what
// it is not sure of is left to the library.
type simpleSchema struct {
	arguments map[string]argument
	required  []string
	closed    bool // there may be no other arguments
}

// argument is what a flat schema says about one.
type argument struct {
	types   jsonTypes
	bounded bool // whole numbers are from min to max; others are not looked at here
	min     int64
	max     int64
	oneOf   []json.RawMessage // as it is written; nil: anything
}

// maxRequired limits the required arguments of a simple schema: a bit for each.
const maxRequired = 64

// jsonTypes is a set of JSON types.
type jsonTypes byte

const (
	isNull jsonTypes = 1 << iota
	isBool
	isInteger // a number that consists of digits
	isNumber  // any other number
	isString
	isArray
	isObject
)

var typeNames = map[string]jsonTypes{
	"null": isNull, "boolean": isBool, "integer": isInteger, "number": isInteger | isNumber,
	"string": isString, "array": isArray, "object": isObject,
}

// dialects are the versions of JSON Schema in which the supported keywords mean the same.
var dialects = []string{
	"http://json-schema.org/draft-07/schema#", "http://json-schema.org/draft-07/schema",
	"https://json-schema.org/draft/2019-09/schema", "https://json-schema.org/draft/2020-12/schema",
}

// parseSimpleSchema parses a schema; nil if it uses more than is supported here.
func parseSimpleSchema(text []byte) *simpleSchema {
	if !jsonrpc.Valid(text) {
		return nil
	}
	f := &simpleSchema{arguments: map[string]argument{}}
	object := false
	for in := jsonrpc.Scan(text); in.Next(); {
		ok := true
		switch string(in.Key) {
		case "type":
			object = string(in.Value) == `"object"`
		case "properties":
			ok = in.Value[0] == '{' && f.parseProperties(in.Value)
		case "required":
			ok = json.Unmarshal(in.Value, &f.required) == nil
		case "additionalProperties":
			f.closed = string(in.Value) == "false"
			ok = f.closed || string(in.Value) == "true"
		case "$schema":
			ok = slices.Contains(dialects, jsonrpc.Text(in.Value))
		case "title", "description":
		default:
			return nil
		}
		if !ok {
			return nil
		}
	}
	if !object || len(f.required) > maxRequired {
		return nil
	}
	return f
}

func (f *simpleSchema) parseProperties(text []byte) bool {
	clear(f.arguments) // of two lists the last one counts
	for in := jsonrpc.Scan(text); in.Next(); {
		a, ok := parseArgument(in.Value)
		if !ok {
			return false
		}
		f.arguments[string(in.Key)] = a
	}
	return true
}

// parseArgument parses the schema of one argument; not ok if it uses more than is supported here.
func parseArgument(text []byte) (a argument, ok bool) {
	a.min, a.max = math.MinInt64, math.MaxInt64
	for in := jsonrpc.Scan(text); in.Next(); {
		ok := true
		switch string(in.Key) {
		case "type":
			a.types, ok = parseTypes(in.Value)
		case "minimum":
			a.min, ok = parseInteger(in.Value)
			a.bounded = true
		case "maximum":
			a.max, ok = parseInteger(in.Value)
			a.bounded = true
		case "enum":
			a.oneOf = jsonrpc.Elements(in.Value)
			ok = len(a.oneOf) > 0
		case "title", "description", "default", "examples", "x-mcp-header":
		default:
			return a, false
		}
		if !ok {
			return a, false
		}
	}
	return a, a.types != 0
}

// parseTypes parses the name of a type, or a list of names.
func parseTypes(text []byte) (t jsonTypes, ok bool) {
	t = typeNames[jsonrpc.Text(text)]
	for _, name := range jsonrpc.Elements(text) {
		one := typeNames[jsonrpc.Text(name)]
		if one == 0 {
			return 0, false
		}
		t |= one
	}
	return t, t != 0
}

// parseInteger parses a number that consists of digits.
func parseInteger(text []byte) (int64, bool) {
	n, err := strconv.ParseInt(string(text), 10, 64)
	return n, err == nil
}

// accepts reports whether a value is certainly valid for an argument.
func (a *argument) accepts(v []byte) bool {
	t := typeOf(v)
	if a.types&t == 0 {
		return false
	}
	if a.bounded && t&(isInteger|isNumber) != 0 {
		if n, ok := parseInteger(v); !ok || n < a.min || n > a.max {
			return false
		}
	}
	return a.oneOf == nil || slices.ContainsFunc(a.oneOf, func(one json.RawMessage) bool { return bytes.Equal(one, v) })
}

// accepts reports whether arguments are certainly valid. They need not even be JSON.
func (f *simpleSchema) accepts(args []byte) bool {
	if !utf8.Valid(args) || !jsonrpc.Valid(args) {
		return false
	}
	var have uint64
	in := jsonrpc.Scan(args)
	for in.Next() {
		if a, known := f.arguments[string(in.Key)]; !known && f.closed || known && !a.accepts(in.Value) {
			return false
		}
		for i, name := range f.required {
			if name == string(in.Key) {
				have |= 1 << i
			}
		}
	}
	return in.IsObject() && have == 1<<len(f.required)-1
}

// typeOf returns the type of a JSON value.
func typeOf(v []byte) jsonTypes {
	switch v[0] {
	case '"':
		return isString
	case '{':
		return isObject
	case '[':
		return isArray
	case 't', 'f':
		return isBool
	case 'n':
		return isNull
	}
	if bytes.ContainsAny(v, ".eE") {
		return isNumber
	}
	return isInteger
}
