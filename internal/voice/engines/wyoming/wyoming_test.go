package wyoming

import (
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"patchbay/internal/voice/engine"
	"patchbay/internal/voice/engines/wyoming/wyomingtest"
)

// TestBytes checks an event byte by byte (rhasspy/wyoming README.md, "Format").
func TestBytes(t *testing.T) {
	payload := []byte{1, 2, 3, 4}
	got, err := appendEvent(nil, audioChunk, format, payload)
	want := `{"type":"audio-chunk","version":"1.9.0","data_length":37,"payload_length":4}` + "\n" +
		`{"rate":16000,"width":2,"channels":1}` + string(payload)
	if err != nil || string(got) != want {
		t.Errorf("%q, %v", got, err)
	}
}

// TestListen checks what the server gets, and the transcripts of servers of several ages.
func TestListen(t *testing.T) {
	samples := make([]int16, 3*pieceSamples+100)
	for i := range samples {
		samples[i] = int16(i * 37)
	}
	final := engine.Transcript{Text: "hello there", Language: "en", Final: true}
	for _, c := range []struct {
		name, language, sent string
		o                    wyomingtest.Options
		want                 []engine.Transcript
	}{
		{name: "old", language: "en-US", sent: "en", o: wyomingtest.Options{Inline: true}, want: []engine.Transcript{final}},
		{name: "new", o: wyomingtest.Options{Partials: []string{"hello", " the", "re"}}, want: []engine.Transcript{final}},
		{name: "a language that it does not know", language: "fr", want: []engine.Transcript{final}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.o.Transcript = func(got []int16) string {
				if !slices.Equal(got, samples) {
					t.Errorf("%d samples arrived, or others", len(got))
				}
				return " hello there "
			}
			server := wyomingtest.New(t, c.o)
			list, err := listen(t, newTest(t, Settings{Address: server.Address, ListenModel: "small"}, io.Discard),
				samples, c.language)
			if err != nil || len(list) == 0 || list[len(list)-1] != final {
				t.Fatalf("%+v, %v", list, err)
			}
			for _, tr := range list[:len(list)-1] {
				if tr.Final || !strings.HasPrefix("hello there", tr.Text) {
					t.Errorf("%+v", tr)
				}
			}
			eventually(t, "connections are left", func() bool { return server.Open() == 0 })
			got := server.Requests()[1]
			pieces := []int{1024, 1024, 1024, 100}
			if got.Name != "small" || got.Language != c.sent || !slices.Equal(got.Pieces, pieces) {
				t.Errorf("the server got %+v", got)
			}
			if v := server.Violations(); len(v) > 0 {
				t.Error(v)
			}
		})
	}
}

// TestPartials checks that transcripts come while somebody speaks.
func TestPartials(t *testing.T) {
	server := wyomingtest.New(t, wyomingtest.Options{Partials: []string{"turn", " on"}})
	c := newTest(t, Settings{Address: server.Address}, io.Discard)
	u, err := engine.ListenLive(c.recognise).Listen(t.Context(), engine.Hints{})
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	for _, want := range []string{"turn", "turn on"} {
		if err := u.Write(make([]int16, pieceSamples)); err != nil {
			t.Fatal(err)
		}
		if tr, err := u.Next(); err != nil || tr.Text != want || tr.Final {
			t.Fatalf("%+v, %v, want %q", tr, err, want)
		}
	}
}

// TestSpeak checks which voice is asked for, and that all sound arrives.
func TestSpeak(t *testing.T) {
	const text = "It is nine. Good night."
	for _, c := range []struct {
		name string
		o    wyomingtest.Options
		s    Settings
		m    engine.Manner
		want wyomingtest.Request
	}{
		{name: "no voice"},
		{name: "a language", m: engine.Manner{Language: "zh-CN"}, want: wyomingtest.Request{Name: "zh_CN-huayan"}},
		{name: "another language", m: engine.Manner{Language: "fr-FR"}, want: wyomingtest.Request{Language: "fr"}},
		{name: "in pieces", o: wyomingtest.Options{Streaming: true}, m: engine.Manner{Language: "en-GB"},
			want: wyomingtest.Request{Name: "en_US-lessac", WholeText: true}},
		{name: "the setting", s: Settings{Voice: "mine", Speaker: "a"}, m: engine.Manner{Language: "zh", Voice: "of another engine"},
			want: wyomingtest.Request{Name: "mine", Speaker: "a"}},
		{name: "the caller's", s: Settings{Voice: "mine"}, m: engine.Manner{Voice: "en_US-lessac"},
			want: wyomingtest.Request{Name: "en_US-lessac"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := wyomingtest.New(t, c.o)
			c.s.Address = server.Address
			sound, err := speak(t.Context(), newTest(t, c.s, io.Discard), text, c.m)
			if samples := len(wyomingtest.Tone(text, 22050)); err != nil || len(sound) != 2*samples {
				t.Errorf("%d bytes, %v, want %d", len(sound), err, 2*samples)
			}
			eventually(t, "connections are left", func() bool { return server.Open() == 0 })
			c.want.Stage, c.want.Text = wyomingtest.Speak, text
			if diff := cmp.Diff(c.want, server.Requests()[1]); diff != "" {
				t.Error(diff)
			}
			if v := server.Violations(); len(v) > 0 {
				t.Error(v)
			}
		})
	}
}

// TestOneSided checks that a server that only listens, or only speaks, is not asked for more.
func TestOneSided(t *testing.T) {
	server := wyomingtest.New(t, wyomingtest.Options{Deaf: true, Mute: true})
	c := newTest(t, Settings{Address: server.Address}, io.Discard)
	_, hearing := listen(t, c, nil, "")
	_, speaking := speak(t.Context(), c, "One.", engine.Manner{})
	for _, err := range []error{hearing, speaking} {
		if e := engine.AsError(err); e == nil || e.Class != engine.Input {
			t.Error(err)
		}
	}
	if n := len(server.Requests()); n > 1 {
		t.Errorf("%d connections; the description is kept", n)
	}
}

// TestSettings checks that settings that cannot work are explained.
func TestSettings(t *testing.T) {
	for address, ok := range map[string]bool{"wyoming://localhost:10300": true, "192.168.1.5:10200/": true,
		"[::1]:10300": true, "": false, "wyoming://localhost": true, "wyoming://a@b:1": false, "http://h:10300": false, "host/path": true,
		"h:70000": false, "h:0": false, ":10300": false} {
		s := Settings{Address: address}
		if err := s.Validate(); (err == nil) != ok {
			t.Errorf("%q: %v", address, err)
		}
	}
	s := Settings{Address: "h:1", Speaker: "a"}
	if err := s.Validate(); err == nil || !strings.Contains(err.Error(), "voice") {
		t.Error(err)
	}
}
