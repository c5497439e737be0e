package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
)

// maxArguments bounds the arguments of one call: commands need some 200 bytes, and
// what is written for a tool is written word by word while a person waits.
const maxArguments = 16 << 10

var (
	errArguments     = errors.New("the arguments are not a JSON object")
	errLongArguments = errors.New("the arguments are too long")
)

// parseArguments reads the arguments of a call as [normalizeArguments] does. Numbers
// become json.Number.
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

// normalizeArguments is the JSON object that a model wrote as the arguments of a call,
// as it is written. What models often get wrong is put right: nothing or null for
// no arguments, an object that was encoded twice, and a code fence around it.
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

// unfence takes ```json … ``` away.
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

// isCompleteObject reports whether arguments that came in pieces are surely complete: an
// object cannot go on after its closing brace.
func isCompleteObject(arguments []byte) bool {
	arguments = bytes.TrimSpace(arguments)
	return len(arguments) > 1 && arguments[0] == '{' && arguments[len(arguments)-1] == '}' && json.Valid(arguments)
}
