package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
)

// maxArguments bounds the arguments of one call: commands need some 200 bytes.
const maxArguments = 16 << 10

var errArguments = errors.New("the arguments are not a JSON object")

// parseArguments reads the arguments of a call as the model wrote them. Numbers
// become json.Number. What models often get wrong is put right: nothing or null
// for no arguments, an object that was encoded twice, and a code fence around it.
func parseArguments(text string) (map[string]any, error) {
	if len(text) > maxArguments {
		return nil, errors.New("the arguments are too long")
	}
	text = unfence(strings.TrimSpace(text))
	if text == "" || text == "null" {
		return map[string]any{}, nil
	}
	if text[0] == '"' {
		var inner string
		if json.Unmarshal([]byte(text), &inner) != nil {
			return nil, errArguments
		}
		text = unfence(strings.TrimSpace(inner))
		if text == "" || text == "null" {
			return map[string]any{}, nil
		}
	}
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	var args map[string]any
	if err := dec.Decode(&args); err != nil || args == nil {
		return nil, errArguments
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errArguments
	}
	return args, nil
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

// whole says whether arguments that came in pieces are surely complete: an
// object cannot go on after its closing brace.
func whole(arguments []byte) bool {
	arguments = bytes.TrimSpace(arguments)
	return len(arguments) > 1 && arguments[0] == '{' && arguments[len(arguments)-1] == '}' && json.Valid(arguments)
}
