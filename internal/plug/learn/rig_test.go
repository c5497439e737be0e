package learn

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
	"patchbay/internal/tool"
)

func TestMain(m *testing.M) { storetest.Main(m) }

var ctx = context.Background()

// rig is a service on a database, with a clock that the test controls.
type rig struct {
	*Service
	t   testing.TB
	now time.Time
}

// shanghai is 2026-11-22, 07:30 in Shanghai.
var shanghai = time.Date(2026, 11, 21, 23, 30, 0, 0, time.UTC)

func newRig(t testing.TB, o store.Options) *rig {
	t.Helper()
	r := &rig{t: t, now: shanghai}
	db := storetest.Open(t, o)
	for _, person := range []string{"ada", "bob"} {
		r.must(db.People.Add(ctx, store.Person{ID: person, Name: person, Role: "user", Lang: "zh", Created: r.now}))
	}
	zone, err := time.LoadLocation("Asia/Shanghai")
	r.must(err)
	r.Service = New(Options{Store: db, Zone: zone, Now: func() time.Time { return r.now }})
	return r
}

func each(t *testing.T, run func(t *testing.T, r *rig)) {
	storetest.Each(t, func(t *testing.T, o store.Options) { run(t, newRig(t, o)) })
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// at sets the clock to a time in Shanghai.
func (r *rig) at(text string) {
	r.t.Helper()
	now, err := time.ParseInLocation("2006-01-02 15:04", text, r.Zone)
	r.must(err)
	r.now = now
}

// call calls a tool for a person and decodes the structured content.
func (r *rig) call(person, name, args string, into any) *tool.Result {
	r.t.Helper()
	res, err := (&Provider{r.Service}).Call(ctx, &tool.Call{Tool: name, Args: json.RawMessage(args),
		Caller: tool.Caller{Person: person, Channel: "test"}})
	if err != nil {
		r.t.Fatalf("%s %s: %v", name, args, err)
	}
	if into != nil {
		if res.IsError {
			r.t.Fatalf("%s %s: %s", name, args, res.PlainText())
		}
		if err := json.Unmarshal(res.Structured, into); err != nil {
			r.t.Fatalf("%s: %v in %s", name, err, res.Structured)
		}
	}
	return res
}

// refusal calls a tool that must fail, and returns the text of the error.
func (r *rig) refusal(person, name, args string) string {
	r.t.Helper()
	res, err := (&Provider{r.Service}).Call(ctx, &tool.Call{Tool: name, Args: json.RawMessage(args),
		Caller: tool.Caller{Person: person, Channel: "test"}})
	switch {
	case err != nil:
		return tool.AsError(err).Told
	case !res.IsError:
		r.t.Fatalf("%s %s is not refused: %s", name, args, res.PlainText())
	}
	return res.PlainText()
}

func (r *rig) add(person string, d Draft) *Entry {
	r.t.Helper()
	made, err := r.Create(ctx, person, []Draft{d})
	r.must(err)
	r.must(made[0].Err)
	return &made[0].Entry
}

func (r *rig) settings(person, changes string) {
	r.t.Helper()
	_, err := r.SaveProfile(ctx, person, json.RawMessage(changes), nil)
	r.must(err)
}

func (r *rig) due(person string) []string {
	r.t.Helper()
	q, err := r.Queue(ctx, person, QueueFilter{Limit: 100})
	r.must(err)
	var out []string
	for _, e := range q.Entries {
		out = append(out, e.Question)
	}
	return out
}

func (r *rig) grade(person, id string, g store.Grade) *Outcome {
	r.t.Helper()
	out, err := r.Submit(ctx, person, Submission{Point: id, Grade: g, Score: -1})
	r.must(err)
	return out
}
