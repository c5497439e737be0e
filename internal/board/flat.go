package board

import (
	"bytes"
	"encoding/json"
	"slices"
	"unicode/utf8"

	"patchbay/internal/jsonrpc"
)

// flat is a schema that says no more than which arguments there are, of which
// types, and which of them are needed. Most tools have such a one, and arguments
// are held against it without being taken apart first. It can only approve: what
// it is not sure of is left to the library.
type flat struct {
	types    map[string]types
	required []string
	closed   bool // there may be no other arguments
}

// maxRequired is how many needed arguments a flat schema can have: a bit for each.
const maxRequired = 64

// types are a set of JSON's types.
type types byte

const (
	isNull types = 1 << iota
	isBool
	isWhole  // a number that is written as digits
	isNumber // … and otherwise
	isString
	isArray
	isObject
)

var typeNames = map[string]types{
	"null": isNull, "boolean": isBool, "integer": isWhole, "number": isWhole | isNumber,
	"string": isString, "array": isArray, "object": isObject,
}

// dialects are the versions of JSON Schema in which what is read here means the
// same.
var dialects = []string{
	"http://json-schema.org/draft-07/schema#", "http://json-schema.org/draft-07/schema",
	"https://json-schema.org/draft/2019-09/schema", "https://json-schema.org/draft/2020-12/schema",
}

// readFlat reads a schema; nil if it says more than can be checked here.
func readFlat(text []byte) *flat {
	if !json.Valid(text) {
		return nil
	}
	f := &flat{types: map[string]types{}}
	object := false
	for in := jsonrpc.Scan(text); in.Next(); {
		ok := true
		switch string(in.Key) {
		case "type":
			object = string(in.Value) == `"object"`
		case "properties":
			ok = in.Value[0] == '{' && f.readProperties(in.Value)
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

func (f *flat) readProperties(text []byte) bool {
	clear(f.types) // of two lists the last one counts
	for in := jsonrpc.Scan(text); in.Next(); {
		t := readTypes(in.Value)
		if t == 0 {
			return false
		}
		f.types[string(in.Key)] = t
	}
	return true
}

// readTypes reads the schema of one argument; 0 if it says more than its types.
func readTypes(text []byte) (t types) {
	for in := jsonrpc.Scan(text); in.Next(); {
		switch string(in.Key) {
		case "type":
			t = typeNames[jsonrpc.Text(in.Value)]
			for _, name := range jsonrpc.Elements(in.Value) {
				one := typeNames[jsonrpc.Text(name)]
				if one == 0 {
					return 0
				}
				t |= one
			}
		case "title", "description", "default", "examples", "x-mcp-header":
		default:
			return 0
		}
	}
	return t
}

// fits says whether arguments surely fit. They need not even be JSON.
func (f *flat) fits(args []byte) bool {
	if !utf8.Valid(args) || !json.Valid(args) {
		return false
	}
	var have uint64
	in := jsonrpc.Scan(args)
	for in.Next() {
		if want, known := f.types[string(in.Key)]; !known && f.closed || known && want&typeOf(in.Value) == 0 {
			return false
		}
		for i, name := range f.required {
			if name == string(in.Key) {
				have |= 1 << i
			}
		}
	}
	return in.Object() && have == 1<<len(f.required)-1
}

// typeOf is the type of a JSON value.
func typeOf(v []byte) types {
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
	return isWhole
}
