package upstream

import (
	"encoding/json"
	"net/url"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"

	"patchbay/internal/jsonrpc"
)

// The TypeScript SDK 1.x refuses a whole list of tools if the schema of one of them is not of the
// shape that it expects (ToolSchema in types.js), or if an output schema cannot be compiled
// (cacheToolMetadata in client/index.js). So what is passed on has that shape.

// inputSchema returns the schema of the arguments, and false if it is unusable. A schema without a
// type gets type object, since arguments are always an object.
func inputSchema(raw json.RawMessage) (json.RawMessage, bool) {
	fit, typed, ok := objectSchema(raw)
	if !ok || typed {
		return fit, ok
	}
	rest := strings.TrimSpace(string(fit[1:]))
	if rest != "}" {
		rest = "," + rest
	}
	return json.RawMessage(`{"type":"object"` + rest), true
}

// maxOutputSchema is the size of output schemas that are passed on, in bytes. Package hub checks no
// larger ones.
const maxOutputSchema = 128 << 10

// outputSchema returns the schema of structured results, or nil if there is none that all clients
// can use: the tool works without it.
func outputSchema(raw json.RawMessage) json.RawMessage {
	if len(raw) > maxOutputSchema {
		return nil
	}
	fit, typed, ok := objectSchema(raw)
	if !ok || !typed {
		return nil
	}
	fit = withoutID(fit)
	c := schemaCheck{visited: map[string]bool{}}
	if json.Unmarshal(fit, &c.whole) != nil || !c.schema(c.whole) {
		return nil
	}
	return fit
}

// withoutID returns an object without its $id: in the list of tools, another server's schema may
// have the same, and nothing in this one refers to it.
func withoutID(raw json.RawMessage) json.RawMessage {
	out, found := []byte{'{'}, false
	for in := jsonrpc.Scan(raw); in.Next(); {
		if string(in.Key) == "$id" {
			found = true
			continue
		}
		out = jsonrpc.AppendMember(out, string(in.Key), in.Value)
	}
	if !found {
		return raw
	}
	return append(out, '}')
}

// objectSchema returns a schema of objects whose properties are objects, as some clients require:
// true becomes {}, and false {"not":{}}, which mean the same (JSON Schema core 2020-12 §4.3.2).
// Members that are null are left out; some servers write them for empty lists. Typed means that
// the schema has a type.
func objectSchema(raw json.RawMessage) (fit json.RawMessage, typed, ok bool) {
	out, changed := []byte{'{'}, false
	in := jsonrpc.Scan(raw)
	for in.Next() {
		value := json.RawMessage(in.Value)
		switch name := string(in.Key); name {
		case "type":
			if typed = true; !isText(value) || jsonrpc.Text(value) != "object" {
				return nil, true, false
			}
		case "properties", "required", "$schema":
			if isNull(value) {
				changed = true
				continue
			}
			if name == "properties" {
				var rewritten bool
				if value, rewritten, ok = propertySchemas(value); !ok {
					return nil, typed, false
				}
				changed = changed || rewritten
			} else if name == "required" && !listOf(isText)(value) || name == "$schema" && !isText(value) {
				return nil, typed, false
			}
		}
		out = jsonrpc.AppendMember(out, string(in.Key), value)
	}
	if !changed {
		return raw, typed, in.IsObject()
	}
	return append(out, '}'), typed, true
}

// propertySchemas returns properties that are all objects, and whether they were others before.
func propertySchemas(raw json.RawMessage) (fit json.RawMessage, changed, ok bool) {
	out := []byte{'{'}
	in := jsonrpc.Scan(raw)
	for in.Next() {
		value := in.Value
		switch {
		case string(value) == "true":
			value, changed = []byte(`{}`), true
		case string(value) == "false":
			value, changed = []byte(`{"not":{}}`), true
		case !isObject(value):
			return nil, false, false
		}
		out = jsonrpc.AppendMember(out, string(in.Key), value)
	}
	if !changed {
		return raw, false, in.IsObject()
	}
	return append(out, '}'), true, true
}

// schemaCheck checks whether the validator of the TypeScript SDK, Ajv, can compile a schema
// (https://ajv.js.org). It does not compile it here, which could take long.
type schemaCheck struct {
	whole    any
	visited  map[string]bool // targets of $ref, as paths
	patterns int             // regular expressions so far
}

// maxExpressions limits the regular expressions of a schema.
const maxExpressions = 100

// pattern checks a regular expression.
func (c *schemaCheck) pattern(text string) bool {
	c.patterns++
	return c.patterns <= maxExpressions && isPortablePattern(text)
}

// schema checks a schema and those in it.
func (c *schemaCheck) schema(v any) bool {
	s, ok := v.(map[string]any)
	if !ok {
		_, ok = v.(bool)
		return ok
	}
	for name, value := range s {
		if !c.keyword(name, value) {
			return false
		}
	}
	return true
}

func (c *schemaCheck) keyword(name string, value any) (ok bool) {
	switch name {
	case "type":
		list, isList := value.([]any)
		if !isList {
			list = []any{value}
		}
		return !slices.ContainsFunc(list, func(v any) bool { return !isTypeName(v) })
	case "multipleOf", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum", "maxLength", "minLength",
		"maxItems", "minItems", "maxProperties", "minProperties":
		_, ok = value.(float64)
	case "uniqueItems":
		_, ok = value.(bool)
	case "format", "$schema":
		_, ok = value.(string)
	case "required":
		_, ok = value.([]any)
	case "enum":
		list, _ := value.([]any)
		ok = len(list) > 0
	case "pattern":
		text, isText := value.(string)
		ok = isText && c.pattern(text)
	case "$ref":
		text, isText := value.(string)
		ok = isText && c.ref(text)
	case "$id", "$anchor", "$dynamicAnchor", "$async":
		return false // what else has the same id, in any tool, would be a conflict
	case "nullable": // only Ajv knows it: a result that is null would not fit for others
		return false
	case "allOf", "anyOf", "oneOf":
		return c.list(value)
	case "items":
		return c.list(value) || c.schema(value)
	case "not", "if", "then", "else", "contains", "propertyNames", "additionalProperties", "additionalItems":
		return c.schema(value)
	case "properties", "patternProperties", "$defs", "definitions":
		return c.named(value, name == "patternProperties")
	case "dependencies":
		list, isObject := value.(map[string]any)
		for _, inner := range list {
			if _, isList := inner.([]any); !isList && !c.schema(inner) {
				return false
			}
		}
		return isObject
	default:
		return true
	}
	return ok
}

func (c *schemaCheck) list(value any) bool {
	list, ok := value.([]any)
	return ok && !slices.ContainsFunc(list, func(v any) bool { return !c.schema(v) })
}

func (c *schemaCheck) named(value any, patterns bool) bool {
	list, ok := value.(map[string]any)
	for name, inner := range list {
		if patterns && !c.pattern(name) || !c.schema(inner) {
			return false
		}
	}
	return ok
}

// ref checks the target of a $ref, which must be in the same schema.
func (c *schemaCheck) ref(ref string) bool {
	if ref == "#" {
		return true
	}
	path, ok := strings.CutPrefix(ref, "#/")
	path, err := url.PathUnescape(path)
	switch {
	case !ok || err != nil:
		return false
	case c.visited[path]:
		return true
	}
	c.visited[path] = true
	at := c.whole
	for part := range strings.SplitSeq(path, "/") {
		part = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
		switch v := at.(type) {
		case map[string]any:
			at = v[part]
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i < 0 || i >= len(v) || strconv.Itoa(i) != part {
				return false
			}
			at = v[i]
		default:
			return false
		}
	}
	return c.schema(at)
}

func isTypeName(v any) bool {
	switch v {
	case "string", "number", "integer", "boolean", "null", "object", "array":
		return true
	}
	return false
}

// maxPattern limits regular expressions, in bytes: their compilation takes memory.
const maxPattern = 1 << 10

// escapes are the escapes that Go and JavaScript, with its flag u, have in common. A minus is
// escaped only in classes there (ECMA-262, "Patterns").
var escapes = regexp.MustCompile(`^\\(?:[dDwWsSbBtnrvf^$\\.*+?()\[\]{}|/]|x[0-9A-Fa-f]{2}|[pP]\{L?[a-zA-Z]\})`)

var repeats = regexp.MustCompile(`^\{\d+(?:,\d*)?\}`)

// isPortablePattern reports whether a regular expression is valid in Go and in JavaScript.
func isPortablePattern(text string) bool {
	if len(text) > maxPattern {
		return false
	}
	if _, err := syntax.Parse(text, syntax.Perl); err != nil { // without compiling it
		return false
	}
	class := false
	for i := 0; i < len(text); i++ {
		rest := text[i:]
		switch {
		case rest[0] == '\\' && class && strings.HasPrefix(rest, `\-`):
			i++
		case rest[0] == '\\':
			n := len(escapes.FindString(rest))
			if n == 0 {
				return false
			}
			i += n - 1
		case class:
			class = rest[0] != ']'
			if strings.HasPrefix(rest, "[:") {
				return false
			}
		case rest[0] == '[':
			// A bracket right after it is part of the class in Go, and its end in JavaScript.
			class = true
			if strings.HasPrefix(rest, "[]") || strings.HasPrefix(rest, "[^]") {
				return false
			}
		case strings.HasPrefix(rest, "(?") && !strings.HasPrefix(rest, "(?:"), rest[0] == '}', rest[0] == ']':
			return false
		case rest[0] == '{':
			n := len(repeats.FindString(rest))
			if n == 0 {
				return false
			}
			i += n - 1
		}
	}
	return true
}
