package dashscope_test

import (
	"bytes"
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
	"patchbay/internal/voice/engines/dashscope"
	"patchbay/internal/voice/engines/dashscope/dashscopetest"
	"patchbay/internal/voice/engines/socket/sockettest"
)

// newEngine returns an engine for a service, which is closed with the test.
func newEngine(t *testing.T, server *dashscopetest.Server, s dashscope.Settings, log io.Writer) engine.Engine {
	t.Helper()
	s.URL, s.APIKey = server.URL, dashscopetest.Key
	e, err := dashscope.New(s, engine.Options{Logger: slog.New(slog.NewTextHandler(log,
		&slog.HandlerOptions{Level: slog.LevelDebug}))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

// clean closes an engine and checks that nothing is left of it.
func clean(t *testing.T, server *dashscopetest.Server, e engine.Engine) {
	t.Helper()
	e.Close()
	server.Clean(t, "engines/dashscope")
}

// TestListenGolden checks the messages of an utterance, and that the next one uses the connection.
func TestListenGolden(t *testing.T) {
	samples := sockettest.Ramp(4000)
	var got []int16
	server := dashscopetest.New(t, dashscopetest.Options{
		Partials:   []dashscopetest.Partial{{Text: "今天"}, {Text: "今天天气。", End: true}},
		Transcript: func(all []int16) string { got = all; return "怎么样？" }})
	e := newEngine(t, server, dashscope.Settings{Vocabulary: "vocab-1", Languages: []string{"zh", "en"}}, io.Discard)
	for range 2 {
		list, err := sockettest.Listen(t.Context(), e, samples, engine.Hints{})
		want := engine.Transcript{Text: "今天天气。怎么样？", Final: true}
		if err != nil || len(list) == 0 || list[len(list)-1] != want {
			t.Fatalf("%+v, %v", list, err)
		}
		if !slices.Equal(got, samples) {
			t.Error("other samples arrived")
		}
	}
	if server.Opened() != 1 {
		t.Errorf("%d connections", server.Opened())
	}
	task := server.Tasks()[1]
	want := []string{`{"header":{"action":"run-task","task_id":"ID","streaming":"duplex"},"payload":{"task_group":"audio",` +
		`"task":"asr","function":"recognition","model":"paraformer-realtime-v2","parameters":{"format":"pcm",` +
		`"sample_rate":16000,"max_sentence_silence":800,"language_hints":["zh","en"],` +
		`"punctuation_prediction_enabled":true,"inverse_text_normalization_enabled":true,` +
		`"semantic_punctuation_enabled":false,"vocabulary_id":"vocab-1"},"input":{}}}`,
		`{"header":{"action":"finish-task","task_id":"ID","streaming":"duplex"},"payload":{"input":{}}}`}
	if diff := cmp.Diff(want, task.Messages); diff != "" {
		t.Error(diff)
	}
	if !slices.Equal(task.Sizes, []int{3200, 3200, 1600}) {
		t.Errorf("sound of %v bytes", task.Sizes)
	}
	clean(t, server, e)
}

// TestModels checks the parameters of the other recognisers.
func TestModels(t *testing.T) {
	for _, c := range []struct {
		s    dashscope.Settings
		h    engine.Hints
		want string
	}{
		{dashscope.Settings{ListenModel: "gummy-realtime-v1"}, engine.Hints{Language: "en-US"},
			`"parameters":{"format":"pcm","sample_rate":16000,"max_end_silence":800,"source_language":"en",` +
				`"transcription_enabled":true,"translation_enabled":false}`},
		{dashscope.Settings{ListenModel: "gummy-realtime-v1"}, engine.Hints{}, `"source_language":"auto"`},
		{dashscope.Settings{ListenModel: "fun-asr-realtime", Languages: []string{"zh"}}, engine.Hints{Language: "ja"},
			`"model":"fun-asr-realtime","parameters":{"format":"pcm","sample_rate":16000,"max_sentence_silence":800,` +
				`"language_hints":["ja"],`},
	} {
		server := dashscopetest.New(t, dashscopetest.Options{Partials: []dashscopetest.Partial{{Text: "a"}},
			Transcript: func([]int16) string { return "hello" }})
		e := newEngine(t, server, c.s, io.Discard)
		list, err := sockettest.Listen(t.Context(), e, sockettest.Ramp(3200), c.h)
		if err != nil || list[len(list)-1].Text != "hello" {
			t.Fatalf("%+v, %v", list, err)
		}
		if got := string(server.Tasks()[0].Definition); !strings.Contains(got, c.want) {
			t.Errorf("%s, want %s", got, c.want)
		}
		clean(t, server, e)
	}
}

// TestPartials checks that transcripts come while somebody speaks.
func TestPartials(t *testing.T) {
	server := dashscopetest.New(t, dashscopetest.Options{Partials: []dashscopetest.Partial{{Text: "good"},
		{Text: "good morning.", End: true}, {Text: "how"}}, Transcript: func([]int16) string { return "how are you?" }})
	e := newEngine(t, server, dashscope.Settings{}, io.Discard)
	u, err := e.Listener.Listen(t.Context(), engine.Hints{})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"good", "good morning.", "good morning. how"} {
		if err := u.Write(sockettest.Ramp(1600)); err != nil {
			t.Fatal(err)
		}
		if heard, err := u.Next(); err != nil || heard != (engine.Transcript{Text: want}) {
			t.Fatalf("%+v %v, want %q", heard, err, want)
		}
	}
	if err := u.Finish(); err != nil {
		t.Fatal(err)
	}
	for {
		heard, err := u.Next()
		if err != nil {
			t.Fatal(err)
		}
		if heard.Final {
			if heard.Text != "good morning. how are you?" {
				t.Errorf("%+v", heard)
			}
			break
		}
	}
	u.Close()
	clean(t, server, e)
}

// TestSpeakGolden checks the messages of a speech, its clips, and that the next one uses the
// connection.
func TestSpeakGolden(t *testing.T) {
	server := dashscopetest.New(t, dashscopetest.Options{})
	e := newEngine(t, server, dashscope.Settings{Voice: "longxiaochun", Speed: 1.5}, io.Discard)
	for range 2 {
		said, sound, err := sockettest.Speak(t.Context(), e, engine.Manner{Voice: "loongbella"},
			"Hello,", "world.", "床前", "明月光。")
		want := []string{"Hello, world.", "床前明月光。"}
		if diff := cmp.Diff(want, said); diff != "" || err != nil || len(sound) != 2*1440*(13+6) {
			t.Errorf("%s %d bytes, %v", diff, len(sound), err)
		}
	}
	if server.Opened() != 1 {
		t.Errorf("%d connections", server.Opened())
	}
	more := func(text string) string {
		return `{"header":{"action":"continue-task","task_id":"ID","streaming":"duplex"},"payload":{"input":{"text":"` + text +
			`"}}}`
	}
	want := []string{`{"header":{"action":"run-task","task_id":"ID","streaming":"duplex"},"payload":{"task_group":"audio",` +
		`"task":"tts","function":"SpeechSynthesizer","model":"cosyvoice-v3-flash","parameters":{"text_type":"PlainText",` +
		`"voice":"loongbella","format":"pcm","sample_rate":24000,"volume":50,"rate":1.5,"pitch":1},"input":{}}}`,
		more("Hello,"), more(" world."), more("床前"), more("明月光。"),
		`{"header":{"action":"finish-task","task_id":"ID","streaming":"duplex"},"payload":{"input":{}}}`}
	if diff := cmp.Diff(want, server.Tasks()[1].Messages); diff != "" {
		t.Error(diff)
	}
	clean(t, server, e)
}

// Opus comes in Ogg, one stream for each sentence.
func TestSpeakOpus(t *testing.T) {
	server := dashscopetest.New(t, dashscopetest.Options{})
	e := newEngine(t, server, dashscope.Settings{Format: dashscope.Opus}, io.Discard)
	s, err := e.Speaker.Speak(t.Context(), engine.Manner{})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Write("One."), s.Write("Two."), s.Finish()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"One.", "Two."} {
		clip, err := s.Next()
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(clip.Sound)
		if clip.Format != engine.OggOpus || clip.Text != want || !bytes.HasPrefix(data, []byte("OggS")) || err != nil {
			t.Errorf("%+v, %v", clip, err)
		}
		clip.Sound.Close()
	}
	s.Close()
	clean(t, server, e)
}

// A sentence that is not complete is spoken although no more text comes, and later text is a task
// of its own.
func TestSpeakPause(t *testing.T) {
	server := dashscopetest.New(t, dashscopetest.Options{})
	e := newEngine(t, server, dashscope.Settings{}, io.Discard)
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
			sockettest.Eventually(t, "the first task does not end", func() bool { return len(server.Tasks()) == 1 })
		}
	}
	if err := s.Finish(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Next(); err != io.EOF {
		t.Error(err)
	}
	s.Close()
	if server.Opened() != 1 || len(server.Tasks()) != 2 {
		t.Errorf("%d connections, %d tasks", server.Opened(), len(server.Tasks()))
	}
	clean(t, server, e)
}

// What is broken off closes its connection, and the next speech works.
func TestSpeakBrokenOff(t *testing.T) {
	server := dashscopetest.New(t, dashscopetest.Options{Options: sockettest.Options{Fault: sockettest.Hang,
		Stage: dashscopetest.Middle}})
	e := newEngine(t, server, dashscope.Settings{}, io.Discard)
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
	if took := time.Since(begin); took > time.Second {
		t.Errorf("it took %s", took)
	}
	if _, err := io.ReadAll(clip.Sound); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	clean(t, server, e)
}

// TestWarm checks that a connection that was opened in advance is used.
func TestWarm(t *testing.T) {
	server := dashscopetest.New(t, dashscopetest.Options{})
	e := newEngine(t, server, dashscope.Settings{}, io.Discard)
	for range 2 {
		e.Speaker.(engine.Warmer).Warm(t.Context())
		e.Listener.(engine.Warmer).Warm(t.Context())
	}
	sockettest.Eventually(t, "no connections", func() bool { return server.Opened() == 2 })
	if said, _, err := sockettest.Speak(t.Context(), e, engine.Manner{}, "Hello."); err != nil || len(said) != 1 {
		t.Error(said, err)
	}
	if _, err := sockettest.Listen(t.Context(), e, sockettest.Ramp(100), engine.Hints{}); err != nil {
		t.Error(err)
	}
	if server.Opened() != 2 {
		t.Errorf("%d connections", server.Opened())
	}
	clean(t, server, e)
}
