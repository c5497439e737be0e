package learn_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"patchbay/internal/account"
	"patchbay/internal/console/browsertest"
	"patchbay/internal/plug/learn"
	"patchbay/internal/store"
)

// open is a window in which somebody is signed in, in English.
func open(t *testing.T, r *rig) *browsertest.Browser {
	t.Helper()
	browsertest.Path(t)
	b := browsertest.New(t, r.URL)
	token, err := r.Accounts.Admit(t.Context(), r.Person, account.Browser{Agent: "test"})
	if err != nil {
		t.Fatal(err)
	}
	b.Cookie("patchbay", token)
	b.Cookie("patchbay-lang", "en")
	return b
}

// A whole session with the keyboard alone: a question, what is recalled, the answer,
// grades, a step back, the end.
func TestSessionByKeyboard(t *testing.T) {
	r := newRig(t)
	r.add(t, r.Person.ID, learn.Draft{Question: "Capital of **France**?", Answer: "Paris"}, learn.Draft{Question: "Formula of water?", Answer: "`H2O`"}, learn.Draft{Question: "Largest planet?", Answer: "Jupiter"})
	b := open(t, r)
	b.Width(390)
	b.Open("/learn")
	b.Reads(".big", "3")
	b.Press("\r") // Start
	b.Reads(".question", "Capital of France?")
	if n := browsertest.Ask[int](b, "document.querySelectorAll('.answer').length"); n != 0 {
		t.Fatal("the answer is there before it is asked for")
	}
	b.Press(" ")
	b.Reads(".answer", "Paris")
	b.Press("4")
	b.Reads(".question", "Formula of water?")
	// What is recalled is typed, digits too, and sent by Enter.
	b.Press("\t")
	b.Press("H3O 124\r")
	b.Reads(".answer", "H2O")
	b.Reads(".compared del", "H3O 124")
	b.Press("1")
	b.Reads(".question", "Largest planet?")
	b.Reads(".progress", "3 of 4")
	b.Press("u")
	b.Reads(".question", "Formula of water?")
	b.Reads(".progress", "2 of 3")
	b.Press("\r")
	b.Reads(".answer", "H2O")
	b.Press("4")
	b.Reads(".question", "Largest planet?")
	b.Press(" ")
	b.Reads(".answer", "Jupiter")
	b.Press("4")
	b.Reads("#review", "All done for today")
	b.Reads("#review", "3 reviewed, 0 forgotten")
	s, err := r.points.Stats(t.Context(), r.Person.ID, 1, 0)
	if err != nil || s.Done.Reviews != 3 || s.Done.Again != 0 {
		t.Fatalf("%+v, %v", s.Done, err)
	}
	if width := browsertest.Ask[int](b, "document.documentElement.scrollWidth"); width > 390 {
		t.Errorf("the page is %d wide", width)
	}
}

// A file is chosen and imported, and the page tells how far that is.
func TestImportInBrowser(t *testing.T) {
	r := newRig(t)
	b := open(t, r)
	var text strings.Builder
	text.WriteString("question,answer\n")
	for i := range 2000 {
		fmt.Fprintf(&text, "Question %d about something?,Answer %d\n", i, i)
	}
	name := filepath.Join(t.TempDir(), "many.csv")
	if err := os.WriteFile(name, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	b.Open("/learn/import")
	b.Upload("input[type=file]", name)
	// All shares that are shown are noted.
	b.Script(`window.shares = new Set(); new MutationObserver(() => { const p = document.querySelector("#imported progress"); if (p) shares.add(p.value); }).observe(document.querySelector("#imported"), {childList: true, subtree: true})`)
	b.Click("form[action='/learn/import'] button")
	b.Reads("#imported", "Imported: 2000 added")
	if n := browsertest.Ask[int](b, "shares.size"); n < 1 {
		t.Error("nothing was told of the way")
	}
	list, err := r.points.List(t.Context(), r.Person.ID, store.PointFilter{}, store.PointKey{}, 10)
	if err != nil || len(list) != 10 {
		t.Fatalf("%d points, %v", len(list), err)
	}
	// What is typed is shown as it will look, a moment later.
	b.Open("/learn/points/new")
	b.Type("textarea[name=answer]", "it is **bold** <i>and</i> so")
	b.Reads("#preview strong", "bold")
	b.Reads("#preview", "<i>and</i>")
}

// A tag becomes one with another where it is, once somebody has agreed to it.
func TestTagsMergeInPlace(t *testing.T) {
	r := newRig(t)
	r.add(t, r.Person.ID, learn.Draft{Question: "Q1", Answer: "A", Tags: []string{"chem"}}, learn.Draft{Question: "Q2", Answer: "A", Tags: []string{"chemistry"}})
	b := open(t, r)
	b.Expect("409")
	b.Width(390)
	b.Open("/learn/tags")
	b.Click(`a[href="/learn/tags/chem"]`)
	b.Fill("input[name=name]", "chemistry")
	b.Click(".saver button.main")
	b.Reads("#saving", "points with the tag “chemistry” already (1)")
	b.Click("#saving button[name=merge]")
	b.Reads("h1", "#chemistry")
	b.Reads("#saving", "Saved.")
	b.Reads(".head", "Points: 2")
	b.Width(1280)
	b.Open("/learn/tags")
	b.Reads("main .list", "#chemistry")
}
