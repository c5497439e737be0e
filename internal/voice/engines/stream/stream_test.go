package stream

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"patchbay/internal/netx"
	"patchbay/internal/voice/engine"
	"patchbay/internal/voice/engines/stream/streamtest"
)

const key = "sk-very-secret"

// maxSamples is engine.MaxUtterance, in samples.
const maxSamples = int(engine.MaxUtterance * engine.Rate / time.Second)

// short are limits for tests.
var short = limits{connect: 800 * time.Millisecond, write: time.Second, speech: 5 * time.Second,
	result: 600 * time.Millisecond, silence: 400 * time.Millisecond, lost: 100 * time.Millisecond}

var dialects = []string{FunASR, Vosk, Sherpa}

func newTest(t *testing.T, s Settings, lim limits, log io.Writer) *listener {
	t.Helper()
	l, err := newListener(s, engine.Options{Logger: slog.New(slog.NewTextHandler(log,
		&slog.HandlerOptions{Level: slog.LevelDebug}))})
	if err != nil {
		t.Fatal(err)
	}
	l.limits = lim
	return l
}

// ramp returns n samples that differ.
func ramp(n int) []int16 {
	s := make([]int16, n)
	for i := range s {
		s[i] = int16(i*37 - 30000)
	}
	return s
}

// listen speaks samples and returns all transcripts.
func listen(t *testing.T, l *listener, samples []int16, words ...string) ([]engine.Transcript, error) {
	t.Helper()
	u, err := engine.ListenLive(l.recognise).Listen(t.Context(), engine.Hints{Words: words})
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	for piece := range slices.Chunk(samples, 700) {
		if err := u.Write(piece); err != nil {
			break // Next returns it too
		}
	}
	_ = u.Finish()
	var list []engine.Transcript
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

// one returns the final transcript.
func one(t *testing.T, l *listener, samples []int16, words ...string) engine.Transcript {
	t.Helper()
	list, err := listen(t, l, samples, words...)
	if err != nil {
		t.Fatal(err)
	}
	if len(list) == 0 || !list[len(list)-1].Final {
		t.Fatalf("no final transcript: %+v", list)
	}
	for _, tr := range list[:len(list)-1] {
		if tr.Final {
			t.Errorf("two final transcripts: %+v", list)
		}
	}
	return list[len(list)-1]
}

// The messages of each dialect are exactly these.
func TestGolden(t *testing.T) {
	want := map[string][]string{
		FunASR: {`{"mode":"2pass","wav_name":"patchbay","wav_format":"pcm","audio_fs":16000,"is_speaking":true,` +
			`"chunk_size":[5,10,5],"chunk_interval":10,"itn":true,"hotwords":"{\"小智\":20,\"苏州\":20}"}`,
			`{"is_speaking":false}`},
		Vosk:   {`{"config":{"sample_rate":16000}}`, `{"eof" : 1}`},
		Sherpa: {`Done`},
	}
	samples := ramp(2000)
	samples[0], samples[1] = -32768, 16384
	for _, dialect := range dialects {
		t.Run(dialect, func(t *testing.T) {
			var got []int16
			s := streamtest.New(t, streamtest.Options{Dialect: dialect, Key: key, LeaveOpen: dialect != Sherpa,
				Transcribe: func(all []int16) string { got = all; return "done" }})
			set := Settings{URL: s.URL, Dialect: dialect, APIKey: key, Headers: map[string]string{"X-A": "b"}}
			if dialect == FunASR {
				set.Hotwords = []string{"小智"}
			}
			l := newTest(t, set, defaultLimits, io.Discard)
			if tr := one(t, l, samples, "苏州", " "); tr.Text != "done" {
				t.Errorf("text %q", tr.Text)
			}
			if !slices.Equal(got, samples) {
				t.Errorf("%d samples arrived, or others", len(got))
			}
			session := waitSession(t, s)
			if !slices.Equal(session.Texts, want[dialect]) {
				t.Errorf("messages %q, want %q", session.Texts, want[dialect])
			}
			checkSession(t, dialect, &session)
			if v := s.Violations(); len(v) > 0 {
				t.Error(v)
			}
		})
	}
}

func checkSession(t *testing.T, dialect string, s *streamtest.Session) {
	t.Helper()
	sizes, start := []int{1920, 1920, 160}, []byte{0x00, 0x80, 0x00, 0x40}
	if dialect == Sherpa {
		sizes, start = []int{3840, 3840, 320}, []byte{0, 0, 0x80, 0xbf, 0, 0, 0, 0x3f} // -1 and 0.5
	}
	if !slices.Equal(s.Sizes, sizes) || !bytes.HasPrefix(s.FirstRaw, start) {
		t.Errorf("sound of %v bytes that starts with % x", s.Sizes, s.FirstRaw[:8])
	}
	if s.Header.Get("X-A") != "b" || s.Header.Get("Authorization") != "Bearer "+key {
		t.Error("headers are missing")
	}
}

// waitSession waits until the server has noted the connection.
func waitSession(t *testing.T, s *streamtest.Server) streamtest.Session {
	t.Helper()
	eventually(t, "no session", func() bool { return len(s.Sessions()) > 0 })
	return s.Sessions()[0]
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !ok(); _ = netx.Wait(t.Context(), time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(what)
		}
	}
}

// Partial transcripts come while somebody speaks; the final one joins the segments.
func TestTranscripts(t *testing.T) {
	for name, c := range map[string]struct {
		settings  Settings
		partials  []streamtest.Partial
		last      string
		want      []string // after each partial
		final     engine.Transcript
		leaveOpen bool
	}{
		"funasr 2pass": {settings: Settings{Dialect: FunASR}, partials: []streamtest.Partial{{Text: "今天"}, {Text: "天汽"},
			{Text: "今天天气。", Pause: true}, {Text: "怎么"}}, last: "<|zh|><|HAPPY|><|Speech|><|withitn|>怎么样？",
			want:  []string{"今天", "今天天汽", "今天天气。", "今天天气。怎么"},
			final: engine.Transcript{Text: "今天天气。怎么样？", Final: true, Language: "zh", Emotion: "happy"}},
		"funasr online": {settings: Settings{Dialect: FunASR, Mode: Online, Language: "en"},
			partials: []streamtest.Partial{{Text: "good"}, {Text: " mor"}}, last: "ning", want: []string{"good", "good mor"},
			final: engine.Transcript{Text: "good morning", Final: true, Language: "en"}},
		"funasr offline": {settings: Settings{Dialect: FunASR, Mode: Offline}, last: "Hello.",
			final: engine.Transcript{Text: "Hello.", Final: true}, leaveOpen: true},
		"vosk": {settings: Settings{Dialect: Vosk}, partials: []streamtest.Partial{{Text: "今天 天气"},
			{Text: "今天 天气 怎么样", Pause: true}, {Text: "hello 小 智"}}, last: "hello world 小 智",
			want:  []string{"今天天气", "今天天气怎么样", "今天天气怎么样hello 小智"},
			final: engine.Transcript{Text: "今天天气怎么样hello world 小智", Final: true}},
		"sherpa": {settings: Settings{Dialect: Sherpa}, partials: []streamtest.Partial{{Text: "turn"},
			{Text: "turn on", Pause: true}, {Text: "the"}}, last: "the light",
			want:  []string{"turn", "turn on", "turn on the"},
			final: engine.Transcript{Text: "turn on the light", Final: true}},
		"sherpa that stays": {settings: Settings{Dialect: Sherpa}, last: "hi", leaveOpen: true,
			final: engine.Transcript{Text: "hi", Final: true}},
	} {
		t.Run(name, func(t *testing.T) {
			s := streamtest.New(t, streamtest.Options{Dialect: c.settings.Dialect, Partials: c.partials,
				LeaveOpen:  c.leaveOpen,
				Transcribe: func([]int16) string { return c.last }, Delay: 20 * time.Millisecond})
			c.settings.URL = s.URL
			l := newTest(t, c.settings, short, io.Discard)
			u, err := engine.ListenLive(l.recognise).Listen(t.Context(), engine.Hints{})
			if err != nil {
				t.Fatal(err)
			}
			defer u.Close()
			for _, want := range c.want {
				must(t, u.Write(ramp(pieceSamples)))
				if tr, err := u.Next(); err != nil || tr.Text != want || tr.Final {
					t.Fatalf("%+v %v, want %q", tr, err, want)
				}
			}
			must(t, u.Write(ramp(100)))
			must(t, u.Finish())
			finalIs(t, u, c.final)
		})
	}
}

// finalIs reads up to the final transcript.
func finalIs(t *testing.T, u engine.Utterance, want engine.Transcript) {
	t.Helper()
	for {
		tr, err := u.Next()
		if err != nil {
			t.Fatal(err)
		}
		if tr.Final {
			if tr != want {
				t.Errorf("%+v, want %+v", tr, want)
			}
			break
		}
	}
	if _, err := u.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("after the final transcript: %v", err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A self-signed certificate is accepted only if the owner wants that.
func TestCertificate(t *testing.T) {
	s := streamtest.New(t, streamtest.Options{Dialect: FunASR, TLS: true, Transcribe: func([]int16) string { return "ok" }})
	set := Settings{URL: s.URL, Dialect: FunASR, SkipTLSVerify: true}
	if tr := one(t, newTest(t, set, defaultLimits, io.Discard), ramp(960)); tr.Text != "ok" {
		t.Errorf("text %q", tr.Text)
	}
	set.SkipTLSVerify = false
	_, err := listen(t, newTest(t, set, defaultLimits, io.Discard), ramp(960))
	if e := engine.AsError(err); e == nil || e.Class != engine.Closed || !strings.Contains(e.Error(), "skip_tls_verify") {
		t.Error(err)
	}
}

// What is said before the connection stands is not lost.
func TestEarlySound(t *testing.T) {
	var got []int16
	s := streamtest.New(t, streamtest.Options{Dialect: Vosk, Transcribe: func(all []int16) string { got = all; return "" }})
	l := newTest(t, Settings{URL: s.URL, Dialect: Vosk}, defaultLimits, io.Discard)
	release, dial := make(chan struct{}), l.server.Dial
	l.server.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		<-release
		return dial(ctx, network, address)
	}
	u, err := engine.ListenLive(l.recognise).Listen(t.Context(), engine.Hints{})
	must(t, err)
	defer u.Close()
	samples := ramp(maxSamples)
	must(t, u.Write(samples[:maxSamples/2]))
	must(t, u.Write(samples[maxSamples/2:]))
	must(t, u.Finish())
	close(release)
	finalIs(t, u, engine.Transcript{Final: true})
	if !slices.Equal(got, samples) {
		t.Error("the sound is not complete")
	}
}

// An utterance has a limit.
func TestTooLong(t *testing.T) {
	s := streamtest.New(t, streamtest.Options{Dialect: Sherpa})
	_, err := listen(t, newTest(t, Settings{URL: s.URL, Dialect: Sherpa}, short, io.Discard), ramp(maxSamples+1))
	if e := engine.AsError(err); e == nil || e.Class != engine.Input {
		t.Error(err)
	}
}

// Settings that cannot work are explained.
func TestValidate(t *testing.T) {
	ok := Settings{URL: "ws://localhost:2700/x?token=" + key, Dialect: Vosk, Language: "zh-CN"}
	must(t, ok.Validate())
	for name, change := range map[string]func(*Settings){
		"url is missing": func(s *Settings) { s.URL = "" }, "url is not": func(s *Settings) { s.URL = "http://" + key },
		"url holds": func(s *Settings) { s.URL = "ws://a:" + key + "@host" }, "dialect is": func(s *Settings) { s.Dialect = "x" },
		"mode is only": func(s *Settings) { s.Mode = Online }, "hotwords are only": func(s *Settings) { s.Hotwords = []string{"a"} },
		"mode is \"x\"":   func(s *Settings) { s.Dialect, s.Mode = FunASR, "x" },
		"hotwords: \" \"": func(s *Settings) { s.Dialect, s.Hotwords = FunASR, []string{" "} },
		"hotwords has":    func(s *Settings) { s.Dialect, s.Hotwords = FunASR, make([]string, 201) },
		"language is":     func(s *Settings) { s.Language = "chinese language" },
		"result_timeout":  func(s *Settings) { s.ResultTimeout = 1 << 60 },
		"api_key":         func(s *Settings) { s.APIKey = key + "\n" },
		"headers":         func(s *Settings) { s.Headers = map[string]string{"Upgrade": key} },
	} {
		s := ok
		change(&s)
		_, err := New(s, engine.Options{})
		if err == nil || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if e, err := New(ok, engine.Options{}); err != nil || e.Listener == nil || e.Speaker != nil {
		t.Error(reflect.TypeOf(e.Listener), err)
	}
}
