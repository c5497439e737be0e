package test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"patchbay/internal/store"
)

// openAPICheck validates documents with a third-party program against the official schema of
// OpenAPI 3.1, and returns the errors of each.
func openAPICheck(t *testing.T, documents ...[]byte) [][]string {
	t.Helper()
	lack := func(what string) {
		if os.Getenv("CI") == "true" {
			t.Fatal(what)
		}
		t.Skip(what)
	}
	node, err := exec.LookPath("node")
	if err != nil {
		lack("node is not installed; it runs the program of test/peers/openapi")
	}
	if _, err := os.Stat(filepath.Join("peers", "openapi", "node_modules", ".package-lock.json")); err != nil {
		lack("run `npm ci` in test/peers/openapi to check the description of the API against the official schema")
	}
	var in bytes.Buffer
	for _, d := range documents {
		must(t, json.Compact(&in, d)) // one line each
		in.WriteByte('\n')
	}
	cmd := exec.CommandContext(t.Context(), node, "check.mjs")
	cmd.Dir = filepath.Join("peers", "openapi")
	cmd.Stdin = &in
	var wrong bytes.Buffer
	cmd.Stderr = &wrong
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, wrong.String())
	}
	var complaints [][]string
	for line := range strings.Lines(string(out)) {
		var list []string
		must(t, json.Unmarshal([]byte(line), &list))
		complaints = append(complaints, list)
	}
	if len(complaints) != len(documents) {
		t.Fatalf("of %d documents %d were checked: %s", len(documents), len(complaints), wrong.String())
	}
	return complaints
}

// The server's API description is valid OpenAPI 3.1, its schemas are JSON Schemas, and its
// references resolve. Broken copies are detected.
func TestOpenAPIFitsItsSchema(t *testing.T) {
	p := newInstallation(store.Options{Folder: t.TempDir()})
	status, text := get(t, p.serve(t, "--demo").url+"/api/v1/openapi.json")
	if status != http.StatusOK {
		t.Fatalf("%d: %s", status, text)
	}
	type object = map[string]any
	at := func(v any, names ...string) object {
		for _, name := range names {
			v = v.(object)[name]
		}
		return v.(object)
	}
	breaks := []struct {
		name string
		do   func(doc object)
	}{
		{"a document of another version", func(doc object) { doc["openapi"] = "3.0.0" }},
		{"an API without a title", func(doc object) { delete(at(doc, "info"), "title") }},
		{"a path that is none", func(doc object) { at(doc, "paths")["bots"] = object{} }},
		{"a parameter of nowhere", func(doc object) {
			at(doc, "paths", "/api/v1/bots/{bot}", "get")["parameters"].([]any)[0].(object)["in"] = "body"
		}},
		{"an answer without a description", func(doc object) {
			delete(at(doc, "paths", "/api/v1/bots", "get", "responses", "200"), "description")
		}},
		{"a status that is none", func(doc object) {
			at(doc, "paths", "/api/v1/bots", "get", "responses")["fine"] = object{"description": "x"}
		}},
		{"a schema that is none", func(doc object) { at(doc, "components", "schemas", "Error")["type"] = "thing" }},
		{"a reference to nothing", func(doc object) { delete(at(doc, "components", "schemas"), "Error") }},
	}
	documents := [][]byte{[]byte(text)}
	for _, b := range breaks {
		var doc object
		must(t, json.Unmarshal([]byte(text), &doc))
		b.do(doc)
		broken, err := json.Marshal(doc)
		must(t, err)
		documents = append(documents, broken)
	}
	for i, complaints := range openAPICheck(t, documents...) {
		switch {
		case i == 0 && len(complaints) > 0:
			t.Errorf("the description is wrong:\n%s", strings.Join(complaints, "\n"))
		case i > 0 && len(complaints) == 0:
			t.Errorf("%s passes", breaks[i-1].name)
		}
	}
}
