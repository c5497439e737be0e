package hub

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"regexp/syntax"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"patchbay/internal/jsonrpc"
)

// The library can be interrupted neither while it compiles a schema nor while it validates
// arguments. So the cost of both is bounded in advance: each takes less than 50 ms of a processor.
const (
	// maxSchemaSize, maxSchemaDepth and maxSchemaValues bound schemas: compilation compares each
	// part with all others.
	maxSchemaSize, maxSchemaDepth, maxSchemaValues = 128 << 10, 64, 2000
	// maxPattern is the maximum length of a regular expression, and maxProgram the maximum number
	// of its instructions.
	maxPattern, maxProgram = 1 << 10, 2000
	// maxArgsDepth is the maximum nesting of arguments. Parsers of other programs stop at 64
	// levels.
	maxArgsDepth = 64
	// maxDigits is the maximum length of a number, and maxExponent the maximum of its exponent:
	// numbers are compared exactly, and a short text can stand for a million digits.
	maxDigits, maxExponent = 400, 400
	// maxSteps is the maximum cost of a check: 5,000 values against 20 rules. It is the maximum
	// number of values, too.
	maxSteps = 100_000
	// maxChain is the maximum number of nested schemas that apply to one value.
	maxChain = 128
	// bytesPerStep is the number of bytes of a string that take as long as one step.
	bytesPerStep = 64
	// digitsPerStep is the same for a number that is compared with a bound.
	digitsPerStep = 20
	// ctxCheckSteps is the number of steps between two checks of the context.
	ctxCheckSteps = 4096
)

var (
	errTooCostly       = errors.New("the arguments would take too long to check against the schema of this tool")
	errTooDeep         = fmt.Errorf("the arguments are nested more than %d levels deep", maxArgsDepth)
	errNumberTooLong   = errors.New("the arguments hold a number that is too long")
	errSchemaTooLarge  = errors.New("the schema is too large to be compiled")
	errDynamicRef      = errors.New("the schema refers to what is only known while it is used")
	errPatternTooLarge = errors.New("the regular expression is too large")
)

// readSchemaDoc parses a schema, unless its compilation would be too costly.
func readSchemaDoc(text []byte) (any, error) {
	if len(text) > maxSchemaSize || jsonrpc.Depth(text) > maxSchemaDepth {
		return nil, errSchemaTooLarge
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	values := 0
	var walk func(v any) error
	walk = func(v any) error {
		if values++; values > maxSchemaValues {
			return errSchemaTooLarge
		}
		switch v := v.(type) {
		case map[string]any:
			for key, inner := range v {
				// JSON Schema core, 2020-12 §8.2.3.2 and 2019-09 §8.2.4.2.
				if key == "$dynamicRef" || key == "$recursiveRef" {
					return errDynamicRef
				}
				if err := walk(inner); err != nil {
					return err
				}
			}
		case []any:
			for _, inner := range v {
				if err := walk(inner); err != nil {
					return err
				}
			}
		case json.Number:
			if !isExact(v) {
				return errNumberTooLong
			}
		}
		return nil
	}
	return doc, walk(doc)
}

// valuesIn returns at least the number of values in a JSON text, and at most twice as many: parsing
// them may cost more than checking them.
func valuesIn(text []byte) int {
	n := 1
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			for i++; i < len(text) && text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
		case ',', '[', '{':
			n++
		}
	}
	return n
}

// isExact reports whether a number is short enough to be compared exactly.
func isExact(n json.Number) bool { return len(n) <= maxDigits && digits(n) <= len(n)+maxExponent }

// digits returns about how many digits a number has without an exponent.
func digits(n json.Number) int {
	_, exponent, _ := strings.Cut(strings.ToLower(string(n)), "e")
	e := 0
	for _, c := range strings.TrimLeft(exponent, "+-") {
		if e = e*10 + int(c-'0'); e > maxExponent {
			break
		}
	}
	return len(n) + e
}

// pattern is a regular expression with its number of instructions.
type pattern struct {
	*regexp.Regexp
	program int
}

// compilePattern is the regular expression engine for the library.
func compilePattern(text string) (jsonschema.Regexp, error) {
	if len(text) > maxPattern {
		return nil, errPatternTooLarge
	}
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, err
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return nil, err
	}
	if len(program.Inst) > maxProgram {
		return nil, errPatternTooLarge
	}
	compiled, err := regexp.Compile(text)
	if err != nil {
		return nil, err
	}
	return &pattern{compiled, len(program.Inst)}, nil
}

// meter estimates the library's cost of a validation in steps, each of which is one schema applied
// to one value. It follows the same paths without shortcuts, so that it never underestimates. err
// is the reason why it stopped.
type meter struct {
	ctx  context.Context
	left int
	next int // value of left at which the context is checked next
	err  error
}

func newMeter(ctx context.Context) *meter {
	return &meter{ctx: ctx, left: maxSteps, next: maxSteps}
}

// spend adds steps, and reports whether the meter continues.
func (m *meter) spend(steps int) bool {
	m.left -= steps
	switch {
	case m.err != nil:
	case m.left < 0:
		m.err = errTooCostly
	case m.left < m.next:
		m.next = m.left - ctxCheckSteps
		m.err = m.ctx.Err()
	}
	return m.err == nil
}

// values returns the number of values within a value.
func (m *meter) values(v any) (n int) {
	if !m.spend(1) {
		return 0
	}
	n = 1
	switch v := v.(type) {
	case map[string]any:
		for _, inner := range v {
			n += m.values(inner)
		}
	case []any:
		for _, inner := range v {
			n += m.values(inner)
		}
	case json.Number:
		if !isExact(v) {
			m.err = errNumberTooLong
		}
	case string:
		m.spend(len(v) / bytesPerStep)
	}
	return n
}

// check adds the cost of a schema for a value. chain is the number of outer schemas for the same
// value.
func (m *meter) check(s *jsonschema.Schema, v any, chain int) {
	if s == nil || !m.spend(1+chain/8) || s.Bool != nil {
		return
	}
	if chain > maxChain {
		m.err = errTooCostly
		return
	}
	if s.Types != nil && !s.Types.IsEmpty() && *s.Types&typeSet(v) == 0 {
		m.spend(1) // for the error
		return
	}
	if s.Const != nil {
		m.values(v)
	}
	if s.Enum != nil && m.spend(len(s.Enum.Values)) {
		m.spend(len(s.Enum.Values) / 2 * (m.values(v) - 1))
	}
	for _, list := range [][]*jsonschema.Schema{{s.Ref, s.Not, s.If, s.Then, s.Else}, s.AllOf, s.AnyOf, s.OneOf} {
		m.checkAll(list, v, chain+1)
	}
	switch v := v.(type) {
	case map[string]any:
		m.object(s, v, chain)
	case []any:
		m.array(s, v)
	case json.Number:
		for _, bound := range []*big.Rat{s.Minimum, s.Maximum, s.ExclusiveMinimum, s.ExclusiveMaximum, s.MultipleOf} {
			if bound != nil {
				bits := bound.Num().BitLen() + bound.Denom().BitLen()
				m.spend(1 + (digits(v)+bits/3)/digitsPerStep)
			}
		}
	case string:
		m.text(s.Pattern, v)
		if s.MinLength != nil || s.MaxLength != nil {
			m.spend(len(v) / bytesPerStep / 4)
		}
		if s.Format != nil {
			m.spend(len(v) / bytesPerStep)
		}
		if s.Format != nil && s.Format.Name == "regex" {
			m.spend(maxProgram)
		}
	}
}

func (m *meter) checkAll(list []*jsonschema.Schema, v any, chain int) {
	for _, s := range list {
		m.check(s, v, chain)
	}
}

func (m *meter) text(p jsonschema.Regexp, s string) {
	if p, ok := p.(*pattern); ok {
		m.spend(p.program * (1 + len(s)) / bytesPerStep)
	}
}

func (m *meter) object(s *jsonschema.Schema, object map[string]any, chain int) {
	if !m.spend(len(object)+len(s.Required)/4) || s.UnevaluatedProperties != nil && !m.spend(len(object)) {
		return
	}
	for _, needed := range s.DependentRequired {
		m.spend(1 + len(needed)/4)
	}
	for _, then := range s.DependentSchemas {
		m.check(then, object, chain+1)
	}
	for _, then := range s.Dependencies {
		switch then := then.(type) {
		case []string:
			m.spend(1 + len(then)/4)
		case *jsonschema.Schema:
			m.check(then, object, chain+1)
		}
	}
	more, _ := s.AdditionalProperties.(*jsonschema.Schema)
	for name, v := range object {
		if m.err != nil {
			return
		}
		m.checkAll([]*jsonschema.Schema{s.Properties[name], more, s.UnevaluatedProperties}, v, 0)
		m.check(s.PropertyNames, name, 0)
		for p, s := range s.PatternProperties {
			m.spend(1)
			m.text(p, name)
			m.check(s, v, 0)
		}
	}
}

func (m *meter) array(s *jsonschema.Schema, array []any) {
	if !m.spend(len(array)) {
		return
	}
	if s.UniqueItems {
		n := m.values(array)
		m.spend(n * min(len(array), 20))
	}
	every, _ := s.Items.(*jsonschema.Schema)
	more, _ := s.AdditionalItems.(*jsonschema.Schema)
	first, _ := s.Items.([]*jsonschema.Schema)
	if first == nil {
		first = s.PrefixItems
	}
	for i, v := range array {
		if m.err != nil {
			return
		}
		if i < len(first) {
			m.check(first[i], v, 0)
		}
		m.checkAll([]*jsonschema.Schema{every, more, s.Items2020, s.Contains, s.UnevaluatedItems}, v, 0)
	}
}

// typeSet returns the JSON types of a value. A number may be an integer too.
func typeSet(v any) (t jsonschema.Types) {
	switch v.(type) {
	case nil:
		t.Add("null")
	case bool:
		t.Add("boolean")
	case json.Number:
		t.Add("number")
		t.Add("integer")
	case string:
		t.Add("string")
	case []any:
		t.Add("array")
	case map[string]any:
		t.Add("object")
	}
	return t
}
