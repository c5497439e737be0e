package dashscope

import (
	"context"
	"strings"
	"testing"

	"patchbay/internal/voice/engine"
	"patchbay/internal/voice/engines/socket"
)

const secret = "sk-very-secret"

// FuzzAccept checks that no message of the service breaks an utterance or a speech, and that errors
// do not repeat the key.
func FuzzAccept(f *testing.F) {
	for _, text := range []string{
		`{"header":{"task_id":"ID","event":"task-started","attributes":{}},"payload":{}}`,
		`{"header":{"task_id":"ID","event":"result-generated"},"payload":{"output":{"sentence":{"begin_time":170,` +
			`"end_time":null,"text":"hello","sentence_end":false,"heartbeat":false,"words":[]}},"usage":{"duration":1}}}`,
		`{"header":{"task_id":"ID","event":"result-generated"},"payload":{"output":{"type":"sentence-begin",` +
			`"sentence":{"index":0,"words":[]},"original_text":"hello"}}}`,
		`{"header":{"task_id":"ID","event":"result-generated"},"payload":{"output":{"type":"sentence-end"}}}`,
		`{"header":{"task_id":"ID","event":"task-failed","error_code":"InvalidParameter","error_message":"sk-very-secret"}}`,
		`{"header":{"task_id":"ID","event":"task-finished"},"payload":{"output":null}}`,
		`{"header":{"task_id":"ID","event":"result-generated"},"payload":{"usage":{"duration":-1,"characters":9}}}`,
		`{"header":null}`, `[]`,
	} {
		f.Add([]byte(text), false)
		f.Add([]byte(text), true)
	}
	f.Fuzz(func(t *testing.T, data []byte, binary bool) {
		job := &task{"ID", secret}
		u := &utterance{task: job}
		for range 2 {
			_, _, err := u.Accept(socket.Message{Binary: binary, Data: data})
			checkError(t, err)
		}
		say := func(ctx context.Context, _ engine.Manner, n *engine.Narration) error {
			_, err := (&speech{task: job, format: engine.PCM}).Accept(socket.Message{Binary: binary, Data: data}, n)
			return err
		}
		s, err := engine.SpeakLive(say).Speak(t.Context(), engine.Manner{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.Next()
		checkError(t, err)
		s.Close()
	})
}

func checkError(t *testing.T, err error) {
	t.Helper()
	if err != nil && strings.Contains(err.Error(), secret) {
		t.Error(err)
	}
}

// Error codes have classes.
func TestClasses(t *testing.T) {
	for code, want := range map[string]engine.Class{"InvalidApiKey": engine.Auth, "Arrearage": engine.Quota,
		"Throttling.AllocationQuota": engine.Quota, "InternalError.Timeout": engine.Timeout,
		"InternalError.Algo": engine.Broken, "InvalidParameter": engine.Input, "": engine.Input} {
		if got := failure(code, "m "+secret, secret); got.Class != want || strings.Contains(got.Error(), secret) {
			t.Errorf("%s: %v", code, got)
		}
	}
}

// Settings that cannot work are explained.
func TestValidate(t *testing.T) {
	for want, s := range map[string]Settings{
		"api_key is missing": {},
		"url is not":         {URL: "https://" + secret, APIKey: secret},
		"url is not an":      {URL: "wss://u:" + secret + "@h", APIKey: secret},
		"speed is 3":         {APIKey: secret, Speed: 3},
		`format is "mp3"`:    {APIKey: secret, Format: "mp3"},
		"languages: \"a b\"": {APIKey: secret, Languages: []string{"a b"}},
		"languages has 11":   {APIKey: secret, Languages: make([]string, 11)},
		"api_key":            {APIKey: secret + "\n"},
	} {
		_, err := New(s, engine.Options{})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), secret) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	// The path may be left out.
	s := Kind().FromAddress("dashscope+wss://dashscope-intl.aliyuncs.com", secret).(*Settings)
	u, err := s.address()
	if err != nil || s.Validate() != nil || u.String() != "wss://dashscope-intl.aliyuncs.com/api-ws/v1/inference" {
		t.Error(u, err)
	}
}
