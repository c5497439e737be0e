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

// open returns a window in which a person is signed in, in English.
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

// A whole session by keyboard: a question, the recall, the answer, grades, an undo, the end.
func TestSessionByKeyboard(t *testing.T) {
	r := newRig(t)
	r.add(t, r.Person.ID, learn.Draft{Question: "Capital of **France**?", Answer: "Paris"},
		learn.Draft{Question: "Formula of water?", Answer: "`H2O`"},
		learn.Draft{Question: "Largest planet?", Answer: "Jupiter"})
	b := open(t, r)
	b.SetWidth(390)
	b.Open("/learn")
	b.WaitText(".big", "3")
	b.Press("\r") // Start
	b.WaitText(".question", "Capital of France?")
	if n := browsertest.Evaluate[int](b, "document.querySelectorAll('.answer').length"); n != 0 {
		t.Fatal("the answer is there before it is asked for")
	}
	b.Press(" ")
	b.WaitText(".answer", "Paris")
	b.Press("4")
	b.WaitText(".question", "Formula of water?")
	// The recall is typed, digits too, and submitted with Enter.
	b.Press("\t")
	b.Press("H3O 124\r")
	b.WaitText(".answer", "H2O")
	b.WaitText(".compared del", "H3O 124")
	b.Press("1")
	b.WaitText(".question", "Largest planet?")
	b.WaitText(".progress", "1 of 3 done")
	b.Press("u")
	b.WaitText(".question", "Formula of water?")
	b.WaitText(".progress", "1 of 3 done")
	b.Press("\r")
	b.WaitText(".answer", "H2O")
	b.Press("4")
	b.WaitText(".question", "Largest planet?")
	b.Press(" ")
	b.WaitText(".answer", "Jupiter")
	b.Press("4")
	b.WaitText("#review", "All done for today")
	b.WaitText("#review", "3 reviewed, 0 forgotten")
	s, err := r.points.Stats(t.Context(), r.Person.ID, 1, 0)
	if err != nil || s.Done.Reviews != 3 || s.Done.Again != 0 {
		t.Fatalf("%+v, %v", s.Done, err)
	}
	if width := browsertest.Evaluate[int](b, "document.documentElement.scrollWidth"); width > 390 {
		t.Errorf("the page is %d wide", width)
	}
}

// A file is chosen and imported, and the page shows the progress.
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
	// Records all percentages that are shown.
	b.Script(`window.shares = new Set(); new MutationObserver(() => { const p = document.querySelector("#imported progress"); if (p) shares.add(p.value); }).observe(document.querySelector("#imported"), {childList: true, subtree: true})`)
	b.Click("form[action='/learn/import'] button")
	b.WaitText("#imported", "Imported: 2000 added")
	if n := browsertest.Evaluate[int](b, "shares.size"); n < 1 {
		t.Error("nothing was told of the way")
	}
	list, err := r.points.List(t.Context(), r.Person.ID, store.PointFilter{}, store.PointKey{}, 10)
	if err != nil || len(list) != 10 {
		t.Fatalf("%d points, %v", len(list), err)
	}
	// A preview of the input appears a moment later.
	b.Open("/learn/points/new")
	b.Type("textarea[name=answer]", "it is **bold** <i>and</i> so")
	b.WaitText("#preview strong", "bold")
	b.WaitText("#preview", "<i>and</i>")
}

// A tag is merged with another in place, after a confirmation.
func TestTagsMergeInPlace(t *testing.T) {
	r := newRig(t)
	r.add(t, r.Person.ID, learn.Draft{Question: "Q1", Answer: "A", Tags: []string{"chem"}},
		learn.Draft{Question: "Q2", Answer: "A", Tags: []string{"chemistry"}})
	b := open(t, r)
	b.AllowProblem("409")
	b.SetWidth(390)
	b.Open("/learn/tags")
	b.Click(`a[href="/learn/tags/chem"]`)
	b.Fill("input[name=name]", "chemistry")
	b.Click(".saver button.main")
	b.WaitText("#saving", "points with the tag “chemistry” already (1)")
	b.Click("#saving button[name=merge]")
	b.WaitText("h1", "#chemistry")
	b.WaitText("#saving", "Saved.")
	b.WaitText(".head", "Points: 2")
	b.SetWidth(1280)
	b.Open("/learn/tags")
	b.WaitText("main .list", "#chemistry")
}

// Going through the states with the arrow keys leaves the page as it is; the button applies the
// choice.
func TestListWaitsForItsButton(t *testing.T) {
	r := newRig(t)
	r.add(t, r.Person.ID, learn.Draft{Question: "Q", Answer: "A"})
	b := open(t, r)
	b.Open("/learn/points")
	b.Script("window.stays = true; document.querySelector('[name=state]').focus()")
	for range 3 {
		b.Script(`{ // as an arrow key does in a list that is closed
			const list = document.activeElement;
			list.selectedIndex++;
			for (const kind of ["input", "change"]) list.dispatchEvent(new Event(kind, {bubbles: true}));
		}`)
		b.WaitUntil("window.stays && document.activeElement.name === 'state'")
	}
	b.Click(".filters button")
	b.WaitUntil("!window.stays && new URLSearchParams(location.search).get('state') === document.querySelector('[name=state]').value")
}
