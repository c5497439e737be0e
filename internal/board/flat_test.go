package board

import (
	"bytes"
	"encoding/json"
	"testing"

	"patchbay/internal/tool"
)

// A flat schema approves of what the library approves of, or leaves it to it.
func TestFlat(t *testing.T) {
	const echo = `{"type":"object","properties":{"text":{"type":"string","description":"what"},"n":{"type":["integer","null"]}},"required":["text"]}`
	for _, c := range []struct {
		name, schema, args string
		flat, fits         bool
	}{
		{"all there", echo, `{"text":"a","n":1}`, true, true},
		{"null", echo, `{"text":"a","n":null}`, true, true},
		{"one more", echo, `{"text":"a","more":[1]}`, true, true},
		{"missing", echo, `{"n":1}`, true, false},
		{"twice is not both", `{"type":"object","required":["a","b"]}`, `{"a":1,"a":2}`, true, false},
		{"wrong type", echo, `{"text":1}`, true, false},
		{"a whole number, written strangely", echo, `{"text":"a","n":1.0}`, true, false},
		{"an escaped name", echo, `{"te\u0078t":"a"}`, true, true},
		{"no JSON", echo, `{"text":`, true, false},
		{"no object", echo, `["text"]`, true, false},
		{"not UTF-8", echo, "{\"text\":\"\xff\"}", true, false},
		{"closed", `{"type":"object","properties":{"a":{"type":"boolean"}},"additionalProperties":false}`, `{"b":1}`, true, false},
		{"closed, known", `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{"a":{"type":"boolean"}},"additionalProperties":false}`, `{"a":false}`, true, true},
		{"a number", `{"type":"object","properties":{"a":{"type":"number"}}}`, `{"a":-1.5e3}`, true, true},
		{"a bound", `{"type":"object","properties":{"a":{"type":"number","minimum":0}}}`, `{"a":1}`, false, false},
		{"anything", `{"type":"object","properties":{"a":{}}}`, `{"a":1}`, false, false},
		{"a word in capitals says nothing", `{"type":"object","additionalProperties":false,"AdditionalProperties":true}`, `{"a":1}`, false, false},
		{"another dialect", `{"$schema":"https://example.com/mine","type":"object"}`, `{}`, false, false},
		{"schemas as bounds", `{"type":"object","additionalProperties":{"type":"string"}}`, `{"a":"b"}`, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := readFlat([]byte(c.schema))
			if (f != nil) != c.flat {
				t.Fatalf("flat: %t", f != nil)
			}
			if f != nil && f.fits([]byte(c.args)) != c.fits {
				t.Errorf("fits: %t", !c.fits)
			}
		})
	}
}

// Whatever the schema and the arguments, a flat schema never approves of what the
// library refuses.
func FuzzFlat(f *testing.F) {
	f.Add([]byte(`{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}`), []byte(`{"a":1}`))
	f.Add([]byte(`{"type":"object","properties":{"a":{"type":["string","null"]}},"additionalProperties":false}`), []byte(`{"a":"\u0061"}`))
	f.Add([]byte(`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","required":["a","b"]}`), []byte(`{"a":1,"a":{}}`))
	f.Fuzz(func(t *testing.T, text, args []byte) {
		flat := readFlat(text)
		if flat == nil || !flat.fits(args) {
			return
		}
		compiled, err := compile(text)
		if err != nil || compiled == nil {
			return // everything fits
		}
		o := &Offered{Tool: &tool.Tool{Input: text}}
		o.kept().schema = &schema{text: text} // leaves it to the library
		o.kept().check.Do(func() {})
		if err := o.check(args); err != nil {
			t.Errorf("schema %s, arguments %s: %v", text, args, err)
		}
		if !json.Valid(bytes.TrimSpace(args)) {
			t.Errorf("no JSON: %q", args)
		}
	})
}
