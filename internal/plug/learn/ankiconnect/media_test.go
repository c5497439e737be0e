package ankiconnect

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"patchbay/internal/account"
	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

// gif returns a picture of some bytes.
func gif(size int) string {
	return "GIF89a\x01\x00\x01\x00\x00\x00\x00," + strings.Repeat("\x00", size-14)
}

func (r *rig) storeMedia(name, data string) string {
	return r.invoke("storeMediaFile", fmt.Sprintf(`{"filename":%q,"data":%q}`, name,
		base64.StdEncoding.EncodeToString([]byte(data))))
}

func (r *rig) hasMedia(name, data string) {
	r.t.Helper()
	want := `{"error":null,"result":"` + base64.StdEncoding.EncodeToString([]byte(data)) + `"}`
	if got := r.invoke("retrieveMediaFile", `{"filename":"`+name+`"}`); got != want {
		r.t.Errorf("%s is %s, want %s", name, got, want)
	}
}

// TestReplacedMedia replaces a file: what cannot be stored leaves the old one as it is, and the
// room of the old one counts for the new one.
func TestReplacedMedia(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		r := newRig(t, o)
		old, next := gif(60), gif(70)
		r.storeMedia("b.gif", old)
		r.learn.MediaTotal = 100
		if got := r.storeMedia("b.gif", gif(101)); !strings.Contains(got, "all pictures and sounds together") {
			t.Errorf("too much: %s", got)
		}
		r.hasMedia("b.gif", old)
		if got := r.storeMedia("b.gif", "alert(1)"); !strings.Contains(got, "the file is no picture") {
			t.Errorf("no picture: %s", got)
		}
		r.hasMedia("b.gif", old)
		if got := r.storeMedia("b.gif", next); got != `{"error":null,"result":"b.gif"}` {
			t.Errorf("replacing: %s", got)
		}
		r.hasMedia("b.gif", next)

		// A key that may not delete does not replace, either.
		r.learn.MediaTotal = 1000
		all := r.key
		r.key = r.addKey("adds", account.ScopeLearn, `{"allow":["create_knowledge_point"]}`)
		if got := r.storeMedia("b.gif", old); !strings.Contains(got, `"result":"b-`) {
			t.Errorf("a key that may not delete: %s", got)
		}
		r.key = all
		r.hasMedia("b.gif", next)
	})
}

// TestMediaNames uses the names under which programs stored files, which may be others here.
func TestMediaNames(t *testing.T) {
	r := newRig(t, store.Options{})
	r.storeMedia("dir/a?.gif", gif(20))
	r.hasMedia("dir/a?.gif", gif(20))
	r.storeMedia("a?.gif", gif(21))
	r.hasMedia("a_.gif", gif(21))
	r.result(nil, "deleteMediaFile", `{"filename":"a?.gif"}`)
	var names []string
	if r.result(&names, "getMediaFilesNames", ""); len(names) != 0 {
		t.Errorf("left are %q", names)
	}
	// Packages of Anki keep names that programs get cleaned.
	r.must(r.Store.Learn.SaveMedia(t.Context(), r.Person.ID, &store.MediaFile{Name: "b (1).gif", Type: "image/gif",
		Added: start}, []byte(gif(22))))
	r.hasMedia("b (1).gif", gif(22))
	r.storeMedia("b (1).gif", gif(23))
	r.hasMedia("b (1).gif", gif(23))
	if r.result(&names, "getMediaFilesNames", ""); len(names) != 1 {
		t.Errorf("one file is %q", names)
	}
}
