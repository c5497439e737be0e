package xiaozhi_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"patchbay/internal/hub"
	"patchbay/internal/hub/hubtest"
	"patchbay/internal/plug/xiaozhi"
	"patchbay/internal/plug/xiaozhi/sim"
	"patchbay/internal/settings"
	"patchbay/internal/store"
	"patchbay/internal/talk"
	"patchbay/internal/voice/engine"
	"patchbay/internal/voice/engines/openai"
	"patchbay/internal/voice/engines/openai/openaitest"
)

// TestVoiceSettings checks what is refused, and that errors name it.
func TestVoiceSettings(t *testing.T) {
	for set, want := range map[string]string{
		"language=ja-JP":                       "",
		"language=klingonese":                  `language is "klingonese"`,
		"speed=1.2":                            "",
		"speed=9":                              "between 0.25 and 4",
		"speed=fast":                           "a number",
		"silence=700ms":                        "",
		"silence=10ms":                         "between 200ms and 3s",
		"volume=101":                           "between 1 and 100",
		"record=30":                            "",
		"record=366":                           "between 1 and 365 days",
		"wake_words=小明小明, Hey Robot":           "",
		"wake_words=Hey Robot,hey robot!":      "twice",
		"exit_phrases=...":                     "has no letters",
		"engines=home,cloud":                   "",
		"greeting=" + strings.Repeat("a", 201): "it can have 200",
		`greeting=a` + "\n" + `b`:              "line break",
		"colour=blue":                          "no setting is called",
	} {
		name, text, _ := strings.Cut(set, "=")
		var s xiaozhi.VoiceSettings
		_, err := settings.ChangeStruct(&s, map[string]string{name: text})
		if err == nil {
			err = s.Validate()
		}
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v", set, err)
		}
	}
	if err := (&xiaozhi.BotVoice{Speed: 5}).Validate(); err == nil || !strings.Contains(err.Error(), "between") {
		t.Error(err)
	}
}

// TestVoiceOfBoard changes the settings of a board and of its bot between two questions, and checks
// that they hold from the next one, in the same conversation.
func TestVoiceOfBoard(t *testing.T) {
	t.Parallel()
	for _, mqtt := range []bool{false, true} {
		t.Run(map[bool]string{false: "WebSocket", true: "MQTT"}[mqtt], func(t *testing.T) {
			t.Parallel()
			ctx := limit(t, 2*time.Minute)
			one, two := openaitest.New(t), openaitest.New(t)
			first, second := speechLink(t, one, openai.Settings{}), speechLink(t, two, openai.Settings{})
			first.Name, second.Name = "one", "two"
			h := newTestServer(t, testServerOptions{mqtt: mqtt, boards: withEngines(first, second),
				rig: hubtest.Options{Shared: []func() any{func() any { return new(xiaozhi.BotVoice) }}}})
			b := h.device(sim.Options{Lang: "en-US"})
			must(t, b.Boot(ctx))
			h.bindScript(ctx, b, func(_ context.Context, _ *talk.Turn, emit talk.Emit) error {
				return emit(talk.Text("Good."))
			})
			d, err := h.Store.Devices.ByHardware(ctx, xiaozhi.Kind, b.MAC())
			must(t, err)
			ask := func(server *openaitest.Server) (language string, manner engine.Manner) {
				t.Helper()
				_, err := b.Ask(ctx, spoken(t))
				must(t, err)
				forms, spoken := server.Forms(), server.Manners()
				if len(forms) == 0 || len(spoken) == 0 {
					t.Fatal("another engine was used")
				}
				return forms[len(forms)-1]["language"], spoken[len(spoken)-1]
			}
			expect := func(server *openaitest.Server, language string, manner engine.Manner) {
				t.Helper()
				l, m := ask(server)
				if l != language || m != manner {
					t.Errorf("language %q, %+v; want %q, %+v", l, m, language, manner)
				}
			}
			expect(one, "en", engine.Manner{Voice: openai.DefaultVoice})

			_, err = h.Registry.Change(ctx, d.Bot, hub.Changes{Set: map[string]string{"voice_language": "fr",
				"voice_name": "nova", "voice_speed": "1.5"}})
			must(t, err)
			must(t, h.boards.Refresh(ctx))
			expect(one, "fr", engine.Manner{Voice: "nova", Speed: 1.5})

			set(t, h, d, xiaozhi.VoiceSettings{Language: "ja", Voice: "onyx", Engines: []string{"two"}})
			expect(two, "ja", engine.Manner{Voice: "onyx", Speed: 1.5})

			set(t, h, d, xiaozhi.VoiceSettings{Engines: []string{"gone"}}) // better than silence
			expect(one, "fr", engine.Manner{Voice: "nova", Speed: 1.5})
			clean(t, b)
		})
	}
}

// set stores the settings of a board, as another instance would.
func set(t *testing.T, h *testServer, d store.Device, s xiaozhi.VoiceSettings) {
	t.Helper()
	text, err := json.Marshal(s)
	must(t, err)
	_, err = h.Store.Devices.ChangeVoice(t.Context(), d.Number,
		func(store.Device) (json.RawMessage, error) { return text, nil })
	must(t, err)
	must(t, h.boards.Refresh(t.Context()))
}

// TestDevicesOfChangedBot checks that instances learn of a change of a bot whose settings their
// boards have.
func TestDevicesOfChangedBot(t *testing.T) {
	t.Parallel()
	ctx := limit(t, time.Minute)
	h := newTestServer(t, testServerOptions{})
	b := h.device(sim.Options{})
	must(t, b.Boot(ctx))
	version := func() int64 {
		v, err := h.Store.DevicesVersion(ctx)
		must(t, err)
		return v
	}
	other := h.AddScript(t, nil, nil)
	for bot, grows := range map[int64]bool{h.bot.Number: true, other.Number: false} {
		before := version()
		name := "changed"
		_, err := h.Registry.Change(ctx, bot, hub.Changes{Description: &name})
		must(t, err)
		if (version() > before) != grows {
			t.Errorf("bot %d: version %d, before %d", bot, version(), before)
		}
	}
}
