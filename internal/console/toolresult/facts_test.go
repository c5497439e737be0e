package toolresult

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"patchbay/internal/console/page"
	"patchbay/internal/i18n"
	"patchbay/internal/tool"
)

func visit(lang i18n.Lang) *page.Visit {
	return &page.Visit{Request: httptest.NewRequest("GET", "/", nil), Lang: lang}
}

// The state of a board and its timers are read as words, in their order, and what somebody has
// written stays as it is.
func TestFacts(t *testing.T) {
	for text, want := range map[string][]factGroup{
		`{"audio_speaker":{"volume":70},"screen":{"brightness":75,"theme":"dark"},"battery":{"level":80,"charging":false},
			"network":{"type":"wifi","ssid":"strong"}}`: {{"", []fact{
			{"扬声器 · 音量", "70"}, {"屏幕 · 亮度", "75"}, {"屏幕 · 主题", "深色"}, {"电池 · 电量", "80"},
			{"电池 · 正在充电", "否"}, {"网络 · 类型", "wifi"}, {"网络 · Wi-Fi 名称", "strong"}}}},
		`{"timers":[{"id":1,"text":"stop"},{"id":2,"text":"<b>"}]}`: {
			{"计时器", []fact{{"编号", "1"}, {"文字", "stop"}}}, {"计时器", []fact{{"编号", "2"}, {"文字", "<b>"}}}},
		`{"own_list":[1,"two",null,true],"empty":[]}`: {{"", []fact{{"own_list", "1, two, 无, 是"}, {"empty", "无"}}}},
		`{"my_deck":{},"level":1,"light":"on"}`:       {{"", []fact{{"my_deck", "无"}, {"level", "1"}, {"light", "on"}}}},
		`[1]`:                                         nil, `{}`: nil, `"x"`: nil, `{"a":`: nil, `{"a":[[1]]}`: nil, `{"a":[1,{"b":2}]}`: nil,
		strings.Repeat(`{"a":`, 6) + "1" + strings.Repeat("}", 6): nil,
		`{"a":[` + strings.Repeat("1,", maxFacts) + "1]}":         nil,
	} {
		if diff := cmp.Diff(want, factsOf(visit(i18n.Chinese), text), cmp.AllowUnexported(fact{}, factGroup{})); diff != "" {
			t.Errorf("%s:\n%s", text, diff)
		}
	}
	at := factsOf(visit(i18n.English), `{"due_at":"2026-11-29T18:00:00Z","in_seconds":5}`)
	if len(at) != 1 || at[0].facts[0].name != "due at" || strings.Contains(at[0].facts[0].value, "T18") ||
		at[0].facts[1].name != "in seconds" {
		t.Errorf("%+v", at)
	}
}

// The text of a result for models is left out where its values can be read.
func TestJSONForModels(t *testing.T) {
	r := &tool.Result{Content: json.RawMessage(`[{"type":"text","text":"[{\"id\":1}]"},{"type":"text","text":"One point."}]`),
		Structured: json.RawMessage(`{"points":[{"id":1}]}`)}
	for named, want := range map[bool]int{true: 2, false: 3} {
		if got := shown(visit(i18n.English), r, named); len(got) != want || got[len(got)-2].Text != "One point." {
			t.Errorf("named is %v: %+v", named, got)
		}
	}
}

func FuzzFacts(f *testing.F) {
	for _, text := range []string{`{"a":{"b":[1,{"c":null}]}}`, `{"timers":[{"id":1}]}`, `{"a":`, `{"a":1}{`, `[[`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		n := 0
		for _, group := range factsOf(visit(i18n.Chinese), text) {
			n += len(group.facts)
		}
		if n > maxFacts {
			t.Errorf("%d facts", n)
		}
	})
}
