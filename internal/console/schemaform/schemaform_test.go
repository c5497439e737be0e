package schemaform_test

import (
	"bytes"
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"patchbay/internal/console/page"
	"patchbay/internal/console/schemaform"
	"patchbay/internal/i18n"
)

// property returns a schema with one argument, x.
func property(text string, required bool) json.RawMessage {
	s := `{"type":"object","properties":{"x":` + text + `}`
	if required {
		s += `,"required":["x"]`
	}
	return json.RawMessage(s + `,"additionalProperties":false}`)
}

// typed returns what a browser sends for the argument x.
func typed(values ...string) url.Values { return url.Values{"arg.x": values} }

func TestFields(t *testing.T) {
	for _, c := range []struct {
		schema   string
		required bool
		kind     schemaform.Kind
		value    string // content of the field
		typed    url.Values
		want     string // arguments, or the error
	}{
		{`{"type":"string"}`, true, schemaform.Line, "", typed("a <b> \"c\""), `{"x":"a <b> \"c\""}`},
		{`{"type":"string"}`, true, schemaform.Line, "", typed(""), "needed"},
		{`{"type":"string"}`, false, schemaform.Line, "", typed(""), `{}`},
		{`{"type":["string","null"],"default":"hello"}`, false, schemaform.Line, "hello", typed("there"),
			`{"x":"there"}`},
		{`{"type":"string","maxLength":3}`, true, schemaform.Line, "", typed("你好吗"), `{"x":"你好吗"}`},
		{`{"type":"string","maxLength":3}`, true, schemaform.Line, "", typed("abcd"), "3 characters"},
		{`{"type":"string","maxLength":500}`, true, schemaform.Text, "", typed("a\r\nb"), `{"x":"a\nb"}`},
		{`{"type":"string","format":"uri"}`, true, schemaform.Line, "", typed("http://a.example/"),
			`{"x":"http://a.example/"}`},
		{`{"anyOf":[{"type":"string"},{"type":"null"}],"default":null}`, false, schemaform.Line, "", typed("a"),
			`{"x":"a"}`},

		{`{"type":"integer","minimum":0,"maximum":100}`, true, schemaform.Number, "", typed("25"), `{"x":25}`},
		{`{"type":"integer","minimum":0,"maximum":100}`, true, schemaform.Number, "", typed("101"), "100 at most"},
		{`{"type":"integer","minimum":0,"maximum":100,"default":70}`, true, schemaform.Slider, "70", typed("101"),
			"100 at most"},
		{`{"type":"integer","minimum":0,"maximum":100,"default":70}`, false, schemaform.Slider, "70", typed("0"),
			`{"x":0}`},
		{`{"type":"integer","minimum":0,"maximum":100}`, false, schemaform.Number, "", typed(""), `{}`},
		{`{"type":"integer","minimum":1,"maximum":300,"default":10}`, false, schemaform.Number, "10", typed("007"),
			`{"x":7}`},
		{`{"type":"integer","minimum":1}`, true, schemaform.Number, "", typed("0"), "1 at least"},
		{`{"type":"integer"}`, true, schemaform.Number, "", typed("1.5"), "whole number"},
		{`{"type":"integer"}`, true, schemaform.Number, "", typed("1e3"), `{"x":1000}`},
		{`{"type":"number","minimum":-1}`, true, schemaform.Number, "", typed("-0.5"), `{"x":-0.5}`},
		{`{"type":"number"}`, true, schemaform.Number, "", typed("0x10"), "number"},
		{`{"type":"number"}`, true, schemaform.Number, "", typed(`"1"`), "number"},
		{`{"type":"number"}`, true, schemaform.Number, "", typed(`null`), "number"},
		{`{"type":"integer","minimum":9,"maximum":1}`, true, schemaform.Number, "", typed("5"), `{"x":5}`},

		{`{"type":"boolean"}`, true, schemaform.Switch, "false", typed("true"), `{"x":true}`},
		{`{"type":"boolean","default":true}`, false, schemaform.Switch, "true", url.Values{}, `{"x":false}`},
		{`{"type":"boolean"}`, false, schemaform.Choice, "", typed(""), `{}`},
		{`{"type":"boolean"}`, false, schemaform.Choice, "", typed("false"), `{"x":false}`},

		{`{"type":"string","enum":["start","stop"]}`, true, schemaform.Choice, "", typed(`"stop"`), `{"x":"stop"}`},
		{`{"type":"string","enum":["start","stop"]}`, true, schemaform.Choice, "", typed(`"else"`), "Choose one"},
		{`{"type":"string","enum":["start","stop"],"default":"stop"}`, false, schemaform.Choice,
			`"stop"`, typed(`"start"`), `{"x":"start"}`},
		{`{"enum":[1,"one",null,true]}`, false, schemaform.Choice, "", typed("true"), `{"x":true}`},
		{`{"oneOf":[{"const":"a","title":"An A"},{"const":"b"}]}`, true, schemaform.Choice, "", typed(`"b"`),
			`{"x":"b"}`},
		{`{"enum":[{"a":1}]}`, true, schemaform.JSON, "", typed(`{"a":1}`), `{"x":{"a":1}}`},
		{`{"$ref":"#/$defs/hue"}`, true, schemaform.JSON, "", typed(`"red"`), `{"x":"red"}`}, // undefined reference

		{`{"type":"array","items":{"type":"string"}}`, true, schemaform.Lines, "", typed(" a \r\n\r\nb,c\n"),
			`{"x":["a","b,c"]}`},
		{`{"type":"array","items":{"type":"string"}}`, true, schemaform.Lines, "", typed(""), `{"x":[]}`},
		{`{"type":"array","items":{"type":"string"},"default":["a","b"]}`, false, schemaform.Lines, "a\nb", typed(""),
			`{}`},
		{`{"type":"array","items":{"type":"integer"}}`, false, schemaform.Lines, "", typed("1\n2"), `{"x":[1,2]}`},
		{`{"type":"array","items":{"type":"integer"}}`, false, schemaform.Lines, "", typed("1\ntwo"), "two"},
		{`{"type":"array","items":{"enum":["a","b","c"]}}`, false, schemaform.Some, "", typed(`"c"`, `"a"`, `"z"`),
			`{"x":["a","c"]}`},
		{`{"type":"array","items":{"enum":["a","b","c"]},"default":["a"]}`, false, schemaform.Some, "", url.Values{},
			`{"x":[]}`},
		{`{"type":"array"}`, false, schemaform.JSON, "", typed(`[1, {"a": 2}]`), `{"x":[1,{"a":2}]}`},
		{`{"type":"array","items":{"type":"object"}}`, true, schemaform.JSON, "", typed(`{}`), "JSON list"},

		{`{"type":"object","properties":{"y":{"type":"string"}},"default":{"y":"z"}}`, false, schemaform.JSON,
			"{\n  \"y\": \"z\"\n}", typed(`{"y":"w"}`), `{"x":{"y":"w"}}`},
		{`{"type":"object"}`, true, schemaform.JSON, "", typed(`[1]`), "JSON object"},
		{`{"type":"object"}`, true, schemaform.JSON, "", typed(`{"y"`), "valid JSON"},
		{`{}`, true, schemaform.JSON, "", typed(`"a"`), `{"x":"a"}`},
		{`true`, false, schemaform.JSON, "", typed(""), `{}`},
		{`{"type":["string","integer"]}`, true, schemaform.JSON, "", typed("5"), `{"x":5}`},
	} {
		f := schemaform.Read(property(c.schema, c.required))
		if len(f.Fields) != 1 || f.Rest != nil {
			t.Errorf("%s gives %+v", c.schema, f)
			continue
		}
		x := &f.Fields[0]
		if x.Kind != c.kind || x.Value != c.value || x.Label != "x" {
			t.Errorf("%s gives a field %s with %q, want %s with %q", c.schema, x.Kind, x.Value, c.kind, c.value)
		}
		args, ok := f.Parse(i18n.English, c.typed)
		switch {
		case ok && string(args) != c.want:
			t.Errorf("%s with %v gives %s, want %s", c.schema, c.typed, args, c.want)
		case !ok && (!strings.Contains(x.Wrong, c.want) || args != nil):
			t.Errorf("%s with %v is wrong: %q, want %s", c.schema, c.typed, x.Wrong, c.want)
		}
		if v := c.typed.Get("arg.x"); !ok && c.kind != schemaform.Slider && x.Value != v {
			t.Errorf("%s forgets %q, which was typed, and has %q", c.schema, v, x.Value)
		}
	}
}

// Arguments are in the order of the schema, and references are resolved.
func TestOrderAndReferences(t *testing.T) {
	f := schemaform.Read(json.RawMessage(`{"type":"object","$defs":{"hue":{"enum":["red","blue"],"description":"A hue"}},
		"properties":{"z":{"type":"integer","title":"Zed"},"hue":{"$ref":"#/$defs/hue","default":"blue"},"a":{"type":"string"}},"required":["a","unheard of"]}`))
	var keys []string
	for _, x := range f.Fields {
		keys = append(keys, x.Key)
	}
	if strings.Join(keys, " ") != "z hue a unheard of" {
		t.Errorf("the fields are %q", keys)
	}
	if f.Get("z").Label != "Zed" || f.Get("hue").Hint != "A hue" || len(f.Get("hue").Options) != 2 {
		t.Errorf("there is %+v", f)
	}
	args, ok := f.Parse(i18n.Chinese, url.Values{"arg.a": {"<"}, "arg.hue": {`"red"`}, "arg.z": {"1"},
		"arg.unheard of": {"[ ]"}})
	if want := `{"z":1,"hue":"red","a":"<","unheard of":[]}`; !ok || string(args) != want {
		t.Errorf("got %s, want %s", args, want)
	}
}

// Arguments that a schema does not name are typed as JSON.
func TestRest(t *testing.T) {
	for _, c := range []struct{ schema, typed, want string }{
		{``, `{"a": 1, "b": [2]}`, `{"a":1,"b":[2]}`},
		{`nonsense`, ``, `{}`},
		{`{"type":"object"}`, `{"a":1}`, `{"a":1}`},
		{`{"type":"object","properties":[]}`, `[]`, "JSON object"},
		{`{"type":"object","properties":{"a":{"type":"integer"}},"additionalProperties":true}`, `{"a":1,"b":2}`,
			`{"a":5,"b":2}`},
	} {
		f := schemaform.Read(json.RawMessage(c.schema))
		if f.Rest == nil {
			t.Errorf("%s has no field for the rest", c.schema)
			continue
		}
		args, ok := f.Parse(i18n.English, url.Values{"arg.a": {"5"}, "rest": {c.typed}})
		if ok && string(args) != c.want || !ok && !strings.Contains(f.Rest.Wrong, c.want) {
			t.Errorf("%s gives %s, %q; want %s", c.schema, args, f.Rest.Wrong, c.want)
		}
	}
	for _, closed := range []string{`{"type":"object","properties":{},"additionalProperties":false}`,
		`{"properties":{"a":{}}}`, `{"type":"object","properties":{}}`} {
		if f := schemaform.Read(json.RawMessage(closed)); f.Rest != nil {
			t.Errorf("%s has a field for the rest", closed)
		}
	}
	if f := schemaform.Read(json.RawMessage(`{"properties":{"a":{"description":"` + strings.Repeat("x", 1<<20) +
		`"}}}`)); f.Rest == nil || len(f.Fields) != 0 {
		t.Error("a schema that is too large has fields")
	}
}

// Every field has a label, and shows its error.
func TestPage(t *testing.T) {
	f := schemaform.Read(json.RawMessage(`{"type":"object","properties":{
		"volume":{"type":"integer","minimum":0,"maximum":100,"default":50,"description":"How <loud>"},
		"hue":{"enum":["red","blue"]},"on":{"type":"boolean","default":true},"some":{"type":"array","items":{"enum":[1,2]}},
		"list":{"type":"array","items":{"type":"string"}},"text":{"type":"string"},"more":{"type":"object"},"n":{"type":"number","minimum":2}},
		"required":["volume","n"],"additionalProperties":{}}`))
	f.Parse(i18n.English, url.Values{"arg.volume": {"55"}, "arg.n": {"1"}, "arg.some": {"2"}})
	var b bytes.Buffer
	v := &page.Visit{Lang: i18n.English}
	if err := schemaform.Fields(v, "t", f).Render(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	for _, want := range []string{
		`type="range" min="0" max="100" step="1" value="55" data-echo="#t-0-now"`, `aria-describedby="t-0-hint"`,
		`How &lt;loud&gt;`,
		`<option value="&#34;blue&#34;">blue</option>`, `(not given)`, `value="2" checked`, `One on each line.`,
		`2 at least.`,
		`aria-describedby="t-7-hint t-7-wrong" aria-invalid="true"`,
		`<p class="wrong" id="t-7-wrong" role="alert">It has to be 2 at least.</p>`,
		`name="rest"`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the form lacks %s:\n%s", want, text)
		}
	}
	if strings.Contains(text, `name="arg.on" value="true" checked`) {
		t.Error("a switch that was turned off is on again")
	}
	if controls := strings.Count(text, "<input") + strings.Count(text, "<select") + strings.Count(text,
		"<textarea"); strings.Count(text, "<label") != controls {
		t.Errorf("%d labels for %d fields", strings.Count(text, "<label"), controls)
	}
}

// Every schema gives a form, and every form a JSON object.
func FuzzRead(f *testing.F) {
	for _, schema := range []string{
		``, `{}`, `[]`,
		`{"type":"object","properties":{"a":{"type":"integer","minimum":0,"maximum":9,"default":3}},"required":["a"]}`,
		`{"properties":{"a":{"anyOf":[{"$ref":"#/$defs/a"},{"type":"null"}]}},"$defs":{"a":{"$ref":"#/$defs/a"}}}`,
		`{"properties":{"a":{"type":"array","items":{"type":"number"},"default":[1,1e400]},"b":{"enum":[1,"b"],"enumNames":["x","y"]}},"patternProperties":{"":{}}}`,
		`{"properties":{"a":{"type":"number","minimum":-1e308,"maximum":1e308,"default":1E5},"a":{"type":"boolean","default":true}}}`,
	} {
		f.Add([]byte(schema), "1")
	}
	f.Fuzz(func(t *testing.T, schema []byte, value string) {
		form := schemaform.Read(schema)
		given := url.Values{"rest": {value}}
		for _, x := range form.Fields {
			given[x.Name] = []string{value}
		}
		for _, values := range []url.Values{defaults(form), given} {
			args, ok := form.Parse(i18n.English, values)
			var object map[string]any
			if ok && json.Unmarshal(args, &object) != nil {
				t.Errorf("%q with %v gives %q", schema, values, args)
			}
			if !ok && !complains(form) {
				t.Errorf("%q with %v is refused without a word", schema, values)
			}
		}
		if err := schemaform.Fields(&page.Visit{Lang: i18n.English}, "t", form).Render(t.Context(),
			&bytes.Buffer{}); err != nil {
			t.Error(err)
		}
	})
}

// defaults returns what a browser sends for an untouched form.
func defaults(f *schemaform.Form) url.Values {
	v := url.Values{}
	for _, x := range f.Fields {
		switch {
		case x.Kind == schemaform.Some:
			v[x.Name] = x.Chosen
		case x.Kind == schemaform.Switch && x.Value != "true":
		default:
			v.Set(x.Name, x.Value)
		}
	}
	return v
}

func complains(f *schemaform.Form) bool {
	for _, x := range f.Fields {
		if x.Wrong != "" {
			return true
		}
	}
	return f.Rest != nil && f.Rest.Wrong != ""
}
