package cli

import (
	"encoding/json"
	"io"
	"strings"
	"testing"
)

func TestToolArguments(t *testing.T) {
	const schema = `{"type":"object","properties":{
		"text":{"type":"string"},"number":{"type":"number"},"flag":{"type":"boolean"},"list":{"type":"array"},"object":{"type":"object"},
		"maybe":{"type":["string","null"]},"any":{},"true":true,
		"level":{"enum":[1,2,3]},"mode":{"enum":["on","off"]},"fixed":{"const":true},
		"ref":{"$ref":"#/$defs/a~1b"},"either":{"anyOf":[{"type":"integer"},{"$ref":"#/$defs/name"}]},"round":{"$ref":"#/properties/round"}},
		"$defs":{"a/b":{"type":"integer"},"name":{"type":"string"}}}`
	for _, c := range []struct{ set, want string }{
		{"text=5", `"5"`},
		{"text=", `""`},
		{"text={}", `"{}"`},
		{"number=5", "5"},
		{"number=five", "must be JSON: number"},
		{"flag=true", "true"},
		{"flag=yes", "must be JSON: boolean"},
		{`list=["a"]`, `["a"]`},
		{"list=a,b", "must be JSON: array"},
		{`object={"a":"b=c"}`, `{"a":"b=c"}`},
		{"maybe=null", `"null"`},
		{"any=5", "5"},
		{"any=five", `"five"`},
		{"true=x", `"x"`},
		{"unknown=5", "5"},
		{"unknown=five words", `"five words"`},
		{"level=2", "2"},
		{"level=two", "must be JSON: number"},
		{"mode=on", `"on"`},
		{"fixed=true", "true"},
		{"ref=3", "3"},
		{"ref=x", "must be JSON: integer"},
		{"either=3", `"3"`},
		{"round=3", "3"},
	} {
		name, text, _ := strings.Cut(c.set, "=")
		got, err := toolArguments(json.RawMessage(schema), "", map[string]string{name: text})
		if err != nil {
			if !strings.Contains(err.Error(), c.want) || exitCode(err) != exitUsage {
				t.Errorf("%s: %v, want %s", c.set, err, c.want)
			}
			continue
		}
		if want := `{"` + name + `":` + c.want + `}`; string(got) != want {
			t.Errorf("%s gives %s, want %s", c.set, got, want)
		}
	}
	// Without a schema, and on top of an object.
	got, err := toolArguments(nil, `{"a":1,"b":2}`, map[string]string{"b": "x", "c": "true"})
	if err != nil || string(got) != `{"a":1,"b":"x","c":true}` {
		t.Errorf("without a schema it gives %s (%v)", got, err)
	}
}

// Schemas come from servers of other people.
func FuzzToolArguments(f *testing.F) {
	f.Add(`{"properties":{"a":{"type":"integer"}}}`, `{"b":1}`, "a", "5")
	f.Add(`{"properties":{"a":{"$ref":"#"}},"anyOf":[{"$ref":"#"},{"$ref":"#"},{"enum":[1,"x",null]}]}`, "", "a", "x")
	f.Add(`{"properties":{"a":{"$ref":"#/properties/b"},"b":{"allOf":[{"$ref":"#/properties/a"}]}}}`, "{}", "a", `"`)
	f.Add(`[]`, `null`, "", "")
	f.Fuzz(func(t *testing.T, schema, object, name, text string) {
		args, err := toolArguments(json.RawMessage(schema), object, map[string]string{name: text})
		if err != nil {
			return
		}
		var got map[string]any
		if err := json.Unmarshal(args, &got); err != nil {
			t.Fatalf("%s: %v", args, err)
		}
	})
}

// So do results.
func FuzzContent(f *testing.F) {
	f.Add([]byte(`[{"type":"text","text":"a"},{"type":"image","mimeType":"image/png","data":"aGk="}]`),
		[]byte(`{"a":1}`))
	f.Add([]byte(`[{"type":"resource","resource":{"uri":"x","blob":"aGk="}},{"type":"resource_link","uri":"y"},{}]`),
		[]byte(nil))
	f.Add([]byte(`[null]`), []byte(`[`))
	f.Fuzz(func(_ *testing.T, text, structured []byte) {
		blocks, err := readContent(text)
		if err != nil {
			return
		}
		newShell(nil, io.Discard, io.Discard, nil).showContent(blocks, structured, true)
	})
}

// Texts from outside cannot control the terminal, and stay on their line.
func TestShort(t *testing.T) {
	for text, want := range map[string]string{
		"plain":                "plain",
		"two\nlines":           "two …",
		"a \x1b[31mred":        "a [31mred",
		" spaces \n ":          "spaces",
		"12345678901234":       "123456789…",
		"眼镜眼镜眼镜":               "眼镜眼镜…",
		"0123456789":           "0123456789",
		"01234567890\n second": "012345678…",
	} {
		if got := short(text, 10); got != want {
			t.Errorf("%q is shortened to %q, want %q", text, got, want)
		}
	}
}
