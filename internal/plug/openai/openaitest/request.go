package openaitest

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Chat has the inspected fields of a request.
type Chat struct {
	Model         string          `json:"model"`
	Messages      []Message       `json:"messages"`
	Stream        bool            `json:"stream"`
	StreamOptions *StreamOptions  `json:"stream_options"`
	Tools         []Tool          `json:"tools"`
	ToolChoice    json.RawMessage `json:"tool_choice"`
	User          string          `json:"user"`
	Temperature   *float64        `json:"temperature"`
	// MaxTokens is the deprecated name of MaxCompletionTokens.
	MaxTokens           *int `json:"max_tokens"`
	MaxCompletionTokens *int `json:"max_completion_tokens"`
}

// StreamOptions define what a stream contains besides the answer.
type StreamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

// Message is one message of the conversation.
type Message struct {
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"`
	ToolCalls  json.RawMessage `json:"tool_calls"`
	ToolCallID string          `json:"tool_call_id"`
}

// Part is one part of a message's content.
type Part struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	ImageURL struct {
		URL string `json:"url"`
	} `json:"image_url"`
}

// Parts returns the parts of a message's content. A plain string is one part of type text.
func (m *Message) Parts() []Part {
	var text string
	if json.Unmarshal(m.Content, &text) == nil {
		return []Part{{Type: "text", Text: text}}
	}
	var parts []Part
	_ = json.Unmarshal(m.Content, &parts) // validated by parse
	return parts
}

// Calls returns the calls in a message of the assistant.
func (m *Message) Calls() []Call {
	var list []toolCall
	_ = json.Unmarshal(m.ToolCalls, &list) // validated by parse
	var out []Call
	for i, t := range list {
		out = append(out, Call{Index: i, ID: t.ID, Name: t.Function.Name, Arguments: t.Function.Arguments})
	}
	return out
}

// Text returns the text of a message, with its parts joined by line breaks.
func (m *Message) Text() string {
	var texts []string
	for _, p := range m.Parts() {
		if p.Type == "text" {
			texts = append(texts, p.Text)
		}
	}
	return strings.Join(texts, "\n")
}

// Tool is a function that is offered to the model.
type Tool struct {
	Type     string `json:"type"`
	Function struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
	} `json:"function"`
}

// Last returns the last message of the person.
func (c *Chat) Last() *Message {
	for i := len(c.Messages) - 1; i >= 0; i-- {
		if c.Messages[i].Role == "user" {
			return &c.Messages[i]
		}
	}
	return &Message{}
}

// Results returns the results of the calls of the previous round.
func (c *Chat) Results() []Message {
	end := len(c.Messages)
	for end > 0 && c.Messages[end-1].Role == "user" {
		end-- // pictures, which tool messages cannot contain
	}
	start := end
	for start > 0 && c.Messages[start-1].Role == "tool" {
		start--
	}
	return c.Messages[start:end]
}

// knownFields are the fields of a request (OpenAI API reference, Create chat completion).
var knownFields = strings.Fields(`
	messages model audio frequency_penalty function_call functions logit_bias logprobs max_completion_tokens max_tokens
	metadata modalities n parallel_tool_calls prediction presence_penalty prompt_cache_key prompt_cache_retention
	reasoning_effort response_format safety_identifier seed service_tier stop store stream stream_options temperature
	tool_choice tools top_logprobs top_p user verbosity web_search_options`)

// parse validates a request as strictly as OpenAI's API and with its error texts.
func parse(body []byte, c *Chat) *apiError {
	var fields map[string]json.RawMessage
	if json.Unmarshal(body, &fields) != nil {
		return invalid("", "We could not parse the JSON body of your request.")
	}
	for name := range fields {
		if !slices.Contains(knownFields, name) {
			return invalid(name, "Unrecognized request argument supplied: "+name)
		}
	}
	if err := json.Unmarshal(body, c); err != nil {
		return invalid("", "Invalid type: "+err.Error())
	}
	switch {
	case c.Model == "":
		return invalid("", "you must provide a model parameter")
	case len(c.Messages) == 0:
		return invalid("messages",
			"Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array instead.")
	case c.Temperature != nil && (*c.Temperature < 0 || *c.Temperature > 2):
		return invalid("temperature", "Invalid 'temperature': expected a value between 0 and 2.")
	case c.MaxTokens != nil && c.MaxCompletionTokens != nil:
		return invalid("max_tokens",
			"Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.")
	case c.StreamOptions != nil && !c.Stream:
		return invalid("stream_options", "The 'stream_options' parameter is only allowed when 'stream' is enabled.")
	case len(c.ToolChoice) > 0 && len(c.Tools) == 0:
		return invalid("tool_choice",
			"Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are specified.")
	case len(c.ToolChoice) > 0 && c.ToolChoice[0] == '"' && !slices.Contains([]string{`"none"`, `"auto"`, `"required"`},
		string(c.ToolChoice)):
		return invalid("tool_choice", "Invalid value: '"+strings.Trim(string(c.ToolChoice), `"`)+
			"'. Supported values are: 'none', 'auto', and 'required'.")
	case fields["parallel_tool_calls"] != nil && len(c.Tools) == 0:
		return invalid("parallel_tool_calls",
			"Invalid value for 'parallel_tool_calls': 'parallel_tool_calls' is only allowed when 'tools' are specified.")
	case len(c.Tools) > maxTools:
		return invalid("tools",
			fmt.Sprintf("Invalid 'tools': array too long. Expected an array with maximum length %d, but got an array with length %d instead.", maxTools, len(c.Tools)))
	case fields["tools"] != nil && len(c.Tools) == 0:
		return invalid("tools",
			"Invalid 'tools': empty array. Expected an array with minimum length 1, but got an empty array instead.")
	}
	for i := range c.Messages {
		if bad := c.Messages[i].check(i); bad != nil {
			return bad
		}
	}
	if bad := checkOrder(c.Messages); bad != nil {
		return bad
	}
	for i := range c.Tools {
		if bad := c.Tools[i].check(i); bad != nil {
			return bad
		}
	}
	return nil
}

func invalid(param, message string) *apiError {
	e := &apiError{Message: message, Type: "invalid_request_error"}
	if param != "" {
		e.Param = &param
	}
	return e
}

func (m *Message) check(i int) *apiError {
	param := fmt.Sprintf("messages[%d].content", i)
	if !slices.Contains([]string{"system", "developer", "user", "assistant", "tool", "function"}, m.Role) {
		return invalid(fmt.Sprintf("messages[%d].role", i), fmt.Sprintf("Invalid value: '%s'.", m.Role))
	}
	if m.Role == "tool" && m.ToolCallID == "" {
		return invalid(fmt.Sprintf("messages[%d].tool_call_id", i), "Missing parameter 'tool_call_id'.")
	}
	if len(m.ToolCalls) > 0 && string(m.ToolCalls) != "null" {
		if bad := m.checkCalls(i); bad != nil {
			return bad
		}
	}
	if len(m.Content) == 0 || string(m.Content) == "null" {
		if m.Role == "assistant" && len(m.ToolCalls) > 0 {
			return nil
		}
		return invalid(param, "Invalid value for 'content': expected a string, got null.")
	}
	if m.Content[0] == '"' {
		return nil
	}
	var parts []Part
	if json.Unmarshal(m.Content, &parts) != nil || len(parts) == 0 {
		return invalid(param, "Invalid type for 'content': expected one of a string or array of objects.")
	}
	for _, p := range parts {
		if message := p.check(m.Role); message != "" {
			return invalid(param, message)
		}
	}
	return nil
}

var dataURI = regexp.MustCompile(`^data:image/(png|jpeg|gif|webp);base64,`)

func (p *Part) check(role string) string {
	switch {
	case p.Type == "text":
		return ""
	case p.Type != "image_url":
		return fmt.Sprintf("Invalid value: '%s'. Supported values are: 'text', 'image_url'.", p.Type)
	case role != "user":
		return "Image URLs are only allowed for messages with role 'user', but this message with role '" + role +
			"' contains an image URL."
	}
	if strings.HasPrefix(p.ImageURL.URL, "https://") || strings.HasPrefix(p.ImageURL.URL, "http://") {
		return ""
	}
	start := dataURI.FindString(p.ImageURL.URL)
	if start == "" {
		return "You uploaded an unsupported image. Please make sure your image has of one the following formats: ['png', 'jpeg', 'gif', 'webp']."
	}
	if data, err := base64.StdEncoding.DecodeString(p.ImageURL.URL[len(start):]); err != nil || len(data) == 0 {
		return "Invalid base64 image_url."
	}
	return ""
}

var functionName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

func (t *Tool) check(i int) *apiError {
	param := fmt.Sprintf("tools[%d].function", i)
	switch {
	case t.Type != "function":
		return invalid(fmt.Sprintf("tools[%d].type", i), fmt.Sprintf("Invalid value: '%s'.", t.Type))
	case !functionName.MatchString(t.Function.Name):
		return invalid(param+".name", "Invalid 'name': string does not match pattern '^[a-zA-Z0-9_-]+$'.")
	case utf8.RuneCountInString(t.Function.Description) > 1024:
		return invalid(param+".description",
			"Invalid 'description': string too long. Expected a string with maximum length 1024.")
	}
	if len(t.Function.Parameters) == 0 {
		return nil
	}
	var schema struct {
		Type       string                     `json:"type"`
		Properties map[string]json.RawMessage `json:"properties"`
		Required   []string                   `json:"required"`
	}
	if json.Unmarshal(t.Function.Parameters, &schema) != nil || schema.Type != "object" ||
		!bytes.Contains(t.Function.Parameters, []byte(`"properties"`)) {
		return invalid(param+".parameters", "Invalid schema for function '"+t.Function.Name+
			"': schema must be a JSON Schema of 'type: \"object\"' with properties.")
	}
	var fields map[string]json.RawMessage
	_ = json.Unmarshal(t.Function.Parameters, &fields) // valid, see above
	for _, name := range []string{"oneOf", "anyOf", "allOf", "enum", "not"} {
		if fields[name] != nil {
			return invalid(param+".parameters", "Invalid schema for function '"+t.Function.Name+
				"': schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level.")
		}
	}
	for _, name := range schema.Required {
		if _, ok := schema.Properties[name]; !ok {
			return invalid(param+".parameters", "Invalid schema for function '"+t.Function.Name+
				"': required names a property that is not there: "+name)
		}
	}
	return nil
}
