package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
)

// maxArguments limits the arguments of one call, in bytes. Commands need some 200 bytes, and
// arguments for a tool are written word by word while a person waits.
const maxArguments = 16 << 10

var (
	errArguments     = errors.New("the arguments are not a JSON object")
	errLongArguments = errors.New("the arguments are too long")
)

// parseArguments parses the arguments of a call after [normalizeArguments]. Numbers become
// json.Number.
func parseArguments(text string) (map[string]any, error) {
	text, err := normalizeArguments(text)
	if err != nil {
		return nil, err
	}
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	var args map[string]any
	if err := dec.Decode(&args); err != nil {
		return nil, errArguments
	}
	return args, nil
}

// normalizeArguments returns the arguments of a call as a JSON object. It accepts common mistakes
// of models: nothing or null for no arguments, an object that was encoded twice, and a code fence
// around the object.
func normalizeArguments(text string) (string, error) {
	if len(text) > maxArguments {
		return "", errLongArguments
	}
	text = unfence(strings.TrimSpace(strings.ToValidUTF8(text, "\ufffd")))
	if strings.HasPrefix(text, `"`) {
		var inner string
		if json.Unmarshal([]byte(text), &inner) != nil {
			return "", errArguments
		}
		text = unfence(strings.TrimSpace(inner))
	}
	if text == "" || text == "null" {
		return "{}", nil
	}
	if text[0] != '{' || !json.Valid([]byte(text)) {
		return "", errArguments
	}
	return text, nil
}

// unfence removes a surrounding ```json … ```.
func unfence(text string) string {
	inner, ok := strings.CutPrefix(text, "```")
	if !ok {
		return text
	}
	inner = strings.TrimPrefix(inner, "json")
	inner, ok = strings.CutSuffix(strings.TrimSpace(inner), "```")
	if !ok {
		return text
	}
	return strings.TrimSpace(inner)
}

// isCompleteObject reports whether streamed arguments are certainly complete: a JSON object cannot
// continue after its closing brace.
func isCompleteObject(arguments []byte) bool {
	arguments = bytes.TrimSpace(arguments)
	return len(arguments) > 1 && arguments[0] == '{' && arguments[len(arguments)-1] == '}' && json.Valid(arguments)
}
