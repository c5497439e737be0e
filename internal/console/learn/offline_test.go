package learn_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"patchbay/internal/account"
	"patchbay/internal/console/browsertest"
	learning "patchbay/internal/plug/learn"
	"patchbay/internal/proxytest"
	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

// device is a browser that reviews without the server, through a proxy that a test cuts.
type device struct {
	*browsertest.Browser
	t *testing.T
}

// newDevice opens the page and waits until everything is kept.
func newDevice(t *testing.T, r *rig, c *browsertest.Chromium, address string) *device {
	t.Helper()
	token, err := r.Accounts.Admit(t.Context(), r.Person, account.Browser{Agent: "test"})
	if err != nil {
		t.Fatal(err)
	}
	d := &device{c.Window(t, address), t}
	for _, text := range []string{"net::ERR_", "Failed to load resource", "status of 50"} {
		d.AllowProblem(text) // the server is gone
	}
	d.Cookie("patchbay", token)
	d.Cookie("patchbay-lang", "en")
	d.Open("/learn/offline")
	d.WaitText("#pocket", "All reviews are sent")
	d.WaitUntil("pocket.page.state.queue")
	d.Script("navigator.serviceWorker.ready")
	d.WaitUntil("navigator.serviceWorker.controller")
	return d
}

// follow opens a page as a link does. Without a server, the navigation of the DevTools protocol
// does not reach the service worker, which that of people does.
func (d *device) follow(path string) {
	d.t.Helper()
	d.Script(fmt.Sprintf("window.left = true; setTimeout(() => location.assign(%q))", path))
	d.WaitUntil("!window.left && document.readyState === 'complete'")
}

// study reviews so many times, by the buttons, from a time on. Where nothing is left, some
// hours pass.
const study = `window.study = async (n, from) => {
  let now = from;
  pocket.store.now = () => now;
  await pocket.page.load();
  const press = key => document.querySelector('[data-key~="' + key + '"]');
  const until = async done => { while (!done()) await new Promise(go => setTimeout(go, 1)); };
  for (let i = 0; i < n; i++) {
    const count = pocket.page.state.waiting;
    for (let tries = 0; !press("Space"); tries++) {
      if (tries > 200) throw new Error("nothing is left at " + new Date(now));
      now += 7200000;
      await pocket.page.load();
    }
    now += 15000;
    press("Space").click();
    await until(() => press(1));
    press([1, 2, 3, 3, 3, 4][i * 7 % 6]).click();
    await until(() => pocket.page.state.waiting > count && !press(1));
    now += i % 36 === 35 ? 85000000 : 5000; // goes on the next day
  }
  return now;
};`

// made are the reviews that a device keeps.
type made struct {
	ID    string
	Point string
	At    int64
	Grade store.Grade
	Sent  bool
}

func (d *device) reviews() []made {
	d.t.Helper()
	text := browsertest.Evaluate[string](d.Browser,
		"pocket.store.reviews(pocket.page.state.queue.pack.person).then(JSON.stringify)")
	var out []made
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		d.t.Fatal(err)
	}
	return out
}

// Two devices are offline for a week. Everything that was reviewed on them arrives once, and leads
// to the state to which it would have led online.
func TestTwoDevicesOffline(t *testing.T) {
	browsertest.Path(t)
	r := newRig(t)
	start := time.Now().Truncate(time.Second)
	settings := json.RawMessage(`{"defaults": {"new_per_day": 40, "balance": false, "bury": false}}`)
	questions := func(s *learning.Service, person string) map[string]string {
		t.Helper()
		if _, err := s.SaveProfile(t.Context(), person, settings, nil); err != nil {
			t.Fatal(err)
		}
		out := map[string]string{}
		for i := range 260 {
			q := fmt.Sprintf("Question **%03d**", i)
			list, err := s.Create(t.Context(), person, []learning.Draft{{Question: q, Answer: "Answer <i>" + q + "</i>"}})
			if err != nil {
				t.Fatal(err)
			}
			out[q] = list[0].Entry.ID
		}
		return out
	}
	questions(r.points, r.Person.ID)
	proxy := proxytest.New(t, strings.TrimPrefix(r.URL, "http://"))
	chromium := &browsertest.Chromium{}
	t.Cleanup(chromium.Stop)
	a := newDevice(t, r, chromium, "http://"+proxy.Addr())
	b := newDevice(t, r, chromium, "http://"+proxy.Addr())
	proxy.Cut()
	// The pages open without the server, the others of Learn, too.
	a.follow("/learn/offline")
	a.WaitText(".question", "Question 000")
	a.WaitText("#pocket", "The server cannot be reached")
	b.SetWidth(390)
	b.follow("/learn")
	b.WaitText(".question", "Question 000")
	var all []made
	for i, d := range []*device{a, b} {
		d.Script(study)
		browsertest.Evaluate[float64](d.Browser, fmt.Sprintf("study(260, %d)", start.UnixMilli()+int64(i)*7_001))
		d.WaitText("#pocket-waiting", "260")
		list := d.reviews()
		if span := list[len(list)-1].At - list[0].At; len(list) != 260 || span < 6.9*86_400_000 {
			t.Fatalf("%d reviews in %d ms", len(list), span)
		}
		all = append(all, list...)
	}
	if width := browsertest.Evaluate[int](b.Browser, "document.documentElement.scrollWidth"); width > 390 {
		t.Errorf("the page is %d wide", width)
	}

	// The server is back, after a week.
	r.later(9 * 24 * time.Hour)
	proxy.Pass()
	for _, d := range []*device{b, a} {
		d.Open("/learn/offline")
		d.WaitText("#pocket-waiting", "All reviews are sent")
		if left := slices.DeleteFunc(d.reviews(), func(m made) bool { return m.Sent }); len(left) > 0 {
			t.Errorf("left: %+v", left)
		}
	}
	compareWithOnline(t, r, all, questions)
}

// compareWithOnline fails unless the points are in the state to which the reviews lead online.
func compareWithOnline(t *testing.T, r *rig, all []made, questions func(*learning.Service, string) map[string]string) {
	t.Helper()
	slices.SortFunc(all, func(a, b made) int { return cmp.Or(cmp.Compare(a.At, b.At), strings.Compare(a.ID, b.ID)) })
	db := storetest.SQLite(t)
	if err := db.People.Add(t.Context(), store.Person{ID: "ada", Name: "ada", Role: "user", Lang: "en", Created: r.now}); err != nil {
		t.Fatal(err)
	}
	now := r.now.Add(-9 * 24 * time.Hour)
	online := learning.New(learning.Options{Store: db, Zone: time.UTC, Now: func() time.Time { return now }})
	ids := questions(online, "ada")
	names := map[string]string{} // questions by the IDs of points
	cards := func(s *learning.Service, person string) map[string]store.Card {
		out := map[string]store.Card{}
		list, err := s.List(t.Context(), person, store.PointFilter{}, store.PointKey{}, 500)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range list {
			names[e.ID], out[e.Question] = e.Question, e.Card
			if e.Card.Phase == store.New {
				delete(out, e.Question)
			}
		}
		return out
	}
	got := cards(r.points, r.Person.ID)
	for _, m := range all {
		now = time.UnixMilli(m.At)
		if _, err := online.Submit(t.Context(), "ada", learning.Submission{Point: ids[names[m.Point]], ID: m.ID,
			Grade: m.Grade, Score: -1, Channel: "console", Early: true}); err != nil {
			t.Fatal(err)
		}
	}
	if diff := gocmp.Diff(cards(online, "ada"), got); diff != "" {
		t.Errorf("online (-) and merged (+):\n%.3000s", diff)
	}
	log, err := r.Store.Learn.Log(t.Context(), r.Person.ID, 0, time.Time{}, "", 1000)
	if err != nil || len(log) != len(all) {
		t.Errorf("%d entries, %v; %d reviews", len(log), err, len(all))
	}
	work := func(db *store.DB, person string) []store.DayWork {
		list, err := db.Learn.Work(t.Context(), person, 0)
		if err != nil {
			t.Fatal(err)
		}
		for i := range list {
			list[i].Took = 0
		}
		return list
	}
	if diff := gocmp.Diff(work(db, "ada"), work(r.Store, r.Person.ID)); diff != "" {
		t.Errorf("days online (-) and merged (+):\n%s", diff)
	}
}

// Where the session has ended, the page says so and keeps what was reviewed. Taking a step back
// works by keyboard. Signing out deletes what the device kept, after a question.
func TestOfflineSession(t *testing.T) {
	browsertest.Path(t)
	r := newRig(t)
	r.add(t, r.Person.ID, learning.Draft{Question: "Capital of **France**?", Answer: "Paris"},
		learning.Draft{Question: "Largest planet?", Answer: "Jupiter"})
	chromium := &browsertest.Chromium{}
	t.Cleanup(chromium.Stop)
	d := newDevice(t, r, chromium, r.URL)
	d.AllowProblem("401")
	d.WaitText(".question", "Capital of France?")
	d.Press(" ")
	d.WaitText(".answer", "Paris")
	d.Press("4")
	d.WaitText(".question", "Largest planet?")
	d.WaitText("#pocket-waiting", "All reviews are sent")
	d.Press("u")
	d.WaitText(".answer", "Paris")
	d.WaitUntil("pocket.page.state.waiting === 0")
	s, err := r.points.Stats(t.Context(), r.Person.ID, 1, 0)
	if err != nil || s.Done.Reviews != 0 || s.Left.New != 2 {
		t.Fatalf("%+v, %v", s.Done, err)
	}
	// Another device is signed in, so that this one can be signed out.
	list, err := r.Accounts.SignIns(t.Context(), r.Person.ID)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range list {
		if err := r.Accounts.SignOut(t.Context(), r.Person.ID, v.ID); err != nil {
			t.Fatal(err)
		}
	}
	d.Press("4")
	d.WaitText("#pocket", "You are signed out on this device. Nothing is lost")
	d.WaitText("#pocket-waiting", "Reviews waiting to be sent: 1")
	d.Open("/learn/offline") // leads to the page for signing in
	d.WaitUntil(`location.pathname === "/signin"`)
}

// The routes of the script answer scripts.
func TestOfflineRoutes(t *testing.T) {
	r := newRig(t)
	id := r.add(t, r.Person.ID, learning.Draft{Question: "Q", Answer: "A <script>alert(1)</script>"})[0].ID
	b, nobody := r.SignedInAs(r.Person), r.Anonymous()
	for _, path := range []string{"/learn/offline/queue", "/learn/offline/reviews"} {
		p := nobody.Get(path)
		if strings.HasSuffix(path, "reviews") {
			p = nobody.Post(path)
		}
		if p.Status != http.StatusUnauthorized {
			t.Errorf("%s: %d", path, p.Status)
		}
	}
	p := b.Get("/learn/offline/queue")
	var pack learning.Pack
	if err := json.Unmarshal([]byte(p.Text), &pack); err != nil || p.Status != 200 || len(pack.Cards) != 1 {
		t.Fatalf("%v in %d %s", err, p.Status, p.Text)
	}
	if c := pack.Cards[0]; c.Question != "<p>Q</p>\n" || strings.Contains(c.Answer, "<script") {
		t.Errorf("%+v", c)
	}
	send := func(body string) (int, string) {
		t.Helper()
		res, err := b.Client.Post(r.URL+"/learn/offline/reviews", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		var text struct {
			Error   string
			Results []struct{ Status string }
		}
		if err := json.NewDecoder(res.Body).Decode(&text); err != nil {
			t.Fatal(err)
		}
		for _, v := range text.Results {
			text.Error += v.Status
		}
		return res.StatusCode, text.Error
	}
	review := fmt.Sprintf(`{"review_id": "x", "knowledge_point_id": %q, "grade": 3, "at": %q}`, id,
		r.clock().Format(time.RFC3339Nano))
	for body, want := range map[string]string{
		`{"person": "` + r.Person.ID + `", "reviews": [` + review + `]}`: "200 counted",
		`{"person": "somebody", "reviews": [` + review + `]}`:            "409",
		`{"reviews": `:    "422",
		`{"reviews": []}`: "200 ",
	} {
		status, text := send(body)
		if !strings.HasPrefix(fmt.Sprintf("%d %s", status, text), want) {
			t.Errorf("%s: %d %s", body, status, text)
		}
	}
	// Other sites cannot send reviews.
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.URL+"/learn/offline/reviews", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Sec-Fetch-Site", "cross-site")
	if res, err := b.Do(req); err != nil || res.StatusCode != http.StatusForbidden {
		t.Errorf("cross-site: %v, %v", res, err)
	} else {
		res.Body.Close()
	}
	for path, want := range map[string]string{"/learn/worker.js": "const VERSION", "/learn/manifest.webmanifest": `"start_url":"/learn/offline"`} {
		if p := nobody.Get(path); p.Status != 200 || !p.Contains(want) {
			t.Errorf("%s: %d %s", path, p.Status, p.Text)
		}
	}
}

// Signing out deletes what the device kept, after a question if reviews wait.
func TestSignOutForgets(t *testing.T) {
	browsertest.Path(t)
	r := newRig(t)
	r.add(t, r.Person.ID, learning.Draft{Question: "Q", Answer: "A"})
	chromium := &browsertest.Chromium{}
	t.Cleanup(chromium.Stop)
	d := newDevice(t, r, chromium, r.URL)
	d.Open("/learn")
	d.Script(`new Promise((done, failed) => { // a review that was not sent
		const open = indexedDB.open("patchbay-learn");
		open.onsuccess = () => {
			const tx = open.result.transaction("reviews", "readwrite");
			tx.objectStore("reviews").add({ id: "x", person: "somebody", at: 1, sent: false, refused: "" });
			tx.oncomplete = () => { open.result.close(); done(); };
		};
	})`)
	d.Click(`form[action="/signout"] button`)
	d.WaitText("dialog.agree", "have not reached the server")
	d.Click("dialog.agree button")
	d.WaitUntil(`!document.querySelector("dialog.agree")`)
	d.Click(`form[action="/signout"] button`)
	d.Click("dialog.agree .bad")
	d.WaitUntil(`location.pathname === "/signout"`)
	d.Open("/learn")
	kept := browsertest.Evaluate[string](d.Browser, `(async () => JSON.stringify([await indexedDB.databases(),
		await caches.keys(), (await navigator.serviceWorker.getRegistrations()).length]))()`)
	if kept != "[[],[],0]" {
		t.Errorf("it keeps %s", kept)
	}
}
