package openapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// petstore is a document of 3.0 in YAML, with what is common in such documents.
const petstore = `
openapi: 3.0.3
info: {title: Pets, version: 1.2.0}
servers:
  - url: /api/{stage}
    variables: {stage: {default: v1}}
x-shared: &paging
  name: limit
  in: query
  description: How many
  schema: {type: integer, minimum: 0, exclusiveMinimum: true, maximum: 100}
paths:
  /pets:
    get:
      operationId: listPets
      summary: List pets
      parameters:
        - *paging
        - {name: tag, in: query, schema: {type: array, items: {type: string}}}
        - {name: filter, in: query, style: deepObject, explode: true, schema: {type: object}}
        - {name: X-Trace, in: header, schema: {type: string}}
        - {name: session, in: cookie, schema: {type: string}}
      responses:
        200:
          description: Fine
          content: {application/json: {schema: {type: array, items: {$ref: '#/components/schemas/Pet'}}}}
    post:
      operationId: createPet
      requestBody:
        required: true
        content: {application/json: {schema: {$ref: '#/components/schemas/Pet'}}}
      responses:
        "201":
          description: Created
          content: {application/json: {schema: {$ref: '#/components/schemas/Pet'}}}
  /pets/{id}:
    parameters:
      - {name: id, in: path, required: true, schema: {type: string}}
    get: {operationId: get pet!, responses: {"200": {description: Fine}}}
    put:
      requestBody:
        content:
          application/json:
            schema: {type: object, properties: {id: {type: string}, name: {type: string, nullable: true}}}
      responses: {}
    delete: {operationId: listPets, responses: {"204": {description: Gone}}}
  /photo:
    post:
      operationId: upload
      requestBody:
        content: {multipart/form-data: {schema: {properties: {file: {type: string, format: binary}}}}}
      responses: {}
  /xml: {post: {operationId: xml, requestBody: {required: true, content: {application/xml: {}}}, responses: {}}}
  /login: {get: {operationId: login, parameters: [{name: sid, in: cookie, required: true}], responses: {}}}
  /else: {get: {operationId: else, servers: [{url: 'https://evil.example'}], responses: {}}}
  /up/../admin: {get: {operationId: up, responses: {}}}
  /external: {get: {operationId: external, parameters: [{$ref: 'other.yaml#/x'}], responses: {}}}
components:
  schemas:
    Pet:
      type: object
      required: [id, name]
      properties:
        id: {type: integer, readOnly: true}
        name: {type: string, example: Rex}
        kind: {type: string, enum: [dog, cat]}
        friends: {type: array, items: {$ref: '#/components/schemas/Pet'}}
        secret: {type: string, writeOnly: true}
`

func parse(t testing.TB, text string) (map[string]*Operation, []string) {
	t.Helper()
	d, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	list, left := d.Operations(Credentials{})
	all := map[string]*Operation{}
	for _, o := range list {
		if all[o.Name] != nil {
			t.Errorf("two tools are called %s", o.Name)
		}
		all[o.Name] = o
	}
	var why []string
	for _, l := range left {
		why = append(why, l.String())
	}
	return all, why
}

type listed struct {
	Name, Title, Description string
	InputSchema              map[string]any
	OutputSchema             map[string]any
	Annotations              map[string]bool
}

func (o *Operation) listed(t testing.TB) (l listed) {
	t.Helper()
	if err := json.Unmarshal(o.Listed, &l); err != nil {
		t.Fatal(err)
	}
	return l
}

// compiles checks that a schema is one of 2020-12, and returns it.
func compiles(t testing.TB, s any) *jsonschema.Schema {
	t.Helper()
	c := jsonschema.NewCompiler()
	raw, _ := json.Marshal(s)
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(raw)))
	if err == nil {
		err = c.AddResource("mem:///s.json", doc)
	}
	if err != nil {
		t.Fatal(err)
	}
	compiled, err := c.Compile("mem:///s.json")
	if err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
	return compiled
}

func TestOperations(t *testing.T) {
	all, left := parse(t, petstore)
	want := []string{"createPet", "delete_pets_id", "get_pet", "listPets", "put_pets_id"}
	var names []string
	for name := range all {
		names = append(names, name)
	}
	if slices.Sort(names); !slices.Equal(names, want) {
		// The two operations called listPets: the first of them has the name.
		t.Errorf("the tools are %v, want %v", names, want)
	}
	for _, reason := range []string{"POST /photo: files", "POST /xml: bodies of the type application/xml",
		"GET /login: it needs a cookie", "GET /else: it is on a server", "GET /up/../admin: its path",
		"GET /external: it refers"} {
		if !slices.ContainsFunc(left, func(l string) bool { return strings.HasPrefix(l, reason) }) {
			t.Errorf("%q is not in %q", reason, left)
		}
	}
	create := all["createPet"].listed(t)
	properties := create.InputSchema["properties"].(map[string]any)
	if properties["name"] == nil || properties["id"] != nil || fmt.Sprint(create.InputSchema["required"]) != "[name]" {
		t.Errorf("the input is %v", create.InputSchema)
	}
	compiles(t, create.InputSchema)
	if create.OutputSchema["type"] != "object" || create.OutputSchema["required"] != nil {
		t.Errorf("the output is %v", create.OutputSchema)
	}
	if err := compiles(t, create.OutputSchema).Validate(map[string]any{"id": "seven", "kind": nil}); err == nil {
		t.Error("the output describes nothing")
	}
	if err := compiles(t, create.OutputSchema).Validate(map[string]any{"kind": "fish", "name": nil}); err != nil {
		t.Errorf("the output is too strict: %v", err)
	}
	put := all["put_pets_id"].listed(t)
	if properties := put.InputSchema["properties"].(map[string]any); properties["body"] == nil ||
		properties["id"] == nil {
		t.Errorf("where names collide, the input is %v", put.InputSchema)
	}
	if h := all["listPets"].listed(t).Annotations; !h["readOnlyHint"] {
		t.Errorf("the hints of GET are %v", h)
	}
	if h := all["delete_pets_id"].listed(t).Annotations; !h["destructiveHint"] || h["readOnlyHint"] {
		t.Errorf("the hints of DELETE are %v", h)
	}
	limit := all["listPets"].listed(t).InputSchema["properties"].(map[string]any)["limit"].(map[string]any)
	if limit["exclusiveMinimum"] != 0.0 || limit["minimum"] != nil || limit["description"] != "How many" {
		t.Errorf("limit is %v", limit)
	}
}

func TestRequests(t *testing.T) {
	all, _ := parse(t, petstore)
	base, _ := url.Parse("https://pets.example/api/v1/")
	for _, c := range []struct{ name, args, url, body, problem string }{
		{"listPets", `{"limit":5,"tag":["a b","c&d"],"filter":{"x":{"y":1},"z":[1,2]}}`,
			"/pets?limit=5&tag=a%20b&tag=c%26d&filter%5Bx%5D%5By%5D=1&filter%5Bz%5D=1&filter%5Bz%5D=2", "", ""},
		{"listPets", `{}`, "/pets", "", ""},
		{"listPets", `{"X-Trace":"a\nb"}`, "", "", "cannot be sent in a header"},
		{"get_pet", `{"id":"a/b?c#d%2e"}`, "/pets/a%2Fb%3Fc%23d%252e", "", ""},
		{"get_pet", `{"id":".."}`, "", "", "leads elsewhere"},
		{"get_pet", `{"id":"../../admin"}`, "", "", "leads elsewhere"},
		{"get_pet", `{"id":""}`, "", "", "empty"},
		{"get_pet", `{}`, "", "", "the argument id is missing"},
		{"get_pet", `[]`, "", "", "must be a JSON object"},
		{"createPet", `{"name":"Rex <3","kind":"dog"}`, "/pets", `{"kind":"dog","name":"Rex <3"}`, ""},
		{"put_pets_id", `{"id":"1","body":{"id":"2","name":null}}`, "/pets/1", `{"id":"2","name":null}`, ""},
	} {
		r, err := all[c.name].Request(base, json.RawMessage(c.args))
		switch {
		case c.problem != "":
			if err == nil || !strings.Contains(err.Error(), c.problem) {
				t.Errorf("%s %s: %v", c.name, c.args, err)
			}
		case err != nil:
			t.Errorf("%s %s: %v", c.name, c.args, err)
		case r.URL != "https://pets.example/api/v1"+c.url || string(r.Body) != c.body:
			t.Errorf("%s %s: %s with %s", c.name, c.args, r.URL, r.Body)
		}
	}
}

// TestStyles follows OAS 3.1.1 "Style Examples".
func TestStyles(t *testing.T) {
	list := []any{"blue", "black", "brown"}
	members := map[string]any{"R": json.Number("100"), "G": json.Number("200"), "B": json.Number("150")}
	for _, c := range []struct {
		in, style string
		explode   bool
		v         any
		want      string
	}{
		{"path", "matrix", false, "blue", ";color=blue"},
		{"path", "matrix", false, list, ";color=blue,black,brown"},
		{"path", "matrix", true, list, ";color=blue;color=black;color=brown"},
		{"path", "matrix", false, members, ";color=B,150,G,200,R,100"},
		{"path", "matrix", true, members, ";B=150;G=200;R=100"},
		{"path", "label", false, list, ".blue,black,brown"},
		{"path", "label", true, list, ".blue.black.brown"},
		{"path", "label", true, members, ".B=150.G=200.R=100"},
		{"path", "simple", false, list, "blue,black,brown"},
		{"path", "simple", false, members, "B,150,G,200,R,100"},
		{"path", "simple", true, members, "B=150,G=200,R=100"},
		{"header", "simple", false, "a b", "a b"},
		{"query", "form", true, "blue", "color=blue"},
		{"query", "form", false, list, "color=blue,black,brown"},
		{"query", "form", true, list, "color=blue&color=black&color=brown"},
		{"query", "form", false, members, "color=B,150,G,200,R,100"},
		{"query", "form", true, members, "B=150&G=200&R=100"},
		{"query", "spaceDelimited", false, list, "color=blue%20black%20brown"},
		{"query", "pipeDelimited", false, list, "color=blue%7Cblack%7Cbrown"},
		{"query", "deepObject", true, members, "color%5BB%5D=150&color%5BG%5D=200&color%5BR%5D=100"},
	} {
		p := param{name: "color", in: c.in}
		p.setStyle(map[string]any{"style": c.style, "explode": c.explode})
		got := ""
		if c.in == "query" {
			got = strings.Join(p.asQuery(c.v), "&")
		} else {
			got = p.asPath(c.v)
		}
		if got != c.want {
			t.Errorf("%s %s, explode %v: %s, want %s", c.in, c.style, c.explode, got, c.want)
		}
	}
}

// forms is a document of 3.1 in JSON.
const forms = `{"openapi":"3.1.0","info":{"title":"Forms","version":"1"},"paths":{
"/token":{"post":{"operationId":"token","requestBody":{"required":true,"content":{"application/x-www-form-urlencoded":{
  "schema":{"type":"object","required":["grant"],"properties":{"grant":{"type":"string"},"scope":{"type":"array","items":{"type":"string"}},
  "more":{"type":"object"},"ids":{"type":"array"}}},"encoding":{"ids":{"style":"form","explode":false}}}}},"responses":{}}},
"/fields":{"post":{"operationId":"fields","requestBody":{"content":{"multipart/form-data":{"schema":{"type":"object",
  "properties":{"a":{"type":"string"},"b":{"type":["integer","null"]}}}}}},"responses":{}}},
"/note":{"post":{"operationId":"note","parameters":[{"name":"body","in":"query"},{"name":"q","in":"query","content":{"application/json":{"schema":{"type":"object"}}}}],
  "requestBody":{"required":true,"content":{"text/plain":{"schema":{"type":"string"}}}},"responses":{}}},
"/deep":{"post":{"operationId":"deep","requestBody":{"content":{"application/json":{"schema":{"$ref":"#/components/schemas/Node"}}}},"responses":{}}}},
"components":{"schemas":{"Node":{"type":"object","properties":{"value":{"const":1},"next":{"$ref":"#/components/schemas/Node"}},"unevaluatedProperties":false}}}}`

func TestForms(t *testing.T) {
	all, left := parse(t, forms)
	if len(left) > 0 {
		t.Fatal(left)
	}
	base, _ := url.Parse("https://x.example")
	for _, c := range []struct{ name, args, kind, body string }{
		{"token", `{"grant":"a&b","scope":["x","y"],"more":{"k":1},"ids":[1,2]}`, "application/x-www-form-urlencoded",
			"grant=a%26b&ids=1,2&more=%7B%22k%22%3A1%7D&scope=x&scope=y"},
		{"fields", `{"a":"hello","b":3}`, "multipart/form-data", "hello"},
		{"note", `{"body":"q","body_request":"the text","q":{"a":1}}`, "text/plain", "the text"},
		{"deep", `{"body":{"value":1,"next":{"value":1}}}`, "application/json", `{"next":{"value":1},"value":1}`},
	} {
		o := all[c.name]
		if err := compiles(t, o.listed(t).InputSchema).Validate(decoded(t, c.args)); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		r, err := o.Request(base, json.RawMessage(c.args))
		if err != nil || !strings.HasPrefix(r.Header["Content-Type"], c.kind) || !strings.Contains(string(r.Body),
			c.body) {
			t.Errorf("%s: %v, %+v with %s", c.name, err, r, r.Body)
		}
	}
}

func decoded(t testing.TB, text string) any {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestDocumentsThatCannotBeRead(t *testing.T) {
	for _, c := range []struct{ text, problem string }{
		{"", "neither JSON nor YAML"},
		{"<html>", "neither JSON nor YAML"},
		{`{"a":1}`, "no member openapi"},
		{`{"swagger":"2.0","paths":{"/":{}}}`, "OpenAPI 2.0"},
		{`{"openapi":"4.0.0","paths":{"/":{}}}`, "OpenAPI 4.0.0"},
		{`{"openapi":"3.1.0"}`, "has no operations"},
		{strings.Repeat("x", MaxSize+1), "too large"},
		{"openapi: 3.0.0\npaths: &a\n  x: *a\n", "neither JSON nor YAML"},
		{bomb(), "too large"},
		{strings.Repeat("[", 100_000), "neither JSON nor YAML"},
		{strings.Repeat("[", maxMarks+1), "too large"},
	} {
		if _, err := Parse([]byte(c.text)); err == nil || !strings.Contains(err.Error(), c.problem) {
			t.Errorf("%.40q: %v", c.text, err)
		}
	}
}

// bomb returns a document in which each list has ten times the one before.
func bomb() string {
	text := "openapi: 3.0.0\na0: &a0 [x,x,x,x,x,x,x,x,x,x]\n"
	for i := 1; i < 9; i++ {
		text += fmt.Sprintf("a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i-1),
			10), ","))
	}
	return text
}

// TestCostOfSchemas gives documents whose schemas would grow without end.
func TestCostOfSchemas(t *testing.T) {
	var schemas []string
	for i := range 30 {
		schemas = append(schemas, fmt.Sprintf(
			`"S%d":{"type":"object","properties":{"a":{"$ref":"#/components/schemas/S%d"},"b":{"$ref":"#/components/schemas/S%d"}}}`,
			i, i+1, i+1))
	}
	schemas = append(schemas, `"S30":{"$ref":"#/components/schemas/S30"}`)
	var paths []string
	for i := range maxOperations + 10 {
		paths = append(paths, fmt.Sprintf(`"/p%d":{"post":{"requestBody":{"content":{"application/json":{"schema":{"$ref":"#/components/schemas/S%d"}}}}}}`,
			i, i%30))
	}
	all, left := parse(t, `{"openapi":"3.1.0","paths":{`+strings.Join(paths, ",")+`},"components":{"schemas":{`+
		strings.Join(schemas, ",")+`}}}`)
	if len(all) == 0 || len(all) > maxOperations || len(left) == 0 {
		t.Errorf("%d tools, left out: %d", len(all), len(left))
	}
	for _, o := range all {
		if len(o.Listed) > 100<<10 {
			t.Fatalf("a tool has %d bytes", len(o.Listed))
		}
	}
}

func TestResults(t *testing.T) {
	same := func(text string) string { return strings.ReplaceAll(text, "hidden", "[secret]") }
	for _, c := range []struct {
		o      Operation
		status int
		kind   string
		body   string
		want   string
	}{
		{Operation{}, 200, "application/json", `{"a":1}`, `{"content":[{"text":"{\"a\":1}","type":"text"}],"structuredContent":{"a":1}}`},
		{Operation{}, 200, "application/problem+json; charset=utf-8", `[1]`, `{"content":[{"text":"[1]","type":"text"}]}`},
		{Operation{hasOutput: true}, 204, "", ``, `{"content":[{"text":"204 No Content","type":"text"}],"structuredContent":{}}`},
		{Operation{}, 200, "text/csv", `a,b`, `{"content":[{"text":"a,b","type":"text"}]}`},
		{Operation{}, 200, "image/png", "\x89PNG", `{"content":[{"data":"iVBORw==","mimeType":"image/png","type":"image"}]}`},
		{Operation{Name: "x"}, 200, "application/pdf", "%PDF", `{"content":[{"resource":{"blob":"JVBERg==","mimeType":"application/pdf","uri":"openapi:/x"},"type":"resource"}]}`},
		{Operation{}, 404, "application/json", `{"error":"hidden"}`, `{"content":[{"text":"404 Not Found\n{\"error\":\"[secret]\"}","type":"text"}],"isError":true}`},
		{Operation{}, 302, "text/html", `x`, `{"content":[{"text":"302 Found. The server points elsewhere, which is not followed.","type":"text"}],"isError":true}`},
		{Operation{}, 200, "application/json", `{"a":`, `{"content":[{"text":"{\"a\":","type":"text"}]}`},
	} {
		h := http.Header{}
		h.Set("Content-Type", c.kind)
		r := &Response{Status: c.status, Header: h, Body: []byte(c.body)}
		if got := string(c.o.Result(r, same)); got != c.want {
			t.Errorf("%d %s %s:\n got %s\nwant %s", c.status, c.kind, c.body, got, c.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(petstore), []byte(`{"id":"a"}`))
	f.Add([]byte(forms), []byte(`{"body":{},"grant":"x"}`))
	f.Add([]byte("openapi: 3.1.0\npaths: {/a/{b}: {get: {parameters: [{name: b, in: path, schema: true}]}}}"), []byte(`{"b":".."}`))
	f.Add([]byte("openapi: 3.0.0\npaths: {<<: {/a: {get: {}}}}"), []byte(`{}`))
	base, _ := url.Parse("https://x.example/api")
	f.Fuzz(func(t *testing.T, text, args []byte) {
		d, err := Parse(text)
		if err != nil {
			return
		}
		_, _ = d.Server(base)
		list, _ := d.Operations(Credentials{})
		names := map[string]bool{}
		for _, o := range list {
			if names[o.Name] || o.Name == "" || len(o.Name) > maxName || !json.Valid(o.Listed) {
				t.Errorf("the tool %q is %s", o.Name, o.Listed)
			}
			names[o.Name] = true
			r, err := o.Request(base, args)
			if err != nil {
				continue
			}
			u, err := url.Parse(r.URL)
			if err != nil || u.Host != base.Host || !strings.HasPrefix(u.Path, "/api/") ||
				hasDots(u.EscapedPath()) {
				t.Errorf("%s of %s leads to %s", args, o.path, r.URL)
			}
		}
	})
}

// What an owner approves does not depend on what the owner has set.
func TestWhole(t *testing.T) {
	d, err := Parse([]byte(`{"openapi":"3.1.0","info":{"title":"x","version":"1"},"paths":{"/a":{"get":{"operationId":"a","parameters":[
		{"name":"X-Trace","in":"header","required":true,"schema":{"type":"string"}},{"name":"key","in":"query"}]}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	bare, _ := d.Operations(Credentials{})
	list, _ := d.Operations(Credentials{Headers: []string{"x-trace"}, Query: []string{"key"}})
	if len(bare) != 1 || len(list) != 1 || string(bare[0].Whole) != string(bare[0].Listed) ||
		string(list[0].Whole) != string(bare[0].Listed) || strings.Contains(string(list[0].Listed), "X-Trace") {
		t.Errorf("%+v\n%+v", bare, list)
	}
}
