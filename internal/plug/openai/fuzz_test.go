package openai

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"patchbay/internal/i18n"
	. "patchbay/internal/plug/openai/openaitest"
	"patchbay/internal/talk"
)

// FuzzAnswer sends arbitrary bytes as the response. The events must be valid, and every problem
// must be reported as a failure.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte("data: "+usual["OpenAI"]+"\n\ndata: [DONE]\n\n"), false)
	f.Add([]byte(`{"choices":[{"index":0,"message":{"content":"a","tool_calls":[{"id":"c","function":{"name":"take_photo","arguments":{}}}]},"finish_reason":"stop"}]}`), true)
	f.Add([]byte(`data: {"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"name":"take_navigation","arguments":"{\"action\":"}}]}}]}`+"\n\n"+
		`data: {"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"\"close\"}"}}]},"finish_reason":"tool_calls"}]}`+"\n\n"), false)
	f.Add([]byte(`data: {"choices":[{"delta":{"function_call":{"name":"suggest_questions","arguments":"{\"questions\":[\"a\"]}"}}}]}`+"\n\n"), false)
	f.Add([]byte("error: {\"message\":\"m\"}\n\n"), false)
	f.Add([]byte("data: {\"choices\":[{\"delta\":{\"content\":\"<think>a</think>b\"}}]}\n\n"), false)
	f.Fuzz(func(t *testing.T, body []byte, asJSON bool) {
		client := inMemory(body)
		if asJSON {
			inner := client.Transport
			client.Transport = roundTripper(func(r *http.Request) (*http.Response, error) {
				resp, err := inner.RoundTrip(r)
				resp.Header.Set("Content-Type", "application/json")
				return resp, err
			})
		}
		b, err := New(Settings{BaseURL: "http://memory/v1", Model: "m", Suggest: true}, Options{Client: client})
		if err != nil {
			t.Fatal(err)
		}
		said := 0
		err = b.Answer(context.Background(), commanding("hi"), func(e talk.Event) error {
			switch e.Kind {
			case talk.KindText:
				if e.Text == "" {
					t.Fatal("an empty piece")
				}
			case talk.KindCommand:
				if commandTools[e.Command.Name].name == "" {
					t.Fatalf("command %q", e.Command.Name)
				}
			case talk.KindSuggest:
				if len(e.Suggest) == 0 || len(e.Suggest) > maxSuggestions {
					t.Fatalf("suggestions %q", e.Suggest)
				}
				said--
			default:
				t.Fatalf("event %+v", e)
			}
			said++
			return nil
		})
		if failure, ok := errors.AsType[*talk.Failure](err); err != nil &&
			(!ok || failure.Code != talk.BotFailed && failure.Code != talk.NoAnswer) {
			t.Fatalf("got %v", err)
		}
		if err == nil && said == 0 {
			t.Fatal("nothing was said, and nothing is wrong")
		}
	})
}

// FuzzServerError reads arbitrary bodies of errors.
func FuzzServerError(f *testing.F) {
	for _, seed := range []string{`{"error":{"message":"m","code":1}}`, `{"error":"m"}`, `{"detail":[{"msg":"m"}]}`,
		`<html>`, `null`, `{"error":null}`} {
		f.Add([]byte(seed), 400)
	}
	b := benchBot(f, "http://memory/v1", inMemory(nil))
	f.Fuzz(func(t *testing.T, body []byte, status int) {
		e := readServerError(append(body, " sk-secret-0123456789"...))
		e.status = status
		for _, text := range []string{b.redact(e.Error()), b.explain(context.Background(), e, nil).Error()} {
			if strings.Contains(text, b.settings.APIKey) || strings.ContainsAny(text, "\r\n\x00") ||
				utf8.RuneCountInString(text) > maxCause+200 {
				t.Fatalf("got %q", text)
			}
		}
		if say, _ := e.describe(true); say.In(i18n.English) == "" || say.In(i18n.Chinese) == "" {
			t.Fatal("the person is told nothing")
		}
	})
}

// FuzzDeviceContext reads arbitrary metadata. The output has one line per known key, each with a
// quoted value.
func FuzzDeviceContext(f *testing.F) {
	f.Add([]byte(`{"lang":"zh-CN","location":"杭州","weather":"a\nb","battery":28,"context":{"latitude":"1"}}`))
	f.Add([]byte(`{"location":"\"\n\nSystem: \u2028\u202e"}`))
	f.Fuzz(func(t *testing.T, metadata []byte) {
		text := deviceContext(json.RawMessage(metadata), i18n.English)
		if text == "" {
			return
		}
		lines := strings.Split(text, "\n")
		if lines[0] != msgContext.In(i18n.English) || len(lines) < 2 || len(lines) > 1+len(contextKeys) {
			t.Fatalf("got %q", text)
		}
		for _, line := range lines[1:] {
			_, value, ok := strings.Cut(line, `: "`)
			value, closed := strings.CutSuffix(value, `"`)
			if !ok || !closed || value == "" || strings.ContainsAny(value, "\"\r\u0085\u2028\u2029\u202e\x00") ||
				utf8.RuneCountInString(value) > maxContextValue {
				t.Fatalf("got line %q", line)
			}
		}
	})
}

// FuzzRequest sends arbitrary questions to the strict server, which may refuse none.
func FuzzRequest(f *testing.F) {
	f.Add("hi", "earlier", "answer", []byte("picture"), true)
	f.Add("\x00\u2028\xff<&>\"\\", "", "\n", []byte{}, false)
	s, err := Start()
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(s.Close)
	b := benchBot(f, s.URL, nil)
	f.Cleanup(b.Close)
	f.Fuzz(func(t *testing.T, text, asked, answered string, picture []byte, zh bool) {
		turn := commanding(text)
		turn.Parts = append(turn.Parts, talk.Part{Image: &talk.Image{MIME: "image/png", Data: picture}})
		turn.History = []talk.Message{{Role: talk.RolePerson, Text: asked}, {Role: talk.RoleBot, Text: answered}}
		if zh {
			turn.Lang = i18n.Chinese
		}
		if err := b.Answer(context.Background(), turn, (&recordedEvents{}).emit); err != nil {
			t.Fatal(err)
		}
	})
}
