package edge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"patchbay/internal/voice/engine"
	"patchbay/internal/voice/engines/edge/edgetest"
	"patchbay/internal/voice/engines/socket/sockettest"
)

const secret = "the password is swordfish"

// TestToken checks the token at two times.
func TestToken(t *testing.T) {
	for at, want := range map[int64]string{
		1700000000: "42301B335578FEFDAE2637DED1ABD614505D432559EC08032B82048483726AFF",
		1763820000: "193FDB148B909803F4A0AE7279DBE44148CBDF7C610E5E9E9E29E0417A0AFCA9",
	} {
		if got := token(time.Unix(at, 0)); got != want {
			t.Errorf("at %d: %s, want %s", at, got, want)
		}
	}
}

// speak returns the sound of a text.
func speak(ctx context.Context, c *client, text string, m engine.Manner) ([]byte, error) {
	s, err := engine.SpeakOnce(c.speak).Speak(ctx, m)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	if err := errors.Join(s.Write(text), s.Finish()); err != nil {
		return nil, err
	}
	clip, err := s.Next()
	if err != nil {
		return nil, err
	}
	defer clip.Sound.Close()
	if clip.Format != engine.MP3 {
		return nil, errors.New("the clip is no MP3")
	}
	return io.ReadAll(clip.Sound)
}

// TestSpeak checks what the service gets, and that all sound arrives.
func TestSpeak(t *testing.T) {
	for _, c := range []struct {
		s    Settings
		m    engine.Manner
		want edgetest.Request
	}{
		{Settings{}, engine.Manner{}, edgetest.Request{Voice: multilingualVoice, Rate: "+0%"}},
		{Settings{}, engine.Manner{Language: "zh-CN", Speed: 1.25}, edgetest.Request{Voice: chineseVoice, Rate: "+25%"}},
		{Settings{Voice: "zh-CN-liaoning-XiaobeiNeural", Speed: 0.9}, engine.Manner{Voice: "alloy"},
			edgetest.Request{Voice: "zh-CN-liaoning-XiaobeiNeural", Rate: "-10%"}},
		{Settings{Voice: chineseVoice}, engine.Manner{Voice: "ja-JP-NanamiNeural"},
			edgetest.Request{Voice: "ja-JP-NanamiNeural", Rate: "+0%"}},
	} {
		server := edgetest.New(t, edgetest.Options{})
		c.s.URL = server.URL
		const text = "5 < 6 & \"7\"\n'8'"
		sound, err := speak(t.Context(), newClient(c.s, engine.Options{}), text, c.m)
		if want := 4 + 300*len(text); err != nil || len(sound) != want {
			t.Errorf("%d bytes, %v, want %d", len(sound), err, want)
		}
		c.want.Text = strings.ReplaceAll(text, "\n", " ")
		if got := server.Requests(); len(got) != 1 || got[0] != c.want || len(server.Violations()) > 0 {
			t.Errorf("%+v, want %+v; %v", got, c.want, server.Violations())
		}
	}
}

// TestClock checks that a wrong clock is corrected once and for all by that of the service.
func TestClock(t *testing.T) {
	server := edgetest.New(t, edgetest.Options{})
	c := newClient(Settings{URL: server.URL}, engine.Options{})
	c.now = func() time.Time { return time.Now().Add(-3 * time.Hour) }
	for range 2 {
		if _, err := speak(t.Context(), c, "One.", engine.Manner{}); err != nil {
			t.Error(err)
		}
	}
	if skew := time.Duration(c.skew.Load()); skew < 2*time.Hour {
		t.Errorf("the clock was corrected by %s", skew)
	}
}

// TestFaults checks that each fault has its class, in time, that neither an error nor the log has
// the text or the token, and that no connection is left.
func TestFaults(t *testing.T) {
	classes := map[edgetest.Fault]engine.Class{
		edgetest.Refuse: engine.Closed, edgetest.TLS: engine.Closed, edgetest.Unauthorized: engine.Auth,
		edgetest.Forbidden: engine.Auth, edgetest.TooMany: engine.Quota, edgetest.Failing: engine.Broken,
		edgetest.Overloaded: engine.Busy, edgetest.HangBefore: engine.Timeout, edgetest.HangAfter: engine.Timeout,
		edgetest.HangMiddle: engine.Timeout, edgetest.HalfFrame: engine.Closed, edgetest.BadFrame: engine.Broken,
		edgetest.Garbage: engine.Broken, edgetest.WrongLength: engine.Broken, edgetest.CutFirst: engine.Closed,
		edgetest.CutLast: engine.Closed, edgetest.Silent: engine.Broken, edgetest.EndlessSound: engine.Broken,
		edgetest.HugeMessage: engine.Broken,
	}
	for _, f := range edgetest.Faults {
		t.Run(string(f), func(t *testing.T) {
			t.Parallel()
			server := edgetest.New(t, edgetest.Options{Fault: f})
			dialer, log := new(sockettest.Dialer), new(sockettest.Log)
			c := newClient(Settings{URL: server.URL}, engine.Options{Dial: dialer.Dial,
				Logger: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
			if classes[f] == engine.Timeout {
				c.timeout = 500 * time.Millisecond
			}
			begin := time.Now()
			_, err := speak(t.Context(), c, secret, engine.Manner{})
			e := engine.AsError(err)
			if want := classes[f]; (e == nil) != (want == "") || e != nil && e.Class != want {
				t.Errorf("%v, want %q", err, want)
			}
			if took := time.Since(begin); took > 8*time.Second {
				t.Errorf("it took %s", took)
			}
			if all := fmt.Sprint(err, log); strings.Contains(all, secret) || strings.Contains(all, clientToken) {
				t.Errorf("a secret is in the error, or the log: %s", all)
			}
			dialer.Clean(t, string(f))
			if f == edgetest.TooMany && e != nil && e.RetryAfter != 7*time.Second {
				t.Errorf("retry after %s", e.RetryAfter)
			}
		})
	}
}

// TestContext checks that the end of the context ends everything at once.
func TestContext(t *testing.T) {
	for _, f := range []edgetest.Fault{edgetest.HangBefore, edgetest.HangAfter, edgetest.HangMiddle} {
		server := edgetest.New(t, edgetest.Options{Fault: f})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(200*time.Millisecond, cancel)
		_, err := speak(ctx, newClient(Settings{URL: server.URL}, engine.Options{}), "One.", engine.Manner{})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", f, err)
		}
	}
}

// TestSettings checks that settings that cannot work are explained.
func TestSettings(t *testing.T) {
	for want, s := range map[string]Settings{"": {}, "voice is": {Voice: "alloy"}, "speed is": {Speed: 9},
		"url is": {URL: "http://h"}} {
		if err := s.Validate(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", s, err)
		}
	}
}

// FuzzMessage checks the parser of binary messages.
func FuzzMessage(f *testing.F) {
	f.Add(edgetest.Frame([]byte("\xff\xf3")))
	f.Add([]byte("\x00"))
	f.Fuzz(func(t *testing.T, message []byte) {
		if sound, err := audioOf(message); err == nil && len(sound) > len(message)-2 {
			t.Error("more sound than bytes")
		}
	})
}

// FuzzEscape checks that a text stays a text of bounded length.
func FuzzEscape(f *testing.F) {
	f.Add("</prosody>&'\"\x00")
	f.Fuzz(func(t *testing.T, text string) {
		if got := escape(text); len(got) > maxText || strings.ContainsAny(got, "<>'\"\x00") {
			t.Errorf("%q", got)
		}
	})
}
