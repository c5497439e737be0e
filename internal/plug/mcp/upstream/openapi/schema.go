package openapi

import (
	"encoding/json"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const (
	// maxSchemaCost limits the values of one schema, where a long text counts as several. It is
	// below what the arguments of a call can be checked against.
	maxSchemaCost = 3000
	// maxInlineCost limits a schema without references: models read those best, but what is used
	// in many places would be repeated.
	maxInlineCost = 600
	// maxSchemaDepth limits the nesting of a schema.
	maxSchemaDepth = 24
	// maxSchemaText limits the texts within a schema, in bytes.
	maxSchemaText = 1000
	// bytesPerValue is how much text counts as one value.
	bytesPerValue = 64
	// maxPattern limits a regular expression, in bytes.
	maxPattern = 500
)

var (
	errCost   = errors.New("a schema that is too large")
	errSchema = errors.New("a schema that cannot be read")
)

// purpose is what a schema is for.
type purpose int

const (
	// forInput leaves out what only responses have.
	forInput purpose = iota
	// forOutput describes without demanding anything: what servers answer is rarely as strict as
	// their documents, and a program may refuse a result that breaks its schema.
	forOutput
)

// converter makes JSON Schema 2020-12 of schemas of a document: OpenAPI 3.0 has its own dialect.
type converter struct {
	d      *Document
	use    purpose
	inline bool
	left   int      // of the cost
	work   *int     // left for the whole document
	stack  []string // references in progress
	names  map[string]string
	defs   map[string]any
	queue  []string
}

// schema converts a schema, without references if it is small enough, and returns definitions that
// it refers to as #/$defs/NAME.
func (d *Document) schema(v any, use purpose, work *int) (out any, defs map[string]any, err error) {
	for _, c := range []*converter{{inline: true, left: maxInlineCost}, {left: maxSchemaCost}} {
		c.d, c.use, c.work = d, use, work
		c.names, c.defs = map[string]string{}, map[string]any{}
		if out, err = c.convert(v, 0); err == nil {
			err = c.define()
		}
		if err == nil {
			return out, c.defs, nil
		}
		if !errors.Is(err, errCost) && !errors.Is(err, errDeep) {
			return nil, nil, err
		}
	}
	return nil, nil, err
}

// define converts the definitions that are referred to.
func (c *converter) define() error {
	for len(c.queue) > 0 {
		ref := c.queue[0]
		c.queue = c.queue[1:]
		target, err := c.d.lookUp(ref)
		if err != nil {
			return err
		}
		c.stack = []string{ref}
		if c.defs[c.names[ref]], err = c.convert(target, 1); err != nil {
			return err
		}
	}
	return nil
}

func (c *converter) spend(n int) error {
	c.left -= n
	if *c.work -= n; c.left < 0 || *c.work < 0 {
		return errCost
	}
	return nil
}

func (c *converter) convert(v any, depth int) (any, error) {
	if depth > maxSchemaDepth {
		return nil, errDeep
	}
	if err := c.spend(1); err != nil {
		return nil, err
	}
	if b, ok := v.(bool); ok {
		return b || c.use == forOutput, nil
	}
	m := object(v)
	if m == nil {
		return nil, errSchema
	}
	if ref, ok := m["$ref"].(string); ok {
		return c.reference(ref, m, depth)
	}
	out := map[string]any{}
	c.types(m, out, depth)
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if err := c.keyword(name, m, out, depth); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// reference converts a reference: to what it leads to, or to one of a definition.
func (c *converter) reference(ref string, m map[string]any, depth int) (any, error) {
	target, err := c.d.lookUp(ref)
	if err != nil {
		return nil, err
	}
	var out any
	if c.inline && !slices.Contains(c.stack, ref) {
		c.stack = append(c.stack, ref)
		if out, err = c.convert(target, depth+1); err != nil {
			return nil, err
		}
		c.stack = c.stack[:len(c.stack)-1]
	} else {
		out = map[string]any{"$ref": "#/$defs/" + c.name(ref)}
	}
	if about := textOf(m["description"]); about != "" && object(out) != nil {
		object(out)["description"] = clip(about, maxSchemaText)
	}
	return out, nil
}

// name returns the name of a definition, which is converted later.
func (c *converter) name(ref string) string {
	if name, ok := c.names[ref]; ok {
		return name
	}
	base := toName(ref[strings.LastIndexByte(ref, '/')+1:], 60)
	name := base
	for i := 2; slices.Contains(slices.Collect(maps.Values(c.names)), name); i++ {
		name = base + "_" + strconv.Itoa(i)
	}
	c.names[ref] = name
	c.queue = append(c.queue, ref)
	return name
}

var typeNames = []string{"null", "boolean", "object", "array", "number", "integer", "string"}

// types converts type and nullable.
func (c *converter) types(m, out map[string]any, depth int) {
	var list []any
	switch t := m["type"].(type) {
	case string:
		list = []any{t}
	case []any:
		list = t
	}
	var known []any
	for _, t := range list {
		if slices.Contains(typeNames, textOf(t)) && !slices.Contains(known, t) {
			known = append(known, t)
		}
	}
	// What is not known is null with many servers, whatever their documents say.
	mayBeNull := isTrue(m["nullable"]) || c.use == forOutput && depth > 0
	if len(known) > 0 && mayBeNull && !slices.Contains(known, any("null")) {
		known = append(known, "null")
	}
	switch len(known) {
	case 0:
	case 1:
		out["type"] = known[0]
	default:
		out["type"] = known
	}
}

// keywordKind is how the value of a keyword is converted.
type keywordKind int

const (
	keepText keywordKind = iota + 1
	keepNumber
	keepCount
	keepFlag
	keepValue
	keepSchema
	keepSchemas
	keepProperties
	special
)

// keywords are those of JSON Schema that are kept, and demands those that only inputs have.
var (
	keywords = map[string]keywordKind{
		"title": keepText, "description": keepText, "items": keepSchema, "prefixItems": keepSchemas,
		"properties": keepProperties, "additionalProperties": keepSchema, "allOf": keepSchemas, "anyOf": keepSchemas,
		"oneOf": special,
	}
	demands = map[string]keywordKind{
		"format": keepText, "contentEncoding": keepText, "contentMediaType": keepText, "deprecated": keepFlag,
		"multipleOf": keepNumber, "maximum": special, "minimum": special, "exclusiveMaximum": special,
		"exclusiveMinimum": special, "maxLength": keepCount, "minLength": keepCount, "maxItems": keepCount,
		"minItems": keepCount, "maxProperties": keepCount, "minProperties": keepCount, "uniqueItems": keepFlag,
		"pattern": special, "enum": special, "const": keepValue, "default": keepValue, "required": special,
		"not": keepSchema, "if": keepSchema, "then": keepSchema, "else": keepSchema, "contains": keepSchema,
		"propertyNames": keepSchema,
	}
)

// keyword converts one keyword. One whose value has the wrong type is left out.
func (c *converter) keyword(name string, m, out map[string]any, depth int) (err error) {
	kind := keywords[name]
	if kind == 0 && c.use == forInput {
		kind = demands[name]
	}
	v := m[name]
	switch kind {
	case keepText:
		if text, ok := v.(string); ok && text != "" {
			text = clip(text, maxSchemaText)
			out[name], err = text, c.spend(len(text)/bytesPerValue)
		}
	case keepNumber:
		if n, ok := v.(json.Number); ok && len(n) < 30 && !strings.HasPrefix(n.String(), "-") && n != "0" {
			out[name] = n
		}
	case keepCount:
		if n, err := strconv.ParseUint(numberText(v), 10, 31); err == nil {
			out[name] = n
		}
	case keepFlag:
		if isTrue(v) {
			out[name] = true
		}
	case keepValue:
		out[name], err = v, c.spend(cost(v))
	case keepSchema:
		out[name], err = c.convert(v, depth+1)
	case keepSchemas:
		err = c.list(name, v, out, depth)
	case keepProperties:
		err = c.properties(object(v), out, depth)
	case special:
		err = c.specialKeyword(name, m, out, depth)
	}
	return err
}

func numberText(v any) string {
	n, _ := v.(json.Number)
	return n.String()
}

func (c *converter) list(as string, v any, out map[string]any, depth int) error {
	list, _ := v.([]any)
	var converted []any
	for _, one := range list {
		s, err := c.convert(one, depth+1)
		if err != nil {
			return err
		}
		converted = append(converted, s)
	}
	if len(converted) > 0 {
		out[as] = converted
	}
	return nil
}

func (c *converter) properties(all, out map[string]any, depth int) error {
	list := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if err := c.spend(1); err != nil {
			return err
		}
		if c.omits(all[name]) {
			continue
		}
		s, err := c.convert(all[name], depth+1)
		if err != nil {
			return err
		}
		if err := c.spend(len(name) / bytesPerValue); err != nil {
			return err
		}
		list[name] = s
	}
	out["properties"] = list
	return nil
}

// omits reports whether a property is not part of inputs, or of outputs (OAS "Schema Object",
// readOnly and writeOnly).
func (c *converter) omits(property any) bool {
	m, err := c.d.resolve(property)
	return err == nil && (c.use == forInput && isTrue(m["readOnly"]) || c.use == forOutput && isTrue(m["writeOnly"]))
}

func (c *converter) specialKeyword(name string, m, out map[string]any, depth int) error {
	switch v := m[name]; name {
	case "oneOf":
		as := name
		if c.use == forOutput {
			as = "anyOf" // without demands, several may fit
			if m["anyOf"] != nil {
				return nil
			}
		}
		return c.list(as, v, out, depth)
	case "enum":
		list, _ := v.([]any)
		if isTrue(m["nullable"]) && !slices.Contains(list, nil) {
			list = append(slices.Clone(list), nil)
		}
		if len(list) > 0 {
			out[name] = list
			return c.spend(cost(list))
		}
	case "required":
		c.required(m, out)
	case "pattern":
		if text := textOf(v); text != "" && len(text) <= maxPattern {
			if _, err := regexp.Compile(text); err == nil {
				out[name] = text
			}
		}
	default:
		limits(name, m, out)
	}
	return nil
}

// limits converts the limits of numbers: in 3.0, exclusiveMaximum and exclusiveMinimum are true or
// false (JSON Schema draft 5).
func limits(name string, m, out map[string]any) {
	n := numberText(m[name])
	if n == "" || len(n) > 30 {
		return
	}
	if exclusive := "exclusiveM" + name[1:]; isTrue(m[exclusive]) {
		name = exclusive
	}
	out[name] = json.Number(n)
}

// required keeps the names of properties that an input has.
func (c *converter) required(m, out map[string]any) {
	list, _ := m["required"].([]any)
	properties := object(m["properties"])
	var names []any
	for _, v := range list {
		name, ok := v.(string)
		if p, has := properties[name]; ok && !slices.Contains(names, v) && (!has || !c.omits(p)) {
			names = append(names, name)
		}
	}
	if len(names) > 0 && c.spend(len(names)) == nil {
		out["required"] = names
	}
}

// cost returns how much a value counts.
func cost(v any) int {
	n := 1
	switch v := v.(type) {
	case string:
		n += len(v) / bytesPerValue
	case json.Number:
		n += len(v) / bytesPerValue
	case []any:
		for _, inner := range v {
			n += cost(inner)
		}
	case map[string]any:
		for name, inner := range v {
			n += len(name)/bytesPerValue + cost(inner)
		}
	}
	return n
}
