package ankiconnect

import (
	"strings"
	"testing"

	"patchbay/internal/store"
)

// Tags are found without regard to case, and removed as the note spells them; one that cannot be a
// tag changes nothing.
func TestTagSpellings(t *testing.T) {
	r := newRig(t, store.Options{})
	id := jsonOf(r.addNote("q"))
	tags := func() string {
		t.Helper()
		var out []string
		r.result(&out, "getNoteTags", `{"note":`+id+`}`)
		return strings.Join(out, " ")
	}
	r.result(nil, "addTags", `{"notes":[`+id+`],"tags":"Verb noun Old"}`)
	r.result(nil, "removeTags", `{"notes":[`+id+`],"tags":"VERB none"}`)
	if got := tags(); got != "Old noun" {
		t.Errorf("removed: %s", got)
	}
	r.result(nil, "replaceTags", `{"notes":[`+id+`],"tag_to_replace":"oLD","replace_with_tag":"new"}`)
	if got := tags(); got != "new noun" {
		t.Errorf("replaced: %s", got)
	}
	r.result(nil, "replaceTagsInAllNotes", `{"tag_to_replace":"NEW","replace_with_tag":"Newer"}`)
	if got := tags(); got != "Newer noun" {
		t.Errorf("replaced in all notes: %s", got)
	}
	long := strings.Repeat("x", 1000)
	if got := r.invoke("updateNoteTags", `{"note":`+id+`,"tags":["other","`+long+`"]}`); !strings.HasPrefix(got, `{"error":"`) {
		t.Errorf("a tag that is none: %s", got)
	}
	if got := tags(); got != "Newer noun" {
		t.Errorf("after a tag that is none: %s", got)
	}
	r.result(nil, "updateNoteTags", `{"note":`+id+`,"tags":["", "only"]}`)
	if got := tags(); got != "only" {
		t.Errorf("after an empty tag: %s", got)
	}
}
