package openaitest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	maxTools = 128 // functions in a request (API reference, Create chat completion, tools)
	maxID    = 40  // characters of a call's id, as OpenAI's error says (see checkCalls)
)

// checkCalls validates the calls in a message of the assistant.
func (m *Message) checkCalls(i int) *apiError {
	param := fmt.Sprintf("messages[%d].tool_calls", i)
	if m.Role != "assistant" {
		return invalid(param,
			fmt.Sprintf("Invalid parameter: only messages with role 'assistant' can have 'tool_calls', but this one has role '%s'.", m.Role))
	}
	var list []struct {
		ID       *string
		Type     string
		Function *struct{ Name, Arguments *string }
	}
	if err := json.Unmarshal(m.ToolCalls, &list); err != nil {
		return invalid(param, "Invalid type for '"+param+"': "+err.Error())
	}
	if len(list) == 0 {
		return invalid(param, "Invalid '"+param+
			"': empty array. Expected an array with minimum length 1, but got an empty array instead.")
	}
	for j, c := range list {
		at := fmt.Sprintf("%s[%d]", param, j)
		switch {
		case c.ID == nil || *c.ID == "":
			return invalid(at+".id", "Missing required parameter: '"+at+".id'.")
		case utf8.RuneCountInString(*c.ID) > maxID:
			return invalid(at+".id",
				fmt.Sprintf("Invalid '%s.id': string too long. Expected a string with maximum length %d, but got a string with length %d instead.", at, maxID, utf8.RuneCountInString(*c.ID)))
		case c.Type != "function":
			return invalid(at+".type", fmt.Sprintf("Invalid value: '%s'. Supported values are: 'function'.", c.Type))
		case c.Function == nil || c.Function.Name == nil || c.Function.Arguments == nil:
			return invalid(at+".function", "Missing required parameter: '"+at+".function'.")
		case !functionName.MatchString(*c.Function.Name):
			return invalid(at+".function.name", "Invalid '"+at+
				".function.name': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.")
		case !json.Valid([]byte(*c.Function.Arguments)) || (*c.Function.Arguments)[0] != '{':
			// OpenAI accepts any text. vLLM and llama.cpp reject text that is no JSON object
			// (vllm-project/vllm, pull request 48922; ggml-org/llama.cpp, issue 25510).
			return invalid(at+".function.arguments", "Invalid '"+at+".function.arguments': expected a JSON object.")
		}
	}
	return nil
}

// checkOrder checks that each call has one result, directly after it and in the order of the calls.
// OpenAI does not check the order; other servers rely on it.
func checkOrder(messages []Message) *apiError {
	var open, done []string // ids of the preceding calls
	from := 0
	for i := range messages {
		m := &messages[i]
		if m.Role != "tool" {
			if bad := checkAnswered(open, from); bad != nil {
				return bad
			}
			open, done, from = nil, nil, i
			for _, c := range m.Calls() {
				if slices.Contains(open, c.ID) {
					return invalid(fmt.Sprintf("messages.[%d].tool_calls", i),
						fmt.Sprintf("Invalid parameter: Duplicate value for 'id' of '%s' in 'tool_calls' of messages[%d].", c.ID, i))
				}
				open = append(open, c.ID)
			}
			continue
		}
		param := fmt.Sprintf("messages.[%d].tool_call_id", i)
		switch {
		case len(open)+len(done) == 0:
			return invalid(fmt.Sprintf("messages.[%d].role", i),
				"Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.")
		case slices.Contains(done, m.ToolCallID):
			return invalid(param,
				fmt.Sprintf("Invalid parameter: Duplicate value for 'tool_call_id' of '%s', in messages[%d].",
					m.ToolCallID, i))
		case !slices.Contains(open, m.ToolCallID):
			return invalid(param,
				fmt.Sprintf("Invalid parameter: 'tool_call_id' of '%s' not found in 'tool_calls' of previous message.",
					m.ToolCallID))
		case open[0] != m.ToolCallID:
			return invalid(param,
				fmt.Sprintf("Invalid parameter: 'tool_call_id' of '%s' is not in the order of 'tool_calls'.",
					m.ToolCallID))
		}
		open, done = open[1:], append(done, m.ToolCallID)
	}
	return checkAnswered(open, from)
}

func checkAnswered(open []string, from int) *apiError {
	if len(open) == 0 {
		return nil
	}
	return invalid(fmt.Sprintf("messages.[%d].role", from),
		"An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. "+
			"The following tool_call_ids did not have response messages: "+strings.Join(open, ", "))
}
