package wire

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"patchbay/internal/jsonrpc"
)

// Shape is the schema of a method's parameters. Its errors have the words of OpenClaw's own
// validation (packages/gateway-protocol/src/validation-errors.ts; recorded in
// testdata/complaints.jsonl).
type Shape struct {
	name   string
	fields []field
}

// field is a member of an object. Additional members are not allowed.
type field struct {
	name     string
	kind     kind
	required bool
	minimum  int      // minimum value, or length in characters
	maximum  int      // maximum length in characters; 0: no limit
	words    []string // allowed values of an enum
	shape    *Shape   // of an object, or of each item of a list
	pattern  *pattern // of a string
}

type kind byte

const (
	kindAny     kind = iota
	kindString       // a string
	kindEnum         // a string out of a few
	kindInteger      // a whole number
	kindBool         // true or false
	kindMap          // an object with any members
	kindBoolMap      // an object with members that are true or false
	kindObject       // an object of a shape
	kindStrings      // a list of strings that are not empty
	kindList         // a list of objects of a shape, or of anything
	kindScalar       // a string or a number
)

// pattern is a regular expression, in OpenClaw's spelling, with its implementation.
type pattern struct {
	source string
	match  func(string) bool
}

// Invalid returns the error response for parameters that do not match the shape, else nil.
func (s *Shape) Invalid(params []byte) *Error {
	var m members
	return s.readParams(params, &m)
}

// members holds the members of a parsed object.
type members struct {
	shape    *Shape
	inline   [maxInlineFields]json.RawMessage
	overflow []json.RawMessage // instead of inline, if the shape has more fields
}

// maxInlineFields covers the frequently parsed shapes, which then need no allocation.
const maxInlineFields = 12

// values returns the values of the shape's fields; nil: absent.
func (m *members) values() []json.RawMessage {
	if m.overflow != nil {
		return m.overflow
	}
	return m.inline[:len(m.shape.fields)]
}

// value returns the value of a member; nil: absent.
func (m *members) value(name string) json.RawMessage {
	if m.shape == nil {
		return nil // not an object
	}
	for i, v := range m.values() {
		if m.shape.fields[i].name == name {
			return v
		}
	}
	return nil
}

// read parses valid JSON and returns the errors in it, or "". Members may be invalid where an
// error is returned.
func (s *Shape) read(valid []byte, m *members) string {
	wrong := s.check(nil, "", valid, m)
	if wrong == nil {
		return ""
	}
	return strings.Join(wrong[:min(len(wrong), maxComplaints)], "; ")
}

// readParams is read for parameters. The error is the response to the client.
func (s *Shape) readParams(params []byte, m *members) *Error {
	if wrong := s.read(params, m); wrong != "" {
		return Invalid("invalid " + s.name + " params: " + wrong)
	}
	return nil
}

// check appends the errors. As in OpenClaw, only the first missing and the first additional
// member are reported.
func (s *Shape) check(wrong []string, at string, value []byte, m *members) []string {
	in := jsonrpc.Scan(value)
	if !in.IsObject() {
		return append(wrong, complaintAt(at, "must be object"))
	}
	if m.shape = s; len(s.fields) > maxInlineFields {
		m.overflow = make([]json.RawMessage, len(s.fields))
	}
	values := m.values()
	stranger := ""
	strange := false
	for in.Next() {
		if i := s.index(in.Key); i >= 0 {
			values[i] = in.Value
		} else if !strange {
			stranger, strange = string(in.Key), true
		}
	}
	for i := range s.fields {
		if f := &s.fields[i]; f.required && values[i] == nil {
			wrong = append(wrong, complaintAt(at, "must have required property '"+f.name+"'"))
			break
		}
	}
	if strange {
		where := at
		if where == "" {
			where = "root"
		}
		wrong = append(wrong, "at "+where+": unexpected property '"+stranger+"'")
	}
	for i := range s.fields {
		if values[i] != nil {
			wrong = s.fields[i].check(wrong, at, values[i])
		}
	}
	return wrong
}

// index returns the index of a member's field; -1: none.
func (s *Shape) index(name []byte) int {
	for i := range s.fields {
		if s.fields[i].name == string(name) {
			return i
		}
	}
	return -1
}

// check appends the errors of a member of the object at a path.
func (f *field) check(wrong []string, at string, v []byte) []string {
	switch f.kind {
	case kindString:
		return f.checkText(wrong, at, v)
	case kindEnum:
		if v[0] != '"' || !isOneOf(f.words, jsonrpc.TextBytes(v)) {
			return append(wrong, f.complaint(at, "must be equal to one of the allowed values"))
		}
	case kindInteger:
		n, err := strconv.ParseFloat(string(v), 64)
		if err != nil || n != math.Trunc(n) {
			return append(wrong, f.complaint(at, "must be integer"))
		}
		if n < float64(f.minimum) {
			return append(wrong, f.complaint(at, "must be >= "+strconv.Itoa(f.minimum)))
		}
	case kindBool:
		if v[0] != 't' && v[0] != 'f' {
			return append(wrong, f.complaint(at, "must be boolean"))
		}
	case kindScalar:
		if v[0] != '"' && v[0] != '-' && (v[0] < '0' || v[0] > '9') {
			return append(wrong, f.complaint(at, "must be string"), f.complaint(at, "must be number"),
				f.complaint(at, "must match a schema in anyOf"))
		}
	case kindMap, kindBoolMap:
		return f.checkTable(wrong, at, v)
	case kindObject:
		var m members
		return f.shape.check(wrong, at+"/"+f.name, v, &m)
	case kindStrings, kindList:
		return f.checkList(wrong, at, v)
	}
	return wrong
}

func (f *field) checkText(wrong []string, at string, v []byte) []string {
	if v[0] != '"' {
		wrong = append(wrong, f.complaint(at, "must be string"))
		if f.words != nil {
			wrong = append(wrong, f.complaint(at, "must be equal to constant"))
		}
		return wrong
	}
	s := jsonrpc.TextBytes(v)
	n := utf8.RuneCount(s)
	switch {
	case f.words != nil && !isOneOf(f.words, s):
		return append(wrong, f.complaint(at, "must be equal to constant"))
	case n < f.minimum:
		wrong = append(wrong, f.complaint(at, "must not have fewer than "+strconv.Itoa(f.minimum)+" characters"))
	case f.maximum > 0 && n > f.maximum:
		wrong = append(wrong, f.complaint(at, "must not have more than "+strconv.Itoa(f.maximum)+" characters"))
	}
	if f.pattern != nil && !f.pattern.match(string(s)) {
		wrong = append(wrong, f.complaint(at, `must match pattern "`+f.pattern.source+`"`))
	}
	return wrong
}

// isOneOf reports whether words contain a text.
func isOneOf(words []string, text []byte) bool {
	for _, w := range words {
		if w == string(text) {
			return true
		}
	}
	return false
}

func (f *field) checkTable(wrong []string, at string, v []byte) []string {
	in := jsonrpc.Scan(v)
	if !in.IsObject() {
		return append(wrong, f.complaint(at, "must be object"))
	}
	for f.kind == kindBoolMap && len(wrong) < maxComplaints && in.Next() {
		if c := in.Value[0]; c != 't' && c != 'f' {
			wrong = append(wrong, complaintAt(at+"/"+f.name+"/"+string(in.Key), "must be boolean"))
		}
	}
	return wrong
}

func (f *field) checkList(wrong []string, at string, v []byte) []string {
	if v[0] != '[' {
		return append(wrong, f.complaint(at, "must be array"))
	}
	item := field{kind: kindString, minimum: 1}
	if f.kind == kindList {
		if f.shape == nil {
			return wrong
		}
		item = field{kind: kindObject, shape: f.shape}
	}
	at += "/" + f.name
	for i, e := range jsonrpc.Elements(v) {
		if len(wrong) >= maxComplaints {
			break
		}
		item.name = strconv.Itoa(i)
		wrong = item.check(wrong, at, e)
	}
	return wrong
}

// maxComplaints is OpenClaw's limit of errors in a response. It keeps a response from being
// longer than its request.
const maxComplaints = 8

func complaintAt(at, what string) string {
	if at == "" {
		return what
	}
	return "at " + at + ": " + what
}

// complaint returns an error of the member of the object at a path.
func (f *field) complaint(at, what string) string { return complaintAt(at+"/"+f.name, what) }
