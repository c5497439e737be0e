// Package toolbox is how bots call tools: what they need of the hub, and the rules of functions
// that all model APIs share.
package toolbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"

	"patchbay/internal/talk"
	"patchbay/internal/tool"
)

// Tools are the functions that a bot may call besides device commands. They are used by many
// turns at once, and by several goroutines of a turn.
type Tools interface {
	// List returns the functions for a turn, in a stable order. It is called once per turn, before
	// the first request, with a timeout of five seconds.
	List(ctx context.Context, turn *talk.Turn) ([]Named, error)
	// Call executes one call. It returns when there is a result, or soon after ctx has ended. The
	// name is one that List returned, and args is a JSON object; nothing else is validated. The
	// model gets the text of an error that is or wraps a *[tool.Error]. Call may call progress from
	// any goroutine until it returns; progress does not block.
	Call(ctx context.Context, turn *talk.Turn, name string, args json.RawMessage,
		progress func(tool.Progress)) (*tool.Result, error)
}

// Named is a tool with the name by which the model calls it. The name is unique in its list and
// has 1 to 64 letters, digits, hyphens and underscores. It shadows the provider's name of the tool.
type Named struct {
	Name string
	tool.Tool
}

// MaxSchema limits the schema of a tool's arguments, in bytes. It is part of every request. Large
// schemas in use have some 5 KiB.
const MaxSchema = 16 << 10

// FunctionName matches the names that OpenAI's API accepts (API reference, Create chat completion,
// tools.function.name).
var FunctionName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// Parameters returns a schema that chat servers accept. OpenAI requires an object with properties,
// which may be empty, and rejects alternatives at the top level ("schema must have type 'object'
// and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level"; langchain-ai/langchainjs,
// issue 9804). The removed constraints are checked when the tool is called.
func Parameters(input json.RawMessage) (json.RawMessage, error) {
	if len(input) > MaxSchema {
		return nil, fmt.Errorf("a schema of more than %d bytes", MaxSchema)
	}
	fields := map[string]json.RawMessage{}
	if len(bytes.TrimSpace(input)) > 0 && json.Unmarshal(bytes.ToValidUTF8(input, []byte("\ufffd")), &fields) != nil {
		return nil, errors.New("the schema is not a JSON object")
	}
	if fields == nil { // null
		fields = map[string]json.RawMessage{}
	}
	for _, name := range []string{"$schema", "$id", "oneOf", "anyOf", "allOf", "not", "if", "then", "else", "enum",
		"const"} {
		delete(fields, name)
	}
	fields["type"] = json.RawMessage(`"object"`)
	var properties map[string]json.RawMessage
	if json.Unmarshal(fields["properties"], &properties) != nil || properties == nil {
		fields["properties"] = json.RawMessage("{}")
	}
	var required []string
	_ = json.Unmarshal(fields["required"], &required)
	required = slices.DeleteFunc(required, func(name string) bool { return properties[name] == nil })
	delete(fields, "required")
	if len(required) > 0 {
		fields["required"] = JSON(required)
	}
	return JSON(fields), nil
}

// JSON returns a value as JSON without HTML escapes. The value must be encodable.
func JSON(v any) json.RawMessage {
	var w bytes.Buffer
	enc := json.NewEncoder(&w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v)
	return bytes.TrimSuffix(w.Bytes(), []byte("\n"))
}
