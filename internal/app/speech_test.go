package app

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"patchbay/internal/config"
	"patchbay/internal/control"
	"patchbay/internal/hub/hubtest"
	"patchbay/internal/store"
	"patchbay/internal/voice/engine"
	"patchbay/internal/voice/engines/openai/openaitest"
)

// TestSpeechEnginesChange checks that changes hold for the next question, in the right order, and
// that what is known of an engine stays until its settings change.
func TestSpeechEnginesChange(t *testing.T) {
	i := newInstance(t, hubtest.Options{})
	i.base.Config = configOf(t, t.TempDir(), "")
	i.base.Config.Speech = config.Speech{URL: "http://127.0.0.1:1/v1", Key: "sk-configured",
		SpeakCommand: []string{"espeak-ng"}}
	s, err := newSpeech(t.Context(), i.base, slog.New(slog.DiscardHandler), newSpeechMetrics(nil))
	if err != nil {
		t.Fatal(err)
	}
	server := openaitest.New(t)
	add := func(name string) {
		t.Helper()
		e, _, err := s.draft(store.SpeechEngine{Name: name, Kind: "openai", Enabled: true, Created: time.Now()},
			control.SettingTexts{"base_url": server.URL, "api_key": openaitest.Key, "concurrent": "2"})
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(e.Settings), openaitest.Key) {
			t.Errorf("the key is stored as it is: %s", e.Settings)
		}
		if _, err := i.base.Store.SpeechEngines.Add(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	names := func() string {
		t.Helper()
		if err := s.refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		var list []string
		for _, l := range s.chain(store.Device{}).Links {
			list = append(list, l.Name)
		}
		return strings.Join(list, " ")
	}
	add("a")
	add("b")
	if got := names(); got != "speech.url a b speech.speak_command" {
		t.Errorf("the engines are %s", got)
	}
	row := s.rows[0].row
	s.rows[0].link.OnFailure(engine.StageSpeak, engine.Errorf(engine.Auth, "status 401"))
	if err := i.base.Store.SpeechEngines.Move(t.Context(), 2, 0); err != nil {
		t.Fatal(err)
	}
	if got := names(); got != "speech.url b a speech.speak_command" {
		t.Errorf("the engines are %s", got)
	}
	if h := s.health(row); h.Cause != "status 401" || h.FailedAt.IsZero() {
		t.Errorf("the failure is forgotten: %+v", h)
	}
	row.Use, row.Name = store.UseListen, "c"
	if err := i.base.Store.SpeechEngines.Save(t.Context(), row); err != nil {
		t.Fatal(err)
	}
	if got := names(); got != "speech.url b c speech.speak_command" {
		t.Errorf("the engines are %s", got)
	}
	if h := s.health(row); h.State != control.EngineUnused || !h.FailedAt.IsZero() {
		t.Errorf("after a change: %+v", h)
	}
	if _, listens, speaks := s.where(row); !listens || speaks {
		t.Errorf("it listens: %t, it speaks: %t", listens, speaks)
	}
}
