package app

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"patchbay/internal/account"
	"patchbay/internal/control"
	"patchbay/internal/hub"
)

// A member's bot reaches a private service only if an administrator has allowed its host, and even
// then its owner sees neither status, response text nor redirect target.
func TestMembersBotsReachNoPrivateService(t *testing.T) {
	for _, c := range []struct {
		name, role, hosts string
		reached, told     bool
	}{
		{"a member", account.RoleMember, "", false, false},
		{"a member, opened", account.RoleMember, "127.0.0.1", true, false},
		{"an administrator", account.RoleAdmin, "", true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			flags := map[string]string{}
			if c.hosts != "" {
				flags["fetch.private_hosts"] = c.hosts
			}
			d := &deal{desk: newDesk(t, flags)}
			s := newStranger(t, "http://s3cret-place.internal/x")
			p, err := d.base.Accounts.AddPerson(t.Context(), "bob", c.role, "en", "")
			d.must(err)
			_, key, err := d.base.Accounts.AddKey(t.Context(),
				account.NewKey{Person: p.ID, Name: "bob", Scopes: []string{account.ScopeOperator}})
			d.must(err)
			_, _, err = d.base.Registry.Add(t.Context(), hub.NewBot{Owner: p.ID,
				Name: "scan", Kind: "openai", Set: map[string]string{"base_url": s.URL, "model": "m"}})
			d.must(err)
			answer := d.call(http.MethodPost, "/bots/scan/test", key, struct{}{})
			var trial control.Trial
			d.must(json.Unmarshal([]byte(answer), &trial))
			if reached := s.said() != ""; reached != c.reached || trial.Problem == "" {
				t.Errorf("reached: %v; told: %s", reached, answer)
			}
			if !c.reached && (!strings.Contains(trial.Problem, "private network") ||
				!strings.Contains(trial.Cause, "fetch.private_hosts")) {
				t.Errorf("the rule is not named: %s", answer)
			}
			trail := d.call(http.MethodGet, "/bots/scan/turns", key, nil)
			for _, text := range []string{answer, trail} {
				if told := strings.Contains(text, "s3cret-place") && strings.Contains(text, "307"); told != c.told {
					t.Errorf("the cause is told: %v:\n%s", told, text)
				}
			}
			if u, err := url.Parse(s.URL); err != nil || !c.reached && strings.Contains(trail, u.Host) {
				t.Errorf("the trail has the address:\n%s", trail)
			}
		})
	}
}

// A failing model is shown as failing everywhere after one failed turn, and as ready again after a
// successful one, or with other settings.
func TestFailingModel(t *testing.T) {
	d := newDeal(t)
	b := d.model()
	state := func() (s control.BotStatus) {
		d.must(json.Unmarshal([]byte(d.call(http.MethodGet, "/bots/"+b.Name, d.admin, nil)), &s))
		return s
	}
	if s := state(); s.Problem != "" || !s.Online {
		t.Errorf("before: %+v", s)
	}
	d.ask(b)
	if s := state(); s.Online || !strings.Contains(s.Problem, "cannot be reached") ||
		!strings.Contains(s.Problem, "address of its API") {
		t.Errorf("after a failed turn: %+v", s)
	}
	for _, page := range []string{"/", "/bots", "/bots/" + strconv.FormatInt(b.Number, 10)} {
		if text := d.open(page); !strings.Contains(text, "cannot be reached") || strings.Contains(text, ">ready<") {
			t.Errorf("%s says\n%s", page, text)
		}
	}
	_, err := d.base.Registry.Change(t.Context(), b.Number, hub.Changes{Set: map[string]string{"base_url": d.known +
		"/v2"}})
	d.must(err)
	if s := state(); s.Problem != "" || !s.Online {
		t.Errorf("with other settings: %+v", s)
	}
}
