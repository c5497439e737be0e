package openai

import (
	"bytes"
	"encoding/json"
	"strings"

	"patchbay/internal/toolbox"
)

// parseArguments parses the arguments of a call after [toolbox.Arguments]. Numbers become
// json.Number.
func parseArguments(text string) (map[string]any, error) {
	text, err := toolbox.Arguments(text)
	if err != nil {
		return nil, err
	}
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	var args map[string]any
	if err := dec.Decode(&args); err != nil {
		return nil, toolbox.ErrArguments
	}
	return args, nil
}

// isCompleteObject reports whether streamed arguments are certainly complete: a JSON object cannot
// continue after its closing brace.
func isCompleteObject(arguments []byte) bool {
	arguments = bytes.TrimSpace(arguments)
	return len(arguments) > 1 && arguments[0] == '{' && arguments[len(arguments)-1] == '}' && json.Valid(arguments)
}
