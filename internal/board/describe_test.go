package board_test

import (
	"reflect"
	"testing"

	"patchbay/internal/board"
	"patchbay/internal/board/boardtest"
)

// described has a setting of each form.
type described struct {
	Address string            `json:"address"`
	Secret  string            `json:"secret,omitempty" secret:"true"`
	Warm    bool              `json:"warm,omitempty"`
	Maybe   *bool             `json:"maybe,omitempty"`
	Most    *int              `json:"most,omitempty"`
	Share   float64           `json:"share,omitempty"`
	Wait    board.Duration    `json:"wait,omitempty"`
	Names   []string          `json:"names,omitempty"`
	Extra   map[string]string `json:"extra,omitempty"`
}

// A form can be made of what a kind says of its settings, and what was written into it
// is found again.
func TestDescribe(t *testing.T) {
	r := boardtest.New(t, boardtest.Options{Kinds: []board.Kind{{Name: "oven", Connects: true, Settings: func() any { return new(described) }}}})
	list, err := r.Registry.Describe("oven")
	if err != nil {
		t.Fatal(err)
	}
	want := []board.Setting{
		{Name: "address", Form: board.FormText, Required: true}, {Name: "secret", Form: board.FormText, Secret: true},
		{Name: "warm", Form: board.FormYesNo}, {Name: "maybe", Form: board.FormMaybe}, {Name: "most", Form: board.FormWhole}, {Name: "share", Form: board.FormNumber},
		{Name: "wait", Form: board.FormDuration}, {Name: "names", Form: board.FormList}, {Name: "extra", Form: board.FormObject},
		{Name: "shared", Form: board.FormYesNo, Shared: true},
	}
	if got := list[:len(want)]; !reflect.DeepEqual(got, want) {
		t.Errorf("described as %+v", got)
	}
	if _, err := r.Registry.Describe("toaster"); err == nil || r.Registry.Connects("toaster") || !r.Registry.Connects("oven") || r.Registry.Connects("script") {
		t.Errorf("a kind that there is not: %v", err)
	}
	set := map[string]string{"address": "12", "secret": "x", "warm": "true", "maybe": "false", "most": "3", "share": "0.5", "wait": "1m30s", "names": "a, b", "extra": `{"a":"b,c"}`, "shared": "true"}
	b := r.Add(t, "oven", set)
	written, err := r.Registry.Written(b)
	if err != nil {
		t.Fatal(err)
	}
	set["secret"] = ""
	if !reflect.DeepEqual(written, set) {
		t.Errorf("written as %v", written)
	}
	// What is found is what can be set.
	delete(written, "secret")
	again, err := r.Registry.Change(t.Context(), b.Number, board.Changes{Set: written})
	if err != nil {
		t.Fatal(err)
	}
	if second, err := r.Registry.Written(again.Bot); err != nil || !reflect.DeepEqual(second, set) {
		t.Errorf("written again as %v, %v", second, err)
	}
}
