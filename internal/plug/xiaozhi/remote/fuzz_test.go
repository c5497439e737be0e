package remote

import (
	"bytes"
	"encoding/json"
	"testing"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"patchbay/internal/tool"
)

// No message of a board causes a panic, and the results are valid.
func FuzzHeard(f *testing.F) {
	for _, seed := range []string{
		textResult(1, "true"), textResult(1, `{"a":1}`), plainError(1, `a "b"`),
		codedError(1, -32602, "Unknown tool: x"),
		result(1, `{"tools":[`+toolVolume+`,`+toolUpdate+`],"nextCursor":"x"}`),
		result(1, `{"serverInfo":{"name":"n","version":"2.4.2"}}`),
		result(1, `{"content":[{"type":"image","image":"{\"mimeType\":\"image/jpeg\",\"data\":\"/9j/4A==\"}"}]}`),
		result(1, `{"content":[{"type":"audio","data":"x"},{"type":"text","text":3}],"isError":true}`),
		`{"jsonrpc":"2.0","method":"notifications/x","params":{}}`, `{"id":"1","error":"x"}`, "{", "\xff",
		result(1, `{"tools":[{"name":"a","inputSchema":{"properties":{"n":{"type":["integer","string"],"default":1e2,"minimum":-1.5,"enum":[1,"x"],"items":{}},"l":{"type":"array","items":{"type":"array","items":{}}}},"required":["n"]}}]}`),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		before := bytes.Clone(payload)
		// As the response to each kind of request.
		for _, ask := range []func(*Client){
			func(c *Client) { _, _ = c.Start(t.Context(), Vision{}); check(t, c) },
			func(c *Client) { _, _ = c.Refresh(t.Context()); check(t, c) },
			func(c *Client) { _ = c.Ping(t.Context()) },
			func(c *Client) {
				r, err := c.Call(t.Context(), &tool.Call{Tool: "a", Args: json.RawMessage(`{}`)})
				if (r == nil) == (err == nil) {
					t.Fatal(r, err)
				}
				if r != nil && !sound(r) {
					t.Fatalf("%s %s", r.Content, r.Structured)
				}
			},
		} {
			var c *Client
			c = New(Options{
				Known: Catalog{Tools: []tool.Tool{{Name: "a"}}},
				Send: func([]byte) error {
					c.HandleMessage(payload)
					c.Close(nil)
					return nil
				},
				OnNotification: func(method string, params json.RawMessage) {
					if method == "" || params != nil && !json.Valid(params) {
						t.Fatalf("%q %q", method, params)
					}
				},
			})
			ask(c)
			c.HandleMessage(payload)
		}
		if !bytes.Equal(payload, before) {
			t.Fatal("the payload was changed")
		}
	})
}

func sound(r *tool.Result) bool {
	return json.Valid(r.Content) && utf8.Valid(r.Content) && r.Content[0] == '[' &&
		(r.Structured == nil || json.Valid(r.Structured) && r.Structured[0] == '{')
}

// check validates the tools.
func check(t *testing.T, c *Client) {
	for _, have := range c.Catalog().Tools {
		if have.Name != "a" {
			checkSchema(t, have.Input)
		}
	}
}

func checkSchema(t *testing.T, input []byte) {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(input))
	if err != nil {
		t.Fatalf("%s: %v", input, err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("mem:///a.json", doc); err != nil {
		t.Fatalf("%s: %v", input, err)
	}
	if _, err := compiler.Compile("mem:///a.json"); err != nil {
		t.Fatalf("%s: %v", input, err)
	}
}

// A cleaned schema is valid, and cleaning it again changes nothing.
func FuzzSchema(f *testing.F) {
	for _, seed := range []string{
		`{"type":"object","properties":{"volume":{"type":"integer","minimum":0,"maximum":100}},"required":["volume"]}`,
		`{"properties":{"url":{"type":"string","default":"The URL"},"b":{"type":["boolean","number"],"default":1.5,"enum":[true,1e3,"x"]}},"required":["b","b"]}`,
		`{"properties":{"a\u0000":{},"":{},"l":{"type":"array","items":{"type":"array","items":{"type":"array","items":{"type":"array","items":{}}}}}}}`, `[]`, `{"properties":7}`,
	} {
		f.Add([]byte(seed), []byte(`{"volume":5.0,"b":null}`))
	}
	f.Fuzz(func(t *testing.T, raw, args []byte) {
		if !json.Valid(raw) || !utf8.Valid(raw) {
			return
		}
		s := readSchema(raw)
		clean := s.append(nil)
		checkSchema(t, clean)
		again := readSchema(clean)
		if text := again.append(nil); !bytes.Equal(clean, text) {
			t.Fatalf("%s\n%s", clean, text)
		}
		if json.Valid(args) && utf8.Valid(args) {
			if out := cleanArgs(args, clean); !json.Valid(out) || out[0] != '{' {
				t.Fatalf("%s became %s", args, out)
			}
		}
	})
}
