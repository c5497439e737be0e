package jsonrpc

import "encoding/binary"

// maxDepth is the nesting depth from which on JSON is invalid, as in encoding/json.
const maxDepth = 10000

// Valid reports whether the text is valid JSON, as [encoding/json.Valid] does, in a fraction of its
// time: every message of every protocol is checked before it is scanned.
func Valid(text []byte) bool {
	end := validValue(text, validSpace(text, 0), 0)
	return end >= 0 && validSpace(text, end) == len(text)
}

// The functions below return the index after what they read from i on, or -1 if it is invalid.

func validSpace(b []byte, i int) int {
	for i < len(b) && b[i] <= ' ' && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

func validValue(b []byte, i, depth int) int {
	if i >= len(b) {
		return -1
	}
	switch c := b[i]; c {
	case '"':
		return validString(b, i)
	case '{', '[':
		if depth++; depth > maxDepth {
			return -1
		}
		return validMembers(b, i, depth, c == '{')
	case 't':
		return validWord(b, i, "true")
	case 'f':
		return validWord(b, i, "false")
	case 'n':
		return validWord(b, i, "null")
	}
	return validNumber(b, i)
}

// validMembers reads an object or an array.
func validMembers(b []byte, i, depth int, object bool) int {
	closing := byte(']')
	if object {
		closing = '}'
	}
	if i = validSpace(b, i+1); i < len(b) && b[i] == closing {
		return i + 1
	}
	for {
		if object {
			if i >= len(b) || b[i] != '"' {
				return -1
			}
			if i = validString(b, i); i < 0 {
				return -1
			}
			if i = validSpace(b, i); i >= len(b) || b[i] != ':' {
				return -1
			}
			i = validSpace(b, i+1)
		}
		if i = validValue(b, i, depth); i < 0 {
			return -1
		}
		if i = validSpace(b, i); i >= len(b) {
			return -1
		}
		switch b[i] {
		case closing:
			return i + 1
		case ',':
			i = validSpace(b, i+1)
		default:
			return -1
		}
	}
}

// In each byte of a word: its lowest bit, and its highest.
const (
	lowBits  = 0x0101010101010101
	highBits = 0x8080808080808080
)

// plainBytes has the bytes that stand for themselves in a string.
var plainBytes = func() (plain [256]bool) {
	for c := ' '; c < 256; c++ {
		plain[c] = c != '"' && c != '\\'
	}
	return plain
}()

// validString reads a string. Like encoding/json, it does not look at its UTF-8.
func validString(b []byte, i int) int {
	for i++; i < len(b); {
		// Eight bytes at a time, as long as none of them is a quote, a backslash or below a space:
		// x - lowBits borrows into the highest bit of a byte that is zero (and in some bytes above
		// it, which then are looked at one by one).
		if i+8 <= len(b) {
			w := binary.LittleEndian.Uint64(b[i:])
			quote, backslash := w^('"'*lowBits), w^('\\'*lowBits)
			special := (quote-lowBits)&^quote | (backslash-lowBits)&^backslash | (w-' '*lowBits)&^w
			if special&highBits == 0 {
				i += 8
				continue
			}
		}
		for i < len(b) && plainBytes[b[i]] {
			i++
		}
		switch {
		case i == len(b) || b[i] < ' ':
			return -1
		case b[i] == '"':
			return i + 1
		}
		if i = validEscape(b, i+1); i < 0 {
			return -1
		}
	}
	return -1
}

// validEscape reads what follows a backslash.
func validEscape(b []byte, i int) int {
	if i >= len(b) {
		return -1
	}
	switch b[i] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 1
	case 'u':
		if i+5 > len(b) {
			return -1
		}
		for _, c := range b[i+1 : i+5] {
			if !isDigit(c) && (c < 'a' || c > 'f') && (c < 'A' || c > 'F') {
				return -1
			}
		}
		return i + 5
	}
	return -1
}

func validWord(b []byte, i int, word string) int {
	if len(b)-i < len(word) || string(b[i:i+len(word)]) != word {
		return -1
	}
	return i + len(word)
}

func validNumber(b []byte, i int) int {
	if b[i] == '-' {
		i++
	}
	switch {
	case i < len(b) && b[i] == '0':
		i++
	default:
		if i = validDigits(b, i); i < 0 {
			return -1
		}
	}
	if i < len(b) && b[i] == '.' {
		if i = validDigits(b, i+1); i < 0 {
			return -1
		}
	}
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		if i++; i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		return validDigits(b, i)
	}
	return i
}

// validDigits reads one digit or more.
func validDigits(b []byte, i int) int {
	start := i
	for i < len(b) && isDigit(b[i]) {
		i++
	}
	if i == start {
		return -1
	}
	return i
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
