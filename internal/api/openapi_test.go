package api

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"patchbay/internal/account"
	"patchbay/internal/control"
	"patchbay/internal/hub/hubtest"
	"patchbay/internal/plug/learn"
	"patchbay/internal/store"
)

// described is an API of a board, and its description.
func described(t *testing.T) (*hubtest.Rig, *Server, object) {
	t.Helper()
	r := hubtest.New(t, hubtest.Options{})
	points := learn.New(learn.Options{Store: r.Store})
	socket, err := r.Hub.Register(learn.ProviderRef(), &learn.Provider{Service: points})
	if err != nil {
		t.Fatal(err)
	}
	socket.SetTools(learn.Tools())
	s, err := New(Options{
		Control: control.New(control.Options{
			Hub: r.Hub, Accounts: r.Accounts, Version: "1.2.3", Points: points, ImportSize: 1 << 20,
			Health:   func(store.Bot) control.Health { return control.Health{} },
			Upstream: func(store.Upstream, string) control.UpstreamHealth { return control.UpstreamHealth{} },
			SecretActions: control.SecretActions{State: func() []control.SecretState {
				return []control.SecretState{{ID: "current", Made: time.Now(), Own: true}}
			}},
		}),
		Guard: account.NewGuard(1000, nil), Logger: slog.New(slog.DiscardHandler),
		Address: func(*http.Request) netip.Addr { return netip.MustParseAddr("127.0.0.1") },
	})
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, openAPIPath, nil)) // without a key
	if w.Code != http.StatusOK {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	var doc object
	if err := json.Unmarshal(w.Body.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	return r, s, doc
}

// Every operation is in the description, with what is in its address, and everything
// that the description refers to is in it.
func TestOpenAPI(t *testing.T) {
	_, s, doc := described(t)
	if doc["openapi"] != "3.1.0" || doc["info"].(object)["version"] != "1.2.3" {
		t.Errorf("it is %v of %v", doc["openapi"], doc["info"])
	}
	paths := doc["paths"].(object)
	ids := map[string]bool{}
	for _, o := range s.Operations() {
		path, wildcards := plainPath(o.Path)
		item, _ := paths[path].(object)
		op, ok := item[strings.ToLower(o.Method)].(object)
		if !ok {
			t.Errorf("%s %s is not described", o.Method, o.Path)
			continue
		}
		if o.Summary == "" || strings.HasSuffix(o.Summary, ".") || op["summary"] != o.Summary {
			t.Errorf("%s %s is %q", o.Method, o.Path, op["summary"])
		}
		id := op["operationId"].(string)
		if ids[id] {
			t.Errorf("two operations are called %s", id)
		}
		ids[id] = true
		var inPath []string
		seen := map[string]bool{}
		for _, p := range asList(op["parameters"]) {
			p := p.(object)
			name := p["name"].(string)
			if seen[name] {
				t.Errorf("%s has %s twice", id, name)
			}
			seen[name] = true
			if p["in"] == "path" {
				inPath = append(inPath, name)
				if p["required"] != true {
					t.Errorf("%s need not have %s", id, name)
				}
			}
		}
		slices.Sort(inPath)
		slices.Sort(wildcards)
		if !slices.Equal(inPath, wildcards) {
			t.Errorf("%s declares %q and its address has %q", id, inPath, wildcards)
		}
		if o.Method == http.MethodGet && op["requestBody"] != nil {
			t.Errorf("%s has a body", id)
		}
	}
	references := 0
	var look func(at string, v any)
	look = func(at string, v any) {
		switch v := v.(type) {
		case object:
			if ref, ok := v["$ref"].(string); ok {
				references++
				if _, ok := resolve(doc, ref); !ok {
					t.Errorf("%s refers to %s, which is not there", at, ref)
				}
			}
			for name, x := range v {
				look(at+"/"+name, x)
			}
		case []any:
			for _, x := range v {
				look(at, x)
			}
		}
	}
	look("", doc)
	if references < 50 {
		t.Errorf("only %d references were found", references)
	}
}

func asList(v any) []any {
	list, _ := v.([]any)
	return list
}

func resolve(doc object, ref string) (any, bool) {
	var at any = doc
	for name := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
		o, ok := at.(object)
		if !ok {
			return nil, false
		}
		if at, ok = o[name]; !ok {
			return nil, false
		}
	}
	return at, true
}

// The schemas are JSON schemas, and what is answered fits them.
func TestAnswersFitTheirSchemas(t *testing.T) {
	r, s, doc := described(t)
	c := jsonschema.NewCompiler()
	if err := c.AddResource("patchbay.json", any(doc)); err != nil {
		t.Fatal(err)
	}
	for name := range doc["components"].(object)["schemas"].(object) {
		if _, err := c.Compile("patchbay.json#/components/schemas/" + name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	r.Add(t, "script", nil)
	key := r.Key(t, account.NewKey{Scopes: []string{account.ScopeAdmin}})
	looked := 0
	for _, o := range s.Operations() {
		if o.Method != http.MethodGet || strings.Contains(o.Path, "{") || o.Kind != "" || o.Path == openAPIPath ||
			slices.Contains([]string{"/api/v1/nodes", "/api/v1/pairs", "/api/v1/pairs/devices", "/api/v1/voice/engines",
				"/api/v1/voice/kinds", "/api/v1/voice/services", "/api/v1/voice/usage"}, o.Path) {
			continue
		}
		path := strings.ReplaceAll(strings.ReplaceAll(o.Path, "~", "~0"), "/", "~1")
		schema, err := c.Compile("patchbay.json#/paths/" + path + "/get/responses/200/content/application~1json/schema")
		if err != nil {
			t.Errorf("%s: %v", o.Path, err)
			continue
		}
		req := httptest.NewRequest(o.Method, o.Path, nil)
		req.Header.Set("Authorization", "Bearer "+key)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, req)
		if w.Code != http.StatusOK {
			if w.Code >= 500 {
				t.Errorf("%s: %d %s", o.Path, w.Code, w.Body)
			}
			continue // the rig has no such part
		}
		answer, err := jsonschema.UnmarshalJSON(w.Body)
		if err != nil {
			t.Errorf("%s: %v", o.Path, err)
			continue
		}
		looked++
		if err := schema.Validate(answer); err != nil {
			t.Errorf("%s: %v", o.Path, err)
		}
	}
	if looked < 10 {
		t.Errorf("only %d answers were looked at", looked)
	}
}

// The same program describes itself with the same bytes.
func TestOpenAPIStaysTheSame(t *testing.T) {
	_, s, _ := described(t)
	if !bytes.Equal(openAPI("1", "", s.Operations()), openAPI("1", "", s.Operations())) {
		t.Error("twice is not the same")
	}
}

// Nothing is answered that is not described: only those who describe add handlers.
func TestEveryHandlerIsDescribed(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	adds := regexp.MustCompile(`mux\.Handle(Func)?\(`)
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if f != "op.go" && f != "openapi.go" && !strings.HasSuffix(f, "_test.go") && adds.Match(text) {
			t.Errorf("%s adds a handler by itself; use operate or document", f)
		}
	}
}

// What a type is in Go is what a client is told.
func TestSchemas(t *testing.T) {
	type inner struct {
		ID   string `json:"id"`
		Name string `json:"name"`
	}
	type outer struct {
		inner
		Name  int      `json:"name,omitempty"`
		In    string   `path:"in" json:"-"`
		List  []string `json:"list"`
		Data  []byte   `json:"data,omitempty"`
		Self  *outer   `json:"self,omitempty"`
		Big   int64    `json:"big,string,omitempty"`
		Never string   `json:"-"`
	}
	d := description{schemas: object{}, names: map[reflect.Type]string{}}
	got, err := json.Marshal(d.properties(reflect.TypeFor[outer]()))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"properties":{"big":{"type":"string"},"data":{"contentEncoding":"base64","type":"string"},"id":{"type":"string"},` +
		`"list":{"anyOf":[{"items":{"type":"string"},"type":"array"},{"type":"null"}]},"name":{"type":"integer"},"self":{"$ref":"#/components/schemas/Outer"}},` +
		`"required":["list","id"],"type":"object"}`
	if string(got) != want {
		t.Errorf("got\n%s, want\n%s", got, want)
	}
}
