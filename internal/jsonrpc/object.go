package jsonrpc

import (
	"bytes"
	"encoding/json"
	"slices"
)

// Member returns a member of a JSON object, the first of that name, or nil if there is none. The
// text must be valid JSON.
func Member(obj json.RawMessage, name string) json.RawMessage {
	for in := Scan(obj); in.Next(); {
		if string(in.Key) == name {
			return in.Value
		}
	}
	return nil
}

// With returns a JSON object in which a member has another value: in its place, or at the end if
// there was none. The texts must be valid JSON; another value than an object is returned as it is.
func With(obj json.RawMessage, name string, value []byte) json.RawMessage {
	in := Scan(obj)
	if !in.IsObject() {
		return obj
	}
	out := append(make([]byte, 0, len(obj)+len(name)+len(value)+4), '{')
	found := false
	for in.Next() {
		v := in.Value
		if string(in.Key) == name {
			if found {
				continue // a name that stands twice
			}
			v, found = value, true
		}
		out = AppendMember(out, string(in.Key), v)
	}
	if !found {
		out = AppendMember(out, name, value)
	}
	return append(out, '}')
}

// Without returns a JSON object without some of its members, or nil if no others are left, or if it
// is not an object. The text must be valid JSON.
func Without(obj json.RawMessage, names ...string) json.RawMessage {
	out := []byte{'{'}
	for in := Scan(obj); in.Next(); {
		if name := string(in.Key); !slices.Contains(names, name) {
			out = AppendMember(out, name, in.Value)
		}
	}
	if len(out) == 1 {
		return nil
	}
	return append(out, '}')
}

// AppendMembers appends the members of an object to another; see [AppendMember].
func AppendMembers(out []byte, obj json.RawMessage) []byte {
	for in := Scan(obj); in.Next(); {
		out = AppendMember(out, string(in.Key), in.Value)
	}
	return out
}

// AppendMember appends a member to an object that is being written, without its closing brace.
func AppendMember(out []byte, name string, value []byte) []byte {
	if !bytes.HasSuffix(out, []byte{'{'}) {
		out = append(out, ',')
	}
	out = append(AppendText(out, name), ':')
	return append(out, value...)
}
