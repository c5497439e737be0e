package openai

import (
	"encoding/json"
	"errors"

	"patchbay/internal/talk"
	"patchbay/internal/toolbox"
)

const (
	// maxArgument limits the name of a function in logs, in characters.
	maxArgument = 200
	// maxSuggestions is the number of suggestions that glasses show.
	maxSuggestions = 3
	// maxSuggestionLength limits one suggestion, in characters.
	maxSuggestionLength = 60
)

// toolSuggest is the name of the function with which a model suggests questions.
const toolSuggest = "suggest_questions"

// function is a function that is offered to the model.
type function struct {
	name string
	// schema is the function's element of "tools" in the request.
	schema json.RawMessage
	// event converts the arguments of a call to the event for the asker. It is nil for functions of
	// the toolbox.
	event func(args map[string]any) (talk.Event, error)
	// title is the display name of a function of the toolbox.
	title string
}

// commands returns the built-in functions of a turn: the commands that the device supports, in the
// device's order, and suggestions if the owner enabled them.
func (b *Bot) commands(turn *talk.Turn) []function {
	if !b.settings.tools() || b.withoutTools.Load() {
		return nil
	}
	var out []function
	for _, command := range turn.Commands {
		if t, ok := commandTools[command]; ok {
			out = append(out, t)
		}
	}
	if b.settings.Suggest {
		out = append(out, suggestTool)
	}
	return out
}

// functionKinds reports whether functions contains device commands, suggestions and functions of
// the toolbox.
func functionKinds(functions []function) (device, suggest, toolbox bool) {
	for _, f := range functions {
		switch {
		case f.event == nil:
			toolbox = true
		case f.name == toolSuggest:
			suggest = true
		default:
			device = true
		}
	}
	return device, suggest, toolbox
}

func find(functions []function, name string) (function, bool) {
	for _, f := range functions {
		if f.name == name {
			return f, true
		}
	}
	return function{}, false
}

// commandTools are the functions that stand for commands of devices.
var commandTools = func() map[string]function {
	all := map[string]function{}
	for _, d := range toolbox.DeviceFunctions {
		schema := functionSchema(d.Name, d.Description, d.Parameters)
		all[d.Name] = function{name: d.Name, schema: schema, event: d.Event}
	}
	return all
}()

var suggestTool = function{
	name: toolSuggest,
	schema: functionSchema(toolSuggest,
		"Shows short questions that the person may want to ask next. Call it along with your answer, never instead of it.",
		json.RawMessage(`{"type":"object","properties":{"questions":{"type":"array","items":{"type":"string"},"minItems":1,"maxItems":3,`+
			`"description":"questions as the person would ask them, in their language, a few words each"}},`+
			`"required":["questions"],"additionalProperties":false}`)),
	event: func(args map[string]any) (talk.Event, error) {
		questions, err := suggestArguments(args)
		return talk.Suggest(questions...), err
	},
}

func suggestArguments(args map[string]any) ([]string, error) {
	list, ok := args["questions"].([]any)
	if !ok {
		list = []any{args["questions"]}
	}
	var out []string
	for _, q := range list {
		if s, ok := q.(string); ok && len(out) < maxSuggestions {
			if s = oneLine(s, maxSuggestionLength); s != "" {
				out = append(out, s)
			}
		}
	}
	if len(out) == 0 {
		return nil, errors.New("questions are missing")
	}
	return out, nil
}
