package wire

import (
	"encoding/json"
	"math"
	"slices"
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
	wrong := s.check(nil, "", valid)
	return strings.Join(wrong[:min(len(wrong), maxComplaints)], "; ")
}

// Invalid makes the refusal of parameters that are not of the shape; nil means that
// they are.
func (s *Shape) Invalid(params []byte) *Error {
	if wrong := s.Check(params); wrong != "" {
		return Invalid("invalid " + s.name + " params: " + wrong)
	}
	return nil
}

// check appends what is wrong. As in OpenClaw, of the members that are missing, and
// of those that are too many, only the first is told.
func (s *Shape) check(wrong []string, at string, value []byte) []string {
	in := jsonrpc.Scan(value)
	if !in.Object() {
		return append(wrong, place(at, "must be object"))
	}
	given := make([]json.RawMessage, len(s.fields))
	stranger := ""
	strange := false
	for in.Next() {
		i := slices.IndexFunc(s.fields, func(f field) bool { return f.name == string(in.Key) })
		if i >= 0 {
			given[i] = in.Value
		} else if !strange {
			stranger, strange = string(in.Key), true
		}
	}
	for i, f := range s.fields {
		if f.required && given[i] == nil {
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
	for i, f := range s.fields {
		if given[i] != nil {
			wrong = f.check(wrong, at+"/"+f.name, given[i])
		}
	}
	return wrong
}

func (f *field) check(wrong []string, at string, v []byte) []string {
	switch f.kind {
	case text:
		return f.checkText(wrong, at, v)
	case word:
		if v[0] != '"' || !slices.Contains(f.words, jsonrpc.Text(v)) {
			return append(wrong, place(at, "must be equal to one of the allowed values"))
		}
	case whole:
		n, err := strconv.ParseFloat(string(v), 64)
		if err != nil || n != math.Trunc(n) {
			return append(wrong, place(at, "must be integer"))
		}
		if n < float64(f.least) {
			return append(wrong, place(at, "must be >= "+strconv.Itoa(f.least)))
		}
	case truth:
		if v[0] != 't' && v[0] != 'f' {
			return append(wrong, place(at, "must be boolean"))
		}
	case mark:
		if v[0] != '"' && v[0] != '-' && (v[0] < '0' || v[0] > '9') {
			return append(wrong, place(at, "must be string"), place(at, "must be number"), place(at, "must match a schema in anyOf"))
		}
	case table, truths:
		return f.checkTable(wrong, at, v)
	case object:
		return f.is.check(wrong, at, v)
	case texts, list:
		return f.checkList(wrong, at, v)
	}
	return wrong
}

func (f *field) checkText(wrong []string, at string, v []byte) []string {
	if v[0] != '"' {
		wrong = append(wrong, place(at, "must be string"))
		if f.words != nil {
			wrong = append(wrong, place(at, "must be equal to constant"))
		}
		return wrong
	}
	s := jsonrpc.Text(v)
	n := utf8.RuneCountInString(s)
	switch {
	case f.words != nil && !slices.Contains(f.words, s):
		return append(wrong, place(at, "must be equal to constant"))
	case n < f.least:
		wrong = append(wrong, place(at, "must not have fewer than "+strconv.Itoa(f.least)+" characters"))
	case f.most > 0 && n > f.most:
		wrong = append(wrong, place(at, "must not have more than "+strconv.Itoa(f.most)+" characters"))
	}
	if f.matches != nil && !f.matches.fits(s) {
		wrong = append(wrong, place(at, `must match pattern "`+f.matches.spelled+`"`))
	}
	return wrong
}

func (f *field) checkTable(wrong []string, at string, v []byte) []string {
	in := jsonrpc.Scan(v)
	if !in.Object() {
		return append(wrong, place(at, "must be object"))
	}
	for f.kind == truths && len(wrong) < maxComplaints && in.Next() {
		if c := in.Value[0]; c != 't' && c != 'f' {
			wrong = append(wrong, place(at+"/"+string(in.Key), "must be boolean"))
		}
	}
	return wrong
}

func (f *field) checkList(wrong []string, at string, v []byte) []string {
	if v[0] != '[' {
		return append(wrong, place(at, "must be array"))
	}
	item := field{kind: text, least: 1}
	if f.kind == list {
		if f.is == nil {
			return wrong
		}
		item = field{kind: object, is: f.is}
	}
	for i, e := range jsonrpc.Elements(v) {
		if len(wrong) >= maxComplaints {
			break
		}
		wrong = item.check(wrong, at+"/"+strconv.Itoa(i), e)
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
