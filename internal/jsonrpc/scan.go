package jsonrpc

import (
	"bytes"
	"encoding/json"
)

// Scanner iterates over the members of a JSON object.
type Scanner struct {
	// Key and Value are the current member. Value is the raw JSON without surrounding whitespace.
	Key, Value []byte

	rest   []byte
	object bool
}

// Scan returns a scanner of an object. The text must be valid JSON; another value has no members.
func Scan(valid []byte) Scanner {
	rest := skipSpace(valid)
	if len(rest) == 0 || rest[0] != '{' {
		return Scanner{}
	}
	return Scanner{rest: skipSpace(rest[1:]), object: true}
}

// IsObject reports whether the text is an object.
func (s *Scanner) IsObject() bool { return s.object }

// Next advances to the next member. It reports whether there is one.
func (s *Scanner) Next() bool {
	if len(s.rest) == 0 || s.rest[0] == '}' {
		return false
	}
	n := stringEnd(s.rest)
	s.Key = unquote(s.rest[:n])
	s.rest = skipSpace(skipSpace(s.rest[n:])[1:]) // skips the colon
	n = valueEnd(s.rest)
	s.Value = s.rest[:n]
	s.rest = skipSpace(s.rest[n:])
	if s.rest[0] == ',' {
		s.rest = skipSpace(s.rest[1:])
	}
	return true
}

// Elements returns the elements of a JSON array, or nil for another value. The text must be valid
// JSON.
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

// stringEnd returns the end of the string at the start of b.
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

// valueEnd returns the end of the value at the start of b.
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

// unquote returns the value of a string. It copies only strings with escapes.
func unquote(b []byte) []byte {
	if bytes.IndexByte(b, '\\') >= 0 {
		return []byte(Text(b))
	}
	return b[1 : len(b)-1]
}
