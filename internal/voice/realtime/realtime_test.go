package realtime

import (
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"patchbay/internal/voice/engine"
)

// Events are understood in every spelling.
func TestDecode(t *testing.T) {
	for text, want := range map[string]Event{
		`{"type":"response.output_audio.delta","item_id":"i","delta":"AQA="}`: {Type: Audio, ItemID: "i", Sound: []byte{1, 0}},
		`{"type":"response.audio.delta","item_id":"i","delta":"AQA="}`:        {Type: Audio, ItemID: "i", Sound: []byte{1, 0}},
		`{"type":"response.audio_transcript.delta","delta":"你"}`:              {Type: AudioText, Text: "你"},
		`{"type":"response.text.delta","delta":"a"}`:                          {Type: OutputText, Text: "a"},
		`{"type":"conversation.item.input_audio_transcription.text","text":"a","stash":"b"}`: {Type: InputText, Text: "a",
			Stash: "b"},
		`{"type":"conversation.item.input_audio_transcription.completed","item_id":"i","transcript":"a"}`: {Type: InputDone,
			ItemID: "i", Text: "a"},
		`{"type":"response.function_call_arguments.done","call_id":"c","name":"n","arguments":"{}"}`: {Type: ArgumentsDone,
			CallID: "c", Name: "n", Text: "{}"},
		`{"type":"response.output_item.added","item":{"id":"i","type":"message"}}`: {Type: ItemAdded, ItemID: "i",
			IsMessage: true},
		`{"type":"response.done","response":{"id":"r","status":"completed","usage":{"input_token_details":{"text_tokens":1,` +
			`"audio_tokens":2,"cached_tokens":3},"output_token_details":{"text_tokens":4,"audio_tokens":5}}}}`: {
			Type: ResponseDone, ResponseID: "r", Status: Completed, Usage: Usage{1, 2, 3, 4, 5}},
		`{"type":"response.done","response":{"status":"failed","status_details":{"error":{"type":"server_error"}}}}`: {
			Type: ResponseDone, Status: Failure, Err: &Error{Type: "server_error"}},
		`{"type":"error","error":{"type":"invalid_request_error","code":"invalid_value","message":"sk-secret","param":"session.voice"}}`: {
			Type: Failed, Err: &Error{"invalid_request_error", "invalid_value", "session.voice"}},
		`{"type":"rate_limits.updated"}`: {Type: "rate_limits.updated"},
	} {
		got, err := Decode([]byte(text))
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", text, err, diff)
		}
	}
	for _, bad := range []string{"", "{", "[]", "{}", `{"type":"response.audio.delta","delta":"?"}`,
		`{"type":"response.audio.delta","delta":"AQ=="}`} {
		if _, err := Decode([]byte(bad)); engine.AsError(err) == nil {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// Errors have a class.
func TestErrorClasses(t *testing.T) {
	for code, want := range map[string]engine.Class{"invalid_api_key": engine.Auth, "InvalidApiKey": engine.Auth,
		"insufficient_quota": engine.Quota, "Throttling.RateQuota": engine.Quota, "Arrearage": engine.Quota,
		"session_expired": engine.Closed, "server_error": engine.Broken, "invalid_value": engine.Input} {
		if got := (&Error{Code: code}).In().Class; got != want {
			t.Errorf("%s: %s", code, got)
		}
	}
}

func TestSpellingOf(t *testing.T) {
	for address, want := range map[string]Spelling{
		"wss://api.openai.com/v1/realtime":                                    OpenAI,
		"wss://dashscope-intl.aliyuncs.com/api-ws/v1/realtime":                Qwen,
		"wss://w1.cn-beijing.maas.aliyuncs.com/api-ws/v1/realtime":            Qwen,
		"wss://evil-aliyuncs.com.example/":                                    OpenAI,
		"ws://localhost:8000/v1/realtime":                                     OpenAI,
		"wss://me.openai.azure.com/openai/v1/realtime?api-version=2026-01-01": OpenAI,
	} {
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		if got := SpellingOf(u, ""); got != want {
			t.Errorf("%s: %s", address, got)
		}
	}
	if got := SpellingOf(&url.URL{Host: "proxy"}, "Qwen3-omni"); got != Qwen {
		t.Error(got)
	}
}

// The model is in the address, except for OpenAI's transcription; a query is kept.
func TestAddress(t *testing.T) {
	u, err := ParseURL(" wss://h/v1/realtime?api-version=1&model=old#x")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{Model: "m"}, "wss://h/v1/realtime?api-version=1&model=m"},
		{Options{Purpose: Transcribe, Model: "m"}, "wss://h/v1/realtime?api-version=1&intent=transcription"},
		{Options{Purpose: Transcribe, Model: "m", Spelling: Qwen}, "wss://h/v1/realtime?api-version=1&model=m"},
		{Options{}, "wss://h/v1/realtime?api-version=1&model=old"},
	} {
		if c.o.Spelling == "" {
			c.o.Spelling = OpenAI
		}
		c.o.URL = u
		if got := c.o.address().String(); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
}

// Sound that is converted in pieces has the length and the values of the whole.
func TestUpsampler(t *testing.T) {
	samples := make([]int16, 16000)
	for i := range samples {
		samples[i] = int16(i * 7)
	}
	u := NewUpsampler(OpenAI)
	for range 2 {
		whole := append([]int16(nil), NewUpsampler(OpenAI).Convert(samples, true)...)
		var pieces []int16
		for i := 0; i < len(samples); i += 960 {
			end := min(i+960, len(samples))
			pieces = append(pieces, u.Convert(samples[i:end], end == len(samples))...)
		}
		if diff := cmp.Diff(whole, pieces); diff != "" || len(whole) < 23990 || len(whole) > 24010 {
			t.Errorf("%d samples and %d in pieces", len(whole), len(pieces))
		}
	}
	if got := NewUpsampler(Qwen).Convert(samples, false); len(got) != len(samples) {
		t.Error(len(got))
	}
}

// No event makes Decode panic, and errors quote nothing.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"type":"response.audio.delta","delta":"AQA="}`))
	f.Add([]byte(`{"type":"error","error":{"code":5,"message":"SECRET"}}`))
	f.Add([]byte(`{"type":"response.done","response":{"status":"failed","usage":null}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		e, err := Decode(data)
		if err != nil && engine.AsError(err).Class != engine.Broken {
			t.Errorf("%v", err)
		}
		if err == nil && (e.Type == "" || len(e.Sound)%2 != 0) {
			t.Errorf("%+v", e)
		}
		if e.Err != nil && strings.ContainsAny(e.Err.Error(), "\n\"") {
			t.Errorf("%q", e.Err.Error())
		}
	})
}
