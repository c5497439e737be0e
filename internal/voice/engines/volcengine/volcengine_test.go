package volcengine_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"patchbay/internal/voice/engine"
	"patchbay/internal/voice/engines/socket/sockettest"
	"patchbay/internal/voice/engines/volcengine"
	"patchbay/internal/voice/engines/volcengine/volcenginetest"
)

// newEngine returns an engine for a service, which is closed with the test.
func newEngine(t *testing.T, server *volcenginetest.Server, s volcengine.Settings, log io.Writer) engine.Engine {
	t.Helper()
	s.URL, s.AppKey, s.AccessKey = server.URL, volcenginetest.AppKey, volcenginetest.AccessKey
	e, err := volcengine.New(s, engine.Options{Logger: slog.New(slog.NewTextHandler(log,
		&slog.HandlerOptions{Level: slog.LevelDebug}))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

// clean closes an engine and checks that nothing is left of it.
func clean(t *testing.T, server *volcenginetest.Server, e engine.Engine) {
	t.Helper()
	e.Close()
	server.Clean(t, "engines/volcengine")
}

// TestListenGolden checks the messages of an utterance.
func TestListenGolden(t *testing.T) {
	samples := sockettest.Ramp(8000)
	var got []int16
	for _, gzip := range []bool{false, true} {
		server := volcenginetest.New(t, volcenginetest.Options{Gzip: gzip,
			Partials:   []volcenginetest.Partial{{Text: "今天"}, {Text: "今天天气。", Definite: true}},
			Transcript: func(all []int16) string { got = all; return "怎么样？" }})
		e := newEngine(t, server, volcengine.Settings{}, io.Discard)
		list, err := sockettest.Listen(t.Context(), e, samples, engine.Hints{Words: []string{"小智"}})
		want := engine.Transcript{Text: "今天天气。怎么样？", Final: true}
		if err != nil || len(list) == 0 || list[len(list)-1] != want {
			t.Fatalf("%+v, %v", list, err)
		}
		session := server.Sessions()[0]
		if !slices.Equal(got, samples) || !slices.Equal(session.Sizes, []int{6400, 6400, 3200}) {
			t.Errorf("other samples arrived, or in pieces of %v", session.Sizes)
		}
		const request = `{"user":{"uid":"patchbay"},"audio":{"format":"pcm","codec":"raw","rate":16000,"bits":16,"channel":1},` +
			`"request":{"model_name":"bigmodel","enable_itn":true,"enable_punc":true,"show_utterances":true,` +
			`"result_type":"single","end_window_size":800,"force_to_speech_time":1000,"enable_nonstream":false,` +
			`"corpus":{"context":"{\"hotwords\":[{\"word\":\"小智\"}]}"}}}`
		if diff := cmp.Diff(request, session.Request); diff != "" {
			t.Error(diff)
		}
		if id := session.Header.Get("X-Api-Resource-Id"); id != volcengine.DefaultListenModel {
			t.Errorf("resource %s", id)
		}
		clean(t, server, e)
	}
}

// TestPartials checks that transcripts come while somebody speaks.
func TestPartials(t *testing.T) {
	server := volcenginetest.New(t, volcenginetest.Options{Partials: []volcenginetest.Partial{{Text: "good"},
		{Text: "good morning.", Definite: true}, {Text: "how"}},
		Transcript: func([]int16) string { return "how are you?" }})
	e := newEngine(t, server, volcengine.Settings{}, io.Discard)
	u, err := e.Listener.Listen(t.Context(), engine.Hints{})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"good", "good morning.", "good morning. how"} {
		if err := u.Write(sockettest.Ramp(3200)); err != nil {
			t.Fatal(err)
		}
		if heard, err := u.Next(); err != nil || heard != (engine.Transcript{Text: want}) {
			t.Fatalf("%+v %v, want %q", heard, err, want)
		}
	}
	if err := u.Finish(); err != nil {
		t.Fatal(err)
	}
	want := engine.Transcript{Text: "good morning. how are you?", Final: true}
	if heard, err := u.Next(); err != nil || heard != want {
		t.Errorf("%+v, %v", heard, err)
	}
	u.Close()
	clean(t, server, e)
}

// TestSpeakGolden checks the messages of a speech, its clips, and that the next one uses the
// connection.
func TestSpeakGolden(t *testing.T) {
	for _, c := range []struct {
		model string
		want  []string // what the clips say
	}{
		{"seed-tts-1.0", []string{"Hello, world.", "床前明月光。"}},
		{"seed-tts-2.0", []string{"Hello, world.", "床前明月光。"}}, // by what the engine got before
	} {
		server := volcenginetest.New(t, volcenginetest.Options{Gzip: c.model == "seed-tts-1.0"})
		e := newEngine(t, server, volcengine.Settings{SpeakModel: c.model, Speed: 1.5}, io.Discard)
		for range 2 {
			said, sound, err := sockettest.Speak(t.Context(), e, engine.Manner{Voice: "zh_male_x"},
				"Hello,", "world.", "床前", "明月光。")
			text := strings.Join(said, "")
			if text != strings.Join(c.want, "") || err != nil || len(sound) != 2*1440*(13+6) {
				t.Errorf("%q, %d bytes, %v", said, len(sound), err)
			}
			if c.model == "seed-tts-1.0" && !slices.Equal(said, c.want) {
				t.Errorf("%q, want %q", said, c.want)
			}
		}
		if server.Opened() != 1 {
			t.Errorf("%d connections", server.Opened())
		}
		session := server.Sessions()[1]
		const request = `{"user":{"uid":"patchbay"},"event":100,"namespace":"BidirectionalTTS","req_params":{"speaker":"zh_male_x",` +
			`"audio_params":{"format":"pcm","sample_rate":24000,"speech_rate":50,"loudness_rate":0},` +
			`"additions":"{\"disable_markdown_filter\":true,\"disable_default_bit_rate\":true}"}}`
		if diff := cmp.Diff(request, session.Request); diff != "" {
			t.Error(diff)
		}
		if want := []string{"Hello,", " world.", "床前", "明月光。"}; !slices.Equal(session.Texts, want) {
			t.Errorf("texts %q", session.Texts)
		}
		clean(t, server, e)
	}
}

// Opus comes in Ogg.
func TestSpeakOpus(t *testing.T) {
	server := volcenginetest.New(t, volcenginetest.Options{})
	e := newEngine(t, server, volcengine.Settings{Format: volcengine.Opus}, io.Discard)
	_, sound, err := sockettest.Speak(t.Context(), e, engine.Manner{}, "One.")
	if err != nil || !strings.HasPrefix(string(sound), "OggS") {
		t.Errorf("%d bytes, %v", len(sound), err)
	}
	const format = `"format":"ogg_opus","sample_rate":24000,"bit_rate":32000`
	if request := server.Sessions()[0].Request; !strings.Contains(request, format) {
		t.Error(request)
	}
	clean(t, server, e)
}

// A session that is broken off is canceled, and nobody waits for that.
func TestSpeakBrokenOff(t *testing.T) {
	server := volcenginetest.New(t, volcenginetest.Options{CancelDelay: 300 * time.Millisecond})
	e := newEngine(t, server, volcengine.Settings{}, io.Discard)
	s, err := e.Speaker.Speak(t.Context(), engine.Manner{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Write("A long story begins here."); err != nil {
		t.Fatal(err)
	}
	clip, err := s.Next()
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	s.Close()
	if took := time.Since(begin); took > 250*time.Millisecond {
		t.Errorf("it took %s", took)
	}
	clip.Sound.Close()
	sockettest.Eventually(t, "the session is not canceled", func() bool {
		list := server.Sessions()
		return len(list) == 1 && list[0].Canceled
	})
	// Its confirmation is on the way; meanwhile another connection serves.
	if said, _, err := sockettest.Speak(t.Context(), e, engine.Manner{}, "Yes?"); err != nil || len(said) != 1 {
		t.Error(said, err)
	}
	clean(t, server, e)
}

// A sentence that is not complete is spoken although no more text comes, and later text is a
// session of its own, on the same connection.
func TestSpeakPause(t *testing.T) {
	server := volcenginetest.New(t, volcenginetest.Options{})
	e := newEngine(t, server, volcengine.Settings{SpeakModel: "seed-tts-1.0"}, io.Discard)
	s, err := e.Speaker.Speak(t.Context(), engine.Manner{})
	if err != nil {
		t.Fatal(err)
	}
	for i, text := range []string{"One moment,", "here it is."} {
		if err := s.Write(text); err != nil {
			t.Fatal(err)
		}
		clip, err := s.Next()
		if err != nil || clip.Text != text {
			t.Fatalf("%+v, %v", clip, err)
		}
		clip.Sound.Close()
		if i == 0 {
			sockettest.Eventually(t, "the session does not end", func() bool { return len(server.Sessions()) == 1 })
		}
	}
	if err := s.Finish(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Next(); err != io.EOF {
		t.Error(err)
	}
	s.Close()
	if server.Opened() != 1 || len(server.Sessions()) != 2 {
		t.Errorf("%d connections, %d sessions", server.Opened(), len(server.Sessions()))
	}
	clean(t, server, e)
}

// TestWarm checks that a connection that was opened in advance is used.
func TestWarm(t *testing.T) {
	server := volcenginetest.New(t, volcenginetest.Options{})
	e := newEngine(t, server, volcengine.Settings{}, io.Discard)
	for range 2 {
		e.Speaker.(engine.Warmer).Warm(t.Context())
	}
	if _, _, err := sockettest.Speak(t.Context(), e, engine.Manner{}, "Hello."); err != nil || server.Opened() != 1 {
		t.Errorf("%d connections, %v", server.Opened(), err)
	}
	clean(t, server, e)
}

// Settings that cannot work are explained.
func TestValidate(t *testing.T) {
	const secret = volcenginetest.AccessKey
	for want, s := range map[string]volcengine.Settings{
		"app_key is missing": {},
		"url is not":         {URL: "https://" + secret, AppKey: secret},
		"speed is 3":         {AppKey: secret, Speed: 3},
		`format is "mp3"`:    {AppKey: secret, Format: "mp3"},
		"listen_model is":    {AppKey: secret, ListenModel: "a\nb"},
		"speak_model is":     {AppKey: secret, SpeakModel: "豆包"},
		"app_key":            {AppKey: secret + "\n"},
		"access_key":         {AppKey: secret, AccessKey: secret + "\n"},
	} {
		_, err := volcengine.New(s, engine.Options{})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), secret) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	s := volcengine.Kind().FromAddress("volcengine+wss://openspeech.bytedance.com", "1:2").(*volcengine.Settings)
	if err := s.Validate(); err != nil || s.AppKey != "1" || s.AccessKey != "2" || s.URL != volcengine.DefaultURL {
		t.Error(s.URL, errors.Join(err))
	}
}

// account notes what an engine has used.
type account struct{ uses []engine.Use }

func (*account) Refusal(context.Context) *engine.Error { return nil }
func (a *account) Used(u engine.Use)                   { a.uses = append(a.uses, u) }

// TestBilled checks that what the service says it bills is what counts, for each session of a
// connection.
func TestBilled(t *testing.T) {
	server := volcenginetest.New(t, volcenginetest.Options{Billed: func(text string) int { return len(text) }})
	e := newEngine(t, server, volcengine.Settings{}, io.Discard)
	a := new(account)
	chain := engine.Chain{Account: a, Links: []engine.Link{{Name: "doubao", Engine: e}}}
	for range 2 {
		s := chain.Speak(t.Context(), engine.Manner{})
		if err := errors.Join(s.Write("床前明月光。"), s.Finish()); err != nil {
			t.Fatal(err)
		}
		for {
			clip, err := s.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, clip.Sound)
			clip.Sound.Close()
		}
		s.Close()
	}
	want := engine.Use{Engine: "doubao", Characters: 18}
	if diff := cmp.Diff([]engine.Use{want, want}, a.uses); diff != "" {
		t.Error(diff)
	}
	clean(t, server, e)
}
