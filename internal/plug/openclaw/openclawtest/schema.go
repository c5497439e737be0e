package openclawtest

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Schema checks JSON with the schema that OpenClaw publishes (npm package
// @openclaw/gateway-protocol). It is safe for concurrent use.
type Schema struct {
	mu       sync.Mutex
	compiler *jsonschema.Compiler
}

const schemaURL = "https://openclaw.ai/protocol.schema.json"

// LoadSchema reads the schema. If it is not installed, the test is skipped.
func LoadSchema(t testing.TB) *Schema {
	t.Helper()
	path := filepath.Join(peersFolder(t), "node_modules", "@openclaw", "gateway-protocol", "protocol.schema.json")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	s := &Schema{compiler: jsonschema.NewCompiler()}
	s.compiler.DefaultDraft(jsonschema.Draft7)
	s.compiler.UseRegexpEngine(compilePattern)
	if err := s.compiler.AddResource(schemaURL, doc); err != nil {
		t.Fatal(err)
	}
	return s
}

// compilePattern compiles a regular expression. Go does not support some of those for approvals,
// skills and updates; they match everything here.
func compilePattern(spelled string) (jsonschema.Regexp, error) {
	if p, err := regexp.Compile(spelled); err == nil {
		return p, nil
	}
	return regexp.MustCompile(""), nil
}

// Check returns the errors in a value of a definition such as ConnectParams, or nil. If the
// definition does not exist, the test fails.
func (s *Schema) Check(t testing.TB, definition string, value []byte) error {
	t.Helper()
	s.mu.Lock()
	schema, err := s.compiler.Compile(schemaURL + "#/definitions/" + definition)
	s.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(value))
	if err != nil {
		return err
	}
	return schema.Validate(v)
}

// Validation is a value for one of OpenClaw's own validators, which the definition names:
// ConnectParams, RequestFrame.
type Validation struct {
	Check string          `json:"check"`
	Value json.RawMessage `json:"value"`
}

// ValidationErrors returns the error messages of OpenClaw's own validators for values, "" for valid
// ones.
func ValidationErrors(t testing.TB, questions []Validation) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Timeout)
	defer cancel()
	var in bytes.Buffer
	for _, q := range questions {
		data, err := json.Marshal(q) // on one line
		if err != nil {
			t.Fatal(err)
		}
		in.Write(append(data, '\n'))
	}
	cmd := exec.CommandContext(ctx, Node(t), filepath.Join(peersFolder(t), "validate.mjs"))
	cmd.Stdin = &in
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("validate.mjs: %v\n%s", err, complaints.Bytes())
	}
	var sentences []string
	for line := range bytes.Lines(out) {
		var s string
		if err := json.Unmarshal(line, &s); err != nil {
			t.Fatalf("validate.mjs says %s", line)
		}
		sentences = append(sentences, s)
	}
	if len(sentences) != len(questions) {
		t.Fatalf("validate.mjs has %d answers to %d questions", len(sentences), len(questions))
	}
	return sentences
}
