package learn

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"patchbay/internal/plug/learn/card"
	"patchbay/internal/problem"
	"patchbay/internal/store"
	"patchbay/internal/tool"
)

// TestClozeNote makes a note with clozes, and changes its fields: cards come and go with them.
func TestClozeNote(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		made, err := r.Create(ctx, "ada", []Draft{{Question: "{{c1::Paris}} is in {{c2::France::country}}",
			Answer: "See ![map](map.png), $x^2$", Deck: "Geo", Tags: []string{"town"}}})
		if err != nil || made[0].Err != nil || len(made[0].More) != 1 {
			t.Fatalf("%+v, %v", made, err)
		}
		first, second := made[0].Entry, made[0].More[0]
		if first.Question != "[…] is in France" || second.Question != "Paris is in [country]" || first.Note == 0 || second.Ord != 1 {
			t.Errorf("%+v\n%+v", first.Point, second.Point)
		}
		view, err := r.Card(ctx, &second.Point, card.MediaPath)
		if err != nil || !view.Framed || !strings.Contains(view.Front, `<span class="cloze">[country]</span>`) ||
			!strings.Contains(view.Back, `<img src="/learn/media/map.png" alt="map">, <math>`) ||
			!slices.Equal(view.Media, []string{"map.png"}) {
			t.Errorf("%+v, %v", view, err)
		}
		text := "other"
		if _, err := r.Update(ctx, "ada", first.ID, Edit{Question: &text}); !problem.Is(err, problem.Invalid) {
			t.Errorf("the question of a cloze card is changed: %v", err)
		}
		if _, err := r.Update(ctx, "ada", first.ID, Edit{Fields: &map[string]string{
			"Text": "{{c1::Berlin}} is in {{c3::Germany}}"}}); err != nil {
			t.Fatal(err)
		}
		n, err := r.Note(ctx, &first.Point)
		if err != nil || len(n.Points) != 2 || n.Points[0].ID != first.ID || n.Points[0].Question != "[…] is in Germany" ||
			n.Points[1].Ord != 2 || n.Points[1].Kin == "" {
			t.Errorf("%+v, %v", n, err)
		}
		trash, err := r.List(ctx, "ada", store.PointFilter{Trash: true}, store.PointKey{}, 9)
		if err != nil || len(trash) != 1 || trash[0].ID != second.ID {
			t.Errorf("the trash has %+v, %v", trash, err)
		}
		// A card comes back with its text as the one that it was. One that was deleted does not.
		third := n.Points[1].ID
		r.must(r.Delete(ctx, "ada", third))
		tags := []string{"capital"}
		left, err := r.Update(ctx, "ada", first.ID, Edit{Tags: &tags, Fields: &map[string]string{
			"Text": "Berlin is in {{c2::Germany}}, {{c3::Europe}}"}})
		if err != nil || left.ID != second.ID || !slices.Equal(left.Tags, tags) || left.Question != "Berlin is in […], Europe" {
			t.Errorf("%+v, %v", left, err)
		}
		if n, err = r.Note(ctx, &second.Point); err != nil || len(n.Points) != 1 || len(n.trash) != 2 {
			t.Errorf("%+v, %v", n, err)
		}
		first = *left
		_, err = r.Update(ctx, "ada", first.ID, Edit{Fields: &map[string]string{"Text": "nothing"}})
		if !problem.Is(err, problem.Invalid) {
			t.Errorf("a note without a card: %v", err)
		}
	})
}

// png is the smallest picture that is one.
var png = []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00\x1f\x15\xc4\x89")

// TestMedia stores files under names of their own, finds the unused ones, and keeps limits.
func TestMedia(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		save := func(name string, data []byte) string {
			t.Helper()
			m, err := r.SaveMedia(ctx, "ada", name, data)
			if err != nil {
				t.Fatal(err)
			}
			return m.Name
		}
		if a, b := save("../dir/cat.png", png), save("cat.png", png); a != "cat.png" || b != a {
			t.Errorf("the same file is %q and %q", a, b)
		}
		other := save("cat.png", append(slices.Clone(png), 1))
		if !strings.HasPrefix(other, "cat-") || !strings.HasSuffix(other, ".png") {
			t.Errorf("another file of the name is %q", other)
		}
		if name := save("", append(slices.Clone(png), 2)); !strings.HasPrefix(name, "image-") {
			t.Errorf("a file without a name is %q", name)
		}
		for name, data := range map[string][]byte{"a.html": []byte("<html><script>alert(1)</script>"), "b.png": nil,
			"c.exe": []byte("MZ\x00\x01\x02")} {
			if _, err := r.SaveMedia(ctx, "ada", name, data); !problem.Is(err, problem.Invalid) {
				t.Errorf("%s is stored: %v", name, err)
			}
		}
		if _, err := r.Create(ctx, "ada", []Draft{{Question: "![](cat.png)", Answer: "a cat"}}); err != nil {
			t.Fatal(err)
		}
		gone, err := r.RemoveUnusedMedia(ctx, "ada")
		if err != nil || len(gone) != 2 || gone[0].Name != other {
			t.Errorf("unused are %+v, %v", gone, err)
		}
		if _, _, err := r.Media(ctx, "ada", "cat.png"); err != nil {
			t.Error(err)
		}
		r.MediaTotal = 1
		if _, err := r.SaveMedia(ctx, "ada", "x.png", append(slices.Clone(png), 3)); !problem.Is(err, problem.Invalid) {
			t.Errorf("more than the limit: %v", err)
		}
	})
}

// TestPlaceOfPhotos removes where a photo was taken, and keeps how it is turned.
func TestPlaceOfPhotos(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		exif := "Exif\x00\x00II\x2a\x00\x08\x00\x00\x00\x01\x00\x12\x01\x03\x00\x01\x00\x00\x00\x06\x00\x00\x00\x00\x00\x00\x00GPS 52.5 N"
		photo := []byte("\xff\xd8\xff\xe1\x00" + string(rune(len(exif)+2)) + exif + "\xff\xff\xe1\x00\x07http:\xff\xdb\x00\x04ab\xff\xda\x00\x02picture\xff\xd9")
		m, err := r.SaveMedia(ctx, "ada", "p.jpg", photo)
		if err != nil {
			t.Fatal(err)
		}
		_, data, err := r.Media(ctx, "ada", m.Name)
		if err != nil || bytes.Contains(data, []byte("GPS")) || bytes.Contains(data, []byte("http:")) ||
			!bytes.HasSuffix(data, []byte("\xff\xdb\x00\x04ab\xff\xda\x00\x02picture\xff\xd9")) ||
			!bytes.Contains(data, []byte("\x01\x12\x00\x03\x00\x00\x00\x01\x00\x06")) {
			t.Errorf("%q, %v", data, err)
		}
	})
}

// TestMediaOfTools stores a picture with a point and gives it back with question and answer.
func TestMediaOfTools(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		data := base64.StdEncoding.EncodeToString(png)
		var made struct{ ID, Answer string }
		r.call("ada", toolCreate, `{"question":"What is it? ![](cat.png)","answer":"A cat","media":[{"name":"cat.png","data":"`+data+
			`"},{"data":"`+base64.StdEncoding.EncodeToString([]byte("ID3\x04\x00\x00\x00\x00\x00\x00sound"))+`"}]}`, &made)
		if !strings.HasPrefix(made.Answer, "A cat\n\n[sound:audio-") {
			t.Errorf("the answer is %q", made.Answer)
		}
		question := string(r.call("ada", toolNext, `{}`, nil).Content)
		if !strings.Contains(question, `"type":"image","data":"`+data+`","mimeType":"image/png"`) || strings.Contains(question, "audio/mpeg") {
			t.Errorf("the question has %s", question)
		}
		answer := string(r.call("ada", toolReveal, `{"knowledge_point_id":"`+made.ID+`"}`, nil).Content)
		if !strings.Contains(answer, "image/png") || !strings.Contains(answer, `"type":"audio"`) {
			t.Errorf("the answer has %s", answer)
		}
		for _, args := range []string{`[{"data":"%%"}]`, `[{"name":"a.png"}]`, `[{"url":"http://127.0.0.1:1/x.png"}]`} {
			_, err := (&Provider{r.Service}).Call(ctx, &tool.Call{Tool: toolCreate, Args: json.RawMessage(`{"question":"q","answer":"a","media":` + args + `}`),
				Caller: tool.Caller{Person: "ada"}})
			if e := tool.AsError(err); e == nil || e.Code != tool.BadArgs {
				t.Errorf("%s: %v", args, err)
			}
		}
	})
}

// TestFetchMedia fetches a sound through the given connection, and nothing that is no sound.
func TestFetchMedia(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		far := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			if strings.HasSuffix(q.URL.Path, ".mp3") {
				w.Write([]byte("ID3\x04\x00\x00\x00\x00\x00\x00sound")) //nolint:errcheck // the test sees it
				return
			}
			w.Write([]byte("<html>")) //nolint:errcheck // the test sees it
		}))
		defer far.Close()
		r.Dial = (&net.Dialer{}).DialContext
		m, err := r.FetchMedia(ctx, "ada", "", far.URL+"/a/dog.mp3")
		if err != nil || m.Name != "dog.mp3" || m.Type != "audio/mpeg" {
			t.Errorf("%+v, %v", m, err)
		}
		for _, address := range []string{far.URL + "/page", "file:///etc/passwd", "http://a:b@" + far.Listener.Addr().String() + "/x.mp3"} {
			if _, err := r.FetchMedia(ctx, "ada", "", address); !problem.Is(err, problem.Invalid) {
				t.Errorf("%s: %v", address, err)
			}
		}
	})
}
