package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
)

// What holds where the settings are silent.
const (
	DefaultHistoryTokens    = 3000
	DefaultFirstByteTimeout = 30 * time.Second
	DefaultIdleTimeout      = 60 * time.Second
	DefaultRetries          = 2
	DefaultToolSteps        = 8
	DefaultToolTime         = 2 * time.Minute
	DefaultToolOutput       = 16 << 10
	DefaultToolsMost        = 64
)

const (
	// maxRetries keeps a person from waiting for a server that is down: with the
	// longest pauses, ten tries are more than anybody waits for.
	maxRetries = 10
	// maxSystem bounds the owner's prompt, which is sent with every turn.
	maxSystem = 32 << 10
	// maxHistoryTokens is above what any board keeps; it catches a number in
	// the wrong unit.
	maxHistoryTokens = 1_000_000
	// maxToolSteps keeps a model that calls for ever from costing its owner more
	// than 33 requests for one question.
	maxToolSteps = 32
	// maxToolTime is how long answers are waited for that come late.
	maxToolTime = 10 * time.Minute
	// maxToolOutput is about half of [maxToolText], which [shareOf] deals out.
	maxToolOutput = 96 << 10
	// leastToolOutput is what a failure needs to be understood.
	leastToolOutput = 256
	// maxToolsMost is how many functions OpenAI and others take.
	maxToolsMost = 128
)

// Settings say which model answers and how it is asked. Only BaseURL and Model
// are needed.
type Settings struct {
	// BaseURL is where the API lives, "https://api.openai.com/v1" or
	// "http://localhost:11434/v1". A trailing slash or the whole address of the
	// chat endpoint is understood too, and a query (?api-version=…) is kept.
	BaseURL string `json:"base_url"`
	// APIKey is sent as a bearer token. Local models need none.
	APIKey string `json:"api_key,omitempty" secret:"true"`
	// Model is the model's name as the server knows it.
	Model string `json:"model"`
	// System is what the owner adds to the system prompt.
	System string `json:"system,omitempty"`
	// Images says whether the model can see. Null means yes. If it cannot, it is
	// told in words that a picture came.
	Images *bool `json:"images,omitempty"`
	// Tools says whether the model is offered functions: device commands, and the
	// tools that its owner allows. Null means yes.
	Tools *bool `json:"tools,omitempty"`
	// ToolSteps is in how many rounds of a turn the model may call tools before it
	// has to answer with what it has. 0 means 8; 32 are the most.
	ToolSteps int `json:"tool_steps,omitempty"`
	// ToolTime is how long the calls of tools in a turn may take, all together. 0
	// means 2 min; 10 min are the most.
	ToolTime Duration `json:"tool_time,omitempty"`
	// ToolOutput is how much of one tool's result the model gets, in bytes. 0 means
	// 16 KiB; 96 KiB are the most.
	ToolOutput int `json:"tool_output,omitempty"`
	// ToolsMost is how many functions the model is offered at most, device commands
	// included. 0 means 64; 128 are the most.
	ToolsMost int `json:"tools_most,omitempty"`
	// HistoryTokens is how much of the conversation so far is sent along, in
	// tokens as [estimate] counts them. 0 means 3000, negative means nothing.
	HistoryTokens int `json:"history_tokens,omitempty"`
	// MaxTokens limits the length of an answer. Null leaves it to the server.
	MaxTokens *int `json:"max_tokens,omitempty"`
	// Temperature is passed on. Null leaves it to the server.
	Temperature *float64 `json:"temperature,omitempty"`
	// FirstByteTimeout is how long the model may take to begin an answer, all
	// tries together. 0 means 30 s.
	FirstByteTimeout Duration `json:"first_byte_timeout,omitempty"`
	// IdleTimeout is how long a server that has begun may be silent. Keep-alive
	// comments are signs of life too. 0 means 60 s.
	IdleTimeout Duration `json:"idle_timeout,omitempty"`
	// Retries is how often a question is asked again when the server is busy,
	// failing or unreachable and has not begun to answer. 0 means 2, negative
	// means never.
	Retries int `json:"retries,omitempty"`
	// Headers are sent with every request, after and instead of our own.
	Headers map[string]string `json:"headers,omitempty"`
	// Extra is merged into the body of every request ("reasoning_effort": "low").
	Extra map[string]any `json:"extra,omitempty"`
	// User sends a stable pseudonym of the person as "user": some servers keep
	// a session of their own by it.
	User bool `json:"user,omitempty"`
	// Suggest lets the model offer next questions.
	Suggest bool `json:"suggest,omitempty"`
}

// Duration is a time.Duration that is written "30s" in JSON.
type Duration time.Duration

// MarshalJSON writes the duration as Go does ("1m30s").
func (d Duration) MarshalJSON() ([]byte, error) {
	return json.Marshal(time.Duration(d).String())
}

// UnmarshalJSON reads "30s" or "1m30s".
func (d *Duration) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return fmt.Errorf(`%s is not a duration; write it with a unit, like "30s"`, data)
	}
	v, err := time.ParseDuration(strings.TrimSpace(text))
	if err != nil {
		return fmt.Errorf(`%q is not a duration; write it like "30s" or "1m30s"`, text)
	}
	*d = Duration(v)
	return nil
}

// ParseSettings decodes and validates the settings of a bot. A key that nobody
// knows is an error, since it is most likely a misspelt one.
func ParseSettings(data []byte) (Settings, error) {
	var s Settings
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&s); err != nil {
		if mismatch, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return s, fmt.Errorf("%s has to be %s, not a %s", mismatch.Field, wanted(mismatch.Type), mismatch.Value)
		}
		return s, errors.New(strings.TrimPrefix(err.Error(), "json: "))
	}
	return s, s.Validate()
}

// wanted is a type in words that owners know.
func wanted(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int:
		return "a whole number"
	case reflect.Float64:
		return "a number"
	case reflect.String:
		return "text"
	}
	return "an object"
}

// Validate finds what is wrong with the settings and says what to do about it.
func (s *Settings) Validate() error {
	if _, err := parseEndpoint(s.BaseURL); err != nil {
		return err
	}
	return errors.Join(s.checkTexts(), s.checkNumbers(), s.checkTools(), s.checkHeaders(), s.checkExtra())
}

func (s *Settings) checkTexts() error {
	switch {
	case strings.TrimSpace(s.Model) == "":
		return errors.New("model is missing: name the model that answers, for example gpt-4o-mini or qwen3:8b")
	case !httpguts.ValidHeaderFieldValue(s.APIKey) || strings.TrimSpace(s.APIKey) != s.APIKey:
		return errors.New("api_key has a line break, a space at an end or another character that no key has; copy it again")
	case len(s.System) > maxSystem:
		return fmt.Errorf("system has %d bytes; %d are the most, because it is sent with every question", len(s.System), maxSystem)
	}
	return nil
}

func (s *Settings) checkNumbers() error {
	switch {
	case s.HistoryTokens > maxHistoryTokens:
		return fmt.Errorf("history_tokens is %d; choose at most %d (-1 sends no history)", s.HistoryTokens, maxHistoryTokens)
	case s.MaxTokens != nil && *s.MaxTokens < 1:
		return fmt.Errorf("max_tokens is %d; choose at least 1, or leave it out", *s.MaxTokens)
	case s.Temperature != nil && !(*s.Temperature >= 0 && *s.Temperature <= 2):
		return fmt.Errorf("temperature is %v; choose between 0 and 2, or leave it out", *s.Temperature)
	case s.FirstByteTimeout < 0:
		return errors.New(`first_byte_timeout is negative; choose something like "30s"`)
	case s.IdleTimeout < 0:
		return errors.New(`idle_timeout is negative; choose something like "60s"`)
	case s.Retries > maxRetries:
		return fmt.Errorf("retries is %d; choose at most %d (-1 never asks again)", s.Retries, maxRetries)
	}
	return nil
}

func (s *Settings) checkTools() error {
	switch {
	case s.ToolSteps < 0 || s.ToolSteps > maxToolSteps:
		return fmt.Errorf("tool_steps is %d; choose 1 to %d, or leave it out for %d", s.ToolSteps, maxToolSteps, DefaultToolSteps)
	case s.ToolTime < 0 || time.Duration(s.ToolTime) > maxToolTime:
		return fmt.Errorf(`tool_time is %s; choose something like "30s", %s at most`, time.Duration(s.ToolTime), maxToolTime)
	case s.ToolOutput < 0 || s.ToolOutput > 0 && s.ToolOutput < leastToolOutput || s.ToolOutput > maxToolOutput:
		return fmt.Errorf("tool_output is %d; choose %d to %d bytes, or leave it out for %d", s.ToolOutput, leastToolOutput, maxToolOutput, DefaultToolOutput)
	case s.ToolsMost < 0 || s.ToolsMost > maxToolsMost:
		return fmt.Errorf("tools_most is %d; choose 1 to %d, or leave it out for %d", s.ToolsMost, maxToolsMost, DefaultToolsMost)
	}
	return nil
}

// ownHeaders are made from the body or steer the connection.
var ownHeaders = []string{"content-length", "content-type", "host", "connection", "transfer-encoding", "accept-encoding"}

func (s *Settings) checkHeaders() error {
	for name, value := range s.Headers {
		switch {
		case !httpguts.ValidHeaderFieldName(name):
			return fmt.Errorf("headers: %q cannot be the name of a header", name)
		case slices.Contains(ownHeaders, strings.ToLower(name)):
			return fmt.Errorf("headers: %s cannot be set; take it out", name)
		case !httpguts.ValidHeaderFieldValue(value):
			return fmt.Errorf("headers: the value of %s has a line break or a control character", name)
		}
	}
	return nil
}

// ownFields of the request belong to the turn or to another setting.
var ownFields = []string{"messages", "model", "stream", "tools", "functions", "user", "n"}

func (s *Settings) checkExtra() error {
	for name := range s.Extra {
		if slices.Contains(ownFields, name) {
			return fmt.Errorf("extra: %s cannot be set there; take it out", name)
		}
	}
	if s.MaxTokens != nil && (s.Extra["max_tokens"] != nil || s.Extra["max_completion_tokens"] != nil) {
		return errors.New("extra: the length of an answer is limited by max_tokens already; keep one of the two")
	}
	if s.Temperature != nil && s.Extra["temperature"] != nil {
		return errors.New("extra: temperature has a setting of its own; keep one of the two")
	}
	if _, err := json.Marshal(s.Extra); err != nil {
		return errors.New("extra: cannot be written as JSON")
	}
	return nil
}

func (s *Settings) images() bool { return s.Images == nil || *s.Images }
func (s *Settings) tools() bool  { return s.Tools == nil || *s.Tools }

func (s *Settings) toolSteps() int  { return orDefault(s.ToolSteps, DefaultToolSteps) }
func (s *Settings) toolOutput() int { return orDefault(s.ToolOutput, DefaultToolOutput) }
func (s *Settings) toolsMost() int  { return orDefault(s.ToolsMost, DefaultToolsMost) }

func (s *Settings) toolTime() time.Duration {
	return orDefault(time.Duration(s.ToolTime), DefaultToolTime)
}

func orDefault[T int | time.Duration](v, otherwise T) T {
	if v == 0 {
		return otherwise
	}
	return v
}

func (s *Settings) historyTokens() int {
	if s.HistoryTokens == 0 {
		return DefaultHistoryTokens
	}
	return max(s.HistoryTokens, 0)
}

func (s *Settings) retries() int {
	if s.Retries == 0 {
		return DefaultRetries
	}
	return max(s.Retries, 0)
}

func (s *Settings) firstByte() time.Duration {
	if s.FirstByteTimeout == 0 {
		return DefaultFirstByteTimeout
	}
	return time.Duration(s.FirstByteTimeout)
}

func (s *Settings) idle() time.Duration {
	if s.IdleTimeout == 0 {
		return DefaultIdleTimeout
	}
	return time.Duration(s.IdleTimeout)
}

// endpoint holds the addresses of an API.
type endpoint struct {
	chat, models string
	// shown is the chat address without its query, which may hold a secret.
	shown string
	host  string
}

const chatPath = "/chat/completions"

func parseEndpoint(base string) (endpoint, error) {
	base = strings.TrimSpace(base)
	if base == "" {
		return endpoint{}, errors.New("base_url is missing: give the address of the API, for example https://api.openai.com/v1")
	}
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		// Not shown: an address that cannot be parsed may hold a key.
		return endpoint{}, errors.New("base_url is not a web address; it has to look like https://api.openai.com/v1")
	}
	if u.User != nil {
		return endpoint{}, errors.New("base_url holds a user name or password; put the key in api_key instead")
	}
	u.Fragment, u.RawFragment = "", ""
	root := strings.TrimRight(u.Path, "/")
	root = strings.TrimRight(strings.TrimSuffix(root, chatPath), "/")
	address := func(path string) string {
		a := *u
		a.Path, a.RawPath = root+path, ""
		return a.String()
	}
	e := endpoint{chat: address(chatPath), models: address("/models"), host: u.Hostname()}
	u.RawQuery, u.ForceQuery = "", false
	e.shown = address(chatPath)
	return e, nil
}
