package openaitest

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

func start(t *testing.T, script ...Reply) *Server {
	t.Helper()
	s, err := Start(script...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// do sends a request and returns the status and the body of the response.
func do(t *testing.T, method, url, key, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(all)
}

func TestBadRequestsAreRefused(t *testing.T) {
	user := `"messages":[{"role":"user","content":"hi"}]`
	part := func(p string) string { return `{"model":"m","messages":[{"role":"user","content":[` + p + `]}]}` }
	function := func(f string) string {
		return `{"model":"m",` + user + `,"tools":[{"type":"function","function":` + f + `}]}`
	}
	called := func(id, rest string) string {
		return `{"model":"m","messages":[{"role":"user","content":"hi"},{"role":"assistant","content":null,"tool_calls":[{"id":"` + id +
			`","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"b","type":"function","function":{"name":"f","arguments":"{}"}}]}` + rest + `]}`
	}
	result := func(id string) string { return `,{"role":"tool","tool_call_id":"` + id + `","content":"x"}` }
	repeats := func(calls string) string {
		return `{"model":"m","messages":[{"role":"assistant","content":"a","tool_calls":` + calls + `}]}`
	}
	for body, want := range map[string]string{
		called("a", ""):          "must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: a, b",
		called("a", result("a")): "did not have response messages: b",
		called("a", result("a")+
			`,{"role":"user","content":"x"}`): "did not have response messages: b",
		called("a", result("a")+result("a")): "Duplicate value for 'tool_call_id'",
		called("a", result("c")):             "not found in 'tool_calls'",
		called("a", result("b")+result("a")): "not in the order",
		called("b", ""):                      "Duplicate value for 'id'",
		called("", ""):                       "tool_calls[0].id",
		called(strings.Repeat("x", 41), ""):  "maximum length 40",
		`{"model":"m",` + user[:len(user)-1] + result("a") +
			`]}`: "must be a response to a preceeding message",
		`{"model":"m","messages":[{"role":"user","content":"hi","tool_calls":[]}]}`: "only messages with role 'assistant'",
		repeats(`[]`): "empty array",
		repeats(`{}`): "Invalid type",
		repeats(`[{"id":"a","function":{"name":"f","arguments":"{}"}}]`):                     "Supported values are: 'function'",
		repeats(`[{"id":"a","type":"function","function":{"name":"f"}}]`):                    "Missing required parameter",
		repeats(`[{"id":"a","type":"function","function":{"name":"f g","arguments":"{}"}}]`): "does not match pattern",
		repeats(`[{"id":"a","type":"function","function":{"name":"f","arguments":"{"}}]`):    "expected a JSON object",
		repeats(`[{"id":"a","type":"function","function":{"name":"f","arguments":""}}]`):     "expected a JSON object",
		`{"model":"m",` + user +
			`,"parallel_tool_calls":true}`: "only allowed when 'tools'",
		`{"model":"m",` + user +
			`,"tool_choice":"maybe","tools":[{"type":"function","function":{"name":"f"}}]}`: "Supported values are: 'none'",
		`{"model":"m",` + user + `,"tools":[` + strings.Repeat(`{"type":"function","function":{"name":"f"}},`, 128) +
			`{"type":"function","function":{"name":"f"}}]}`: "maximum length 128",
		function(`{"name":"f","parameters":{"type":"object","properties":{},"anyOf":[]}}`): "at the top level",
		`{`:                                  "could not parse",
		`{"messages":[]}`:                    "model parameter",
		`{"model":"m","messages":[]}`:        "messages",
		`{"model":"m",` + user + `,"sys":1}`: "Unrecognized request argument supplied: sys",
		`{"model":"m",` + user +
			`,"stream":"yes"}`: "Invalid type",
		`{"model":"m",` + user +
			`,"temperature":3}`: "temperature",
		`{"model":"m",` + user +
			`,"tools":[]}`: "empty array",
		`{"model":"m",` + user +
			`,"tool_choice":"auto"}`: "only allowed when 'tools'",
		`{"model":"m",` + user +
			`,"stream_options":{"include_usage":true}}`: "stream_options",
		`{"model":"m",` + user +
			`,"max_tokens":1,"max_completion_tokens":1}`: "same time",
		`{"model":"m","messages":[{"role":"bot","content":"hi"}]}`:                                                           "Invalid value: 'bot'",
		`{"model":"m","messages":[{"role":"user","content":null}]}`:                                                          "got null",
		`{"model":"m","messages":[{"role":"user","content":[]}]}`:                                                            "expected one of",
		`{"model":"m","messages":[{"role":"tool","content":"x"}]}`:                                                           "tool_call_id",
		`{"model":"m","messages":[{"role":"assistant","content":[{"type":"image_url","image_url":{"url":"https://x/y"}}]}]}`: "only allowed for messages with role 'user'",
		part(`{"type":"image","url":"x"}`):                                                                                   "Supported values",
		part(`{"type":"image_url","image_url":{"url":"data:image/bmp;base64,AAAA"}}`):                                        "unsupported image",
		part(`{"type":"image_url","image_url":{"url":"data:image/png;base64,A"}}`):                                           "Invalid base64",
		part(`{"type":"image_url","image_url":{"url":"data:image/png;base64,"}}`):                                            "Invalid base64",
		function(`{"name":"a b"}`):                                                                                           "does not match pattern",
		function(`{"name":"f","description":"` + strings.Repeat("x", 1025) +
			`"}`): "too long",
		function(`{"name":"f","parameters":{"type":"array"}}`):                                   "Invalid schema",
		function(`{"name":"f","parameters":{"type":"object"}}`):                                  "Invalid schema",
		function(`{"name":"f","parameters":{"type":"object","properties":{},"required":["x"]}}`): "not there: x",
		`{"model":"m",` + user +
			`,"tools":[{"type":"x","function":{"name":"f"}}]}`: "Invalid value: 'x'",
	} {
		s := start(t)
		status, got := do(t, "POST", s.URL+"/chat/completions", "", body)
		var e struct{ Error apiError }
		if err := json.Unmarshal([]byte(got), &e); status != 400 || err != nil ||
			!strings.Contains(e.Error.Message, want) || e.Error.Type != "invalid_request_error" {
			t.Errorf("%s: %d %s", body, status, got)
		}
		if r := s.Requests(); len(r) != 1 || string(r[0].Body) != body {
			t.Errorf("%s: %d requests were captured", body, len(r))
		}
	}
}

func TestAConversationWithCalls(t *testing.T) {
	s := start(t)
	status, got := do(t, "POST", s.URL+"/chat/completions", "",
		`{"model":"m","tool_choice":"none","tools":[{"type":"function","function":{"name":"f"}}],"messages":[
		{"role":"user","content":"hi"},
		{"role":"assistant","content":"wait","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"b","type":"function","function":{"name":"g","arguments":"{\"x\":1}"}}]},
		{"role":"tool","tool_call_id":"a","content":"1"},{"role":"tool","tool_call_id":"b","content":"2"},
		{"role":"user","content":"pictures"}]}`)
	if status != 200 {
		t.Fatalf("%d %s", status, got)
	}
	c := s.Requests()[0].Chat
	results := c.Results()
	if len(results) != 2 || results[1].Text() != "2" || results[1].ToolCallID != "b" {
		t.Errorf("the results are %+v", results)
	}
	if calls := c.Messages[1].Calls(); len(calls) != 2 || calls[1] != (Call{Index: 1,
		ID: "b", Name: "g", Arguments: `{"x":1}`}) {
		t.Errorf("the calls are %+v", calls)
	}
}

func TestTheStream(t *testing.T) {
	s := start(t, Reply{Steps: append([]Step{Text("a")}, CallInPieces(0, "c", "f", "{}")...)})
	status, got := do(t, "POST", s.URL+"/chat/completions", "",
		`{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}`)
	chunk := func(delta, finish string) string {
		return `data: {"choices":[{"delta":` + delta + `,"finish_reason":` + finish +
			`,"index":0,"logprobs":null}],"created":1760000000,"id":"chatcmpl-test",` +
			`"model":"m","object":"chat.completion.chunk","service_tier":"default","system_fingerprint":"fp_test"}` +
			"\n\n"
	}
	want := chunk(`{"content":"","refusal":null,"role":"assistant"}`, "null") + chunk(`{"content":"a"}`, "null") +
		chunk(`{"tool_calls":[{"index":0,"id":"c","type":"function","function":{"name":"f","arguments":""}}]}`,
			"null") +
		chunk(`{"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]}`, "null") +
		chunk(`{}`, `"tool_calls"`) + "data: [DONE]\n\n"
	if status != 200 || got != want {
		t.Errorf("%d\n%s\nwant\n%s", status, got, want)
	}
}

func TestOneAnswerInOnePiece(t *testing.T) {
	s := start(t)
	_, got := do(t, "POST", s.URL+"/chat/completions", "", `{"model":"m","messages":[{"role":"user","content":"hi"}]}`)
	if !strings.Contains(got, `"message":{"role":"assistant","content":"Hello there.","refusal":null}`) ||
		!strings.Contains(got, `"object":"chat.completion"`) {
		t.Errorf("got %s", got)
	}
}

func TestKeysAndModels(t *testing.T) {
	s := start(t)
	s.Key, s.Models = "right", []string{"a/b"}
	ask := `{"model":"a/b","messages":[{"role":"user","content":"hi"}]}`
	for _, tt := range []struct {
		method, path, key, body string
		status                  int
		want                    string
	}{
		{"GET", "/models", "right", "", 200, `"id":"a/b"`},
		{"GET", "/models", "", "", 401, "You didn't provide an API key."},
		{"GET", "/models", "wrong", "", 401, "invalid_api_key"},
		{"GET", "/models/a/b", "right", "", 200, `"object":"model"`},
		{"GET", "/models/c", "right", "", 404, "model_not_found"},
		{"POST", "/chat/completions", "right", ask, 200, "Hello there."},
		{"POST", "/chat/completions", "wrong", ask, 401, "invalid_api_key"},
		{"POST", "/chat/completions", "right", strings.Replace(ask, "a/b", "c", 1), 404, "model_not_found"},
		{"POST", "/completions", "right", ask, 404, "Invalid URL (POST /v1/completions)"},
	} {
		if status, got := do(t, tt.method, s.URL+tt.path, tt.key, tt.body); status != tt.status ||
			!strings.Contains(got, tt.want) {
			t.Errorf("%s %s with key %q: %d %s", tt.method, tt.path, tt.key, status, got)
		}
	}
}

func TestARequestTellsHowItEnded(t *testing.T) {
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	never := make(chan struct{})
	s := start(t, Reply{Steps: []Step{Wait(never)}})
	caller, hangUp := context.WithCancel(ctx)
	ask := func() {
		req, _ := http.NewRequestWithContext(caller, "POST", s.URL+"/chat/completions",
			strings.NewReader(`{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}`))
		req.Header.Set("Content-Type", "application/json")
		if resp, err := http.DefaultClient.Do(req); err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
	}
	asked := make(chan struct{})
	go func() { ask(); close(asked) }()
	first, err := s.Await(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	hangUp()
	<-asked
	if !first.Disconnected() {
		t.Error("the sender disconnected, which was not reported")
	}
	caller = ctx
	ask()
	second, err := s.Await(ctx, 2)
	if err != nil || second.Disconnected() {
		t.Errorf("the second request was disconnected, or %v", err)
	}
}
