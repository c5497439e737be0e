package openai

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/settings"
)

// Default values of settings.
const (
	DefaultHistoryTokens    = 3000
	DefaultFirstByteTimeout = 30 * time.Second
	DefaultIdleTimeout      = 60 * time.Second
	DefaultRetries          = 2
	DefaultToolSteps        = 8
	DefaultToolTime         = 2 * time.Minute
	DefaultToolOutput       = 16 << 10
	DefaultMaxTools         = 64
)

const (
	// maxRetries limits the retries. With the longest delays, ten retries take longer than anybody
	// waits.
	maxRetries = 10
	// maxSystem limits the owner's prompt, in bytes. It is sent with every turn.
	maxSystem = 32 << 10
	// maxHistoryTokens is above every stored history. It catches values in the wrong unit.
	maxHistoryTokens = 1_000_000
	// maxToolSteps limits the cost of a model that never stops calling to 33 requests per question.
	maxToolSteps = 32
	// maxToolTime is as long as a late answer is awaited.
	maxToolTime = 10 * time.Minute
	// maxToolOutput is about half of [maxToolText], which [shareOf] divides.
	maxToolOutput = 96 << 10
	// minToolOutput is enough for an error text.
	minToolOutput = 256
	// toolsLimit is the maximum number of functions of OpenAI's API (API reference, Create chat
	// completion, tools: "A max of 128 functions are supported").
	toolsLimit = 128
)

// Settings define the model and how it is asked. BaseURL and Model are required.
type Settings struct {
	// BaseURL is the address of the API, "https://api.openai.com/v1" or
	// "http://localhost:11434/v1". A trailing slash and the full address of the chat endpoint are
	// accepted too. A query (?api-version=…) is kept.
	BaseURL string `json:"base_url"`
	// APIKey is sent as a bearer token. Local models need none.
	APIKey string `json:"api_key,omitempty" secret:"true" to:"base_url"`
	// Model is the model's name as the server knows it.
	Model string `json:"model"`
	// System is the owner's addition to the system prompt.
	System string `json:"system,omitempty"`
	// Images reports whether the model can see. Null means yes. A model that cannot see gets a note
	// that a picture came.
	Images *bool `json:"images,omitempty"`
	// Tools reports whether the model is offered functions: device commands, and the tools that the
	// owner allows. Null means yes.
	Tools *bool `json:"tools,omitempty"`
	// ToolSteps is the number of rounds of a turn in which the model may call tools; then it has to
	// answer. 0 means 8; the maximum is 32.
	ToolSteps int `json:"tool_steps,omitempty"`
	// ToolTime limits the total time of the calls of a turn. 0 means 2 min; the maximum is 10 min.
	ToolTime settings.Duration `json:"tool_time,omitempty"`
	// ToolOutput is how much of one result the model gets, in bytes. 0 means 16 KiB; the maximum is
	// 96 KiB.
	ToolOutput int `json:"tool_output,omitempty"`
	// MaxTools limits the number of functions offered, device commands included. 0 means 64; the
	// maximum is 128.
	MaxTools int `json:"tools_most,omitempty"`
	// HistoryTokens limits the history that is sent, in tokens as [estimate] counts them. 0 means
	// 3000, negative means no history.
	HistoryTokens int `json:"history_tokens,omitempty"`
	// MaxTokens limits the length of an answer. Null leaves it to the server.
	MaxTokens *int `json:"max_tokens,omitempty"`
	// Temperature is sent as it is. Null leaves it to the server.
	Temperature *float64 `json:"temperature,omitempty"`
	// FirstByteTimeout limits the time until a response begins, retries included. 0 means 30 s.
	FirstByteTimeout settings.Duration `json:"first_byte_timeout,omitempty"`
	// IdleTimeout limits the time without data in a response. Comments of the stream count as data.
	// 0 means 60 s.
	IdleTimeout settings.Duration `json:"idle_timeout,omitempty"`
	// Retries is the number of retries when the server is busy, failing or unreachable and has not
	// begun to respond. 0 means 2, negative means none.
	Retries int `json:"retries,omitempty"`
	// Headers are sent with every request. They override our own.
	Headers map[string]string `json:"headers,omitempty" secret:"true" to:"base_url"`
	// Extra is merged into the body of every request ("reasoning_effort": "low").
	Extra map[string]any `json:"extra,omitempty"`
	// User sends a stable pseudonym of the person as "user", by which some servers keep a session.
	User bool `json:"user,omitempty"`
	// Suggest lets the model offer follow-up questions.
	Suggest bool `json:"suggest,omitempty"`
}

// Texts about invalid settings.
const (
	msgNoModel          = i18n.Message("model is missing: name the model that answers, for example gpt-4o-mini or qwen3:8b")
	msgLongSystem       = i18n.Message("system has %d bytes; %d are the most, because it is sent with every question")
	msgHistory          = i18n.Message("history_tokens is %d; choose at most %d (-1 sends no history)")
	msgMaxTokens        = i18n.Message("max_tokens is %d; choose at least 1, or leave it out")
	msgTemperature      = i18n.Message("temperature is %v; choose between 0 and 2, or leave it out")
	msgRetries          = i18n.Message("retries is %d; choose at most %d (-1 never asks again)")
	msgToolSteps        = i18n.Message("tool_steps is %d; choose 1 to %d, or leave it out for %d")
	msgToolTime         = i18n.Message(`tool_time is %s; choose something like "30s", %s at most`)
	msgToolOutput       = i18n.Message("tool_output is %d; choose %d to %d bytes, or leave it out for %d")
	msgToolsMost        = i18n.Message("tools_most is %d; choose 1 to %d, or leave it out for %d")
	msgExtraOwn         = i18n.Message("extra: %s cannot be set there; take it out")
	msgExtraLength      = i18n.Message("extra: the length of an answer is limited by max_tokens already; keep one of the two")
	msgExtraTemperature = i18n.Message("extra: temperature has a setting of its own; keep one of the two")
	msgExtraJSON        = i18n.Message("extra: cannot be written as JSON")
	msgNoBase           = i18n.Message("base_url is missing: give the address of the API, for example https://api.openai.com/v1")
)

// Validate returns an error that explains what is invalid and how to fix it.
func (s *Settings) Validate() error {
	if _, err := parseEndpoint(s.BaseURL); err != nil {
		return err
	}
	return errors.Join(s.checkTexts(), s.checkNumbers(), s.checkTools(), settings.CheckHeaders(s.Headers),
		s.checkExtra())
}

func (s *Settings) checkTexts() error {
	switch {
	case strings.TrimSpace(s.Model) == "":
		return msgNoModel.Errorf()
	case len(s.System) > maxSystem:
		return msgLongSystem.Errorf(len(s.System), maxSystem)
	}
	return settings.CheckCredential("api_key", s.APIKey)
}

func (s *Settings) checkNumbers() error {
	switch {
	case s.HistoryTokens > maxHistoryTokens:
		return msgHistory.Errorf(s.HistoryTokens, maxHistoryTokens)
	case s.MaxTokens != nil && *s.MaxTokens < 1:
		return msgMaxTokens.Errorf(*s.MaxTokens)
	case s.Temperature != nil && !(*s.Temperature >= 0 && *s.Temperature <= 2):
		return msgTemperature.Errorf(*s.Temperature)
	case s.Retries > maxRetries:
		return msgRetries.Errorf(s.Retries, maxRetries)
	}
	return nil
}

func (s *Settings) checkTools() error {
	switch {
	case s.ToolSteps < 0 || s.ToolSteps > maxToolSteps:
		return msgToolSteps.Errorf(s.ToolSteps, maxToolSteps, DefaultToolSteps)
	case time.Duration(s.ToolTime) > maxToolTime:
		return msgToolTime.Errorf(time.Duration(s.ToolTime), maxToolTime)
	case s.ToolOutput < 0 || s.ToolOutput > 0 && s.ToolOutput < minToolOutput || s.ToolOutput > maxToolOutput:
		return msgToolOutput.Errorf(s.ToolOutput, minToolOutput, maxToolOutput, DefaultToolOutput)
	case s.MaxTools < 0 || s.MaxTools > toolsLimit:
		return msgToolsMost.Errorf(s.MaxTools, toolsLimit, DefaultMaxTools)
	}
	return nil
}

// reservedFields are request fields that belong to the turn or to another setting.
var reservedFields = []string{"messages", "model", "stream", "tools", "functions", "user", "n"}

func (s *Settings) checkExtra() error {
	for name := range s.Extra {
		if slices.Contains(reservedFields, name) {
			return msgExtraOwn.Errorf(name)
		}
	}
	if s.MaxTokens != nil && (s.Extra["max_tokens"] != nil || s.Extra["max_completion_tokens"] != nil) {
		return msgExtraLength.Errorf()
	}
	if s.Temperature != nil && s.Extra["temperature"] != nil {
		return msgExtraTemperature.Errorf()
	}
	if _, err := json.Marshal(s.Extra); err != nil {
		return msgExtraJSON.Errorf()
	}
	return nil
}

// Sees reports whether the model is given pictures.
func (s *Settings) Sees() bool { return s.Images == nil || *s.Images }

func (s *Settings) tools() bool { return s.Tools == nil || *s.Tools }

func (s *Settings) toolSteps() int  { return orDefault(s.ToolSteps, DefaultToolSteps) }
func (s *Settings) toolOutput() int { return orDefault(s.ToolOutput, DefaultToolOutput) }
func (s *Settings) maxTools() int   { return orDefault(s.MaxTools, DefaultMaxTools) }

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
	// display is the chat address without its query, which may contain a secret.
	display string
	host    string
}

// chatPath is the path of the chat endpoint below the base URL (OpenAI API reference, Create chat
// completion).
const chatPath = "/chat/completions"

func parseEndpoint(base string) (endpoint, error) {
	base = strings.TrimSpace(base)
	if base == "" {
		return endpoint{}, msgNoBase.Errorf()
	}
	u, err := settings.ParseAddress("base_url", base, "https://api.openai.com/v1", "api_key")
	if err != nil {
		return endpoint{}, err
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
	e.display = address(chatPath)
	return e, nil
}
