package learn_test

import (
	"bytes"
	"mime/multipart"
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

// largest is how large files may be here, in bytes.
const largest = 4 << 20

func newRig(t testing.TB) *rig {
	t.Helper()
	r := &rig{now: time.Now()}
	r.Rig = consoletest.New(t, consoletest.Options{}, func(c *consoletest.Rig) []page.Route {
		r.points = learning.New(learning.Options{Store: c.Store, Zone: time.UTC, Now: r.clock})
		return learn.Routes(learn.Options{Points: r.points, Largest: largest})
	})
	return r
}

func (r *rig) clock() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now
}

// later moves the clock on.
func (r *rig) later(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now = r.now.Add(d)
}

// add gives somebody points.
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

// form are the hidden fields of the form of a page that sends to an address.
func form(t *testing.T, p consoletest.Page, action string) []string {
	t.Helper()
	_, rest, found := strings.Cut(p.Text, `action="`+action+`"`)
	if !found {
		t.Fatalf("no form for %s at %s (%d): %s", action, p.At, p.Status, p.Text)
	}
	rest, _, _ = strings.Cut(rest, "</form>")
	var out []string
	for _, m := range hidden.FindAllStringSubmatch(rest, -1) {
		out = append(out, m[1], strings.ReplaceAll(m[2], "&#39;", "'"))
	}
	return out
}

// A session without a script: question, answer, grade, undo, end.
func TestReview(t *testing.T) {
	r := newRig(t)
	r.add(t, r.Person.ID, learning.Draft{Question: "Capital of **France**?", Answer: "Paris, on the Seine"}, learning.Draft{Question: "Water?", Answer: "H2O", Tags: []string{"chem"}})
	b := r.As(r.Person)
	if p := b.Get("/learn"); !p.Has(`<strong class="big">2</strong>`, "/learn/review") {
		t.Fatalf("%d: %s", p.Status, p.Text)
	}
	q := b.Get("/learn/review")
	if !q.Has("<strong>France</strong>", "1 of 2") || q.Has("Seine") {
		t.Fatalf("%d: %s", q.Status, q.Text)
	}
	a := b.Post("/learn/review/reveal", append(form(t, q, "/learn/review/reveal"), "recall", "Lyon, on the Seine <b>")...)
	if !a.Has("Paris, on the Seine", "<del>Lyon</del>", "<ins>Paris</ins>", "&lt;b&gt;", "1 min", "10 min") || a.Has("<b>") {
		t.Fatalf("%d: %s", a.Status, a.Text)
	}
	judged := b.Post("/learn/review/judge", append(form(t, a, "/learn/review/judge"), "recall", "Lyon, on the Seine")...)
	if !judged.Has("no model is set up", "of 100", "Suggested: ") {
		t.Fatalf("%d: %s", judged.Status, judged.Text)
	}
	again := form(t, a, "/learn/review/grade")
	next := b.Post("/learn/review/grade", append(again, "grade", "1")...)
	if next.Status != 200 || !next.Has("Water?", "2 of 3", "#chem") {
		t.Fatalf("%d %s: %s", next.Status, next.At, next.Text)
	}
	// The same form sent twice counts once, and shows the same.
	twice := b.Post("/learn/review/grade", append(again, "grade", "1")...)
	if !twice.Has("Water?", "2 of 3") {
		t.Fatalf("%d: %s", twice.Status, twice.Text)
	}
	if s, err := r.points.Stats(t.Context(), r.Person.ID, 1, 0); err != nil || s.Done.Reviews != 1 {
		t.Fatalf("%d reviews, %v", s.Done.Reviews, err)
	}
	back := b.Post("/learn/review/undo", form(t, next, "/learn/review/undo")...)
	if !back.Has("Taken back", "France", "1 of 2") {
		t.Fatalf("%d %s: %s", back.Status, back.At, back.Text)
	}
	// All are known well: the session ends.
	for range 2 {
		open := b.Post("/learn/review/reveal", form(t, back, "/learn/review/reveal")...)
		back = b.Post("/learn/review/grade", append(form(t, open, "/learn/review/grade"), "grade", "4")...)
	}
	if !back.Has("All done for today", "2 reviewed, 0 forgotten", "Next: in ") {
		t.Fatalf("%d %s: %s", back.Status, back.At, back.Text)
	}
	if p := b.Get("/learn/stats"); !p.Has("What was remembered", "<rect", "2 reviews in all") {
		t.Fatalf("%d: %s", p.Status, p.Text)
	}
}

// What was reviewed in another window is told, and counts once.
func TestReviewedElsewhere(t *testing.T) {
	r := newRig(t)
	e := r.add(t, r.Person.ID, learning.Draft{Question: "Q1", Answer: "A1"})[0]
	b := r.As(r.Person)
	q := b.Get("/learn/review")
	open := b.Ask(http.MethodPost, "/learn/review/reveal", form(t, q, "/learn/review/reveal")...)
	if open.Has("<html") || !open.Has("A1") {
		t.Fatalf("%d: %s", open.Status, open.Text)
	}
	if _, err := r.points.Submit(t.Context(), r.Person.ID, learning.Submission{Point: e.ID, Grade: store.Easy, Score: -1}); err != nil {
		t.Fatal(err)
	}
	late := b.Ask(http.MethodPost, "/learn/review/grade", append(form(t, open, "/learn/review/grade"), "grade", "1")...)
	if !late.Has("reviewed elsewhere", "Nothing is due now") {
		t.Fatalf("%d: %s", late.Status, late.Text)
	}
	if late := b.Ask(http.MethodPost, "/learn/review/reveal", form(t, q, "/learn/review/reveal")...); !late.Has("reviewed elsewhere") || late.Has("A1") {
		t.Fatalf("%d: %s", late.Status, late.Text)
	}
	if now, err := r.points.Get(t.Context(), r.Person.ID, e.ID); err != nil || now.Card.Reps != 1 || now.Card.Lapses != 0 {
		t.Fatalf("%+v, %v", now.Card, err)
	}
}

// A point is put off, or let rest, and the step of a point is waited for.
func TestPutAside(t *testing.T) {
	r := newRig(t)
	r.add(t, r.Person.ID, learning.Draft{Question: "Q1", Answer: "A1"}, learning.Draft{Question: "Q2", Answer: "A2"}, learning.Draft{Question: "Q3", Answer: "A3"})
	b := r.As(r.Person)
	q := b.Get("/learn/review")
	if q = b.Post("/learn/review/tomorrow", form(t, q, "/learn/review/tomorrow")...); !q.Has("It comes again tomorrow", "Q2") {
		t.Fatalf("%d: %s", q.Status, q.Text)
	}
	if q = b.Post("/learn/review/rest", form(t, q, "/learn/review/rest")...); !q.Has("It rests", "Q3") {
		t.Fatalf("%d: %s", q.Status, q.Text)
	}
	if q = b.Post("/learn/review/undo", form(t, q, "/learn/review/undo")...); !q.Has("Q2") {
		t.Fatalf("%d: %s", q.Status, q.Text)
	}
	for range 2 {
		open := b.Post("/learn/review/reveal", form(t, q, "/learn/review/reveal")...)
		q = b.Post("/learn/review/grade", append(form(t, open, "/learn/review/grade"), "grade", "3")...)
	}
	if !q.Has("A short break", "The next one comes back at", `hx-trigger="load delay:`) {
		t.Fatalf("%d: %s", q.Status, q.Text)
	}
	r.later(11 * time.Minute)
	if q = b.Get("/learn/review"); !q.Has("Q2", "1 of 2") {
		t.Fatalf("%d: %s", q.Status, q.Text)
	}
}

// Points are written, found, changed, deleted and brought back.
func TestPoints(t *testing.T) {
	r := newRig(t)
	b := r.As(r.Person)
	if p := b.Get("/learn/points"); !p.Has("No points yet", "/learn/import") {
		t.Fatalf("%d: %s", p.Status, p.Text)
	}
	if p := b.Post("/learn/points/new", "question", "", "answer", "<i>kept</i>", "deck", "default", "tags", "a, b"); p.Status != 422 || !p.Has("Write a question", "&lt;i&gt;kept", `value="a, b"`) {
		t.Fatalf("%d: %s", p.Status, p.Text)
	}
	p := b.Post("/learn/points/new", "question", "What is a <script>alert(1)</script> stack?", "answer", "**LIFO**", "deck", "default", "newdeck", "Computing", "tags", "cs, data", "plan", "1", "then", "show")
	if p.Status != 200 || !p.Has("<strong>LIFO</strong>", "cs, data", "Computing", "&lt;script&gt;") || p.Has("<script>alert") {
		t.Fatalf("%d %s: %s", p.Status, p.At, p.Text)
	}
	at := p.At
	if p := b.Get("/learn/points?q=stack"); !p.Has("stack?", "Computing") {
		t.Fatalf("%d: %s", p.Status, p.Text)
	}
	for state, there := range map[string]bool{"new": true, "due": false, "learning": false, "draft": false, "leech": false, "trash": false, "": true} {
		if p := b.Get("/learn/points?tag=cs&state=" + state); p.Status != 200 || p.Has("stack?") != there {
			t.Errorf("%q: %d, found %t", state, p.Status, p.Has("stack?"))
		}
	}
	if p := b.Post(at, "question", "What is a stack?", "answer", "Last in, first out", "deck", "default", "tags", "cs", "plan", "1", "rest", "1"); !p.Has("Saved.", "resting", "Last in, first out") {
		t.Fatalf("%d: %s", p.Status, p.Text)
	}
	if p := b.Post(at+"/due", "due", "2001-01-01"); p.Status != 422 || !p.Has("must lie between today") {
		t.Fatalf("%d: %s", p.Status, p.Text)
	}
	if p := b.Post(at, "question", "What is a stack?", "answer", "Last in, first out", "deck", "default", "plan", "1", "back", "/learn/review?done=2"); p.At != "/learn/review?done=2" {
		t.Fatalf("%d %s", p.Status, p.At)
	}
	if p := b.Post(at, "question", "What is a stack?", "answer", "x", "deck", "default", "plan", "1", "back", "//evil.example/"); p.At != "/" {
		t.Fatalf("%d %s", p.Status, p.At)
	}
	if p := b.Post(at + "/delete"); !p.Has("It is in the trash.", at+"/restore") {
		t.Fatalf("%d: %s", p.Status, p.Text)
	}
	if p := b.Get(at); p.Status != 404 {
		t.Fatalf("%d", p.Status)
	}
	if p := b.Get("/learn/points?state=trash"); !p.Has("What is a stack?") {
		t.Fatalf("%d: %s", p.Status, p.Text)
	}
	if p := b.Post(at + "/restore"); !p.Has("It is back.") {
		t.Fatalf("%d: %s", p.Status, p.Text)
	}
	if p := b.Ask(http.MethodPost, "/learn/preview", "question", "<img src=x onerror=alert(1)>", "answer", "[x](javascript:alert(1))"); p.Has("<img") || p.Has("href") || p.Has("<html") {
		t.Fatalf("%d: %s", p.Status, p.Text)
	}
}

// Lists go on where they end.
func TestPaging(t *testing.T) {
	r := newRig(t)
	var drafts []learning.Draft
	for range 130 {
		drafts = append(drafts, learning.Draft{Question: "Q", Answer: "A"})
	}
	r.add(t, r.Person.ID, drafts...)
	b := r.As(r.Person)
	next := regexp.MustCompile(`href="(/learn/points\?[^"]*after=[^"]*)"`)
	for _, from := range []string{"/learn/points", "/learn/points?state=new"} {
		seen := map[string]bool{}
		pages := 0
		for at := from; at != ""; pages++ {
			p := b.Get(at)
			for _, m := range regexp.MustCompile(`href="/learn/points/([0-9a-f-]{36})"`).FindAllStringSubmatch(p.Text, -1) {
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

// Decks are made, have settings of their own, and go.
func TestDecks(t *testing.T) {
	r := newRig(t)
	b := r.As(r.Person)
	if p := b.Post("/learn/decks", "name", "DEFAULT"); p.Status != 409 {
		t.Fatalf("%d: %s", p.Status, p.Text)
	}
	p := b.Post("/learn/decks", "name", "German")
	at := p.At
	if !strings.HasPrefix(at, "/learn/decks/") || !p.Has("German", "as all decks (20)") {
		t.Fatalf("%d %s: %s", p.Status, p.At, p.Text)
	}
	r.add(t, r.Person.ID, learning.Draft{Question: "Hund?", Answer: "dog", Deck: "German"})
	if p := b.Post(at, "name", "Deutsch", "new_per_day", "5", "retention", "93", "steps", "2, 15", "bury", "false", "easy_days.sun", "0"); !p.Has("Saved.", "Deutsch", `value="5"`, `value="93"`, `value="2, 15"`) {
		t.Fatalf("%d: %s", p.Status, p.Text)
	}
	l, err := r.points.Learner(t.Context(), r.Person.ID)
	if err != nil {
		t.Fatal(err)
	}
	id, _ := l.DeckID("Deutsch")
	if s := l.Settings(id); s.NewPerDay != 5 || s.Retention != 0.93 || len(s.Steps) != 2 || s.Bury || s.EasyDays["sun"] != 0 || len(s.EasyDays) != 1 {
		t.Fatalf("%+v", s)
	}
	for name, value := range map[string]string{"retention": "12", "steps": "soon", "leech": "-1", "easy_days.mon": "101", "max_interval": "0"} {
		if p := b.Post(at, "name", "Deutsch", name, value); p.Status != 422 || !p.Has(`value="`+value+`"`) {
			t.Errorf("%s=%s: %d", name, value, p.Status)
		}
	}
	// With the script it is told how far it is.
	if p := b.Ask(http.MethodPost, at, "name", "Deutsch", "schedule", "classic"); !strings.HasPrefix(p.Header.Get("Content-Type"), "text/event-stream") || !p.Has("Giving points their new dates: 1 of 1", "Saved.") {
		t.Fatalf("%d: %s", p.Status, p.Text)
	}
	if p := b.Post(at + "/delete"); p.At != "/learn/decks" || p.Has("Deutsch") || !p.Has("Points: 1") {
		t.Fatalf("%d %s: %s", p.Status, p.At, p.Text)
	}
	if p := b.Get("/learn/tags"); !p.Has("No tags yet") {
		t.Fatalf("%d: %s", p.Status, p.Text)
	}
}

// A person's own settings are kept, and taken back by an empty field.
func TestSettings(t *testing.T) {
	r := newRig(t)
	b := r.As(r.Person)
	p := b.Post("/learn/settings", "time_zone", "Asia/Shanghai", "day_start", "05:30", "bot", "none", "strictness", "strict", "at", "20:00", "via", "webhook", "via", "calendar", "webhook", "https://example.org/x", "new_per_day", "7")
	if !p.Has("Saved.", `value="Asia/Shanghai"`, `value="05:30"`, `value="https://example.org/x"`, `value="7"`) {
		t.Fatalf("%d: %s", p.Status, p.Text)
	}
	l, err := r.points.Learner(t.Context(), r.Person.ID)
	if err != nil {
		t.Fatal(err)
	}
	if l.Calendar.Zone.String() != "Asia/Shanghai" || l.Profile.Strictness != "strict" || len(l.Profile.Remind.Via) != 2 || l.Settings("").NewPerDay != 7 {
		t.Fatalf("%+v", l.Profile)
	}
	if p := b.Post("/learn/settings", "time_zone", "Moon/Base"); p.Status != 422 || !p.Has("There is no time zone “Moon/Base”", `value="Moon/Base"`) {
		t.Fatalf("%d: %s", p.Status, p.Text)
	}
	if p := b.Ask(http.MethodPost, "/learn/settings", "via", "webhook"); p.Status != 422 || p.Has("<html") {
		t.Fatalf("%d: %s", p.Status, p.Text)
	}
	if p := b.Ask(http.MethodPost, "/learn/settings"); !p.Has("Saved.") {
		t.Fatalf("%d: %s", p.Status, p.Text)
	}
	if l, err = r.points.Learner(t.Context(), r.Person.ID); err != nil || l.Profile.Zone != "" || l.Profile.Remind.At != "" || l.Settings("").NewPerDay != 20 {
		t.Fatalf("%+v, %v", l.Profile, err)
	}
}

// file is a form with a file in it.
func file(t *testing.T, name, text string, fields ...string) (body []byte, kind string) {
	t.Helper()
	var out bytes.Buffer
	w := multipart.NewWriter(&out)
	for i := 0; i+1 < len(fields); i += 2 {
		if err := w.WriteField(fields[i], fields[i+1]); err != nil {
			t.Fatal(err)
		}
	}
	part, err := w.CreateFormFile("file", name)
	if err != nil {
		t.Fatal(err)
	}
	part.Write([]byte(text)) //nolint:errcheck // into memory
	w.Close()                //nolint:errcheck // the same
	return out.Bytes(), w.FormDataContentType()
}

// send sends a file as a browser does, with a script or without.
func send(t *testing.T, r *rig, b *consoletest.Browser, script bool, name, text string, fields ...string) consoletest.Page {
	t.Helper()
	body, kind := file(t, name, text, fields...)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.URL+"/learn/import", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", kind)
	if script {
		req.Header.Set("HX-Request", "true")
	}
	resp, err := b.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var out bytes.Buffer
	if _, err := out.ReadFrom(resp.Body); err != nil {
		t.Fatal(err)
	}
	return consoletest.Page{Status: resp.StatusCode, Text: out.String(), Header: resp.Header}
}

// Files come in, all or nothing, and go out again.
func TestFiles(t *testing.T) {
	r := newRig(t)
	b := r.As(r.Person)
	const words = "question,answer,tags\nHund?,dog,german\nKatze?,cat,german\n"
	if p := send(t, r, b, false, "words.csv", words, "deck", "German", "dry", "1"); !p.Has("It would import: 2 added", "New decks: German") {
		t.Fatalf("%d: %s", p.Status, p.Text)
	}
	if p := send(t, r, b, true, "words.csv", words, "deck", "German"); !p.Has("Imported: 2 added", "progress") || p.Has("<html") {
		t.Fatalf("%d: %s", p.Status, p.Text)
	}
	if p := send(t, r, b, false, "words.csv", words, "deck", "German"); !p.Has("Imported: 0 added, 0 changed, 2 as they were") {
		t.Fatalf("%d: %s", p.Status, p.Text)
	}
	bad := "question,answer\nMaus?,mouse\n,nobody asks\n"
	if p := send(t, r, b, true, "more.csv", bad); !p.Has("Nothing was imported", "Rows in which something is wrong (1)", "Row ") {
		t.Fatalf("%d: %s", p.Status, p.Text)
	}
	if p := send(t, r, b, true, "more.csv", bad, "skip", "1"); !p.Has("Imported: 1 added") {
		t.Fatalf("%d: %s", p.Status, p.Text)
	}
	if p := send(t, r, b, false, "empty.csv", ""); p.Status != 422 || !p.Has("Choose a file") {
		t.Fatalf("%d: %s", p.Status, p.Text)
	}
	if p := send(t, r, b, false, "x.apkg", "no package"); p.Status != 422 || !p.Has("The file cannot be read") {
		t.Fatalf("%d: %s", p.Status, p.Text)
	}
	if p := send(t, r, b, true, "big.csv", strings.Repeat("a,b\n", largest/4+100)); p.Status != http.StatusRequestEntityTooLarge || !p.Has("larger than 4 MiB") {
		t.Fatalf("%d: %.200s", p.Status, p.Text)
	}
	for format, want := range map[string]string{"csv": "Hund?", "md": "Hund?", "json": "patchbay_learn", "apkg": "PK"} {
		if p := b.Get("/learn/export?format=" + format); p.Status != 200 || !p.Has(want) || !strings.Contains(p.Header.Get("Content-Disposition"), "attachment") {
			t.Errorf("%s: %d %.100s", format, p.Status, p.Text)
		}
	}
	if p := b.Get("/learn/export?format=exe"); p.Status != 422 {
		t.Fatalf("%d", p.Status)
	}
}

// Whoever reads Chinese is told in Chinese what is wrong with a file, with its rows, and
// with settings.
func TestWrongInChinese(t *testing.T) {
	r := newRig(t)
	b := r.As(r.Person)
	site, err := url.Parse(r.URL)
	if err != nil {
		t.Fatal(err)
	}
	b.Jar.SetCookies(site, []*http.Cookie{{Name: "patchbay-lang", Value: "zh"}})
	bad := "question,answer\nMaus?,mouse\n,nobody asks\n" + strings.Repeat("x", learning.MaxText+1) + ",long\n"
	for _, script := range []bool{true, false} {
		if p := send(t, r, b, script, "more.csv", bad); !p.Has("问题是空的", "问题超过 64 KiB") || p.Has("is empty") || p.Has("longer than") {
			t.Errorf("with a script %t: %d %s", script, p.Status, p.Text)
		}
	}
	for name, want := range map[string]string{"x.apkg": "这个 Anki 包已损坏：它不是 ZIP 文件，或者缺了结尾", "x.json": "它中途就结束了；复制完整了吗？", "x.csv": "却没有写列名的一行"} {
		text := "a,b,c\n"
		if name == "x.json" {
			text = `[{"question"`
		}
		if p := send(t, r, b, false, name, text); p.Status != 422 || !p.Has("这个文件读不了：", want) || p.Has("the file cannot be read") {
			t.Errorf("%s: %d %s", name, p.Status, p.Text)
		}
	}
	if p := b.Post("/learn/settings", "weights", strings.Repeat("200,", 20)+"200"); p.Status != 422 || !p.Has("weights：w0 是 200；要在 0.001 到 100 之间") {
		t.Errorf("%d %s", p.Status, p.Text)
	}
	if p := b.Post("/learn/settings", "day_start", "noon"); p.Status != 422 || !p.Has("&#34;noon&#34; 不是") {
		t.Errorf("%d %s", p.Status, p.Text)
	}
}

// One person never sees or touches what is another's.
func TestOthers(t *testing.T) {
	r := newRig(t)
	e := r.add(t, r.Person.ID, learning.Draft{Question: "ada's secret question", Answer: "ada's secret answer", Deck: "Adas", Tags: []string{"adatag"}})[0]
	l, err := r.points.Learner(t.Context(), r.Person.ID)
	if err != nil {
		t.Fatal(err)
	}
	deck, _ := l.DeckID("Adas")
	open := e.Open().ID
	b := r.As(r.Bob)
	for _, path := range []string{"/learn/points/" + e.ID, "/learn/decks/" + deck, "/learn/points?deck=" + deck, "/learn/review?deck=" + deck} {
		if p := b.Get(path); p.Status != 404 || p.Has("ada's") || p.Has("Adas") {
			t.Errorf("GET %s: %d", path, p.Status)
		}
	}
	for _, path := range []string{"/learn", "/learn/points", "/learn/points?q=secret", "/learn/points?tag=adatag", "/learn/decks", "/learn/tags", "/learn/stats", "/learn/export?format=json", "/learn/review?ask=" + e.ID, "/learn/import", "/learn/settings"} {
		if p := b.Get(path); p.Status != 200 || p.Has("ada's") || p.Has("Adas") || p.Has("#adatag") {
			t.Errorf("GET %s: %d", path, p.Status)
		}
	}
	card := []string{"point", e.ID, "sitting", open, "review", "r1", "grade", "1"}
	for _, path := range []string{"/learn/review/reveal", "/learn/review/judge", "/learn/review/grade", "/learn/review/rest", "/learn/review/tomorrow"} {
		if p := b.Post(path, card...); p.Has("ada's") {
			t.Errorf("POST %s: %d %s", path, p.Status, p.Text)
		}
	}
	for _, path := range []string{"", "/due", "/confirm", "/delete", "/restore"} {
		if p := b.Post("/learn/points/"+e.ID+path, "question", "mine", "answer", "mine", "deck", "default", "due", "2099-01-01"); p.Status != 404 || p.Has("ada's") {
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
	if p := r.Stranger().Get("/learn/points/" + e.ID); p.Has("ada's") {
		t.Fatal(p.Text)
	}
}

// Nothing that an address or a form says breaks a page.
func TestNonsense(t *testing.T) {
	r := newRig(t)
	r.add(t, r.Person.ID, learning.Draft{Question: "Q", Answer: "A"})
	b := r.As(r.Person)
	for _, q := range []string{"after=nonsense", "after=e30", "state=nonsense", "q=" + strings.Repeat("x", 5000), "deck=nonsense", "gone=" + url.QueryEscape(`../"x`)} {
		if p := b.Get("/learn/points?" + q); p.Status != 200 && p.Status != 404 {
			t.Errorf("%.40s: %d", q, p.Status)
		}
	}
	for _, q := range []string{"done=-5&again=x&steps=a+b+c&began=99999999999&told=nonsense", "steps=" + strings.Repeat("r1+", 100), "tag=none"} {
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
