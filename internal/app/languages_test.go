package app

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"patchbay/internal/account"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
	"patchbay/internal/problem"
	"patchbay/internal/store"
)

// Validation errors of upstreams of every kind exist in both languages, and begin with the name of
// the setting in both.
func TestUpstreamWrongInBothLanguages(t *testing.T) {
	many := func(n int) string { return `["` + strings.Repeat(`a","`, n) + `a"]` }
	wrongs := map[string][]string{
		UpstreamMCP: {
			`{}`, `{"url":"example.com"}`, `{"url":"https://user:secret@example.com"}`,
			`{"url":"https://example.com","command":"npx"}`, `{"transport":"stdio"}`,
			`{"transport":"stdio","command":"npx","url":"https://example.com"}`,
			`{"transport":"pigeon"}`, `{"url":"https://example.com","token":" x"}`,
			`{"url":"https://example.com","headers":{"a b":"c"}}`,
			`{"url":"https://example.com","headers":{"Host":"c"}}`,
			`{"url":"https://example.com","headers":{"X":"a\nb"}}`,
			`{"command":"npx","token":"x"}`, `{"command":"npx","args":["\u0000"]}`,
			`{"command":"npx","env":{"a=b":"c"}}`, `{"url":"https://example.com","timeout":"2h"}`,
			`{"url":"https://example.com","timeout":"soon"}`, `{"url":"https://example.com","timeout":5}`,
			`{"url":"https://example.com","concurrent":-1}`, `{"url":"https://example.com","max_tools":-1}`,
			`{"url":"https://example.com","allow":` + many(1001) + `}`, `{"url":"https://example.com","deny":[""]}`,
			`{"colour":"red"}`, `{"url":7}`, `{"max_tools":"many"}`,
		},
		UpstreamDialsIn: {`{"timeout":"2h"}`, `{"concurrent":-1}`, `{"max_tools":-1}`, `{"deny":[""]}`,
			`{"url":"https://example.com"}`},
		UpstreamCloud: {
			`{"url":"https://example.com","allow":["*"]}`, `{"url":"wss://example.com"}`,
			`{"url":"wss://example.com","allow":` + many(201) + `}`, `{"url":"wss://example.com","allow":["a b"]}`,
			`{"url":"wss://example.com","allow":["*"],"most":-1}`,
		},
		UpstreamShim: {
			`{}`, `{"url":"gateway"}`, `{"url":"ftp://example.com"}`, `{"url":"wss://user:secret@example.com"}`,
			`{"url":"ws://example.com"}`, `{"url":"wss://example.com","token":"x "}`,
			`{"url":"wss://example.com","mode":"some"}`,
			`{"url":"wss://example.com","title":"` + strings.Repeat("x", 81) + `"}`,
			`{"url":"wss://example.com","devices":` + many(201) + `}`, `{"url":"wss://example.com","devices":["a b"]}`,
		},
	}
	han := regexp.MustCompile(`\p{Han}`)
	name := regexp.MustCompile(`^[a-z_]+( (is|has|holds|cannot|begins|takes)\b|:)`)
	b := &Base{}
	for kind, list := range wrongs {
		for _, text := range list {
			var set control.SettingTexts
			if err := json.Unmarshal([]byte(text), &set); err != nil {
				t.Fatal(err)
			}
			_, _, err := b.changedSettings(store.Person{Role: account.RoleAdmin}, store.Upstream{Kind: kind}, set)
			e := control.AsError(err)
			if e == nil {
				t.Errorf("%s %.80s: %v", kind, text, err)
				continue
			}
			zh, en := e.In(i18n.Chinese), e.In(i18n.English)
			if !han.MatchString(zh) || han.MatchString(en) || strings.Contains(en+zh, "secret@") {
				t.Errorf("%s %.80s: %q in Chinese, %q in English", kind, text, zh, en)
			}
			if first := strings.TrimRight(strings.Fields(en)[0], ":"); name.MatchString(en) && set[first] != "" &&
				!strings.HasPrefix(zh, first) {
				t.Errorf("%s %.80s: %q does not begin with %s", kind, text, zh, first)
			}
		}
	}
	_, _, err := b.changedSettings(store.Person{Role: account.RoleMember}, store.Upstream{Kind: UpstreamMCP},
		control.SettingTexts{"command": "npx"})
	if e := control.AsError(err); e == nil || e.Code != problem.Denied || !han.MatchString(e.In(i18n.Chinese)) {
		t.Errorf("a member may have a command: %v", err)
	}
}
