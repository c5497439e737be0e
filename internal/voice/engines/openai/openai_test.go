package openai_test

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"patchbay/internal/voice/engine"
	"patchbay/internal/voice/engines/openai"
	"patchbay/internal/voice/engines/openai/openaitest"
	"patchbay/internal/voice/engines/socket/sockettest"
)

func newEngine(t *testing.T, s openai.Settings) engine.Engine {
	t.Helper()
	e, err := openai.New(s, engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func transcribe(ctx context.Context, e engine.Engine, samples []int16) (engine.Transcript, error) {
	u, err := e.Listener.Listen(ctx, engine.Hints{Language: "en-US", Words: []string{"Patchbay"}})
	if err != nil {
		return engine.Transcript{}, err
	}
	defer u.Close()
	if err := errors.Join(u.Write(samples), u.Finish()); err != nil {
		return engine.Transcript{}, err
	}
	return u.Next()
}

func TestListen(t *testing.T) {
	server := openaitest.New(t)
	got := 0
	server.Transcript = func(samples []int16) string { got = len(samples); return " Hello there. " }
	e := newEngine(t, openai.Settings{BaseURL: server.URL + "/", APIKey: openaitest.Key})
	heard, err := transcribe(t.Context(), e, make([]int16, 16000))
	if err != nil {
		t.Fatal(err)
	}
	if want := (engine.Transcript{Text: "Hello there.", Final: true, Billed: time.Second}); heard != want {
		t.Errorf("heard %+v, want %+v", heard, want)
	}
	if got != 16000 {
		t.Errorf("%d samples arrived, want 16000", got)
	}
	want := []map[string]string{{"model": openai.DefaultListenModel, "language": "en", "prompt": "Patchbay",
		"response_format": "json"}}
	if diff := gocmp.Diff(want, server.Forms()); diff != "" {
		t.Error(diff)
	}
}

func TestSpeak(t *testing.T) {
	server := openaitest.New(t)
	for format, want := range map[string]engine.Clip{
		"wav": {Text: "One.", Format: engine.WAV}, "pcm": {Text: "One.", Format: engine.PCM, Rate: 24000}} {
		e := newEngine(t, openai.Settings{BaseURL: server.URL, APIKey: openaitest.Key, Format: format})
		s, err := e.Speaker.Speak(t.Context(), engine.Manner{})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(s.Write("One."), s.Write("Two."), s.Finish()); err != nil {
			t.Fatal(err)
		}
		clip, err := s.Next()
		if err != nil {
			t.Fatal(err)
		}
		sound, err := io.ReadAll(clip.Sound)
		if err != nil || len(sound) < 4*60*48 {
			t.Errorf("%s: %d bytes, %v", format, len(sound), err)
		}
		clip.Sound = nil
		if clip != want {
			t.Errorf("%s: %+v, want %+v", format, clip, want)
		}
		if second, err := s.Next(); err != nil || second.Text != "Two." {
			t.Errorf("%s: %+v, %v", format, second, err)
		}
		if _, err := s.Next(); err != io.EOF {
			t.Errorf("%s: after the last clip: %v", format, err)
		}
		s.Close()
	}
}

// TestFailures checks that each failure of the server has its class, for both stages, and that no
// error has the key.
func TestFailures(t *testing.T) {
	refuse := func(status int, code string) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", "7")
			openaitest.Refuse(w, status, "no, "+r.Header.Get("Authorization"), code)
		}
	}
	write := func(text string) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }
	}
	for _, c := range []struct {
		name          string
		fault         func(http.ResponseWriter, *http.Request)
		listen, speak engine.Class // empty: no failure
	}{
		{"401", refuse(401, "invalid_api_key"), engine.Auth, engine.Auth},
		{"402", refuse(402, ""), engine.Quota, engine.Quota},
		{"429", refuse(429, "rate_limit_exceeded"), engine.Quota, engine.Quota},
		{"403 without credit", refuse(403, "insufficient_quota"), engine.Auth, engine.Auth},
		{"404", refuse(404, "model_not_found"), engine.Input, engine.Input},
		{"500", refuse(500, ""), engine.Broken, engine.Broken},
		{"503", refuse(503, ""), engine.Busy, engine.Busy},
		{"504", refuse(504, ""), engine.Timeout, engine.Timeout},
		{"redirect", refuse(302, ""), engine.Broken, engine.Broken},
		{"empty", write(""), engine.Broken, engine.Broken},
		{"web page", write("<html>"), engine.Broken, engine.Broken},
		{"other JSON", write(`{"result":1}`), engine.Broken, engine.Broken},
		{"2 MB transcript", write(`{"text":"` + strings.Repeat("a", 2<<20) + `"}`), engine.Broken, engine.Broken},
		{"half a response", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, `{"te`)
			panic(http.ErrAbortHandler)
		}, engine.Closed, engine.Closed},
		{"hang", func(_ http.ResponseWriter, r *http.Request) { openaitest.Hang(r) }, engine.Timeout, engine.Timeout},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := openaitest.New(t)
			server.Intercept = func(_ string, w http.ResponseWriter, r *http.Request) bool {
				c.fault(w, r)
				return true
			}
			e := newEngine(t, openai.Settings{BaseURL: server.URL, APIKey: openaitest.Key})
			limit := 30 * time.Second
			if c.name == "hang" {
				limit = 100 * time.Millisecond
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			_, err := transcribe(ctx, e, make([]int16, 160))
			check(t, "listening", err, c.listen)
			ctx, cancel = context.WithTimeout(t.Context(), limit)
			defer cancel()
			s, err := e.Speaker.Speak(ctx, engine.Manner{})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if err := errors.Join(s.Write("One."), s.Finish()); err != nil {
				t.Fatal(err)
			}
			_, err = s.Next()
			check(t, "speaking", err, c.speak)
		})
	}
}

// TestFaults checks that each fault has its class, in time, that neither an error nor the log has
// the key or what was said, and that no connection is left.
func TestFaults(t *testing.T) {
	both := map[openaitest.Fault]engine.Class{
		openaitest.Unreachable: engine.Closed, openaitest.BadTLS: engine.Closed, openaitest.Unauthorized: engine.Auth,
		openaitest.TooMany: engine.Quota, openaitest.Failing: engine.Broken, openaitest.HangBefore: engine.Timeout,
		openaitest.HangAfter: engine.Timeout, openaitest.HangMiddle: engine.Timeout, openaitest.CutFirst: engine.Closed,
		openaitest.CutMiddle: engine.Closed, openaitest.CutLast: engine.Closed, openaitest.WrongLength: engine.Closed,
		openaitest.WrongGzip: engine.Closed, openaitest.HalfGzip: engine.Closed, openaitest.SlowBytes: engine.Timeout,
		openaitest.Garbage: engine.Broken}
	listening := map[openaitest.Fault]engine.Class{openaitest.HugeText: engine.Broken}
	speaking := map[openaitest.Fault]engine.Class{openaitest.EmptyText: engine.Broken,
		openaitest.EndlessSound: engine.Broken}
	for _, f := range openaitest.Faults {
		t.Run(string(f), func(t *testing.T) {
			t.Parallel()
			server := openaitest.NewFailing(t, f)
			server.Transcript = func([]int16) string { return secret }
			dialer, log := new(sockettest.Dialer), new(sockettest.Log)
			e, err := openai.New(openai.Settings{BaseURL: server.URL, APIKey: openaitest.Key},
				engine.Options{Dial: dialer.Dial, Logger: slog.New(slog.NewTextHandler(log, nil))})
			if err != nil {
				t.Fatal(err)
			}
			limit := 8 * time.Second
			if both[f] == engine.Timeout { // of the caller
				limit = 500 * time.Millisecond
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			heard, err := sockettest.Listen(ctx, e, make([]int16, 160), engine.Hints{})
			verdict(t, "listening", err, cmp.Or(both[f], listening[f]))
			if err == nil && len(heard) != 1 {
				t.Errorf("heard %+v", heard)
			}
			ctx, cancel = context.WithTimeout(t.Context(), limit)
			defer cancel()
			_, sound, err := sockettest.Speak(ctx, e, engine.Manner{}, secret)
			verdict(t, "speaking", err, cmp.Or(both[f], speaking[f]))
			if err == nil && len(sound) < 1000 {
				t.Errorf("%d bytes of sound", len(sound))
			}
			if text := log.String(); strings.Contains(text, openaitest.Key) || strings.Contains(text, secret) {
				t.Errorf("a secret is in the log: %s", text)
			}
			e.Close()
			dialer.Clean(t, string(f))
		})
	}
}

// verdict checks an error.
func verdict(t *testing.T, what string, err error, want engine.Class) {
	t.Helper()
	if want != "" {
		check(t, what, err, want)
	} else if err != nil {
		t.Errorf("%s: %v", what, err)
	}
	if err != nil && strings.Contains(err.Error(), secret) {
		t.Errorf("%s: a secret is in the error: %v", what, err)
	}
}

const secret = "the password is swordfish"

func check(t *testing.T, what string, err error, want engine.Class) {
	t.Helper()
	e := engine.AsError(err)
	if e == nil || e.Class != want {
		t.Errorf("%s: %v, want %s", what, err, want)
		return
	}
	if strings.Contains(err.Error(), openaitest.Key) {
		t.Errorf("%s: the key is in the error: %v", what, err)
	}
	if e.Class == engine.Quota && e.RetryAfter != 7*time.Second {
		t.Errorf("%s: retry after %s, want 7 s", what, e.RetryAfter)
	}
}

func TestUnreachable(t *testing.T) {
	e := newEngine(t, openai.Settings{BaseURL: "http://127.0.0.1:1/v1?token=hunter2"})
	_, err := transcribe(t.Context(), e, nil)
	check(t, "listening", err, engine.Closed)
	if strings.Contains(err.Error(), "hunter2") {
		t.Errorf("the address is in the error: %v", err)
	}
}

func TestSettings(t *testing.T) {
	for want, s := range map[string]openai.Settings{
		"base_url is missing": {},
		"speed is 9":          {BaseURL: "http://h/v1", Speed: 9},
		`format is "mp3"`:     {BaseURL: "http://h/v1", Format: "mp3"},
	} {
		if err := s.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", s, err, want)
		}
	}
	if e := newEngine(t, openai.Settings{BaseURL: "http://h/inference"}); e.Speaker != nil || e.Listener == nil {
		t.Error("whisper.cpp listens and does not speak")
	}
}
