package jsonrpc

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		in   string
		want string // id method params result error
		err  error
	}{
		{`{"jsonrpc":"2.0","id":1,"method":"a","params":{"x":[1,{"y":"}"}]}}`, `1|a|{"x":[1,{"y":"}"}]}||`, nil},
		{` { "method" : "a" , "jsonrpc" : "2.0" , "id" : "1\"" } `, `"1\""|a|||`, nil},
		{`{"jsonrpc":"2.0","method":"\u0061\u00e4"}`, `|aä|||`, nil},
		{`{"jsonrpc":"2.0","id":-1.5e3,"result":null}`, `-1.5e3|||null|`, nil},
		{`{"jsonrpc":"2.0","id":0,"error":{"code":1}}`, `0||||{"code":1}`, nil},
		{`{"jsonrpc":"2.0","id":7,"method":"a","params":"x"}`, `7|a|"x"||`, ErrMessage},
		{`{"jsonrpc":"2.0","id":7,"method":""}`, `7||||`, ErrMessage},
		{`{"jsonrpc":"1.0","id":7,"method":"a"}`, `7|a|||`, ErrMessage},
		{`{"jsonrpc":"2.0","id":null,"method":"a"}`, `|a|||`, ErrMessage},
		{`{"jsonrpc":"2.0","id":1,"id":2,"method":"a"}`, `2|a|||`, ErrMessage},
		{`{"jsonrpc":"2.0","id":1,"method":"a","method":"b"}`, `1|b|||`, ErrMessage},
		{`{"jsonrpc":"2.0","id":1,"method":"a","result":1}`, `1|a||1|`, ErrMessage},
		{`{"jsonrpc":"2.0","id":1}`, `1||||`, ErrMessage},
		{`[]`, `||||`, ErrMessage},
		{`{}`, `||||`, ErrMessage},
		{`"x"`, `||||`, ErrMessage},
		{`{"jsonrpc":"2.0"`, `||||`, ErrSyntax},
		{``, `||||`, ErrSyntax},
	} {
		m, err := Parse([]byte(c.in))
		got := string(m.ID) + "|" + m.Method + "|" + string(m.Params) + "|" + string(m.Result) + "|" + string(m.Error)
		if !errors.Is(err, c.err) || (err == nil) != (c.err == nil) || got != c.want {
			t.Errorf("%s\n got %s, %v\nwant %s, %v", c.in, got, err, c.want, c.err)
		}
	}
}

func TestText(t *testing.T) {
	for in, want := range map[string]string{`""`: "", `"a b"`: "a b", `"\\\"\u0061"`: `\"a`, `"ä"`: "ä",
		"\"\xff\"": "\ufffd", `1`: "", `null`: "", `"`: "", ``: ""} {
		if got := Text([]byte(in)); got != want {
			t.Errorf("Text(%s) is %q", in, got)
		}
		if got := TextBytes([]byte(in)); string(got) != want {
			t.Errorf("TextBytes(%s) is %q", in, got)
		}
	}
}

func TestElements(t *testing.T) {
	for in, want := range map[string]int{`[]`: 0, ` [ 1 , "a]" , [2,[]] , {"x":[1]} , null ]`: 5, `{}`: 0, `1`: 0} {
		got := Elements([]byte(in))
		if len(got) != want {
			t.Errorf("%s has %d elements: %s", in, len(got), got)
		}
		for _, e := range got {
			if !json.Valid(e) {
				t.Errorf("%s: %q", in, e)
			}
		}
	}
}

func TestAppend(t *testing.T) {
	for _, c := range []struct {
		got  []byte
		want string
	}{
		{AppendResult(nil, []byte(`"a"`), []byte(`{}`)), `{"jsonrpc":"2.0","id":"a","result":{}}`},
		{AppendError(nil, []byte(`1`), &Error{Code: -1, Message: "a\"\n", Data: []byte(`[]`)}),
			`{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"a\"\n","data":[]}}`},
		{AppendError(nil, nil, &Error{Code: -2, Message: "ä"}), `{"jsonrpc":"2.0","error":{"code":-2,"message":"ä"}}`},
		{AppendRequest(nil, nil, "x", []byte(`{}`)), `{"jsonrpc":"2.0","method":"x","params":{}}`},
		{AppendRequest(nil, []byte(`3`), "x", nil), `{"jsonrpc":"2.0","id":3,"method":"x"}`},
	} {
		if string(c.got) != c.want {
			t.Errorf("got %s\nwant %s", c.got, c.want)
		}
	}
}

// FuzzParse compares Parse with encoding/json.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"a","params":{"x":[1,{"y":"}"}]}}`,
		`{"jsonrpc":"2.0","id":"\\","error":{"a":"\""},"x":[[],{}]}`,
		` {"\u006aa" : 1.5e-3 , "params" : [ ] } `, `[{"a":"]"},2]`, `{"a":{"b":{"c":[{}]}}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := Parse(data)
		if errors.Is(err, ErrSyntax) {
			if json.Valid(data) {
				t.Fatal("valid JSON is refused")
			}
			return
		}
		var whole map[string]json.RawMessage
		if json.Unmarshal(data, &whole) != nil {
			if err == nil {
				t.Fatal("something that is no object is a message")
			}
			for _, e := range Elements(data) {
				if !json.Valid(e) {
					t.Fatalf("element %q", e)
				}
			}
			return
		}
		n := 0
		for in := Scan(data); in.Next(); n++ {
			if !json.Valid(in.Value) {
				t.Fatalf("value %q", in.Value)
			}
		}
		if n < len(whole) {
			t.Fatalf("%d of %d members", n, len(whole))
		}
		if err != nil {
			return
		}
		for name, got := range map[string]json.RawMessage{"id": m.ID, "params": m.Params, "result": m.Result,
			"error": m.Error} {
			if !bytes.Equal(got, whole[name]) {
				t.Fatalf("%s is %q, want %q", name, got, whole[name])
			}
		}
	})
}
