package jsonrpc

import (
	"bytes"
	"encoding/json"
)

// Scanner goes through the members of a JSON object.
type Scanner struct {
	// Key and Value are the member that Next found. Value is the JSON without the
	// space around it.
	Key, Value []byte

	rest   []byte
	object bool
}

// Scan begins to go through an object. The text must be valid JSON; if it is no
// object, it has no members.
func Scan(valid []byte) Scanner {
	rest := skipSpace(valid)
	if len(rest) == 0 || rest[0] != '{' {
		return Scanner{}
	}
	return Scanner{rest: skipSpace(rest[1:]), object: true}
}

// IsObject reports whether the text is an object.
func (s *Scanner) IsObject() bool { return s.object }

// Next finds the next member; false means that there is none.
func (s *Scanner) Next() bool {
	if len(s.rest) == 0 || s.rest[0] == '}' {
		return false
	}
	n := stringEnd(s.rest)
	s.Key = unquote(s.rest[:n])
	s.rest = skipSpace(skipSpace(s.rest[n:])[1:]) // the colon
	n = valueEnd(s.rest)
	s.Value = s.rest[:n]
	s.rest = skipSpace(s.rest[n:])
	if s.rest[0] == ',' {
		s.rest = skipSpace(s.rest[1:])
	}
	return true
}

// Elements are the elements of a JSON array, or nil. The text must be valid.
func Elements(valid []byte) []json.RawMessage {
	rest := skipSpace(valid)
	if len(rest) == 0 || rest[0] != '[' {
		return nil
	}
	var out []json.RawMessage
	for rest = skipSpace(rest[1:]); rest[0] != ']'; {
		n := valueEnd(rest)
		out = append(out, rest[:n])
		rest = skipSpace(rest[n:])
		if rest[0] == ',' {
			rest = skipSpace(rest[1:])
		}
	}
	return out
}

func skipSpace(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\n' || b[0] == '\t' || b[0] == '\r') {
		b = b[1:]
	}
	return b
}

// stringEnd is where the string at the beginning ends.
func stringEnd(b []byte) int {
	n := bytes.IndexByte(b[1:], '"') + 2
	if bytes.IndexByte(b[1:n], '\\') < 0 {
		return n
	}
	for i := 1; ; i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
}

// valueEnd is where the value at the beginning ends.
func valueEnd(b []byte) int {
	switch b[0] {
	case '"':
		return stringEnd(b)
	case '{', '[':
		depth := 0
		for i := 0; ; i++ {
			switch b[i] {
			case '"':
				i += stringEnd(b[i:]) - 1
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1
				}
			}
		}
	}
	for i, c := range b {
		switch c {
		case ',', '}', ']', ' ', '\n', '\t', '\r':
			return i
		}
	}
	return len(b)
}

// unquote is the text of a string, without a copy if it has no escapes.
func unquote(b []byte) []byte {
	if bytes.IndexByte(b, '\\') >= 0 {
		return []byte(Text(b))
	}
	return b[1 : len(b)-1]
}
