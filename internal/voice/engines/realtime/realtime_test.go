package realtime

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"patchbay/internal/voice/engine"
	"patchbay/internal/voice/engines/socket/sockettest"
	"patchbay/internal/voice/realtime"
	"patchbay/internal/voice/realtime/realtimetest"
)

var spellings = []realtime.Spelling{realtime.OpenAI, realtime.Qwen}

// short are limits for tests in which a service is silent.
var short = limits{connect: 800 * time.Millisecond, speech: 5 * time.Second, result: 700 * time.Millisecond,
	lost: 250 * time.Millisecond}

func newTest(t *testing.T, s *realtimetest.Server, spelling realtime.Spelling, l limits, change func(*Settings)) (
	engine.Engine, *sockettest.Log) {
	t.Helper()
	settings := Settings{URL: s.URL + "/v1/realtime", APIKey: realtimetest.Key, Spelling: string(spelling)}
	if change != nil {
		change(&settings)
	}
	log, dialer := new(sockettest.Log), new(sockettest.Dialer)
	v, err := newService(settings, engine.Options{Dial: dialer.Dial, Logger: slog.New(slog.NewTextHandler(log,
		&slog.HandlerOptions{Level: slog.LevelDebug}))})
	if err != nil {
		t.Fatal(err)
	}
	v.limits = l
	t.Cleanup(func() {
		dialer.Clean(t, t.Name())
		if v := s.Violations(); len(v) > 0 {
			t.Errorf("violations:\n%s", strings.Join(v, "\n"))
		}
	})
	return v.engine(), log
}

// tone is a second of 440 Hz.
func tone() []int16 {
	samples := make([]int16, engine.Rate)
	for i := range samples {
		samples[i] = int16(8000 * math.Sin(2*math.Pi*440*float64(i)/engine.Rate))
	}
	return samples
}

func listen(t *testing.T, e engine.Engine, samples []int16) (list []engine.Transcript, err error) {
	t.Helper()
	u, err := e.Listener.Listen(t.Context(), engine.Hints{Language: "en-US", Words: []string{"Patchbay"}})
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	for piece := range slices.Chunk(samples, 700) {
		if u.Write(piece) != nil {
			break // Next returns the error too
		}
	}
	_ = u.Finish()
	for {
		tr, err := u.Next()
		if errors.Is(err, io.EOF) {
			return list, nil
		}
		if err != nil {
			return list, err
		}
		list = append(list, tr)
	}
}

// What is said arrives without loss, and its transcript comes back.
func TestListen(t *testing.T) {
	for _, spelling := range spellings {
		t.Run(string(spelling), func(t *testing.T) {
			s := realtimetest.New(t, realtimetest.Options{Spelling: spelling, Partials: []string{"what is"},
				Transcript: func([]int16) string { return "What is the weather?" }})
			e, _ := newTest(t, s, spelling, defaultLimits, nil)
			list, err := listen(t, e, tone())
			if err != nil || len(list) == 0 || list[len(list)-1].Text != "What is the weather?" {
				t.Fatalf("%+v, %v", list, err)
			}
			got := s.Sessions()[0]
			if n := len(got.Samples); n < engine.Rate-2 || n > engine.Rate+2 {
				t.Errorf("the service got %d samples", n)
			}
			if level := rms(got.Samples[1000:15000]); math.Abs(level-8000/math.Sqrt2) > 150 {
				t.Errorf("the level is %.0f", level)
			}
			for _, want := range []string{`"language":"en"`, "Patchbay"} {
				if !strings.Contains(string(got.Update), want) {
					t.Errorf("%s is missing in %s", want, got.Update)
				}
			}
		})
	}
}

func rms(samples []int16) float64 {
	sum := 0.0
	for _, s := range samples {
		sum += float64(s) * float64(s)
	}
	return math.Sqrt(sum / float64(len(samples)))
}

// An utterance without sound has an empty transcript.
func TestListenNothing(t *testing.T) {
	for _, spelling := range spellings {
		s := realtimetest.New(t, realtimetest.Options{Spelling: spelling,
			Transcript: func([]int16) string { return "" }})
		e, _ := newTest(t, s, spelling, defaultLimits, nil)
		list, err := listen(t, e, nil)
		if err != nil || len(list) != 1 || list[0].Text != "" || !list[0].Final {
			t.Errorf("%s: %+v, %v", spelling, list, err)
		}
	}
}

// speak returns the texts of the clips, and all of their sound.
func speak(t *testing.T, e engine.Engine, texts ...string) (said []string, sound int, err error) {
	t.Helper()
	speech, err := e.Speaker.Speak(t.Context(), engine.Manner{Language: "zh-CN"})
	if err != nil {
		t.Fatal(err)
	}
	defer speech.Close()
	var writer sync.WaitGroup
	writer.Go(func() {
		for _, text := range texts {
			if speech.Write(text) != nil {
				return // Next returns the error too
			}
		}
		_ = speech.Finish()
	})
	defer writer.Wait()
	for {
		clip, err := speech.Next()
		if errors.Is(err, io.EOF) {
			return said, sound, nil
		}
		if err != nil {
			return said, sound, err
		}
		all, err := io.ReadAll(clip.Sound)
		_ = clip.Sound.Close()
		if sound += len(all); err != nil {
			return said, sound, err
		}
		said = append(said, clip.Text)
		if clip.Format != engine.PCM || clip.Rate != realtime.OutputRate {
			t.Errorf("format %d at %d Hz", clip.Format, clip.Rate)
		}
	}
}

// Sentences become clips with their texts.
func TestSpeak(t *testing.T) {
	for _, mode := range []string{ModeCommit, ModeServerCommit} {
		t.Run(mode, func(t *testing.T) {
			s := realtimetest.New(t, realtimetest.Options{Spelling: realtime.Qwen, Delay: 5 * time.Millisecond})
			e, _ := newTest(t, s, realtime.Qwen, defaultLimits, func(s *Settings) { s.Mode, s.Voice = mode, "Ethan" })
			said, sound, err := speak(t, e, "你好。", "今天下雨。")
			if err != nil || strings.Join(said, "") != "你好。今天下雨。" {
				t.Fatalf("%q, %v", said, err)
			}
			if want := 8 * 4800; sound != want { // 100 ms for each character
				t.Errorf("%d bytes of sound, want %d", sound, want)
			}
			if mode == ModeCommit && len(said) != 2 {
				t.Errorf("%q", said)
			}
			if got := string(s.Sessions()[0].Update); !strings.Contains(got, `"voice":"Ethan"`) ||
				!strings.Contains(got, `"language_type":"Chinese"`) {
				t.Error(got)
			}
		})
	}
}

// faultClasses are the classes of faults that end both listening and speaking.
var faultClasses = map[realtimetest.Fault]engine.Class{
	realtimetest.Refuse: engine.Closed, realtimetest.Unauthorized: engine.Auth, realtimetest.Forbidden: engine.Auth,
	realtimetest.NotFound: engine.Input, realtimetest.TooMany: engine.Quota, realtimetest.Failing: engine.Broken,
	realtimetest.Overloaded: engine.Busy, realtimetest.HangBefore: engine.Timeout,
	realtimetest.HangAfter: engine.Timeout, realtimetest.KeyEvent: engine.Auth, realtimetest.QuotaEvent: engine.Quota,
	realtimetest.HalfFrame: engine.Closed, realtimetest.Garbage: engine.Broken, realtimetest.BadFrame: engine.Broken,
	realtimetest.WrongItem: engine.Timeout, realtimetest.CutFirst: engine.Closed,
	realtimetest.CutMiddle: engine.Closed, realtimetest.CutLast: engine.Closed, realtimetest.Silence: engine.Timeout,
	realtimetest.Slow: engine.Timeout,
}

var listenFaults = map[realtimetest.Fault]engine.Class{realtimetest.HugeText: engine.Broken,
	realtimetest.LongText: engine.Broken, realtimetest.FailedText: engine.Broken}

var speakFaults = map[realtimetest.Fault]engine.Class{realtimetest.BadSound: engine.Broken,
	realtimetest.OddSound: engine.Broken, realtimetest.Endless: engine.Broken, realtimetest.FailedSound: engine.Broken}

// Each fault ends the use of the engine in time, with its class, without the key and what was said
// in the error or the log, and no connection is left.
func TestFaults(t *testing.T) {
	for _, f := range realtimetest.Faults {
		for _, spelling := range spellings {
			t.Run(fmt.Sprintf("listen %s %s", spelling, f), func(t *testing.T) {
				t.Parallel()
				testFault(t, spelling, f, listenFaults[f], func(e engine.Engine) error {
					_, err := listen(t, e, tone())
					return err
				})
			})
		}
		t.Run("speak "+string(f), func(t *testing.T) {
			t.Parallel()
			testFault(t, realtime.Qwen, f, speakFaults[f], func(e engine.Engine) error {
				_, _, err := speak(t, e, "It rains today.", "Take an umbrella.")
				return err
			})
		})
	}
	t.Run("a certificate that nobody trusts", func(t *testing.T) {
		s := realtimetest.New(t, realtimetest.Options{Spelling: realtime.OpenAI, TLS: true})
		e, _ := newTest(t, s, realtime.OpenAI, short, nil)
		if _, err := listen(t, e, tone()); classOf(err) != engine.Closed {
			t.Error(err)
		}
	})
}

func classOf(err error) engine.Class {
	if e := engine.AsError(err); e != nil {
		return e.Class
	}
	return ""
}

func testFault(t *testing.T, spelling realtime.Spelling, f realtimetest.Fault, class engine.Class,
	use func(engine.Engine) error) {
	if class == "" {
		class = faultClasses[f]
	}
	s := realtimetest.New(t, realtimetest.Options{Spelling: spelling, Fault: f,
		Transcript: func([]int16) string { return "one two three four" }})
	limits := defaultLimits
	if class == engine.Timeout {
		limits = short
	}
	e, log := newTest(t, s, spelling, limits, nil)
	begin := time.Now()
	err := use(e)
	limit := 8 * time.Second
	if f == realtimetest.Endless {
		limit = time.Minute // it ends by the number of bytes, which a busy machine needs time for
	}
	if took := time.Since(begin); took > limit {
		t.Errorf("it took %s", took)
	}
	if classOf(err) != class {
		t.Errorf("%v, want %q\n%s", err, class, log)
	}
	if after := engine.AsError(err); after != nil && (f == realtimetest.TooMany || f == realtimetest.Overloaded) &&
		after.RetryAfter != realtimetest.RetryAfter {
		t.Errorf("retry after %s", after.RetryAfter)
	}
	if shown := fmt.Sprint(log, err); strings.Contains(shown, realtimetest.Key) ||
		strings.Contains(shown, "one two") || strings.Contains(shown, "rains") {
		t.Errorf("a secret is shown: %v\n%s", err, log)
	}
}

// The end of the context ends everything at once.
func TestContext(t *testing.T) {
	s := realtimetest.New(t, realtimetest.Options{Spelling: realtime.Qwen, Fault: realtimetest.Silence})
	e, _ := newTest(t, s, realtime.Qwen, defaultLimits, nil)
	ctx, cancel := context.WithCancel(t.Context())
	u, err := e.Listener.Listen(ctx, engine.Hints{})
	if err != nil {
		t.Fatal(err)
	}
	speech, err := e.Speaker.Speak(ctx, engine.Manner{})
	if err != nil {
		t.Fatal(err)
	}
	_ = speech.Write("Hello.")
	cancel()
	if _, err := u.Next(); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := speech.Next(); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	u.Close()
	speech.Close()
}

func TestSettings(t *testing.T) {
	const at = "wss://api.openai.com/v1/realtime"
	for _, c := range []struct {
		s       Settings
		problem string
	}{
		{Settings{URL: at}, ""},
		{Settings{URL: "wss://dashscope.aliyuncs.com/api-ws/v1/realtime", Mode: "server_commit"}, ""},
		{Settings{}, "url is missing"},
		{Settings{URL: "https://api.openai.com/v1"}, "has to look like"},
		{Settings{URL: "wss://me:pass@host/"}, "user name"},
		{Settings{URL: at, Spelling: "beta"}, "spelling"},
		{Settings{URL: at, Mode: "x"}, "mode"},
		{Settings{URL: at, Language: "x y"}, "language"},
		{Settings{URL: at, APIKey: "a b\n"}, "api_key"},
	} {
		err := c.s.Validate()
		if (c.problem == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.problem) {
			t.Errorf("%+v: %v, want %q", c.s, err, c.problem)
		}
	}
}
