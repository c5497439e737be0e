package hub

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"patchbay/internal/jsonrpc"
	"patchbay/internal/tool"
)

// schema validates arguments or results. A schema that cannot be compiled, or whose compilation
// would be too costly, accepts everything: the provider validates its arguments itself.
type schema struct {
	text     []byte
	simple   *simpleSchema // accepts most arguments; nil if the schema is not a simple one
	once     sync.Once
	compiled *jsonschema.Schema // nil: everything is valid
}

// validator returns the schema compiled by the library. It is compiled on first use, because it
// takes more memory than the rest of a tool.
func (s *schema) validator() *jsonschema.Schema {
	s.once.Do(func() { s.compiled, _ = compile(s.text) })
	return s.compiled
}

// schemas are the schemas in use, by text: devices of the same model share them.
type schemas struct {
	mu     sync.Mutex
	byText map[string]*schema
}

// maxSchemas is the maximum number of shared schemas. Beyond it the map is cleared; schemas in use
// stay valid.
const maxSchemas = 1024

func (s *schemas) of(text []byte) *schema {
	s.mu.Lock()
	defer s.mu.Unlock()
	if found := s.byText[string(text)]; found != nil {
		return found
	}
	if s.byText == nil || len(s.byText) >= maxSchemas {
		s.byText = map[string]*schema{}
	}
	made := &schema{text: text, simple: parseSimpleSchema(text)}
	s.byText[string(text)] = made
	return made
}

// noLoader prevents schemas from referring to files or URLs.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, errors.New("a schema cannot refer to " + url)
}

func compile(text []byte) (*jsonschema.Schema, error) {
	if len(text) == 0 {
		return nil, nil
	}
	var top map[string]any
	if json.Unmarshal(text, &top) == nil && len(top) == 1 && top["type"] == "object" {
		return nil, nil // every call is checked for that anyway
	}
	doc, err := readSchemaDoc(text)
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.UseRegexpEngine(compilePattern)
	c.UseLoader(noLoader{})
	const at = "mem:///arguments.json"
	if err := c.AddResource(at, doc); err != nil {
		return nil, err
	}
	return c.Compile(at)
}

const (
	// maxSchemaShown is the maximum size of a schema that is quoted in an error.
	maxSchemaShown = 2 << 10
	// maxViolationLength is the maximum length of one violation; some of them quote the schema.
	maxViolationLength = 500
	// maxReasons is the maximum number of validation errors that are inspected.
	maxReasons = 200
)

// check validates arguments against the tool's schema. The error describes all violations so that a
// model can correct its call; it is that of ctx if ctx has ended.
func (o *RegisteredTool) check(ctx context.Context, args []byte) error {
	if jsonrpc.Depth(args) > maxArgsDepth {
		return asSentence(errTooDeep)
	}
	m := o.cached()
	m.schemaOnce.Do(func() { m.schema = o.offer.catalog.schemas.of(o.Input) })
	err := m.schema.validate(ctx, args)
	switch {
	case err == nil, err == ctx.Err():
		return err
	case err == errNotJSON:
		return errors.New("the arguments are no JSON")
	}
	failed, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return asSentence(err)
	}
	text := "The arguments do not fit: " + strings.Join(violations(failed, "argument"), "; ") + "."
	if len(o.Input) <= maxSchemaShown {
		text += " The schema is " + string(o.Input)
	}
	return errors.New(text)
}

// checkResult returns the error for a result that the tool's own output schema does not allow.
// Programs that know the schema refuse such a result, and those that do not would take it for one
// that fits. A result that would take too long to check passes.
func (o *RegisteredTool) checkResult(ctx context.Context, res *tool.Result) error {
	switch {
	case res.IsError, res.InputRequired != nil, jsonrpc.Depth(res.Structured) > maxArgsDepth:
		return nil
	case len(res.Structured) == 0: // 2025-06-18 server/tools, "Output Schema"
		return unfitResult("has no structured content, which its output schema demands")
	}
	m := o.cached()
	m.outputOnce.Do(func() { m.output = o.offer.catalog.schemas.of(o.Output) })
	failed, ok := errors.AsType[*jsonschema.ValidationError](m.output.validate(ctx, res.Structured))
	if !ok {
		return nil
	}
	return unfitResult("does not fit its output schema: " + strings.Join(violations(failed, "member"), "; "))
}

func unfitResult(why string) error {
	return tool.Fail(tool.Garbled, "The tool was carried out, but its result "+why+".", nil)
}

var errNotJSON = errors.New("no JSON")

// validate validates a JSON value, which is not nested too deeply. The error is that of the library
// for a violation, that of ctx if ctx has ended, errNotJSON, or says why it would take too long.
func (s *schema) validate(ctx context.Context, text []byte) error {
	if s.simple != nil && s.simple.accepts(text) {
		return nil
	}
	compiled := s.validator()
	if err := ctx.Err(); compiled == nil || err != nil {
		return err
	}
	if valuesIn(text) > maxSteps {
		return errTooCostly
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return errNotJSON
	}
	cost := newMeter(ctx)
	cost.values(v)
	cost.check(compiled, v, 0)
	if cost.err != nil {
		return cost.err
	}
	return compiled.Validate(v)
}

// asSentence formats an error of the cost limits as a sentence.
func asSentence(err error) error {
	return errors.New(strings.ToUpper(err.Error()[:1]) + err.Error()[1:] + ".")
}

// maxViolations is the maximum number of violations in an error.
const maxViolations = 8

var plainEnglish = message.NewPrinter(language.English)

// violations returns the innermost errors of a failed validation, without duplicates. Member is
// what a member of the value is called.
func violations(e *jsonschema.ValidationError, member string) []string {
	var out []string
	reasons := 0
	var walk func(*jsonschema.ValidationError)
	walk = func(e *jsonschema.ValidationError) {
		if reasons++; reasons > maxReasons || len(out) == maxViolations {
			return
		}
		if len(e.Causes) > 0 {
			for _, c := range e.Causes {
				walk(c)
			}
			return
		}
		if text := clip(describeViolation(e, member), maxViolationLength); !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	walk(e)
	return out
}

// describeViolation describes one validation error.
func describeViolation(e *jsonschema.ValidationError, member string) string {
	at := strings.Join(e.InstanceLocation, ".")
	inside := ""
	if at != "" {
		inside = " in " + at
	}
	switch k := e.ErrorKind.(type) {
	case *kind.Required:
		return "missing " + strings.Join(k.Missing, ", ") + inside
	case *kind.AdditionalProperties:
		return "unknown " + member + " " + strings.Join(k.Properties, ", ") + inside
	case *kind.Type:
		return fmt.Sprintf("%s must be %s, not %s", at, strings.Join(k.Want, " or "), k.Got)
	case *kind.Minimum:
		return fmt.Sprintf("%s must be at least %s, not %s", at, decimal(k.Want), decimal(k.Got))
	case *kind.Maximum:
		return fmt.Sprintf("%s must be at most %s, not %s", at, decimal(k.Want), decimal(k.Got))
	case *kind.Enum:
		var want []string
		for _, v := range k.Want {
			text, _ := json.Marshal(v)
			want = append(want, string(text))
		}
		return fmt.Sprintf("%s must be one of %s", at, strings.Join(want, ", "))
	}
	text := e.ErrorKind.LocalizedString(plainEnglish)
	if at != "" {
		text = at + ": " + text
	}
	return text
}

func decimal(r *big.Rat) string {
	if r.IsInt() {
		return r.Num().String()
	}
	f, _ := r.Float64()
	return fmt.Sprint(f)
}
