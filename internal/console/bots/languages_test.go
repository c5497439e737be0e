package bots_test

import (
	"html"
	"net/http"
	"net/url"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"patchbay/internal/console/bots"
	"patchbay/internal/console/consoletest"
	"patchbay/internal/console/page"
	"patchbay/internal/control"
	"patchbay/internal/hub"
	"patchbay/internal/hub/hubtest"
	"patchbay/internal/i18n"
	"patchbay/internal/plug/approve"
	asked "patchbay/internal/plug/bots"
	"patchbay/internal/plug/learn/quiz"
	"patchbay/internal/plug/rokid"
	"patchbay/internal/plug/xiaozhi"
	"patchbay/internal/settings"
)

// right holds valid settings for a bot of each kind.
var right = map[string]map[string]string{
	"openai":   {"base_url": "https://api.example.com/v1", "model": "m"},
	"openclaw": {"url": "wss://gateway.example.com"},
}

// wrongs holds invalid values of settings, beyond those that the type of a setting excludes: one
// for each check. More settings follow after a |, as name=value.
var wrongs = map[string][]string{
	"agent_id": {"everybody"}, "hangup": {"maybe"}, "concurrent": {"-1"}, "waiting": {"-1"},
	"allow_tools": {"a b", strings.Repeat("x,", 201) + "x"}, "deny_tools": {"ä"}, "dangerous_tools": {"a.b"},
	"plain": {"colours"}, "max_chars": {"-1", "5"},
	"base_url": {"", "ftp://example.com", "https://user:secret@example.com/v1"}, "model": {""},
	"api_key": {"sk\x01key"}, "system": {strings.Repeat("x", 33<<10)}, "history_tokens": {"1000001"},
	"max_tokens": {"0"}, "temperature": {"3"},
	"first_byte_timeout": {"-5s"}, "idle_timeout": {"-5s"}, "retries": {"11"}, "tool_steps": {"33"},
	"tool_time": {"11m"}, "tool_output": {"7"}, "tools_most": {"129"},
	"headers": {`{"a b":"c"}`, `{"Host":"x"}`, `{"X":"a\nb"}`},
	"extra":   {`{"model":"x"}`, `{"max_tokens":5}|max_tokens=7`, `{"temperature":1}|temperature=1`},
	"url":     {"", "gateway", "ftp://example.com", "wss://user:secret@example.com", "ws://example.com"},
	"agent":   {"a b"}, "session_prefix": {"A"}, "thinking": {"VERY"}, "deadline": {"2s"}, "device_identity": {"mine"},
}

// misfits holds values that are invalid for each type of setting.
var misfits = map[settings.Form]string{settings.FormInteger: "many", settings.FormNumber: "hot", settings.FormDuration: "soon",
	settings.FormOptionalBool: "perhaps", settings.FormObject: "[1", settings.FormBool: "perhaps"}

var han = regexp.MustCompile(`\p{Han}`)

// Every error about a setting of any kind of bot is shown beside it, in the language of the page.
func TestWrongInBothLanguages(t *testing.T) {
	base := openBase(t)
	var kinds []hub.Kind
	for _, name := range base.Registry.Kinds() {
		k, err := base.Registry.Kind(name)
		if err != nil {
			t.Fatal(err)
		}
		kinds = append(kinds, k)
	}
	r := consoletest.New(t, consoletest.Options{Options: hubtest.Options{
		Kinds: kinds,
		Shared: []func() any{func() any { return new(rokid.Settings) }, func() any { return new(asked.Settings) },
			func() any { return new(quiz.Settings) }, func() any { return new(approve.Settings) },
			func() any { return new(xiaozhi.BotVoice) }},
	}}, func(*consoletest.Rig) []page.Route { return bots.Routes() })
	english, chinese := r.SignedInAs(r.Person), r.SignedInAs(r.Person)
	site, err := url.Parse(r.URL)
	if err != nil {
		t.Fatal(err)
	}
	chinese.Jar.SetCookies(site, []*http.Cookie{{Name: "patchbay-lang", Value: "zh"}})
	checked, seen := 0, map[string]bool{}
	for _, kind := range base.Registry.Kinds() {
		list, err := base.Registry.Describe(kind)
		if err != nil {
			t.Fatal(err)
		}
		if have, err := r.Registry.Describe(kind); err != nil || !reflect.DeepEqual(have, list) {
			t.Fatalf("bots of kind %s have other settings here than in the program: %v", kind, err)
		}
		for _, s := range list {
			values := wrongs[s.Name]
			if misfit, ok := misfits[s.Form]; ok {
				values = append(values[:len(values):len(values)], misfit)
			}
			if seen[s.Name] = true; len(values) == 0 && s.Form != settings.FormText && s.Form != settings.FormList {
				t.Errorf("nothing is known that %s cannot be", s.Name)
			}
			for _, value := range values {
				value, more, _ := strings.Cut(value, "|")
				set := map[string]string{}
				for name, text := range right[kind] {
					set[name] = text
				}
				if name, text, ok := strings.Cut(more, "="); ok {
					set[name] = text
				}
				set[s.Name] = value
				name := kind + ": " + s.Name + "=" + value[:min(len(value), 30)]
				checked++
				_, err := r.Control.AddBot(t.Context(), control.Caller{Person: r.Person.ID},
					control.NewBot{Name: "wrong", Kind: kind, Settings: set})
				e := control.AsError(err)
				if e == nil {
					t.Errorf("%s: %v", name, err)
					continue
				}
				zh, en := e.In(i18n.Chinese), e.In(i18n.English)
				if !han.MatchString(zh) || han.MatchString(en) || en != e.Error() {
					t.Errorf("%s: %q in Chinese, %q in English", name, zh, en)
				}
				if s.Name == "device_identity" { // generated, not typed
					continue
				}
				form := []string{"kind", kind, "name", "wrong"}
				for name, text := range set {
					form = append(form, "set."+name, text)
				}
				if p := english.Post("/bots", form...); p.Status != http.StatusUnprocessableEntity ||
					!p.Contains(html.EscapeString(beside(en, s.Name))) || strings.HasPrefix(en, s.Name) &&
					!p.Contains("is not right", `aria-invalid="true"`) {
					t.Errorf("%s: %d, without %q", name, p.Status, en)
				}
				if p := chinese.Post("/bots", form...); p.Status != http.StatusUnprocessableEntity ||
					!p.Contains(html.EscapeString(beside(zh, s.Name))) || strings.HasPrefix(en, s.Name) &&
					!p.Contains("填得不对", `aria-invalid="true"`) {
					t.Errorf("%s: %d, without %q", name, p.Status, zh)
				}
			}
		}
	}
	for name := range wrongs {
		if !seen[name] {
			t.Errorf("nothing is called %s any more", name)
		}
	}
	if checked < 80 {
		t.Errorf("only %d values were tried", checked)
	}
}

// beside returns what a form says beside a setting: an error without the setting's name.
func beside(text, name string) string {
	for _, end := range []string{":", "："} {
		if said, ok := strings.CutPrefix(text, name+end); ok {
			return strings.TrimSpace(said)
		}
	}
	return text
}
