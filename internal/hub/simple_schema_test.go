package hub

import (
	"bytes"
	"encoding/json"
	"testing"

	"patchbay/internal/tool"
)

// TestSimpleSchema checks that a simple schema accepts only arguments that the library accepts, or
// leaves them to the library.
func TestSimpleSchema(t *testing.T) {
	const echo = `{"type":"object","properties":{"text":{"type":"string","description":"what"},"n":{"type":["integer","null"]}},"required":["text"]}`
	const volume = `{"type":"object","properties":{"a":{"type":["integer","null"],"minimum":0,"maximum":100}}}`
	const mode = `{"type":"object","properties":{"a":{"type":["string","integer"],"enum":["on","off",3,null]}}}`
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
		{"closed", `{"type":"object","properties":{"a":{"type":"boolean"}},"additionalProperties":false}`,
			`{"b":1}`, true, false},
		{"closed, known",
			`{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{"a":{"type":"boolean"}},"additionalProperties":false}`, `{"a":false}`, true, true},
		{"a number", `{"type":"object","properties":{"a":{"type":"number"}}}`, `{"a":-1.5e3}`, true, true},
		{"within bounds", volume, `{"a":100}`, true, true},
		{"beyond a bound", volume, `{"a":101}`, true, false},
		{"below a bound", volume, `{"a":-1}`, true, false},
		{"a bound is for numbers", volume, `{"a":null}`, true, true},
		{"too many digits for us", volume, `{"a":99999999999999999999}`, true, false},
		{"no whole number", `{"type":"object","properties":{"a":{"type":"number","minimum":0}}}`, `{"a":1.5}`, true,
			false},
		{"no whole bound", `{"type":"object","properties":{"a":{"type":"number","minimum":0.5}}}`, `{"a":1}`, false,
			false},
		{"another kind of bound", `{"type":"object","properties":{"a":{"type":"number","exclusiveMinimum":0}}}`,
			`{"a":1}`, false, false},
		{"one of few", mode, `{"a":"on"}`, true, true},
		{"one of few, in a row", mode, `{"a": 3 }`, true, true},
		{"one of few, of the wrong type", mode, `{"a":null}`, true, false},
		{"none of few", mode, `{"a":"of"}`, true, false},
		{"one of few, written strangely", mode, `{"a":"\u006fn"}`, true, false},
		{"one of none", `{"type":"object","properties":{"a":{"type":"string","enum":[]}}}`, `{"a":""}`, false, false},
		{"anything", `{"type":"object","properties":{"a":{}}}`, `{"a":1}`, false, false},
		{"a word in capitals says nothing",
			`{"type":"object","additionalProperties":false,"AdditionalProperties":true}`, `{"a":1}`, false, false},
		{"another dialect", `{"$schema":"https://example.com/mine","type":"object"}`, `{}`, false, false},
		{"schemas as bounds", `{"type":"object","additionalProperties":{"type":"string"}}`, `{"a":"b"}`, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := parseSimpleSchema([]byte(c.schema))
			if (f != nil) != c.flat {
				t.Fatalf("flat: %t", f != nil)
			}
			if f != nil && f.accepts([]byte(c.args)) != c.fits {
				t.Errorf("fits: %t", !c.fits)
			}
		})
	}
}

// FuzzSimpleSchema checks that a simple schema never accepts arguments that the library refuses.
func FuzzSimpleSchema(f *testing.F) {
	f.Add([]byte(`{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}`), []byte(`{"a":1}`))
	f.Add([]byte(`{"type":"object","properties":{"a":{"type":["string","null"]}},"additionalProperties":false}`),
		[]byte(`{"a":"\u0061"}`))
	f.Add([]byte(`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","required":["a","b"]}`),
		[]byte(`{"a":1,"a":{}}`))
	f.Add([]byte(`{"type":"object","properties":{"a":{"type":"integer","minimum":0,"maximum":100}},"required":["a"]}`),
		[]byte(`{"a":50}`))
	f.Add([]byte(`{"type":"object","properties":{"a":{"type":["number","string"],"enum":["on",-1,{"b":[1.0]}],"minimum":-5}}}`), []byte(`{"a":-1}`))
	f.Fuzz(func(t *testing.T, text, args []byte) {
		flat := parseSimpleSchema(text)
		if flat == nil || !flat.accepts(args) {
			return
		}
		compiled, err := compile(text)
		if err != nil || compiled == nil {
			return // everything is valid
		}
		o := &RegisteredTool{Tool: &tool.Tool{Input: text}}
		o.cached().schema = &schema{text: text} // only the library validates
		o.cached().schemaOnce.Do(func() {})
		if err := o.check(t.Context(), args); err != nil {
			t.Errorf("schema %s, arguments %s: %v", text, args, err)
		}
		if !json.Valid(bytes.TrimSpace(args)) {
			t.Errorf("no JSON: %q", args)
		}
	})
}
