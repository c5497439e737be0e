package learn

import (
	"encoding/json"
	"strings"
	"testing"

	"patchbay/internal/store"
	"patchbay/internal/tool"
)

// Settings change one by one; null resets a setting.
func TestProfile(t *testing.T) {
	r := newRig(t, store.Options{Folder: t.TempDir()})
	for _, c := range []struct{ changes, want string }{
		{`{"time_zone":"Europe/Berlin","day_start":"03:00","defaults":{"new_per_day":5,"retention":0.85}}`,
			`{"time_zone":"Europe/Berlin","day_start":"03:00","defaults":{"new_per_day":5,"retention":0.85}}`},
		{`{"defaults":{"new_per_day":null},"remind":{"at":"20:00"}}`,
			`{"time_zone":"Europe/Berlin","day_start":"03:00","defaults":{"retention":0.85},"remind":{"at":"20:00"}}`},
		{`{"remind":{"via":["webhook"],"webhook":"https://example.org/x"},"day_start":null}`,
			`{"time_zone":"Europe/Berlin","defaults":{"retention":0.85},"remind":{"at":"20:00","via":["webhook"],"webhook":"https://example.org/x"}}`},
		{`{"remind":null,"defaults":null}`, `{"time_zone":"Europe/Berlin"}`},
	} {
		l, err := r.SaveProfile(ctx, "ada", json.RawMessage(c.changes), nil)
		r.must(err)
		if got, _ := json.Marshal(l.Profile); string(got) != c.want {
			t.Errorf("%s makes\n%s, want\n%s", c.changes, got, c.want)
		}
	}
}

// A key for one bot gives no access to its person's points.
func TestKeyOfOneBot(t *testing.T) {
	r := newRig(t, store.Options{Folder: t.TempDir()})
	for channel, want := range map[string]tool.Code{"mcp": tool.Denied, "learn": ""} {
		_, err := (&Provider{r.Service}).Call(ctx, &tool.Call{Tool: toolStats, Args: json.RawMessage(`{}`),
			Caller: tool.Caller{Person: "ada", OnlyBot: 3, Channel: channel}})
		if want == "" && err != nil || want != "" && tool.AsError(err).Code != want {
			t.Errorf("at %s: %v", channel, err)
		}
	}
}

// Invalid arguments are reported in words.
func TestInvalid(t *testing.T) {
	r := newRig(t, store.Options{Folder: t.TempDir()})
	e := r.add("ada", Draft{Question: "q", Answer: "a"})
	for _, c := range []struct{ tool, args, told string }{
		{toolCreate, `{"question":" ","answer":"a"}`, "question must not be empty"},
		{toolUpdate, `{"id":"` + e.ID + `","answer":""}`, "answer must not be empty"},
		{toolListPoints, `{"deck":"nope"}`, `there is no deck "nope"; there are: default`},
		{toolListPoints, `{"cursor":"nope"}`, "this cursor is not one of ours"},
		{toolListReviews, `{"cursor":"nope"}`, "this cursor is not one of ours"},
		{toolSubmit, `{"knowledge_point_id":"` + e.ID + `","grade":"so-so"}`, "the grade is again, hard, good or easy"},
		{toolConfigure, `{"time_zone":"Mars/Base"}`, "there is no time zone"},
		{toolConfigure, `{"day_start":"25:00"}`, "not a time of day"},
		{toolConfigure, `{"defaults":{"retention":2}}`, "retention"},
		{toolConfigure, `{"colour":"red"}`, "unknown field"},
		{toolSaveDeck, `{"name":"default"}`, "default deck"},
		{toolReschedule, `{"ids":["` + e.ID + `"]}`, "give date or in_days"},
		{toolReschedule, `{"ids":["` + e.ID + `"],"date":"2020-01-01"}`, "must lie between"},
	} {
		if message := r.refusal("ada", c.tool, c.args); !strings.Contains(message, c.told) {
			t.Errorf("%s %s: told %q, want %q", c.tool, c.args, message, c.told)
		}
	}
	for _, tl := range Tools() {
		if handlers[tl.Name] == nil || !json.Valid(tl.Input) {
			t.Errorf("%s has no handler, or a bad schema: %s", tl.Name, tl.Input)
		}
	}
}

// The day of a person is that of their account's time zone, unless they have another one for Learn.
func TestZoneOfTheAccount(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		zone := func() string {
			t.Helper()
			l, err := r.Learner(ctx, "ada")
			r.must(err)
			return l.Calendar.Zone.String()
		}
		if got := zone(); got != r.Zone.String() {
			t.Errorf("without an account: %s", got)
		}
		r.must(r.Store.People.SetProfile(ctx, store.Person{ID: "ada", Name: "ada", Zone: "America/Lima"},
			func([]store.Person) error { return nil }))
		if got := zone(); got != "America/Lima" {
			t.Errorf("of the account: %s", got)
		}
		r.call("ada", "update_learning_settings", `{"strictness":"strict"}`, nil)
		if got := zone(); got != "America/Lima" {
			t.Errorf("of the account, with other settings: %s", got)
		}
		r.call("ada", "update_learning_settings", `{"time_zone":"Europe/Berlin"}`, nil)
		if got := zone(); got != "Europe/Berlin" {
			t.Errorf("set: %s", got)
		}
	})
}
