package wire

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"patchbay/internal/jsonrpc"
)

// Shape is what the parameters of a method must look like. It says what is wrong
// in the words of OpenClaw's own checks.
type Shape struct {
	name   string
	fields []field
}

// field is a member of an object. No other members are allowed.
type field struct {
	name     string
	kind     kind
	required bool
	least    int      // the least number, or length in characters
	most     int      // the greatest length in characters; 0: any
	words    []string // what a word may be
	is       *Shape   // what an object is, or each item of a list
	matches  *pattern // what a text must match
}

type kind byte

const (
	anything kind = iota
	text          // a string
	word          // a string out of a few
	whole         // a whole number
	truth         // true or false
	table         // an object with any members
	truths        // an object with members that are true or false
	object        // an object of a shape
	texts         // a list of strings that are not empty
	list          // a list of objects of a shape, or of anything
	mark          // a string or a number
)

// pattern is a regular expression, in OpenClaw's spelling, and what it means.
type pattern struct {
	spelled string
	fits    func(string) bool
}

// Check says what is wrong with JSON, which must be valid, or "" if nothing is.
// Missing parameters, which are nil, are no object.
func (s *Shape) Check(valid []byte) string {
	var m members
	return s.read(valid, &m)
}

// Invalid makes the refusal of parameters that are not of the shape; nil means that
// they are.
func (s *Shape) Invalid(params []byte) *Error {
	var m members
	return s.readParams(params, &m)
}

// members are what an object of a shape has.
type members struct {
	shape *Shape
	few   [fewFields]json.RawMessage
	many  []json.RawMessage // instead of few, if the shape has more fields
}

// fewFields is how many fields those shapes have that are read all the time. What has
// so few members needs no memory of its own.
const fewFields = 12

// values are those of the shape's fields; nil: it is not there.
func (m *members) values() []json.RawMessage {
	if m.many != nil {
		return m.many
	}
	return m.few[:len(m.shape.fields)]
}

// of is the value of a member; nil: it is not there.
func (m *members) of(name string) json.RawMessage {
	if m.shape == nil {
		return nil // it is no object
	}
	for i, v := range m.values() {
		if m.shape.fields[i].name == name {
			return v
		}
	}
	return nil
}

// read takes JSON apart, which must be valid, and says what is wrong with it, or "" if
// nothing is. What is wrong may be among the members nevertheless.
func (s *Shape) read(valid []byte, m *members) string {
	wrong := s.check(nil, "", valid, m)
	if wrong == nil {
		return ""
	}
	return strings.Join(wrong[:min(len(wrong), maxComplaints)], "; ")
}

// readParams is read for parameters. The error is what the client is told.
func (s *Shape) readParams(params []byte, m *members) *Error {
	if wrong := s.read(params, m); wrong != "" {
		return Invalid("invalid " + s.name + " params: " + wrong)
	}
	return nil
}

// check appends what is wrong. As in OpenClaw, of the members that are missing, and
// of those that are too many, only the first is told.
func (s *Shape) check(wrong []string, at string, value []byte, m *members) []string {
	in := jsonrpc.Scan(value)
	if !in.Object() {
		return append(wrong, place(at, "must be object"))
	}
	if m.shape = s; len(s.fields) > fewFields {
		m.many = make([]json.RawMessage, len(s.fields))
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
			wrong = append(wrong, place(at, "must have required property '"+f.name+"'"))
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

// index is which field a member is; -1: none.
func (s *Shape) index(name []byte) int {
	for i := range s.fields {
		if s.fields[i].name == string(name) {
			return i
		}
	}
	return -1
}

// check appends what is wrong with a member of what is at a place.
func (f *field) check(wrong []string, at string, v []byte) []string {
	switch f.kind {
	case text:
		return f.checkText(wrong, at, v)
	case word:
		if v[0] != '"' || !among(f.words, jsonrpc.TextBytes(v)) {
			return append(wrong, f.place(at, "must be equal to one of the allowed values"))
		}
	case whole:
		n, err := strconv.ParseFloat(string(v), 64)
		if err != nil || n != math.Trunc(n) {
			return append(wrong, f.place(at, "must be integer"))
		}
		if n < float64(f.least) {
			return append(wrong, f.place(at, "must be >= "+strconv.Itoa(f.least)))
		}
	case truth:
		if v[0] != 't' && v[0] != 'f' {
			return append(wrong, f.place(at, "must be boolean"))
		}
	case mark:
		if v[0] != '"' && v[0] != '-' && (v[0] < '0' || v[0] > '9') {
			return append(wrong, f.place(at, "must be string"), f.place(at, "must be number"), f.place(at, "must match a schema in anyOf"))
		}
	case table, truths:
		return f.checkTable(wrong, at, v)
	case object:
		var m members
		return f.is.check(wrong, at+"/"+f.name, v, &m)
	case texts, list:
		return f.checkList(wrong, at, v)
	}
	return wrong
}

func (f *field) checkText(wrong []string, at string, v []byte) []string {
	if v[0] != '"' {
		wrong = append(wrong, f.place(at, "must be string"))
		if f.words != nil {
			wrong = append(wrong, f.place(at, "must be equal to constant"))
		}
		return wrong
	}
	s := jsonrpc.TextBytes(v)
	n := utf8.RuneCount(s)
	switch {
	case f.words != nil && !among(f.words, s):
		return append(wrong, f.place(at, "must be equal to constant"))
	case n < f.least:
		wrong = append(wrong, f.place(at, "must not have fewer than "+strconv.Itoa(f.least)+" characters"))
	case f.most > 0 && n > f.most:
		wrong = append(wrong, f.place(at, "must not have more than "+strconv.Itoa(f.most)+" characters"))
	}
	if f.matches != nil && !f.matches.fits(string(s)) {
		wrong = append(wrong, f.place(at, `must match pattern "`+f.matches.spelled+`"`))
	}
	return wrong
}

// among says whether a text is one of a few.
func among(words []string, text []byte) bool {
	for _, w := range words {
		if w == string(text) {
			return true
		}
	}
	return false
}

func (f *field) checkTable(wrong []string, at string, v []byte) []string {
	in := jsonrpc.Scan(v)
	if !in.Object() {
		return append(wrong, f.place(at, "must be object"))
	}
	for f.kind == truths && len(wrong) < maxComplaints && in.Next() {
		if c := in.Value[0]; c != 't' && c != 'f' {
			wrong = append(wrong, place(at+"/"+f.name+"/"+string(in.Key), "must be boolean"))
		}
	}
	return wrong
}

func (f *field) checkList(wrong []string, at string, v []byte) []string {
	if v[0] != '[' {
		return append(wrong, f.place(at, "must be array"))
	}
	item := field{kind: text, least: 1}
	if f.kind == list {
		if f.is == nil {
			return wrong
		}
		item = field{kind: object, is: f.is}
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

// maxComplaints is how many things OpenClaw says at most. It keeps an answer from
// being longer than its question.
const maxComplaints = 8

func place(at, what string) string {
	if at == "" {
		return what
	}
	return "at " + at + ": " + what
}

// place is what is wrong with the member of what is at a place.
func (f *field) place(at, what string) string { return place(at+"/"+f.name, what) }
