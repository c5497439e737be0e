package remind

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/plug/learn"
	"patchbay/internal/plug/learn/schedule"
	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m) }

var ctx = context.Background()

// rig is a service with a clock, and a sender that records messages.
type rig struct {
	*learn.Service
	t  *testing.T
	db *store.DB

	mu   sync.Mutex
	now  time.Time
	sent []Message
	fail error
}

func newRig(t *testing.T, o store.Options, now string) *rig {
	t.Helper()
	r := &rig{t: t, db: storetest.Open(t, o)}
	r.at(now)
	for _, p := range [][2]string{{"ada", "zh"}, {"bob", "en"}, {"eve", "en"}} {
		r.must(r.db.People.Add(ctx, store.Person{ID: p[0], Name: p[0], Role: "member", Lang: p[1], Created: r.now}))
	}
	r.Service = learn.New(learn.Options{Store: r.db, Zone: time.UTC, Now: r.clock})
	return r
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// at sets the clock, in UTC.
func (r *rig) at(text string) {
	r.t.Helper()
	now, err := time.Parse("2006-01-02 15:04", text)
	r.must(err)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now = now
}

func (r *rig) clock() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now
}

func (r *rig) add(person string, n int) {
	r.t.Helper()
	var drafts []learn.Draft
	for i := range n {
		drafts = append(drafts, learn.Draft{Question: fmt.Sprintf("q%d", i), Answer: "a"})
	}
	_, err := r.Create(ctx, person, drafts)
	r.must(err)
}

func (r *rig) wish(person string, p learn.Profile) {
	r.t.Helper()
	text, err := json.Marshal(p)
	r.must(err)
	r.must(r.db.Learn.SaveLearner(ctx, person, text))
}

func (r *rig) options() *Options {
	return &Options{Store: r.db, Service: r.Service, Senders: Senders{"glasses": r.way}, Now: r.clock}
}

func (r *rig) way(_ context.Context, person string, m Message) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m.Person != person {
		r.t.Errorf("a message for %s was sent to %s", m.Person, person)
	}
	r.sent = append(r.sent, m)
	return r.fail
}

// looks runs one check and returns who was reminded.
func (r *rig) looks(o *Options) (who []string) {
	r.t.Helper()
	o.Logger = learn.New(learn.Options{}).Logger
	r.must(o.remindDue(ctx))
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range r.sent {
		who = append(who, m.Person)
	}
	slices.Sort(who)
	r.sent = nil
	return who
}

func (r *rig) wants(now string, want ...string) {
	r.t.Helper()
	r.at(now)
	if got := r.looks(r.options()); !slices.Equal(got, want) {
		r.t.Fatalf("at %s %v were reminded, want %v", now, got, want)
	}
}

func glasses(zone, at string) learn.Profile {
	return learn.Profile{Zone: zone, Remind: learn.Remind{At: at, Via: []string{"glasses"}}}
}

func TestReminders(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		r := newRig(t, o, "2026-11-20 09:00")
		r.add("ada", 3)
		r.add("bob", 1)
		r.wish("ada", glasses("Asia/Shanghai", "20:00")) // 12:00 UTC
		r.wish("bob", glasses("Europe/Berlin", "01:30")) // 00:30 UTC of the next date
		r.wish("eve", glasses("UTC", "08:00"))           // has no points
		r.wants("2026-11-20 11:59")
		r.wants("2026-11-20 12:00", "ada")
		r.wants("2026-11-20 12:01")
		r.wants("2026-11-20 20:00")
		// At 01:30 it is still the previous day.
		r.wants("2026-11-21 00:29")
		r.wants("2026-11-21 00:30", "bob")
		r.wants("2026-11-21 03:30") // a new day for bob, whose reminder time is at its end
		// The server was down at the reminder time, and the day has not ended.
		r.wants("2026-11-21 19:59", "ada") // 03:59 in Shanghai
		r.wants("2026-11-21 20:00")
		// Nothing was due at the reminder time; points added later wait for tomorrow.
		r.add("eve", 1)
		r.wants("2026-11-21 21:00")
		r.wants("2026-11-22 08:00", "eve")
		r.wants("2026-11-22 12:00", "ada") // bob's night was missed, and is over
		r.wants("2026-11-23 00:30", "bob")
	})
}

func TestWhatIsSaid(t *testing.T) {
	r := newRig(t, store.Options{Folder: t.TempDir()}, "2026-11-20 20:00")
	r.add("ada", 3)
	r.add("bob", 1)
	p := glasses("", "20:00")
	p.Remind.Webhook = "https://example.com/hook"
	r.wish("ada", p)
	r.wish("bob", glasses("", "20:00"))
	o := r.options()
	o.Logger = learn.New(learn.Options{}).Logger
	r.must(o.remindDue(ctx))
	slices.SortFunc(r.sent, func(a, b Message) int { return int(a.Person[0]) - int(b.Person[0]) })
	want := []Message{
		{"learn-2026-11-20-ada", "ada", i18n.Chinese, "该复习了", "今天有 3 题要复习，其中 3 题是新的。说“开始复习”就开始。", 3, 3,
			"https://example.com/hook"},
		{"learn-2026-11-20-bob", "bob", i18n.English, "Time to review",
			"1 to review today, 1 of them new. Say “quiz me” to begin.", 1, 1, ""},
	}
	if !slices.Equal(r.sent, want) {
		t.Fatalf("sent %+v", r.sent)
	}
}

// Several instances that check concurrently send one reminder.
func TestOnceOverInstances(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		r := newRig(t, o, "2026-11-20 20:00")
		r.add("ada", 3)
		r.wish("ada", glasses("", "20:00"))
		var looking sync.WaitGroup
		for range 6 {
			looking.Go(func() {
				o := r.options()
				o.Logger = learn.New(learn.Options{}).Logger
				if err := o.remindDue(ctx); err != nil {
					t.Error(err)
				}
			})
		}
		looking.Wait()
		if len(r.sent) != 1 {
			t.Fatalf("%d reminders", len(r.sent))
		}
	})
}

func TestWaysThatFail(t *testing.T) {
	r := newRig(t, store.Options{Folder: t.TempDir()}, "2026-11-20 20:00")
	r.add("ada", 1)
	p := glasses("", "20:00")
	p.Remind.Via = []string{"pigeon", "webhook", "calendar", "glasses", "glasses"}
	r.wish("ada", p)
	o := r.options()
	tried := 0
	o.Senders["webhook"] = func(ctx context.Context, _ string, _ Message) error {
		if _, ok := ctx.Deadline(); !ok {
			t.Error("a way has no time limit")
		}
		tried++
		return errors.New("no")
	}
	o.Senders["calendar"] = func(context.Context, string, Message) error {
		t.Error("a calendar is not sent")
		return nil
	}
	if got := r.looks(o); !slices.Equal(got, []string{"ada"}) || tried != 1 {
		t.Fatalf("%v, webhook %d times", got, tried)
	}
	// A failed delivery is not repeated on that day.
	r.fail = errors.New("no")
	r.wants("2026-11-20 20:01")
	// Nothing is sent to people who only subscribe to a calendar.
	r.at("2026-11-21 20:00")
	p.Remind.Via = []string{"calendar"}
	r.wish("ada", p)
	if got := r.looks(o); len(got) != 0 || tried != 1 {
		t.Fatalf("%v, webhook %d times", got, tried)
	}
}

func TestRun(t *testing.T) {
	r := newRig(t, store.Options{Folder: t.TempDir()}, "2026-11-20 19:59")
	r.add("ada", 1)
	r.wish("ada", glasses("", "20:00"))
	// does not delay others
	r.wish("bob", learn.Profile{Zone: "Nowhere/Atall", Remind: learn.Remind{At: "soon", Via: []string{"glasses"}}})
	o := r.options()
	o.Interval = time.Millisecond
	sent := make(chan Message, 10)
	release := make(chan struct{})
	o.Senders["glasses"] = func(ctx context.Context, _ string, m Message) error {
		sent <- m
		<-release
		return ctx.Err()
	}
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- Run(running, *o) }()
	r.at("2026-11-20 20:00")
	if m := <-sent; m.Person != "ada" {
		t.Fatalf("sent %+v", m)
	}
	stop()
	select {
	case <-ended:
		t.Fatal("it ended before what it does had ended")
	default:
	}
	close(release)
	r.must(<-ended)
	if len(sent) != 0 {
		t.Fatal("it was sent twice")
	}
}

// Reminder times on days with a clock change.
func TestMoment(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ day, at, want string }{
		{"2026-03-28", "20:00", "2026-03-28T20:00:00+01:00"},
		{"2026-03-29", "20:00", "2026-03-29T20:00:00+02:00"},
		{"2026-03-28", "02:30", "2026-03-29T03:00:00+02:00"}, // this time does not exist that night
		{"2026-10-24", "02:30", "2026-10-25T02:30:00+02:00"}, // this time occurs twice that night
		{"2026-10-25", "03:59", "2026-10-26T03:59:00+01:00"},
		{"2026-10-25", "04:00", "2026-10-25T04:00:00+01:00"},
		{"2026-10-25", "00:00", "2026-10-26T00:00:00+01:00"},
	} {
		day, err := store.ParseDay(c.day)
		if err != nil {
			t.Fatal(err)
		}
		got, err := TimeOnDay(schedule.Calendar{Zone: berlin, Start: 4 * time.Hour}, day, c.at)
		if err != nil || got.Format(time.RFC3339) != c.want {
			t.Errorf("%s of %s is %s, %v; want %s", c.at, c.day, got.Format(time.RFC3339), err, c.want)
		}
	}
	for _, at := range []string{"", "8", "24:00", "20:60", "soon"} {
		if _, err := TimeOnDay(schedule.Calendar{}, 0, at); err == nil {
			t.Errorf("%q is a time", at)
		}
	}
}

// Across clock changes a reminder still comes once a day, at the chosen local time.
func TestRemindersOverChangesOfTheClock(t *testing.T) {
	for _, from := range []string{"2026-03-27", "2026-10-23"} {
		r := newRig(t, store.Options{Folder: t.TempDir()}, from+" 00:00")
		r.add("ada", 1)
		r.wish("ada", glasses("Europe/Berlin", "02:30"))
		berlin, err := time.LoadLocation("Europe/Berlin")
		r.must(err)
		var walls []string
		o := r.options()
		for range 4 * 24 * 6 {
			r.mu.Lock()
			r.now = r.now.Add(10 * time.Minute)
			r.mu.Unlock()
			for range r.looks(o) {
				walls = append(walls, r.clock().In(berlin).Format("02 15:04"))
			}
		}
		want := map[string][]string{
			"2026-03-27": {"27 02:30", "28 02:30", "29 03:00", "30 02:30"},
			"2026-10-23": {"23 02:30", "24 02:30", "25 02:30", "26 02:30"},
		}[from]
		if !slices.Equal(walls, want) {
			t.Errorf("from %s on, reminders came at %v, want %v", from, walls, want)
		}
	}
}
