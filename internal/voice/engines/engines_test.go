package engines_test

import (
	"net/http"
	"reflect"
	"strings"
	"testing"

	"patchbay/internal/check"
	"patchbay/internal/i18n"
	"patchbay/internal/settings"
	"patchbay/internal/voice/engine"
	"patchbay/internal/voice/engines"
	"patchbay/internal/voice/engines/openai/openaitest"
)

func TestOpen(t *testing.T) {
	for _, c := range []struct {
		s              engines.Settings
		listen, speaks bool
		problem        string
	}{
		{s: engines.Settings{Address: "https://api.openai.com/v1"}, listen: true, speaks: true},
		{s: engines.Settings{Address: "http://localhost:8880/v1", NoListening: true}, speaks: true},
		{s: engines.Settings{Address: "http://localhost:8080/inference"}, listen: true},
		{s: engines.Settings{Address: "funasr+wss://localhost:10095"}, listen: true},
		{s: engines.Settings{Address: "vosk+ws://localhost:2700"}, listen: true},
		{s: engines.Settings{Address: "sherpa+ws://localhost:6006"}, listen: true},
		{s: engines.Settings{Address: "dashscope+wss://dashscope.aliyuncs.com", Key: "sk-1"}, listen: true,
			speaks: true},
		{s: engines.Settings{Address: "wyoming://localhost:10300"}, listen: true, speaks: true},
		{s: engines.Settings{Address: "tts+http://localhost:5000/?text={text}"}, speaks: true},
		{s: engines.Settings{Address: "volcengine+wss://openspeech.bytedance.com", Key: "1:2"}, listen: true,
			speaks: true},
		{s: engines.Settings{Address: "edge+wss://speech.platform.bing.com"}, speaks: true},
		{s: engines.Settings{Address: "other+ws://localhost:6006"}, problem: "begins with"},
		{s: engines.Settings{Address: "funasr+http://localhost"}, problem: "begins with"},
		{s: engines.Settings{Address: "localhost:10300"}, problem: "begins with"},
		{s: engines.Settings{Address: "https://h/v1", NoListening: true, NoSpeaking: true}, problem: "neither listen nor speak"},
	} {
		e, err := engines.Open(c.s, engine.Options{})
		if c.problem != "" {
			if err == nil || !strings.Contains(err.Error(), c.problem) {
				t.Errorf("%+v: %v, want %q", c.s, err, c.problem)
			}
			continue
		}
		if err != nil || (e.Listener != nil) != c.listen || (e.Speaker != nil) != c.speaks {
			t.Errorf("%+v: listens %t, speaks %t, %v", c.s, e.Listener != nil, e.Speaker != nil, err)
		}
	}
}

func TestCheck(t *testing.T) {
	whole, fast, mute := openaitest.New(t), openaitest.New(t), openaitest.New(t)
	fast.Sound = func(text string) []int16 { // as at 96 kHz
		tone := openaitest.Tone(text)
		return tone[:len(tone)/4]
	}
	mute.Sound = func(string) []int16 { return nil }
	noModel := openaitest.New(t)
	noModel.Intercept = func(_ string, w http.ResponseWriter, _ *http.Request) bool {
		openaitest.Refuse(w, http.StatusNotFound, "The model `whisper-9` does not exist", "model_not_found")
		return true
	}
	for _, c := range []struct {
		name, want string
		state      check.State
		s          engines.Settings
	}{
		{"all is well", "it listens and speaks", check.OK,
			engines.Settings{Address: whole.URL, Key: openaitest.Key, Format: "wav"}},
		{"a wrong key", "refused its key", check.Fail, engines.Settings{Address: whole.URL, Key: "sk-wrong"}},
		{"nobody there", "cannot be reached", check.Fail, engines.Settings{Address: "http://127.0.0.1:1/v1"}},
		{"a path that is missing", "did not accept", check.Fail,
			engines.Settings{Address: strings.TrimSuffix(whole.URL, "/v1"), Key: openaitest.Key}},
		{"a model that is missing", "does not know its model or voice", check.Fail,
			engines.Settings{Address: noModel.URL, Key: openaitest.Key}},
		{"a wrong sample rate", "wrong sample rate: a sentence of two seconds lasts 420ms", check.Fail,
			engines.Settings{Address: fast.URL, Key: openaitest.Key, Format: "pcm"}},
		{"no sound", "sends no sound that can be played", check.Fail,
			engines.Settings{Address: mute.URL, Key: openaitest.Key, Format: "wav"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, err := engines.Open(c.s, engine.Options{})
			if err != nil {
				t.Fatal(err)
			}
			var r check.Report
			r.Lang = i18n.English
			engines.Check(t.Context(), &r, "speech.url", engines.AdviceAddress, e)
			if len(r.Findings) != 1 || r.Findings[0].State != c.state ||
				!strings.Contains(r.Findings[0].Found, c.want) {
				t.Errorf("found %+v, want %q", r.Findings, c.want)
			}
			for _, f := range r.Findings {
				if strings.Contains(f.Found+f.Advice, openaitest.Key) || strings.Contains(f.Found, "sk-wrong") {
					t.Errorf("the key is shown: %+v", f)
				}
			}
		})
	}
}

// TestKinds checks what people are told of each kind, and that its addresses find it.
func TestKinds(t *testing.T) {
	seen := map[string]bool{}
	for _, k := range engines.Kinds() {
		if k.Name == "" || seen[k.Name] || k.Title == "" || k.About == "" || !k.Listens && !k.Speaks {
			t.Errorf("%+v", k)
		}
		seen[k.Name] = true
		fields := settings.Schema{k.Settings}.Fields()
		for _, f := range fields {
			if k.Texts[f.Name].Label == "" {
				t.Errorf("the setting %s of %s has no label", f.Name, k.Name)
			}
			if strings.Contains(f.Name, "key") && !f.Secret {
				t.Errorf("the setting %s of %s is not secret", f.Name, k.Name)
			}
		}
		if len(k.Texts) != len(fields) {
			t.Errorf("%s has %d settings and texts of %d", k.Name, len(fields), len(k.Texts))
		}
		for _, scheme := range k.Schemes {
			if seen[scheme+"://"] {
				t.Errorf("%s is of several kinds", scheme)
			}
			seen[scheme+"://"] = true
			s := k.FromAddress(scheme+"://engine.example/v1", "sk-1")
			if v, ok := s.(interface{ Validate() error }); ok && v.Validate() != nil {
				t.Errorf("%s: %v", scheme, v.Validate())
			}
			if reflect.TypeOf(s) != reflect.TypeOf(k.Settings()) {
				t.Errorf("%s makes %T, not %T", scheme, s, k.Settings())
			}
		}
	}
}
