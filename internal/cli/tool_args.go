package cli

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"patchbay/internal/i18n"
)

// toolArguments builds the arguments of a call: the given object, overlaid with name=value pairs.
// The tool's schema says which values are strings; all others are parsed as JSON.
func toolArguments(schema json.RawMessage, object string, set map[string]string) (json.RawMessage, error) {
	args := map[string]json.RawMessage{}
	if object != "" {
		if err := json.Unmarshal([]byte(object), &args); err != nil || args == nil {
			return nil, usage(i18n.Message(`--args must be a JSON object, such as {"city":"Paris"}`))
		}
	}
	var root any
	if len(schema) > 0 {
		json.Unmarshal(schema, &root) //nolint:errcheck // then nothing is known
	}
	properties, _ := memberOf(root, "properties").(map[string]any)
	for name, text := range set {
		value, err := argument(typesOf(root, properties[name]), text)
		if err != nil {
			return nil, usage(i18n.Message("%s: %v"), name, err)
		}
		args[name] = value
	}
	return json.Marshal(args)
}

// argument converts a value to JSON for a schema that allows some types; an empty set means
// unknown.
func argument(types map[string]bool, text string) (json.RawMessage, error) {
	quoted, err := json.Marshal(text)
	if err != nil {
		return nil, err
	}
	switch {
	case types["string"]:
		return quoted, nil
	case json.Valid([]byte(text)):
		return json.RawMessage(text), nil
	case len(types) == 0:
		return quoted, nil
	}
	return nil, i18n.Message("%q must be JSON: %s").Errorf(text,
		strings.Join(slices.Sorted(maps.Keys(types)), " or "))
}

// schemaSteps is how many references and alternatives of one argument are followed: the schema
// comes from outside.
const schemaSteps = 200

// typesOf returns the JSON types that a part of a schema allows, as far as known.
func typesOf(root, part any) map[string]bool {
	types := map[string]bool{}
	open := []any{part}
	for steps := 0; len(open) > 0 && steps < schemaSteps; steps++ {
		s, _ := open[0].(map[string]any)
		open = open[1:]
		if named := textsOf(s["type"]); len(named) > 0 {
			for _, t := range named {
				types[t] = true
			}
			continue
		}
		values, _ := s["enum"].([]any)
		if v, ok := s["const"]; ok {
			values = append(values, v)
		}
		for _, v := range limitElements(values) {
			types[typeOf(v)] = true
		}
		if ref, ok := s["$ref"].(string); ok {
			open = append(open, resolveRef(root, ref))
		}
		for _, word := range []string{"anyOf", "oneOf", "allOf"} {
			inner, _ := s[word].([]any)
			open = append(open, limitElements(inner)...)
		}
	}
	return types
}

// limitElements returns the beginning of a list that may be long.
func limitElements(all []any) []any { return all[:min(len(all), schemaSteps)] }

// textsOf returns the strings of a list, or a single string.
func textsOf(v any) []string {
	var texts []string
	all, ok := v.([]any)
	if !ok {
		all = []any{v}
	}
	for _, each := range all {
		if text, ok := each.(string); ok {
			texts = append(texts, text)
		}
	}
	return texts
}

func typeOf(v any) string {
	switch v.(type) {
	case string:
		return "string"
	case float64:
		return "number"
	case bool:
		return "boolean"
	case nil:
		return "null"
	case []any:
		return "array"
	}
	return "object"
}

// resolveRef returns the target of a reference within a schema.
func resolveRef(root any, ref string) any {
	path, ok := strings.CutPrefix(ref, "#/")
	if !ok {
		return nil
	}
	unescape := strings.NewReplacer("~1", "/", "~0", "~")
	for step := range strings.SplitSeq(path, "/") {
		root = memberOf(root, unescape.Replace(step))
	}
	return root
}

func memberOf(v any, name string) any {
	object, _ := v.(map[string]any)
	return object[name]
}
