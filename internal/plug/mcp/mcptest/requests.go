package mcptest

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"patchbay/internal/tool"
)

// Error codes of JSON-RPC and MCP that the suite expects.
const (
	invalidParams     = -32602
	internalError     = -32603
	missingCapability = -32021
)

// Requests to callers:

func elicitationRequest(message string, schema string) tool.Request {
	return tool.Request{Method: "elicitation/create", Params: raw(map[string]any{
		"message": message, "requestedSchema": json.RawMessage(schema),
	})}
}

func samplingRequest(prompt string, maxTokens int) tool.Request {
	return tool.Request{Method: "sampling/createMessage", Params: raw(map[string]any{
		"messages":  []any{map[string]any{"role": "user", "content": text(prompt)}},
		"maxTokens": maxTokens,
	})}
}

func rootsRequest() tool.Request {
	return tool.Request{Method: "roots/list", Params: json.RawMessage(`{}`)}
}

// ask returns a result that requires input. It is an error if the caller does not support one of
// the requests.
func ask(c *tool.Call, state string, requests map[string]tool.Request) (*tool.Result, error) {
	missing := map[string]any{}
	for _, r := range requests {
		switch {
		case r.Method == "elicitation/create" && !c.Capabilities.Elicit:
			missing["elicitation"] = struct{}{}
		case r.Method == "sampling/createMessage" && !c.Capabilities.Sample:
			missing["sampling"] = struct{}{}
		case r.Method == "roots/list" && !c.Capabilities.Roots:
			missing["roots"] = struct{}{}
		}
	}
	if len(missing) > 0 {
		return nil, missingCapabilityError(missing)
	}
	return &tool.Result{InputRequired: &tool.InputRequired{Requests: requests, State: state}}, nil
}

func missingCapabilityError(capabilities map[string]any) error {
	return &tool.Error{
		Code: tool.Refused, Told: "The tool needs a client that can be asked.",
		RPC: missingCapability, Data: raw(map[string]any{"requiredCapabilities": capabilities}),
	}
}

// badStateError returns the error for a state that was changed.
func badStateError() error {
	return &tool.Error{Code: tool.Refused, Told: "The state is not the one of this call.", RPC: invalidParams}
}

// Answers. Each is ok only if it is present and valid; otherwise the tool asks again.

// formAnswer returns the content of a submitted form.
func formAnswer(c *tool.Call, name string) (content map[string]any, ok bool) {
	var answer struct {
		Action  string         `json:"action"`
		Content map[string]any `json:"content"`
	}
	if json.Unmarshal(c.Answers[name], &answer) != nil || answer.Action != "accept" || answer.Content == nil {
		return nil, false
	}
	return answer.Content, true
}

// formText returns a text field of a submitted form.
func formText(c *tool.Call, name, field string) (string, bool) {
	content, _ := formAnswer(c, name)
	value, _ := content[field].(string)
	return value, value != ""
}

// samplingAnswer returns the text of a model.
func samplingAnswer(c *tool.Call, name string) (words string, ok bool) {
	var answer struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	}
	if json.Unmarshal(c.Answers[name], &answer) != nil || answer.Role == "" {
		return "", false
	}
	type said struct{ Type, Text string }
	var one said
	if json.Unmarshal(answer.Content, &one) == nil {
		return one.Text, one.Type != ""
	}
	var many []said
	if json.Unmarshal(answer.Content, &many) != nil {
		return "", false
	}
	for _, part := range many {
		words += part.Text
	}
	return words, len(many) > 0
}

// rootsAnswer returns the caller's roots.
func rootsAnswer(c *tool.Call, name string) (uris []string, ok bool) {
	var answer struct {
		Roots []struct {
			URI string `json:"uri"`
		} `json:"roots"`
	}
	if json.Unmarshal(c.Answers[name], &answer) != nil || answer.Roots == nil {
		return nil, false
	}
	for _, r := range answer.Roots {
		uris = append(uris, r.URI)
	}
	return uris, true
}

const (
	nameForm    = `{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}`
	colorForm   = `{"type":"object","properties":{"color":{"type":"string"}},"required":["color"]}`
	confirmForm = `{"type":"object","properties":{"ok":{"type":"boolean"}},"required":["ok"]}`
	contextForm = `{"type":"object","properties":{"context":{"type":"string"}},"required":["context"]}`

	userForm = `{"type":"object","properties":{
		"username":{"type":"string","description":"User's response"},
		"email":{"type":"string","description":"User's email address"}},
		"required":["username","email"]}`

	defaultsForm = `{"type":"object","properties":{
		"name":{"type":"string","description":"User name","default":"John Doe"},
		"age":{"type":"integer","description":"User age","default":30},
		"score":{"type":"number","description":"User score","default":95.5},
		"status":{"type":"string","description":"User status","enum":["active","inactive","pending"],"default":"active"},
		"verified":{"type":"boolean","description":"Verification status","default":true}},
		"required":[]}`

	choices   = `[{"const":"value1","title":"First Option"},{"const":"value2","title":"Second Option"},{"const":"value3","title":"Third Option"}]`
	enumsForm = `{"type":"object","properties":{
		"untitledSingle":{"type":"string","enum":["option1","option2","option3"]},
		"titledSingle":{"type":"string","oneOf":` + choices + `},
		"legacyEnum":{"type":"string","enum":["opt1","opt2","opt3"],"enumNames":["Option One","Option Two","Option Three"]},
		"untitledMulti":{"type":"array","minItems":1,"maxItems":3,"items":{"type":"string","enum":["option1","option2","option3"]}},
		"titledMulti":{"type":"array","minItems":1,"maxItems":3,"items":{"anyOf":` + choices + `}}},
		"required":[]}`
)

// askFixtures request input during a call. The suite has them from the revisions in which servers
// sent requests.
var askFixtures = []fixture{
	newFixture("test_sampling", "Asks the caller's model.",
		func(_ context.Context, _ *Fixtures, c *tool.Call) (*tool.Result, error) {
			var args struct {
				Prompt string `json:"prompt"`
			}
			if err := json.Unmarshal(c.Args, &args); err != nil {
				return nil, tool.Fail(tool.BadArgs, "The prompt is missing.", err)
			}
			if words, ok := samplingAnswer(c, "sample"); ok {
				return tool.Text("LLM response: " + words), nil
			}
			return ask(c, "", map[string]tool.Request{"sample": samplingRequest(args.Prompt, 100)})
		}).withInput(`{"type":"object","properties":{"prompt":{"type":"string","description":"What to ask the model."}},"required":["prompt"]}`),
	newFixture("test_elicitation", "Asks the caller's person.",
		func(_ context.Context, _ *Fixtures, c *tool.Call) (*tool.Result, error) {
			var args struct {
				Message string `json:"message"`
			}
			if err := json.Unmarshal(c.Args, &args); err != nil {
				return nil, tool.Fail(tool.BadArgs, "The message is missing.", err)
			}
			return fillIn(c, elicitationRequest(args.Message, userForm))
		}).withInput(`{"type":"object","properties":{"message":{"type":"string","description":"What to show the person."}},"required":["message"]}`),
	newFixture("test_elicitation_sep1034_defaults", "Asks with a form that has default values.",
		func(_ context.Context, _ *Fixtures, c *tool.Call) (*tool.Result, error) {
			return fillIn(c, elicitationRequest("Please look at the defaults.", defaultsForm))
		}),
	newFixture("test_elicitation_sep1330_enums", "Asks with a form that has choices of every kind.",
		func(_ context.Context, _ *Fixtures, c *tool.Call) (*tool.Result, error) {
			return fillIn(c, elicitationRequest("Please choose.", enumsForm))
		}),
	newFixture("test_missing_capability", "Needs a caller whose model can be asked.",
		func(_ context.Context, _ *Fixtures, c *tool.Call) (*tool.Result, error) {
			if !c.Capabilities.Sample {
				return nil, missingCapabilityError(map[string]any{"sampling": struct{}{}})
			}
			return tool.Text("You can be asked."), nil
		}),
	newFixture("test_streaming_elicitation", "Reports progress and then asks the caller's person.",
		func(ctx context.Context, _ *Fixtures, c *tool.Call) (*tool.Result, error) {
			if _, ok := formAnswer(c, "confirm"); ok {
				return tool.Text("Confirmed."), nil
			}
			if err := progress(ctx, c, 10*time.Millisecond); err != nil {
				return nil, err
			}
			return ask(c, "", map[string]tool.Request{"confirm": elicitationRequest("Please confirm", confirmForm)})
		}),
}

// fillIn requests a form until there is an answer of any kind, and returns it.
func fillIn(c *tool.Call, f tool.Request) (*tool.Result, error) {
	var answer struct {
		Action  string          `json:"action"`
		Content json.RawMessage `json:"content"`
	}
	if json.Unmarshal(c.Answers["form"], &answer) == nil && answer.Action != "" {
		return tool.Text(fmt.Sprintf("Elicitation completed: action=%s, content=%s", answer.Action, answer.Content)),
			nil
	}
	return ask(c, "", map[string]tool.Request{"form": f})
}
