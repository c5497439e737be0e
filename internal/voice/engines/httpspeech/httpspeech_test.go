package httpspeech

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/url"
	"strings"
	"testing"
	"time"

	"patchbay/internal/voice/engine"
	"patchbay/internal/voice/engines/httpspeech/httpspeechtest"
	"patchbay/internal/voice/engines/socket/sockettest"
)

const (
	key    = "sk-very-secret"
	secret = "the password is swordfish"
)

// speak returns the sound of a text and its clip.
func speak(ctx context.Context, s Settings, text string, m engine.Manner) (engine.Clip, []byte, error) {
	return speakWith(ctx, s, engine.Options{}, text, m)
}

func speakWith(ctx context.Context, s Settings, o engine.Options, text string, m engine.Manner) (
	engine.Clip, []byte, error) {
	e, err := New(s, o)
	if err != nil {
		return engine.Clip{}, nil, err
	}
	defer e.Close()
	speech, err := e.Speaker.Speak(ctx, m)
	if err != nil {
		return engine.Clip{}, nil, err
	}
	defer speech.Close()
	if err := errors.Join(speech.Write(text), speech.Finish()); err != nil {
		return engine.Clip{}, nil, err
	}
	clip, err := speech.Next()
	if err != nil {
		return engine.Clip{}, nil, err
	}
	defer clip.Sound.Close()
	sound, err := io.ReadAll(clip.Sound)
	return clip, sound, err
}

// TestRequests checks what services get, with the settings that the manual gives for them.
func TestRequests(t *testing.T) {
	const text = `Say "5 & 6", 50% + 1?`
	for _, c := range []struct {
		name string
		s    Settings
		m    engine.Manner
		want httpspeechtest.Request
	}{
		{"Piper", Settings{URL: "/synthesize", Body: `{"text":"{text}","voice":"{voice}"}`, Voice: "en_US-lessac-medium"},
			engine.Manner{}, httpspeechtest.Request{Method: "POST", Path: "/synthesize", Type: "application/json",
				Body: `{"text":"Say \"5 \u0026 6\", 50% + 1?","voice":"en_US-lessac-medium"}`}},
		{"GPT-SoVITS", Settings{URL: "/tts", Body: `{"text":"{text}","text_lang":"{lang}","speed_factor":{speed}}`},
			engine.Manner{Language: "zh-CN", Speed: 1.25}, httpspeechtest.Request{Method: "POST", Path: "/tts",
				Type: "application/json",
				Body: `{"text":"Say \"5 \u0026 6\", 50% + 1?","text_lang":"zh","speed_factor":1.25}`}},
		{"a query", Settings{URL: "/?text={text}&voice={voice}&speed={speed}"}, engine.Manner{Voice: "a b"},
			httpspeechtest.Request{Method: "GET", Path: "/",
				Query: "text=Say%20%225%20%26%206%22%2C%2050%25%20%2B%201%3F&voice=a%20b&speed=1"}},
		{"a form", Settings{URL: "/speak/{lang}", Body: "t={text}"}, engine.Manner{},
			httpspeechtest.Request{Method: "POST", Path: "/speak/auto", Type: "application/x-www-form-urlencoded",
				Body: "t=Say%20%225%20%26%206%22%2C%2050%25%20%2B%201%3F"}},
		{"text", Settings{URL: "/", Body: "{text}"}, engine.Manner{},
			httpspeechtest.Request{Method: "POST", Path: "/", Type: "text/plain; charset=utf-8", Body: text}},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := httpspeechtest.New(t, httpspeechtest.Options{Key: key})
			c.s.URL, c.s.APIKey = server.URL+c.s.URL, key
			if _, _, err := speak(t.Context(), c.s, text, c.m); err != nil {
				t.Fatal(err)
			}
			got := server.Requests()[0]
			got.Header = nil
			if a, b := asJSON(t, got), asJSON(t, c.want); a != b {
				t.Errorf("got  %s\nwant %s", a, b)
			}
		})
	}
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestFormats checks that the first bytes of a sound tell its format.
func TestFormats(t *testing.T) {
	for name, c := range map[string]struct {
		o      httpspeechtest.Options
		rate   int
		format engine.Format
	}{
		"wav":         {httpspeechtest.Options{}, 16000, engine.WAV},
		"pcm":         {httpspeechtest.Options{PCM: true}, 22050, engine.PCM},
		"ogg":         {httpspeechtest.Options{File: []byte("OggS and more")}, 0, engine.OggOpus},
		"mp3":         {httpspeechtest.Options{File: []byte("\xff\xfb\x90\x64 and more")}, 0, engine.MP3},
		"tagged mp3":  {httpspeechtest.Options{File: []byte("ID3\x04 and more")}, 22050, engine.MP3},
		"pcm like it": {httpspeechtest.Options{File: []byte("\xff\xfb\x90\x64 and more")}, 22050, engine.PCM},
	} {
		server := httpspeechtest.New(t, c.o)
		clip, sound, err := speak(t.Context(), Settings{URL: server.URL + "/?text={text}", PCMRate: c.rate}, "One.",
			engine.Manner{})
		if err != nil || clip.Format != c.format || len(sound) < 10 ||
			clip.Format == engine.PCM && clip.Rate != c.rate {
			t.Errorf("%s: format %d, rate %d, %d bytes, %v", name, clip.Format, clip.Rate, len(sound), err)
		}
	}
}

// TestFaults checks that each fault has its class, in time, that neither an error nor the log has
// the key or the text, and that no connection is left.
func TestFaults(t *testing.T) {
	classes := map[httpspeechtest.Fault]engine.Class{
		httpspeechtest.Refuse: engine.Closed, httpspeechtest.TLS: engine.Closed,
		httpspeechtest.Unauthorized: engine.Auth, httpspeechtest.TooMany: engine.Quota,
		httpspeechtest.Rejected: engine.Input, httpspeechtest.Failing: engine.Broken,
		httpspeechtest.Overloaded: engine.Busy, httpspeechtest.Redirect: engine.Broken,
		httpspeechtest.HangBefore: engine.Timeout, httpspeechtest.HangAfter: engine.Timeout,
		httpspeechtest.HangMiddle: engine.Timeout, httpspeechtest.SlowBytes: engine.Timeout,
		httpspeechtest.CutFirst: engine.Closed, httpspeechtest.CutMiddle: engine.Closed,
		httpspeechtest.WrongLength: engine.Closed, httpspeechtest.WrongGzip: engine.Closed,
		httpspeechtest.Garbage: engine.Broken, httpspeechtest.JSONError: engine.Broken,
		httpspeechtest.Empty: engine.Broken, httpspeechtest.EndlessSound: engine.Broken,
	}
	for _, f := range httpspeechtest.Faults {
		t.Run(string(f), func(t *testing.T) {
			t.Parallel()
			server := httpspeechtest.New(t, httpspeechtest.Options{Fault: f})
			ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
			defer cancel()
			if f == httpspeechtest.HangBefore { // the caller limits that
				ctx, cancel = context.WithTimeout(t.Context(), 200*time.Millisecond)
				defer cancel()
			}
			dialer, log := new(sockettest.Dialer), new(sockettest.Log)
			o := engine.Options{Dial: dialer.Dial, Logger: slog.New(slog.NewTextHandler(log,
				&slog.HandlerOptions{Level: slog.LevelDebug}))}
			_, _, err := speakWith(ctx, Settings{URL: server.URL + "/?key=" + key + "&text={text}", APIKey: key}, o,
				secret, engine.Manner{})
			dialer.Clean(t, string(f))
			e := engine.AsError(err)
			if want := classes[f]; (e == nil) != (want == "") || e != nil && e.Class != want {
				t.Fatalf("%v, want %q", err, want)
			}
			if e == nil {
				return
			}
			for _, s := range []string{key, secret, url.QueryEscape(secret)} {
				if strings.Contains(err.Error(), s) || strings.Contains(log.String(), s) {
					t.Errorf("a secret is in the error, or the log: %v\n%s", err, log)
				}
			}
			asked := f == httpspeechtest.TooMany || f == httpspeechtest.Overloaded
			if asked && e.RetryAfter != httpspeechtest.RetryAfter {
				t.Errorf("retry after %s", e.RetryAfter)
			}
		})
	}
}

// TestSettings checks that settings that cannot work are explained.
func TestSettings(t *testing.T) {
	for _, c := range []struct {
		want string // empty: they are valid
		s    Settings
	}{
		{"", Settings{URL: "http://h/?text={text}"}},
		{"", Settings{URL: "https://h/", Body: `[{"input":"{text}","rate":{speed}}]`}},
		{"url is missing", Settings{Body: "{text}"}},
		{"in its host", Settings{URL: "http://{voice}/?text={text}"}},
		{"neither url nor body", Settings{URL: "http://h/", Body: "{voice}"}},
		{"is not", Settings{URL: "h?text={text}"}},
		{"user name", Settings{URL: "http://a:" + key + "@h/?text={text}"}},
		{"body begins like JSON", Settings{URL: "http://h/", Body: `{"text":{text}}`}},
		{"method is", Settings{URL: "http://h/?{text}", Method: "PUT"}},
		{"has no body", Settings{URL: "http://h/", Method: "GET", Body: "{text}"}},
		{"speed is", Settings{URL: "http://h/?{text}", Speed: 9}},
		{"pcm_rate is", Settings{URL: "http://h/?{text}", PCMRate: 1}},
		{"api_key", Settings{URL: "http://h/?{text}", APIKey: key + "\n"}},
		{"headers", Settings{URL: "http://h/?{text}", Headers: map[string]string{"Accept-Encoding": "gzip"}}},
	} {
		err := c.s.Validate()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.s, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), key) {
			t.Errorf("the key is in the error: %v", err)
		}
	}
}

// FuzzTemplate checks that a text stays inside its place in each kind of body.
func FuzzTemplate(f *testing.F) {
	f.Add("plain", "zh-CN")
	f.Add("\"},{\"a\":\"&x=1#\\", "\x00")
	f.Fuzz(func(t *testing.T, text, language string) {
		text = strings.ToValidUTF8(text, "?")
		c := &client{settings: Settings{URL: "http://h/{text}?a={text}&b=1", Body: `{"text":"{text}","lang":"{lang}"}`}}
		req, err := c.request(t.Context(), text, engine.Manner{Language: language})
		if err != nil {
			t.Fatal(err)
		}
		if q := req.URL.Query(); req.URL.Host != "h" || q.Get("a") != text || q.Get("b") != "1" || len(q) != 2 {
			t.Errorf("%q becomes %q", text, req.URL)
		}
		body, err := io.ReadAll(req.Body)
		var got struct{ Text string }
		if err != nil || json.Unmarshal(body, &got) != nil || got.Text != text {
			t.Errorf("%q becomes %q", text, body)
		}
	})
}
