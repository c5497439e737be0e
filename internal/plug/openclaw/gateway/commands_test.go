package gateway

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"patchbay/internal/plug/openclaw/wire"
)

// Every command that a gateway allows to some node is described, and the examples in its
// description fit its schema.
func TestKnownCommands(t *testing.T) {
	all := slices.Concat(wire.KnownCommands(), []string{"dir.list", "file.fetch", "mcp.tools.call"})
	for _, command := range all {
		t.Run(command, func(t *testing.T) {
			made := commandTool(command)
			if _, known := knownCommands[command]; !known || len(made.Description) < 15 {
				t.Fatalf("described as %q", made.Description)
			}
			schema := compiled(t, made.Input)
			if schema.AdditionalProperties != nil {
				t.Error("other parameters are refused, which newer nodes may have")
			}
			if err := schema.Validate(map[string]any{}); (err != nil) != (len(schema.Required) > 0) {
				t.Errorf("without parameters: %v", err)
			}
			_, examples, _ := strings.Cut(made.Description, "Example")
			if _, inner, ofAction := strings.Cut(examples, "of action:"); ofAction {
				schema, examples = schema.Properties["action"], inner
			}
			n := 0
			for rest := examples; ; n++ {
				at := strings.IndexByte(rest, '{')
				if at < 0 {
					break
				}
				dec := json.NewDecoder(strings.NewReader(rest[at:]))
				var example any
				if err := dec.Decode(&example); err != nil {
					t.Fatalf("an example is no JSON: %v in %s", err, rest[at:])
				}
				if err := schema.Validate(example); err != nil {
					t.Errorf("an example does not fit: %v", err)
				}
				rest = rest[at+int(dec.InputOffset()):]
			}
			if len(schema.Required) > 0 && n == 0 && !slices.Contains(withoutExample, command) {
				t.Error("has no example")
			}
			h := made.Hints
			if !slices.Contains(hiddenCommands, command) && h.ReadOnly == nil {
				t.Error("has no hint about what it changes")
			}
			if h.Destructive != nil && *h.Destructive && !made.Dangerous {
				t.Error("may destroy something, and is not dangerous")
			}
		})
	}
	if made := commandTool("kitchen.echo"); string(made.Input) != string(anyObject) || made.Hints.ReadOnly != nil {
		t.Errorf("an unknown command is described: %+v", made)
	}
}

// withoutExample are commands whose parameters only programs have.
var withoutExample = []string{"system.execApprovals.set", "terminal.upload", "camera.ptz.status"}

func compiled(t *testing.T, text []byte) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("mem:///params.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("mem:///params.json")
	if err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return s
}
