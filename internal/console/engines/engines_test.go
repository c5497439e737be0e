package engines_test

import (
	"bytes"
	"context"
	"encoding/json"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"
	"time"

	"patchbay/internal/console/consoletest"
	"patchbay/internal/console/engines"
	"patchbay/internal/console/page"
	"patchbay/internal/control"
	"patchbay/internal/hub"
	"patchbay/internal/hub/hubtest"
	"patchbay/internal/i18n"
	"patchbay/internal/problem"
	"patchbay/internal/settings"
	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m) }

const msgRefused = i18n.Message("api_key is refused")

// fake are engines of one kind, whose settings are stored as they are. The key "wrong" is refused.
func fake() control.VoiceActions {
	read := func(e store.SpeechEngine) (set map[string]string, err error) {
		set = map[string]string{}
		if len(e.Settings) > 0 {
			err = json.Unmarshal(e.Settings, &set)
		}
		return set, err
	}
	kind := control.EngineKind{Name: "openai", Title: "OpenAI's interface", About: "Many.", Listens: true, Speaks: true,
		Settings: []hub.Setting{
			{Name: "api_key", Form: settings.FormText, Secret: true, Text: settings.FieldText{Label: "Key"}},
			{Name: "base_url", Form: settings.FormText, Required: true, Text: settings.FieldText{Label: "Address"}}}}
	return control.VoiceActions{
		Kinds: func(i18n.Lang) []control.EngineKind { return []control.EngineKind{kind} },
		All: func(rows []store.SpeechEngine) []store.SpeechEngine {
			return append([]store.SpeechEngine{{Name: "speech.url", Enabled: true}}, rows...)
		},
		Draft: func(e store.SpeechEngine, set control.SettingTexts) (store.SpeechEngine, []string, error) {
			has, err := read(e)
			for name, text := range set {
				has[name] = text
			}
			if has["api_key"] == "wrong" {
				return e, nil, problem.New(problem.Invalid, msgRefused)
			}
			e.Settings, _ = json.Marshal(has) // of texts
			return e, nil, err
		},
		Shown: func(store.SpeechEngine) (map[string]json.RawMessage, error) { return nil, nil },
		Texts: func(e store.SpeechEngine) (map[string]string, error) {
			set, err := read(e)
			if set["api_key"] != "" {
				set["api_key"] = ""
			}
			return set, err
		},
		Health: func(store.SpeechEngine) control.EngineHealth {
			return control.EngineHealth{State: control.EnginePaused, Until: time.Now().Add(time.Minute), ListenMS: 350}
		},
		Where: func(store.SpeechEngine) (string, bool, bool) { return "https://speech.example.org", true, true },
		Check: func(context.Context, store.SpeechEngine) (control.EngineFound, error) {
			return control.EngineFound{Listens: true, Speaks: true, ListenMS: 40, SpeakMS: 20}, nil
		},
		Say: func(_ context.Context, _ store.SpeechEngine, text string) (control.EngineSaid, error) {
			return control.EngineSaid{Sound: []byte("RIFF" + text), FirstMS: 123}, nil
		},
		Hear: func(_ context.Context, _ store.SpeechEngine, sound []byte,
			language string) (control.EngineHeard, error) {
			return control.EngineHeard{Text: language + " " + string(sound), TookMS: 77}, nil
		},
		Usage: func(context.Context, int) (control.SpeechUsage, error) {
			use := store.SpeechUse{Uses: 12, Heard: 65 * time.Second, Characters: 1234, Cost: 1_250_000}
			return control.SpeechUsage{Since: "2026-10-27", Currency: "USD", SpeechSums: store.SpeechSums{
				Days:    []store.SpeechSum{{Name: "2026-11-25", SpeechUse: use}},
				Devices: []store.SpeechSum{{ID: "7", SpeechUse: use}}}}, nil
		},
		Refresh: func(context.Context) error { return nil },
	}
}

func newRig(t *testing.T) *consoletest.Rig {
	t.Helper()
	return consoletest.New(t, consoletest.Options{Options: hubtest.Options{}, Control: control.Options{Voice: fake()}},
		func(r *consoletest.Rig) []page.Route { return engines.Routes(r.Control) })
}

// TestEngines adds, changes, moves, tries and removes engines.
func TestEngines(t *testing.T) {
	r := newRig(t)
	ada := r.SignedInAs(r.Person)
	if p := r.SignedInAs(r.Bob).Get("/settings/voice"); p.Status != http.StatusForbidden && p.Status != http.StatusNotFound {
		t.Errorf("a member sees %d %s", p.Status, p.Text)
	}
	if p := ada.Get("/settings/voice"); !p.Contains("1:05 minutes heard", "1.25 USD",
		"2026-11-25", "7 (removed)") {
		t.Errorf("the usage: %s", p.Text)
	}
	if p := ada.Get("/settings/voice/new"); !p.Contains("new?kind=openai", "listens and speaks") {
		t.Errorf("the kinds: %s", p.Text)
	}
	if p := ada.Get("/settings/voice/new?kind=openai"); strings.Index(p.Text, "set-base_url") >
		strings.Index(p.Text, "set-api_key") {
		t.Errorf("the required field is not the first: %s", p.Text)
	}
	add := func(name, key string) consoletest.Page {
		return ada.Post("/settings/voice/new", "kind", "openai", "name", name, "base_url", "https://a.example", "api_key", key)
	}
	if p := add("cloud", "wrong"); p.Status != http.StatusUnprocessableEntity || !p.Contains("api_key is refused",
		`value="https://a.example"`, `aria-invalid="true"`) || p.Contains(`"wrong"`) {
		t.Errorf("a wrong key: %d %s", p.Status, p.Text)
	}
	if p := add("cloud", "sk-1"); p.Path != "/settings/voice/engines/1?done=added" || !p.Contains("is added",
		"is set; leave empty to keep it") || p.Contains("sk-1") {
		t.Errorf("added: %s %s", p.Path, p.Text)
	}
	if p := add("cloud", "sk-1"); p.Status != http.StatusConflict || !p.Contains("called cloud already") {
		t.Errorf("a name that is taken: %d %s", p.Status, p.Text)
	}
	add("spare", "")
	p := ada.Post("/settings/voice/engines/2/move", "place", "1")
	if !p.Contains("speech.url", "in the configuration", "paused after failures", "understands after 350 ms") ||
		strings.Index(p.Text, ">spare<") > strings.Index(p.Text, ">cloud<") {
		t.Errorf("after the move: %s", p.Text)
	}
	if p := ada.Post("/settings/voice/engines/2", "name", "other", "use", "speak", "base_url",
		"https://a.example"); p.Path != "/settings/voice/engines/2?done=saved" || !p.Contains("Saved.", "other", "off") {
		t.Errorf("changed: %s %s", p.Path, p.Text)
	}
	if p := ada.Get("/settings/voice/engines/speech.url"); !p.Contains("can only be changed there") ||
		p.Contains("Remove the engine") {
		t.Errorf("an engine of the configuration: %s", p.Text)
	}
	if p := ada.Post("/settings/voice/engines/2/remove"); !p.Contains("is removed") || p.Contains(">other<") {
		t.Errorf("removed: %s", p.Text)
	}
	if p := ada.Get("/settings/voice/engines/2"); p.Status != http.StatusNotFound {
		t.Errorf("a removed engine: %d", p.Status)
	}
}

// TestTries has an engine check itself, speak and listen.
func TestTries(t *testing.T) {
	r := newRig(t)
	ada := r.SignedInAs(r.Person)
	const at = "/settings/voice/engines/speech.url"
	if p := ada.Post(at + "/check"); !p.Contains("It works. · speaks after 20 ms · understands after 40 ms") {
		t.Errorf("checked: %s", p.Text)
	}
	if p := ada.Post(at+"/say", "text", "Hi"); !p.Contains("after 123 ms", "data:audio/wav;base64,UklGRkhp", ">Hi<") {
		t.Errorf("said: %s", p.Text)
	}
	if p := ada.Post(at+"/say", "text", " "); !p.Contains("Give a text of 1 to 500 characters") || p.Contains("<audio") {
		t.Errorf("nothing to say: %s", p.Text)
	}
	if p := ada.Post(at + "/hear"); !p.Contains("Choose a sound file") {
		t.Errorf("no file: %s", p.Text)
	}
	for _, c := range []struct {
		size int
		want string
	}{{10, "en xxxxxxxxxx"}, {5 << 20, "4 MiB are the most"}} {
		var body bytes.Buffer
		form := multipart.NewWriter(&body)
		file, err := form.CreateFormFile("file", "a.wav")
		if err != nil {
			t.Fatal(err)
		}
		_, _ = file.Write(bytes.Repeat([]byte("x"), c.size)) // a buffer takes everything
		_ = form.WriteField("language", "en")
		_ = form.Close()
		resp, err := ada.Client.Post(r.URL+at+"/hear", form.FormDataContentType(), &body)
		if err != nil {
			t.Fatal(err)
		}
		var text bytes.Buffer
		_, err = text.ReadFrom(resp.Body)
		resp.Body.Close()
		if err != nil || !strings.Contains(text.String(), c.want) {
			t.Errorf("%d bytes: %v %s", c.size, err, text.String())
		}
	}
}

// TestSetUp checks that the form sets up an engine, and shows what is wrong.
func TestSetUp(t *testing.T) {
	r := newRig(t)
	ada := r.SignedInAs(r.Person)
	set := func(fields ...string) consoletest.Page { return ada.Post("/settings/voice/setup", fields...) }
	if p := ada.Get("/settings/voice"); !p.Contains("One key of a service is enough", `value="siliconflow"`) {
		t.Errorf("the page: %s", p.Text)
	}
	if p := set("service", "openai"); p.Status != http.StatusUnprocessableEntity || !p.Contains("The key is missing") {
		t.Errorf("without a key: %d %s", p.Status, p.Text)
	}
	if p := set("service", "other", "key", "sk-1"); !p.Contains("Give the address of the service") {
		t.Errorf("without an address: %s", p.Text)
	}
	if p := set("service", "openai", "url", "ftp://a.example", "key", "sk-1"); !p.Contains(`value="ftp://a.example"`,
		"looks like https://api.openai.com/v1") {
		t.Errorf("a service at another address: %s", p.Text)
	}
	if p := set("service", "other", "url", "http://a.example/v1", "key", "wrong"); !p.Contains("api_key is refused",
		`value="http://a.example/v1"`) || p.Contains(`"wrong"`) {
		t.Errorf("a wrong key: %s", p.Text)
	}
	if p := set("service", "other", "url", "http://a.example/v1", "key", "sk-1"); !p.Contains("engine a.example was added",
		"Bots give the answers", ">a.example<") {
		t.Errorf("set up: %s", p.Text)
	}
}
