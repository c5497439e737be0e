package jsonrpc

import (
	"encoding/json"
	"testing"
	"unicode/utf8"
)

func TestObject(t *testing.T) {
	for _, c := range []struct{ in, with, without, member string }{
		{`{}`, `{"a":1}`, ``, ``},
		{`{"a":{"a":2}}`, `{"a":1}`, ``, `{"a":2}`},
		{` { "b" : "}" , "a" : [3] , "c" : null } `, `{"b":"}","a":1,"c":null}`, `{"b":"}","c":null}`, `[3]`},
		{`{"a":1,"a":2,"\u00e9\"":3}`, `{"a":1,"é\"":3}`, `{"é\"":3}`, `1`},
		{`[1]`, `[1]`, ``, ``}, {`"a"`, `"a"`, ``, ``},
	} {
		in := json.RawMessage(c.in)
		if got := With(in, "a", []byte("1")); string(got) != c.with {
			t.Errorf("%s with a is %s, want %s", c.in, got, c.with)
		}
		if got := Without(in, "a", "z"); string(got) != c.without {
			t.Errorf("%s without a is %s, want %s", c.in, got, c.without)
		}
		if got := Member(in, "a"); string(got) != c.member {
			t.Errorf("a of %s is %s, want %s", c.in, got, c.member)
		}
	}
	if got := AppendMembers([]byte(`{"x":{}`), json.RawMessage(`{"y":{},"z":1}`)); string(got) != `{"x":{},"y":{},"z":1` {
		t.Error(string(got))
	}
}

// What is made of valid JSON is valid, and has what it should have.
func FuzzObject(f *testing.F) {
	f.Add([]byte(`{"a":1,"b":{"a":[]}}`), "a")
	f.Add([]byte(`{"\u0061":1}`), "a")
	f.Fuzz(func(t *testing.T, obj []byte, name string) {
		if !Valid(obj) || !json.Valid(obj) {
			return
		}
		with := With(obj, name, []byte("7"))
		in := Scan(obj)
		if rest := Without(obj, name); rest != nil && (!json.Valid(rest) || Member(rest, name) != nil) {
			t.Errorf("%q without %q is %q", obj, name, rest)
		}
		if !json.Valid(with) || in.IsObject() && utf8.ValidString(name) && string(Member(with, name)) != "7" {
			t.Errorf("%q with %q is %q", obj, name, with)
		}
	})
}
