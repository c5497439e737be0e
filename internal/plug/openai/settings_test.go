package openai

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func TestSettingsFromJSON(t *testing.T) {
	s, err := parseSettings([]byte(`{"base_url":"http://localhost:11434/v1","model":"qwen3:8b","images":false,"history_tokens":500,
		"first_byte_timeout":"5s","idle_timeout":"1m30s","retries":1,"temperature":0,"headers":{"x-a":"b"},"extra":{"seed":7},"suggest":true}`))
	if err != nil {
		t.Fatal(err)
	}
	if s.Sees() || !s.tools() || s.historyTokens() != 500 || s.firstByte() != 5*time.Second ||
		s.idle() != 90*time.Second ||
		s.retries() != 1 || *s.Temperature != 0 || !s.Suggest {
		t.Errorf("got %+v", s)
	}
	data, err := json.Marshal(s)
	if err != nil || !strings.Contains(string(data), `"idle_timeout":"1m30s"`) {
		t.Errorf("written as %s, %v", data, err)
	}
	again, err := parseSettings(data)
	if err != nil || again.IdleTimeout != s.IdleTimeout {
		t.Errorf("read again: %+v, %v", again, err)
	}
}

func TestWhatHoldsWhereSettingsAreSilent(t *testing.T) {
	s, err := parseSettings([]byte(`{"base_url":"https://api.openai.com/v1","model":"m"}`))
	if err != nil || !s.Sees() || !s.tools() || s.historyTokens() != 3000 || s.firstByte() != 30*time.Second ||
		s.idle() != time.Minute || s.retries() != 2 {
		t.Errorf("got %+v, %v", s, err)
	}
	if s.toolSteps() != 8 || s.toolTime() != 2*time.Minute || s.toolOutput() != 16384 || s.maxTools() != 64 {
		t.Errorf("tools: %d steps, %v, %d bytes, %d functions", s.toolSteps(), s.toolTime(), s.toolOutput(),
			s.maxTools())
	}
	s, err = parseSettings([]byte(`{"base_url":"https://x.example","model":"m","tool_steps":32,"tool_time":"30s","tool_output":98304,"tools_most":128}`))
	if err != nil || s.toolSteps() != 32 || s.toolTime() != 30*time.Second || s.toolOutput() != 98304 ||
		s.maxTools() != 128 {
		t.Errorf("got %+v, %v", s, err)
	}
	s.Retries, s.HistoryTokens = -1, -1
	if s.retries() != 0 || s.historyTokens() != 0 {
		t.Errorf("negative: %d retries, %d tokens", s.retries(), s.historyTokens())
	}
}

func parseSettings(text []byte) (s Settings, err error) {
	if err = json.Unmarshal(text, &s); err == nil {
		err = s.Validate()
	}
	return s, err
}

func TestSettingsThatAreWrong(t *testing.T) {
	good := `"base_url":"https://x.example/v1","model":"m"`
	for settings, want := range map[string]string{
		`{}`: "base_url is missing",
		`{"base_url":"api.openai.com/v1","model":"m"}`:                 "not a web address",
		`{"base_url":"ftp://x","model":"m"}`:                           "not a web address",
		`{"base_url":"https://","model":"m"}`:                          "not a web address",
		`{"base_url":"https://me:geheim@x.example","model":"m"}`:       "put the secret into api_key",
		`{"base_url":"https://x.example"}`:                             "model is missing",
		`{` + good + `,"api_key":"a\nb"}`:                              "copy it again",
		`{` + good + `,"api_key":"a "}`:                                "copy it again",
		`{` + good + `,"idle_timeout":5}`:                              "is not a duration",
		`{` + good + `,"idle_timeout":"5"}`:                            "is not a duration",
		`{` + good + `,"idle_timeout":"-5s"}`:                          "is not a duration",
		`{` + good + `,"first_byte_timeout":"-5s"}`:                    "is not a duration",
		`{` + good + `,"retries":11}`:                                  "at most 10",
		`{` + good + `,"history_tokens":2000000}`:                      "at most 1000000",
		`{` + good + `,"max_tokens":0}`:                                "at least 1",
		`{` + good + `,"temperature":3}`:                               "between 0 and 2",
		`{` + good + `,"tool_steps":33}`:                               "tool_steps is 33; choose 1 to 32",
		`{` + good + `,"tool_steps":-1}`:                               "choose 1 to 32",
		`{` + good + `,"tool_time":"11m"}`:                             "tool_time is 11m0s",
		`{` + good + `,"tool_time":"-1s"}`:                             "is not a duration",
		`{` + good + `,"tool_time":30}`:                                "is not a duration",
		`{` + good + `,"tool_output":100}`:                             "choose 256 to 98304 bytes",
		`{` + good + `,"tool_output":100000}`:                          "choose 256 to 98304 bytes",
		`{` + good + `,"tools_most":129}`:                              "tools_most is 129; choose 1 to 128",
		`{` + good + `,"headers":{"a b":"c"}}`:                         "cannot be the name of a header",
		`{` + good + `,"headers":{"a":"c\nd"}}`:                        "line break",
		`{` + good + `,"headers":{"Content-Length":"1"}}`:              "cannot be set",
		`{` + good + `,"extra":{"stream":false}}`:                      "stream cannot be set",
		`{` + good + `,"max_tokens":5,"extra":{"max_tokens":6}}`:       "keep one of the two",
		`{` + good + `,"temperature":1,"extra":{"temperature":1}}`:     "keep one of the two",
		`{` + good + `,"system":"` + strings.Repeat("x", 40000) + `"}`: "40000 bytes",
	} {
		_, err := parseSettings([]byte(settings))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.120s: got %v, want %q", settings, err, want)
			continue
		}
		if strings.Contains(err.Error(), "geheim") {
			t.Errorf("a secret got out: %v", err)
		}
	}
	if _, err := New(Settings{}, Options{}); err == nil {
		t.Error("New accepts nothing")
	}
}

func TestAddresses(t *testing.T) {
	for base, want := range map[string][2]string{
		"https://api.openai.com/v1": {"https://api.openai.com/v1/chat/completions",
			"https://api.openai.com/v1/models"},
		"https://api.openai.com/v1/": {"https://api.openai.com/v1/chat/completions",
			"https://api.openai.com/v1/models"},
		" https://api.deepseek.com ": {"https://api.deepseek.com/chat/completions",
			"https://api.deepseek.com/models"},
		"http://[::1]:8080/v1/chat/completions": {"http://[::1]:8080/v1/chat/completions",
			"http://[::1]:8080/v1/models"},
		"http://h/v1/chat/completions/":                {"http://h/v1/chat/completions", "http://h/v1/models"},
		"https://h/openai/deployments/d?api-version=1": {"https://h/openai/deployments/d/chat/completions?api-version=1", "https://h/openai/deployments/d/models?api-version=1"},
	} {
		e, err := parseEndpoint(base)
		if err != nil || e.chat != want[0] || e.models != want[1] || strings.Contains(e.display, "?") {
			t.Errorf("%s: %+v, %v", base, e, err)
		}
	}
}
