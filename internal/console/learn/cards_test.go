package learn_test

import (
	"bytes"
	"encoding/json"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"patchbay/internal/console/browsertest"
	"patchbay/internal/plug/learn/note"
	"patchbay/internal/store"
)

// addNote adds a note with one card of each template, as an import does, and returns its points.
func (r *rig) addNote(t *testing.T, typ *note.Type, deck string, tags, fields []string) []store.Point {
	t.Helper()
	model, err := typ.JSON()
	must(t, err)
	row := store.NoteType{Origin: typ.Origin(), Name: typ.Name, Model: model, Updated: r.clock()}
	db := r.points.Store.Learn
	must(t, db.SaveNoteType(t.Context(), r.Person.ID, &row))
	in := db.NewImport(r.Person.ID, "import of "+typ.Name)
	notes := []store.Note{{Type: row.Number, GUID: typ.Name, Fields: fields, Updated: r.clock()}}
	must(t, in.StageNotes(t.Context(), notes))
	if deck != "" {
		must(t, db.AddDeck(t.Context(), store.Deck{ID: "d1", Person: r.Person.ID, Name: deck,
			Settings: json.RawMessage(`{}`), Created: r.clock()}))
		deck = "d1"
	}
	var points []store.NewPoint
	for ord := range typ.Templates {
		id := "point" + string(rune('a'+ord))
		p := store.Point{ID: id, Question: "question", Answer: "answer", InPlan: true, Deck: deck, Tags: tags,
			Created: r.clock(), Updated: r.clock(), Note: notes[0].Number, Ord: ord}
		l, err := r.points.Learner(t.Context(), r.Person.ID)
		must(t, err)
		p.Card.Due = l.Today
		points = append(points, store.NewPoint{Point: p, Sittings: []store.Sitting{{ID: "s" + id, Day: l.Today, Number: 1,
			Created: r.clock()}}})
	}
	must(t, in.Stage(t.Context(), points))
	must(t, in.Finish(t.Context(), store.ImportEdits{}))
	out, err := db.NotePoints(t.Context(), r.Person.ID, notes[0].Number)
	must(t, err)
	return out
}

// noteTypeOf returns the number of the person's only note type.
func noteTypeOf(t *testing.T, r *rig) int64 {
	t.Helper()
	types, err := r.points.Store.Learn.NoteTypes(t.Context(), r.Person.ID)
	must(t, err)
	return types[0].Number
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestCardsRunNothing shows Chromium cards that try to run scripts, to ask other hosts and to leave
// their frame, in every part of a note: fields, templates, style, deck, tags, names of media and
// files. The browser fails the test if a page asks another host or complains.
func TestCardsRunNothing(t *testing.T) {
	list, err := os.ReadFile("../../plug/learn/card/testdata/attacks.txt")
	must(t, err)
	attacks := string(list)
	r := newRig(t)
	css := strings.Join([]string{`</style><script>top.owned=1</script>`, `@import "https://evil.example/x.css";`,
		`@import url(//evil.example/y.css);`, `body{position:fixed;inset:0;z-index:9999;background:url(https://evil.example/x.png)}`,
		`.card{background:image-set("https://evil.example/x" 1x)}`, `@font-face{font-family:x;src:url(https://evil.example/f)} *{font-family:x}`,
		`#qa{height:100000px;width:100000px}`, `*{cursor:url(https://evil.example/c),auto}`, `a{b:\75rl(https://evil.example/z)}`}, "\n")
	points := r.addNote(t, &note.Type{ID: 7, Name: `"><script>top.owned=1</script>`, CSS: css,
		Fields: []note.Field{{Name: "F"}, {Name: `<img src=x onerror=top.owned=1>`}, {Name: "B"}},
		Templates: []note.Template{
			{Name: `<script>top.owned=1</script>`, Front: "{{F}}{{hint:<img src=x onerror=top.owned=1>}}{{Deck}}{{Tags}}{{Type}}{{Card}}<script>top.owned=1</script>",
				Back: "{{B}}<hr id=answer>{{furigana:F}}{{cloze:F}}{{type:F}}{{FrontSide}}" + attacks}}},
		`<script>top.owned=1</script>`, []string{`<svg/onload=top.owned=1>`},
		[]string{attacks, attacks, `[sound:"onerror=top.owned=1 x=".mp3]<div style="position:fixed;inset:0;background:red">over</div><p id="end">the end</p>`})
	save := func(name, kind string, data string) {
		m := store.MediaFile{Name: name, Type: kind, Added: r.clock()}
		must(t, r.points.Store.Learn.SaveMedia(t.Context(), r.Person.ID, &m, []byte(data)))
	}
	const svg = `<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9" onload="top.owned=1"><script>top.owned=1</script><image href="https://svg.example/x.png" width="9" height="9"/></svg>`
	save("x", "image/svg+xml", svg)
	save("evil.svg", "image/svg+xml", svg)
	save("evil.html", "text/html", `<script>top.owned=1</script>`)
	save(`"onerror=top.owned=1 x=".mp3`, "audio/mpeg", "x")

	b := open(t, r)
	b.AllowProblem("404") // files that the person does not have
	check := func() {
		t.Helper()
		b.WaitUntil(`[...document.querySelectorAll("iframe")].every(f => f.contentDocument?.querySelector("#end") || !f.src.includes("back"))`)
		if browsertest.Evaluate[bool](b, `"owned" in window || [...document.querySelectorAll("iframe")].some(f => "owned" in f.contentWindow || f.contentDocument.scripts.length)`) {
			t.Error("a script ran or is there")
		}
		if browsertest.Evaluate[bool](b, `[...document.querySelectorAll("iframe")].some(f => f.getBoundingClientRect().height > innerHeight * 3 + 1)`) {
			t.Error("a card is larger than it may be")
		}
		if !browsertest.Evaluate[bool](b, `(() => { scrollTo(0, 0); const h = document.querySelector("h1").getBoundingClientRect(); return !!document.elementFromPoint(h.left + 5, h.top + 5)?.closest(".head"); })()`) {
			t.Error("something lies over the page")
		}
	}
	b.Open("/learn/review")
	b.WaitVisible("iframe[data-fits]")
	check()
	b.Press(" ")
	b.WaitVisible(".answer iframe")
	check()
	b.Open("/learn/points/" + points[0].ID)
	b.WaitVisible("iframe[name=notepreview]")
	check()
	b.Click("button[formtarget=notepreview]")
	b.WaitUntil(`document.querySelector("iframe[name=notepreview]").contentDocument?.location.pathname.endsWith("/preview")`)
	check()
	n, err := r.points.Note(t.Context(), &points[0])
	must(t, err)
	for _, attack := range strings.Split(strings.TrimSpace(attacks), "\n") { // one by one: some hide what follows
		stored := store.Note{Number: points[0].Note, Type: noteTypeOf(t, r),
			Fields: []string{attack, attack, n.Fields[2] + attack}}
		edit := store.ImportEdits{Notes: []store.Note{stored}}
		must(t, r.points.Store.Learn.NewImport(r.Person.ID, attack).Finish(t.Context(), edit))
		b.Open("/learn/points/" + points[0].ID + "/card?side=back")
		if browsertest.Evaluate[bool](b, `"owned" in window || !document.querySelector("#end") || document.scripts.length > 0`) {
			t.Errorf("%s runs a script, or nothing is shown", attack)
		}
	}
	b.Open("/learn/points/" + points[0].ID + "/card?side=back")
	if browsertest.Evaluate[bool](b, `"owned" in window`) {
		t.Error("a card that is opened by its address runs a script")
	}
	// Only opened by its address, its policy has something to stop, and Chromium tells it.
	b.AllowProblem("Blocked script execution in '" + r.URL + "/learn/media/evil.svg'")
	b.AllowProblem("https://svg.example/x.png")
	b.Open("/learn/media/evil.svg")
	if browsertest.Evaluate[bool](b, `"owned" in window`) {
		t.Error("a picture that is opened by its address runs a script")
	}
	page := r.SignedInAs(r.Person).Get("/learn/media/evil.html")
	if page.Header.Get("Content-Disposition") != "attachment" || page.Header.Get("Content-Type") != "application/octet-stream" ||
		!strings.Contains(page.Header.Get("Content-Security-Policy"), "sandbox") {
		t.Errorf("a page as media: %v", page.Header)
	}
	if other := r.SignedInAs(r.Bob).Get("/learn/media/evil.svg"); other.Status != 404 {
		t.Errorf("another person gets it: %d", other.Status)
	}
}

// TestPictureInEditor chooses a picture while a point is written, sees it in the preview and in the
// review, and makes a point with clozes, whose note is edited afterwards.
func TestPictureInEditor(t *testing.T) {
	r := newRig(t)
	var picture bytes.Buffer
	must(t, png.Encode(&picture, image.NewGray(image.Rect(0, 0, 20, 10))))
	name := filepath.Join(t.TempDir(), "grey.png")
	must(t, os.WriteFile(name, picture.Bytes(), 0o600))
	b := open(t, r)
	b.Open("/learn/points/new")
	b.Fill("textarea[name=question]", "Which colour? $x^2$ ")
	b.Script(`{const q = document.querySelector("textarea[name=question]"); q.focus(); q.setSelectionRange(99, 99)}`)
	b.Upload("[data-inserts] input[multiple]", name)
	b.WaitText("textarea[name=question]", "Which colour? $x^2$ ![](grey.png)")
	b.WaitUntil(`document.querySelector("#preview img")?.naturalWidth === 20 && document.querySelector("#preview math")`)
	b.Fill("textarea[name=answer]", "Grey")
	b.Click("button[value=show]")
	b.WaitUntil(`location.pathname.startsWith("/learn/points/") && !location.pathname.endsWith("/new")`)
	b.Open("/learn/review")
	b.WaitUntil(`document.querySelector(".question img")?.naturalWidth === 20`)

	b.Open("/learn/points/new")
	b.Fill("textarea[name=question]", "{{c1::Paris}} is in {{c2::France}}")
	b.Click("button[value=show]")
	b.WaitUntil(`document.querySelector("iframe[data-fits]")?.contentDocument?.querySelector(".cloze")?.innerText === "[…]"`)
	b.Fill("textarea[name=field0]", "{{c1::Berlin}} is in {{c2::Germany}}")
	b.Click("#note button.main")
	b.WaitText(".note", "Saved with all cards of the note.")
	b.WaitUntil(`document.querySelector("iframe[name=notepreview]")?.contentDocument?.querySelector(".cloze")?.innerText === "Berlin"`)
	b.WaitUntil(`document.querySelector("iframe[data-fits]").clientHeight < 128`) // it fits its content
}
