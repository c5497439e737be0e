package hub_test

import (
	"reflect"
	"testing"

	"patchbay/internal/hub"
	"patchbay/internal/hub/hubtest"
	"patchbay/internal/settings"
	"patchbay/internal/store"
)

// describedSettings has a setting of each form.
type describedSettings struct {
	Address string            `json:"address"`
	Secret  string            `json:"secret,omitempty" secret:"true"`
	Warm    bool              `json:"warm,omitempty"`
	Maybe   *bool             `json:"maybe,omitempty"`
	Most    *int              `json:"most,omitempty"`
	Share   float64           `json:"share,omitempty"`
	Wait    settings.Duration `json:"wait,omitempty"`
	Names   []string          `json:"names,omitempty"`
	Extra   map[string]string `json:"extra,omitempty"`
}

// TestDescribe checks that the description of a kind lists its settings, and that stored settings
// can be read back as text.
func TestDescribe(t *testing.T) {
	r := hubtest.New(t, hubtest.Options{Kinds: []hub.Kind{{Name: "oven", Inbound: true,
		Sees:     func(s any) bool { return s.(*describedSettings).Maybe == nil },
		Model:    func(any) string { return "oven-1" },
		Settings: func() any { return new(describedSettings) }}}})
	list, err := r.Registry.Describe("oven")
	if err != nil {
		t.Fatal(err)
	}
	want := []hub.Setting{
		{Name: "address", Form: settings.FormText, Required: true}, {Name: "secret", Form: settings.FormText, Secret: true},
		{Name: "warm", Form: settings.FormBool}, {Name: "maybe", Form: settings.FormOptionalBool},
		{Name: "most", Form: settings.FormInteger}, {Name: "share", Form: settings.FormNumber},
		{Name: "wait", Form: settings.FormDuration}, {Name: "names", Form: settings.FormList},
		{Name: "extra", Form: settings.FormObject},
		{Name: "shared", Form: settings.FormBool, Shared: true},
	}
	if got := list[:len(want)]; !reflect.DeepEqual(got, want) {
		t.Errorf("described as %+v", got)
	}
	if _, err := r.Registry.Describe("toaster"); err == nil || r.Registry.IsInbound("toaster") ||
		!r.Registry.IsInbound("oven") || r.Registry.IsInbound("script") {
		t.Errorf("a kind that there is not: %v", err)
	}
	set := map[string]string{"address": "12", "secret": "x", "warm": "true", "maybe": "false", "most": "3",
		"share": "0.5", "wait": "1m30s", "names": "a, b", "extra": `{"a":"b,c"}`, "shared": "true"}
	b := r.Add(t, "oven", set)
	if r.Registry.Sees(b) || !r.Registry.Sees(r.Add(t, "oven", map[string]string{"address": "13"})) ||
		!r.Registry.Sees(r.Add(t, "script", nil)) || !r.Registry.Sees(store.Bot{Kind: "toaster"}) {
		t.Error("a bot sees that does not, or the other way around")
	}
	if m := r.Registry.Model(b); m != "oven-1" || r.Registry.Model(store.Bot{Kind: "toaster"}) != "" {
		t.Errorf("the model is %q", m)
	}
	written, err := r.Registry.SettingsText(b)
	if err != nil {
		t.Fatal(err)
	}
	set["secret"] = ""
	if !reflect.DeepEqual(written, set) {
		t.Errorf("written as %v", written)
	}
	// Settings that were read back can be set again.
	delete(written, "secret")
	again, err := r.Registry.Change(t.Context(), b.Number, hub.Changes{Set: written})
	if err != nil {
		t.Fatal(err)
	}
	if second, err := r.Registry.SettingsText(again.Bot); err != nil || !reflect.DeepEqual(second, set) {
		t.Errorf("written again as %v, %v", second, err)
	}
}
