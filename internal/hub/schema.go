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
)

// schema checks arguments. One that cannot be compiled, or would take too long to be,
// checks nothing, since its provider will check for itself.
type schema struct {
	text     []byte
	simple   *simpleSchema // approves of most arguments; nil if the schema is no simple one
	once     sync.Once
	compiled *jsonschema.Schema // nil: everything fits
}

// validator is the schema as the library has it. It is compiled when somebody asks:
// it takes more memory than all else about a tool.
func (s *schema) validator() *jsonschema.Schema {
	s.once.Do(func() { s.compiled, _ = compile(s.text) })
	return s.compiled
}

// schemas are those in use, by their text: devices of one make have the same.
type schemas struct {
	mu     sync.Mutex
	byText map[string]*schema
}

// maxSchemas bounds how many schemas are shared; beyond it all are forgotten,
// and live on where they are in use.
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

// noLoader keeps schemas from naming files or addresses for us to read.
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
		return nil, nil // says no more than what every call is checked for
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
	// maxSchemaShown is the largest schema that a refused caller is shown.
	maxSchemaShown = 2 << 10
	// maxViolationLength is how long one reason may be: some of them quote the schema.
	maxViolationLength = 500
	// maxReasons is how many reasons are looked through for those that are told.
	maxReasons = 200
)

// check finds out whether arguments fit the tool's schema. The error says what
// is wrong in words from which a model can repair its call; it is that of ctx if that
// has ended.
func (o *RegisteredTool) check(ctx context.Context, args []byte) error {
	if jsonrpc.Depth(args) > maxArgsDepth {
		return asSentence(errTooDeep)
	}
	m := o.cached()
	m.schemaOnce.Do(func() { m.schema = o.offer.catalog.schemas.of(o.Input) })
	if m.schema.simple != nil && m.schema.simple.accepts(args) {
		return nil
	}
	s := m.schema.validator()
	if s == nil {
		return ctx.Err()
	}
	dec := json.NewDecoder(bytes.NewReader(args))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return errors.New("the arguments are no JSON")
	}
	cost := newMeter(ctx)
	cost.values(v)
	cost.check(s, v, 0)
	switch {
	case cost.err != nil && cost.err == ctx.Err():
		return cost.err
	case cost.err != nil:
		return asSentence(cost.err)
	}
	err := s.Validate(v)
	if err == nil {
		return nil
	}
	failed, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return errors.New("the arguments do not fit the schema")
	}
	text := "The arguments do not fit: " + strings.Join(violations(failed), "; ") + "."
	if len(o.Input) <= maxSchemaShown {
		text += " The schema is " + string(o.Input)
	}
	return errors.New(text)
}

// asSentence is why arguments are refused that were not looked at more closely.
func asSentence(err error) error {
	return errors.New(strings.ToUpper(err.Error()[:1]) + err.Error()[1:] + ".")
}

// maxViolations is how many things a caller is told at once.
const maxViolations = 8

var plainEnglish = message.NewPrinter(language.English)

// violations are the innermost reasons of a failed validation, one for each
// place.
func violations(e *jsonschema.ValidationError) []string {
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
		if text := clip(describeViolation(e), maxViolationLength); !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	walk(e)
	return out
}

// describeViolation says what is wrong at one place.
func describeViolation(e *jsonschema.ValidationError) string {
	at := strings.Join(e.InstanceLocation, ".")
	inside := ""
	if at != "" {
		inside = " in " + at
	}
	switch k := e.ErrorKind.(type) {
	case *kind.Required:
		return "missing " + strings.Join(k.Missing, ", ") + inside
	case *kind.AdditionalProperties:
		return "unknown argument " + strings.Join(k.Properties, ", ") + inside
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
