package hub

import (
	"slices"
	"testing"

	"patchbay/internal/tool"
)

func TestFind(t *testing.T) {
	v := &View{}
	for _, x := range []tool.Tool{
		{Name: "kitchen_set_volume", Description: "Sets the loudness of the speaker."},
		{Name: "kitchen_set_timer", Title: "Reminder", Description: "Reminds people of something later."},
		{Name: "hall_turnOnLight", Description: "打开客厅的灯。"},
		{Name: "weather", Description: "查询天气预报。",
			Input: []byte(`{"properties":{"city":{"description":"城市的名字"}}}`)},
	} {
		v.Tools = append(v.Tools, &RegisteredTool{Name: x.Name, Tool: &x})
	}
	for wanted, want := range map[string][]string{
		"volume":          {"kitchen_set_volume"},
		"remind me later": {"kitchen_set_timer"},
		"light":           {"hall_turnOnLight"},
		"开灯":              nil,
		"打开灯":             {"hall_turnOnLight"},
		"天气怎么样":           {"weather"},
		"哪个城市":            {"weather"},
		"kitchen":         {"kitchen_set_volume", "kitchen_set_timer"},
		"the to please":   nil,
		"":                nil,
	} {
		var got []string
		for _, x := range v.Find(wanted, 3) {
			got = append(got, x.Name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q finds %q, want %q", wanted, got, want)
		}
	}
	if got := v.Find("kitchen", 1); len(got) != 1 {
		t.Errorf("%d tools, not one", len(got))
	}
}
