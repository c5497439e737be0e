package learn_test

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"patchbay/internal/console/consoletest"
	"patchbay/internal/console/learn"
	"patchbay/internal/console/page"
	learning "patchbay/internal/plug/learn"
	"patchbay/internal/store"
)

// rig is an installation with the pages of Learn, whose clock the test sets.
type rig struct {
	*consoletest.Rig
	points *learning.Service

	mu  sync.Mutex
	now time.Time
}

// largest is the maximum size of a file, in bytes.
const largest = 4 << 20

func newRig(t testing.TB) *rig {
	t.Helper()
	r := &rig{now: time.Now()}
	r.Rig = consoletest.New(t, consoletest.Options{}, func(c *consoletest.Rig) []page.Route {
		r.points = learning.New(learning.Options{Store: c.Store, Zone: time.UTC, Now: r.clock})
		c.Control.Points = r.points
		return learn.Routes(learn.Options{Points: r.points, Largest: largest})
	})
	return r
}

func (r *rig) clock() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now
}

// later advances the clock.
func (r *rig) later(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now = r.now.Add(d)
}

// add adds points for a person.
func (r *rig) add(t testing.TB, person string, drafts ...learning.Draft) []learning.Entry {
	t.Helper()
	made, err := r.points.Create(t.Context(), person, drafts)
	if err != nil {
		t.Fatal(err)
	}
	var out []learning.Entry
	for _, m := range made {
		if m.Err != nil {
			t.Fatal(m.Err)
		}
		out = append(out, m.Entry)
	}
	return out
}

var hidden = regexp.MustCompile(`<input type="hidden" name="([^"]*)" value="([^"]*)"`)

// form returns the hidden fields of the form with an action.
func form(t *testing.T, p consoletest.Page, action string) []string {
	t.Helper()
	_, rest, found := strings.Cut(p.Text, `action="`+action+`"`)
	if !found {
		t.Fatalf("no form for %s at %s (%d): %s", action, p.Path, p.Status, p.Text)
	}
	rest, _, _ = strings.Cut(rest, "</form>")
	var out []string
	for _, m := range hidden.FindAllStringSubmatch(rest, -1) {
		out = append(out, m[1], html.UnescapeString(m[2]))
	}
	return out
}

// A forgotten point that is asked again at once is told to be, because its page looks the same.
func TestForgottenAtOnce(t *testing.T) {
	r := newRig(t)
	r.add(t, r.Person.ID, learning.Draft{Question: "Water?", Answer: "H2O"})
	b := r.SignedInAs(r.Person)
	grade := func(p consoletest.Page, grade string) consoletest.Page {
		t.Helper()
		a := b.Post("/learn/review/reveal", form(t, p, "/learn/review/reveal")...)
		return b.DoHX(http.MethodPost, "/learn/review/grade", append(form(t, a, "/learn/review/grade"), "grade", grade)...)
	}
	const again = "You forgot it, so it is asked again at once."
	p := grade(b.Get("/learn/review"), "1")
	if !p.Contains("Water?", again) {
		t.Fatalf("%d: %s", p.Status, p.Text)
	}
	if p = grade(p, "3"); p.Contains(again) {
		t.Errorf("it was not forgotten: %s", p.Text)
	}
	r.add(t, r.Person.ID, learning.Draft{Question: "Capital of France?", Answer: "Paris"},
		learning.Draft{Question: "Capital of Spain?", Answer: "Madrid"})
	if p = grade(b.Get("/learn/review"), "1"); p.Contains(again) {
		t.Errorf("another is asked: %s", p.Text)
	}
}

// A session without JavaScript: question, answer, grade, undo, end.
func TestReview(t *testing.T) {
	r := newRig(t)
	r.add(t, r.Person.ID, learning.Draft{Question: "Capital of **France**?", Answer: "Paris, on the Seine"},
		learning.Draft{Question: "Water?", Answer: "H2O", Tags: []string{"chem"}})
	b := r.SignedInAs(r.Person)
	if p := b.Get("/learn"); !p.Contains(`<strong class="big">2</strong>`, "/learn/review") {
		t.Fatalf("%d: %s", p.Status, p.Text)
	}
	q := b.Get("/learn/review")
	if !q.Contains("<strong>France</strong>", "0 of 2 done") || q.Contains("Seine") {
		t.Fatalf("%d: %s", q.Status, q.Text)
	}
	a := b.Post("/learn/review/reveal", append(form(t, q, "/learn/review/reveal"), "recall",
		"Lyon, on the Seine <b>")...)
	if !a.Contains("Paris, on the Seine", "<del>Lyon</del>", "<ins>Paris</ins>", "&lt;b&gt;", "1 min", "10 min") ||
		a.Contains("<b>") {
		t.Fatalf("%d: %s", a.Status, a.Text)
	}
	judged := b.Post("/learn/review/judge", append(form(t, a, "/learn/review/judge"), "recall",
		"Lyon, on the Seine")...)
	if !judged.Contains("no model is set up", "of 100", "Suggested: ") {
		t.Fatalf("%d: %s", judged.Status, judged.Text)
	}
	again := form(t, a, "/learn/review/grade")
	next := b.Post("/learn/review/grade", append(again, "grade", "1")...)
	if next.Status != 200 || !next.Contains("Water?", "0 of 2 done", "#chem") {
		t.Fatalf("%d %s: %s", next.Status, next.Path, next.Text)
	}
	// A form that is sent twice counts once, and gives the same response.
	twice := b.Post("/learn/review/grade", append(again, "grade", "1")...)
	if !twice.Contains("Water?", "0 of 2 done") {
		t.Fatalf("%d: %s", twice.Status, twice.Text)
	}
	if s, err := r.points.Stats(t.Context(), r.Person.ID, 1, 0); err != nil || s.Done.Reviews != 1 {
		t.Fatalf("%d reviews, %v", s.Done.Reviews, err)
	}
	back := b.Post("/learn/review/undo", form(t, next, "/learn/review/undo")...)
	if !back.Contains("Taken back", "France", "0 of 2 done") {
		t.Fatalf("%d %s: %s", back.Status, back.Path, back.Text)
	}
	// All are easy: the session ends.
	for range 2 {
		open := b.Post("/learn/review/reveal", form(t, back, "/learn/review/reveal")...)
		back = b.Post("/learn/review/grade", append(form(t, open, "/learn/review/grade"), "grade", "4")...)
	}
	if !back.Contains("All done for today", "2 reviewed, 0 forgotten", "Next: in ") {
		t.Fatalf("%d %s: %s", back.Status, back.Path, back.Text)
	}
	if p := b.Get("/learn/stats"); !p.Contains("What was remembered", "<rect", "2 reviews in all") {
		t.Fatalf("%d: %s", p.Status, p.Text)
	}
}

// A review in another window is noticed, and counts once.
func TestReviewedElsewhere(t *testing.T) {
	r := newRig(t)
	e := r.add(t, r.Person.ID, learning.Draft{Question: "Q1", Answer: "A1"})[0]
	b := r.SignedInAs(r.Person)
	q := b.Get("/learn/review")
	open := b.DoHX(http.MethodPost, "/learn/review/reveal", form(t, q, "/learn/review/reveal")...)
	if open.Contains("<html") || !open.Contains("A1") {
		t.Fatalf("%d: %s", open.Status, open.Text)
	}
	if _, err := r.points.Submit(t.Context(), r.Person.ID, learning.Submission{Point: e.ID, Grade: store.Easy,
		Score: -1}); err != nil {
		t.Fatal(err)
	}
	late := b.DoHX(http.MethodPost, "/learn/review/grade", append(form(t, open, "/learn/review/grade"), "grade",
		"1")...)
	if !late.Contains("reviewed elsewhere", "Nothing is due now") {
		t.Fatalf("%d: %s", late.Status, late.Text)
	}
	if late := b.DoHX(http.MethodPost, "/learn/review/reveal",
		form(t, q, "/learn/review/reveal")...); !late.Contains("reviewed elsewhere") || late.Contains("A1") {
		t.Fatalf("%d: %s", late.Status, late.Text)
	}
	if now, err := r.points.Get(t.Context(), r.Person.ID, e.ID); err != nil || now.Card.Reps != 1 ||
		now.Card.Lapses != 0 {
		t.Fatalf("%+v, %v", now.Card, err)
	}
}

// A point is postponed or suspended, and the page waits for a learning step.
func TestPutAside(t *testing.T) {
	r := newRig(t)
	r.add(t, r.Person.ID, learning.Draft{Question: "Q1", Answer: "A1"}, learning.Draft{Question: "Q2", Answer: "A2"},
		learning.Draft{Question: "Q3", Answer: "A3"})
	b := r.SignedInAs(r.Person)
	q := b.Get("/learn/review")
	if q = b.Post("/learn/review/tomorrow",
		form(t, q, "/learn/review/tomorrow")...); !q.Contains("It comes again tomorrow", "Q2") {
		t.Fatalf("%d: %s", q.Status, q.Text)
	}
	if q = b.Post("/learn/review/rest", form(t, q, "/learn/review/rest")...); !q.Contains("It rests", "Q3") {
		t.Fatalf("%d: %s", q.Status, q.Text)
	}
	if q = b.Post("/learn/review/undo", form(t, q, "/learn/review/undo")...); !q.Contains("Q2") {
		t.Fatalf("%d: %s", q.Status, q.Text)
	}
	if q = b.Post("/learn/review/undo", form(t, q, "/learn/review/undo")...); !q.Contains("Q1") {
		t.Fatalf("%d: %s", q.Status, q.Text)
	}
	if q = b.Post("/learn/review/tomorrow", form(t, q, "/learn/review/tomorrow")...); !q.Contains("Q2") {
		t.Fatalf("%d: %s", q.Status, q.Text)
	}
	for range 2 {
		open := b.Post("/learn/review/reveal", form(t, q, "/learn/review/reveal")...)
		q = b.Post("/learn/review/grade", append(form(t, open, "/learn/review/grade"), "grade", "3")...)
	}
	if !q.Contains("A short break", "The next one comes back at", `hx-trigger="load delay:`) {
		t.Fatalf("%d: %s", q.Status, q.Text)
	}
	r.later(11 * time.Minute)
	if q = b.Get("/learn/review"); !q.Contains("Q2", "0 of 2 done") {
		t.Fatalf("%d: %s", q.Status, q.Text)
	}
}

// Points are added, found, changed, deleted and restored.
func TestPoints(t *testing.T) {
	r := newRig(t)
	b := r.SignedInAs(r.Person)
	if p := b.Get("/learn/points"); !p.Contains("No points yet", "/learn/import") {
		t.Fatalf("%d: %s", p.Status, p.Text)
	}
	if p := b.Post("/learn/points/new", "question", "", "answer", "<i>kept</i>", "deck", "default", "tags",
		"a, b"); p.Status != 422 || !p.Contains("Write a question", "&lt;i&gt;kept", `value="a, b"`) {
		t.Fatalf("%d: %s", p.Status, p.Text)
	}
	p := b.Post("/learn/points/new", "question", "What is a <script>alert(1)</script> stack?", "answer", "**LIFO**",
		"deck", "default", "newdeck", "Computing", "tags", "cs, data", "plan", "1", "then", "show")
	if p.Status != 200 || !p.Contains("<strong>LIFO</strong>", "cs, data", "Computing", "&lt;script&gt;") ||
		p.Contains("<script>alert") {
		t.Fatalf("%d %s: %s", p.Status, p.Path, p.Text)
	}
	at := p.Path
	if p := b.Get("/learn/points?q=stack"); !p.Contains("stack?", "Computing") {
		t.Fatalf("%d: %s", p.Status, p.Text)
	}
	for state, there := range map[string]bool{"new": true, "due": false, "learning": false, "draft": false,
		"leech": false, "trash": false, "": true} {
		if p := b.Get("/learn/points?tag=cs&state=" + state); p.Status != 200 || p.Contains("stack?") != there {
			t.Errorf("%q: %d, found %t", state, p.Status, p.Contains("stack?"))
		}
	}
	if p := b.Post(at, "question", "What is a stack?", "answer", "Last in, first out", "deck", "default", "tags", "cs",
		"plan", "1", "rest", "1"); !p.Contains("Saved.", "resting", "Last in, first out") {
		t.Fatalf("%d: %s", p.Status, p.Text)
	}
	if p := b.Post(at+"/due", "due", "2001-01-01"); p.Status != 422 || !p.Contains("must lie between today") {
		t.Fatalf("%d: %s", p.Status, p.Text)
	}
	if p := b.Post(at, "question", "What is a stack?", "answer", "Last in, first out", "deck", "default", "plan", "1",
		"back", "/learn/review?done=2"); p.Path != "/learn/review?done=2" {
		t.Fatalf("%d %s", p.Status, p.Path)
	}
	if p := b.Post(at, "question", "What is a stack?", "answer", "x", "deck", "default", "plan", "1", "back",
		"//evil.example/"); p.Path != "/" {
		t.Fatalf("%d %s", p.Status, p.Path)
	}
	if p := b.Post(at + "/delete"); !p.Contains("It is in the trash.", at+"/restore") {
		t.Fatalf("%d: %s", p.Status, p.Text)
	}
	if p := b.Get(at); p.Status != 404 {
		t.Fatalf("%d", p.Status)
	}
	if p := b.Get("/learn/points?state=trash"); !p.Contains("What is a stack?") {
		t.Fatalf("%d: %s", p.Status, p.Text)
	}
	if p := b.Post(at + "/restore"); !p.Contains("It is back.") {
		t.Fatalf("%d: %s", p.Status, p.Text)
	}
	if p := b.DoHX(http.MethodPost, "/learn/preview", "question", "<img src=x onerror=alert(1)>", "answer",
		"[x](javascript:alert(1))"); p.Contains("<img") || p.Contains("href") || p.Contains("<html") {
		t.Fatalf("%d: %s", p.Status, p.Text)
	}
}

// Lists are paged.
func TestPaging(t *testing.T) {
	r := newRig(t)
	var drafts []learning.Draft
	for range 130 {
		drafts = append(drafts, learning.Draft{Question: "Q", Answer: "A"})
	}
	r.add(t, r.Person.ID, drafts...)
	b := r.SignedInAs(r.Person)
	next := regexp.MustCompile(`href="(/learn/points\?[^"]*after=[^"]*)"`)
	for _, from := range []string{"/learn/points", "/learn/points?state=new"} {
		seen := map[string]bool{}
		pages := 0
		for at := from; at != ""; pages++ {
			p := b.Get(at)
			for _, m := range regexp.MustCompile(`href="/learn/points/([0-9a-f-]{36})"`).FindAllStringSubmatch(p.Text,
				-1) {
				seen[m[1]] = true
			}
			at = ""
			if m := next.FindStringSubmatch(p.Text); m != nil {
				at = strings.ReplaceAll(m[1], "&amp;", "&")
			}
		}
		if len(seen) != 130 || pages != 3 {
			t.Errorf("%s: %d points on %d pages", from, len(seen), pages)
		}
	}
}

// Decks are created, have their own settings, and are deleted.
func TestDecks(t *testing.T) {
	r := newRig(t)
	b := r.SignedInAs(r.Person)
	if p := b.Post("/learn/decks", "name", "DEFAULT"); p.Status != 409 {
		t.Fatalf("%d: %s", p.Status, p.Text)
	}
	p := b.Post("/learn/decks", "name", "German")
	at := p.Path
	if !strings.HasPrefix(at, "/learn/decks/") || !p.Contains("German", "as all decks (20)") {
		t.Fatalf("%d %s: %s", p.Status, p.Path, p.Text)
	}
	r.add(t, r.Person.ID, learning.Draft{Question: "Hund?", Answer: "dog", Deck: "German"})
	if p := b.Post(at, "name", "Deutsch", "new_per_day", "5", "retention", "93", "steps", "2, 15", "bury", "false",
		"easy_days.sun", "0"); !p.Contains("Saved.", "Deutsch", `value="5"`, `value="93"`, `value="2, 15"`) {
		t.Fatalf("%d: %s", p.Status, p.Text)
	}
	l, err := r.points.Learner(t.Context(), r.Person.ID)
	if err != nil {
		t.Fatal(err)
	}
	id, _ := l.DeckID("Deutsch")
	if s := l.Settings(id); s.NewPerDay != 5 || s.Retention != 0.93 || len(s.Steps) != 2 || s.Bury ||
		s.EasyDays["sun"] != 0 || len(s.EasyDays) != 1 {
		t.Fatalf("%+v", s)
	}
	for name, value := range map[string]string{"retention": "12", "steps": "soon", "leech": "-1",
		"easy_days.mon": "101", "max_interval": "0"} {
		if p := b.Post(at, "name", "Deutsch", name, value); p.Status != 422 || !p.Contains(`value="`+value+`"`) {
			t.Errorf("%s=%s: %d", name, value, p.Status)
		}
	}
	// The script gets the progress.
	if p := b.DoHX(http.MethodPost, at, "name", "Deutsch", "schedule",
		"classic"); !strings.HasPrefix(p.Header.Get("Content-Type"), "text/event-stream") ||
		!p.Contains("Giving points their new dates: 1 of 1", "Saved.") {
		t.Fatalf("%d: %s", p.Status, p.Text)
	}
	if p := b.Post(at + "/delete"); p.Path != "/learn/decks" || p.Contains("Deutsch") || !p.Contains("Points: 1") {
		t.Fatalf("%d %s: %s", p.Status, p.Path, p.Text)
	}
	if p := b.Get("/learn/tags"); !p.Contains("No tags yet") {
		t.Fatalf("%d: %s", p.Status, p.Text)
	}
}

// A person's settings are saved, and removed by an empty field.
func TestSettings(t *testing.T) {
	r := newRig(t)
	b := r.SignedInAs(r.Person)
	p := b.Post("/learn/settings", "time_zone", "Asia/Shanghai", "day_start", "05:30", "bot", "none", "strictness",
		"strict", "at", "20:00", "via", "webhook", "via", "calendar", "webhook", "https://example.org/x", "new_per_day",
		"7")
	if !p.Contains("Saved.", `value="Asia/Shanghai"`, `value="05:30"`, `value="https://example.org/x"`, `value="7"`) {
		t.Fatalf("%d: %s", p.Status, p.Text)
	}
	l, err := r.points.Learner(t.Context(), r.Person.ID)
	if err != nil {
		t.Fatal(err)
	}
	if l.Calendar.Zone.String() != "Asia/Shanghai" || l.Profile.Strictness != "strict" ||
		len(l.Profile.Remind.Via) != 2 || l.Settings("").NewPerDay != 7 {
		t.Fatalf("%+v", l.Profile)
	}
	if p := b.Post("/learn/settings", "time_zone", "Moon/Base"); p.Status != 422 ||
		!p.Contains("There is no time zone “Moon/Base”", `value="Moon/Base"`) {
		t.Fatalf("%d: %s", p.Status, p.Text)
	}
	if p := b.DoHX(http.MethodPost, "/learn/settings", "via", "webhook"); p.Status != 422 || p.Contains("<html") {
		t.Fatalf("%d: %s", p.Status, p.Text)
	}
	if p := b.DoHX(http.MethodPost, "/learn/settings"); !p.Contains("Saved.") {
		t.Fatalf("%d: %s", p.Status, p.Text)
	}
	if l, err = r.points.Learner(t.Context(), r.Person.ID); err != nil || l.Profile.Zone != "" ||
		l.Profile.Remind.At != "" || l.Settings("").NewPerDay != 20 {
		t.Fatalf("%+v, %v", l.Profile, err)
	}
}

// Nobody sees or changes what belongs to another person.
func TestOthers(t *testing.T) {
	r := newRig(t)
	e := r.add(t, r.Person.ID, learning.Draft{Question: "ada's secret question", Answer: "ada's secret answer",
		Deck: "Adas", Tags: []string{"adatag"}})[0]
	l, err := r.points.Learner(t.Context(), r.Person.ID)
	if err != nil {
		t.Fatal(err)
	}
	deck, _ := l.DeckID("Adas")
	open := e.OpenSitting().ID
	b := r.SignedInAs(r.Bob)
	for _, path := range []string{"/learn/points/" + e.ID, "/learn/decks/" + deck, "/learn/points?deck=" + deck,
		"/learn/review?deck=" + deck} {
		if p := b.Get(path); p.Status != 404 || p.Contains("ada's") || p.Contains("Adas") {
			t.Errorf("GET %s: %d", path, p.Status)
		}
	}
	for _, path := range []string{"/learn", "/learn/points", "/learn/points?q=secret", "/learn/points?tag=adatag",
		"/learn/decks", "/learn/tags", "/learn/stats", "/learn/export?format=json", "/learn/review?ask=" + e.ID,
		"/learn/import", "/learn/settings"} {
		if p := b.Get(path); p.Status != 200 || p.Contains("ada's") || p.Contains("Adas") || p.Contains("#adatag") {
			t.Errorf("GET %s: %d", path, p.Status)
		}
	}
	card := []string{"point", e.ID, "sitting", open, "review", "r1", "grade", "1"}
	for _, path := range []string{"/learn/review/reveal", "/learn/review/judge", "/learn/review/grade",
		"/learn/review/rest", "/learn/review/tomorrow", "/learn/review/flag?flag=1", "/learn/review/leech?leech=1"} {
		if p := b.Post(path, card...); p.Contains("ada's") {
			t.Errorf("POST %s: %d %s", path, p.Status, p.Text)
		}
	}
	for _, path := range []string{"", "/due", "/confirm", "/delete", "/restore"} {
		if p := b.Post("/learn/points/"+e.ID+path, "question", "mine", "answer", "mine", "deck", "default", "due",
			"2099-01-01"); p.Status != 404 || p.Contains("ada's") {
			t.Errorf("POST %s: %d", path, p.Status)
		}
	}
	for _, path := range []string{"/learn/decks/" + deck, "/learn/decks/" + deck + "/delete"} {
		if p := b.Post(path, "name", "mine"); p.Status != 404 {
			t.Errorf("POST %s: %d", path, p.Status)
		}
	}
	now, err := r.points.Get(t.Context(), r.Person.ID, e.ID)
	if err != nil || now.Card.Reps != 0 || now.Suspended || now.Question != e.Question || now.Version != e.Version {
		t.Fatalf("%+v, %v", now, err)
	}
	if p := r.Anonymous().Get("/learn/points/" + e.ID); p.Contains("ada's") {
		t.Fatal(p.Text)
	}
}

// Invalid parameters and forms never break a page.
func TestNonsense(t *testing.T) {
	r := newRig(t)
	r.add(t, r.Person.ID, learning.Draft{Question: "Q", Answer: "A"})
	b := r.SignedInAs(r.Person)
	for _, q := range []string{"after=nonsense", "after=e30", "state=nonsense", "q=" + strings.Repeat("x", 5000),
		"deck=nonsense", "gone=" + url.QueryEscape(`../"x`)} {
		if p := b.Get("/learn/points?" + q); p.Status != 200 && p.Status != 404 {
			t.Errorf("%.40s: %d", q, p.Status)
		}
	}
	for _, q := range []string{"done=-5&again=x&steps=a+b+c&began=99999999999&told=nonsense",
		"steps=" + strings.Repeat("r1+", 100), "tag=none"} {
		if p := b.Get("/learn/review?" + q); p.Status != 200 {
			t.Errorf("%.40s: %d", q, p.Status)
		}
	}
	if p := b.Post("/learn/review/grade", "grade", "9"); p.Status != 422 {
		t.Errorf("%d", p.Status)
	}
	if p := b.Post("/learn/review/undo", "steps", "rnonsense snonsense"); p.Status != 200 {
		t.Errorf("%d: %s", p.Status, p.Text)
	}
}
