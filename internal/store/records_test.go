package store_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

// recorded opens a database with turns and calls of two people.
func recorded(t *testing.T, o store.Options) *store.DB {
	t.Helper()
	db := seeded(t, o)
	must(t, db.People.Add(ctx, store.Person{ID: "p2", Name: "bob", Created: now}))
	three, err := db.Bots.Add(ctx, store.Bot{Owner: "p2", Name: "three", Kind: "echo", Settings: []byte(`{}`),
		Created: now})
	must(t, err)
	var calls []store.Call
	for i := range 40 {
		at := now.Add(time.Duration(i/2) * time.Minute) // two per minute
		tr := store.Trace{
			Turn: fmt.Sprintf("turn-%02d", i), Owner: "p1", Bot: int64(1 + i%2),
			Channel: []string{"lingzhu", "mcp"}[i/20], At: at,
			First: time.Duration(i+1) * time.Millisecond, Outcome: []string{"done", "done", "failed",
				"disconnected"}[i%4], Question: "q", Answer: "a",
		}
		c := store.Call{
			ID: fmt.Sprintf("call-%02d", i), Person: "p1", At: at,
			Tool: []string{"home_set_lamp", "home_a%b", "homestead"}[i%3], Key: fmt.Sprintf("k%d", i%2),
			Outcome: []string{"done", "tool_error", "failed", "refused", "asked"}[i%5], Args: "{}",
		}
		if i == 39 {
			tr.Owner, tr.Bot, c.Person = "p2", three.Number, "p2"
		}
		calls = append(calls, c)
		must(t, db.Traces.Finish(ctx, tr, &store.Exchange{Turn: tr.Turn, Bot: tr.Bot, Person: "w", At: at,
			Question: "q", Answer: "a"}))
	}
	must(t, db.Calls.Add(ctx, calls))
	d, err := db.Devices.Seen(ctx, store.DeviceCall{Kind: "xiaozhi", Hardware: "aa", Client: "c", At: now})
	must(t, err)
	for i := 0; i < 40; i += 5 {
		must(t, db.Recordings.Add(ctx, store.Recording{Turn: fmt.Sprintf("turn-%02d", i), Device: d.Number,
			Expires: now.Add(24 * time.Hour)}, store.RecordedSound{Question: make([]byte, i)}))
	}
	return db
}

func turnsOf(list []store.Trace) (out []string) {
	for _, tr := range list {
		out = append(out, tr.Turn[len("turn-"):])
	}
	return out
}

// With any filter, turns come newest first, page by page, and each once.
func TestFindTraces(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := recorded(t, o)
		for _, c := range []struct {
			name string
			f    store.TraceFilter
			want func(i int) bool
		}{
			{"all", store.TraceFilter{}, func(int) bool { return true }},
			{"of somebody", store.TraceFilter{Owner: "p1"}, func(i int) bool { return i < 39 }},
			{"of nobody", store.TraceFilter{Owner: "p3"}, func(int) bool { return false }},
			{"with a bot", store.TraceFilter{Owner: "p1", Bot: 2}, func(i int) bool { return i < 39 && i%2 == 1 }},
			{"with another's bot", store.TraceFilter{Owner: "p1", Bot: 3}, func(int) bool { return false }},
			{"of a channel", store.TraceFilter{Owner: "p1", Channel: "mcp"},
				func(i int) bool { return i < 39 && i >= 20 }},
			{"wrong", store.TraceFilter{Owner: "p1", Outcome: store.Wrong},
				func(i int) bool { return i < 39 && i%4 >= 2 }},
			{"failed", store.TraceFilter{Owner: "p1", Outcome: "failed"}, func(i int) bool { return i%4 == 2 }},
			{"done", store.TraceFilter{Owner: "p1", Outcome: "done"}, func(i int) bool { return i%4 < 2 }},
			{"of some minutes", store.TraceFilter{Owner: "p1", From: now.Add(3 * time.Minute),
				Until: now.Add(5 * time.Minute)}, func(i int) bool { return i >= 6 && i < 10 }},
			{"recorded", store.TraceFilter{Owner: "p1", Recorded: true}, func(i int) bool { return i < 39 && i%5 == 0 }},
			{"recorded ones of a channel", store.TraceFilter{Owner: "p1", Recorded: true, Channel: "mcp"},
				func(i int) bool { return i < 39 && i >= 20 && i%5 == 0 }},
			{"of it all", store.TraceFilter{Owner: "p1", Bot: 1, Channel: "lingzhu", Outcome: store.Wrong,
				From: now.Add(time.Minute), Until: now.Add(8 * time.Minute)},
				func(i int) bool { return i >= 2 && i < 16 && i%4 == 2 }},
		} {
			var want []string
			for i := 39; i >= 0; i-- {
				if c.want(i) {
					want = append(want, fmt.Sprintf("%02d", i))
				}
			}
			for _, limit := range []int{3, 100} {
				var got []string
				for f := c.f; ; {
					list, err := db.Traces.Find(ctx, f, limit)
					must(t, err)
					got = append(got, turnsOf(list)...)
					if len(list) < limit {
						break
					}
					last := list[len(list)-1]
					f.After = store.RecordCursor{At: last.At, ID: last.Turn}
				}
				if !slices.Equal(got, want) {
					t.Errorf("%s, %d at a time: %v, not %v", c.name, limit, got, want)
				}
			}
		}
	})
}

func TestFindCalls(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := recorded(t, o)
		for _, c := range []struct {
			name string
			f    store.CallFilter
			want func(i int) bool
		}{
			{"all", store.CallFilter{}, func(int) bool { return true }},
			{"of somebody", store.CallFilter{Person: "p2"}, func(i int) bool { return i == 39 }},
			{"a tool", store.CallFilter{Person: "p1", Tool: "homestead"}, func(i int) bool { return i%3 == 2 }},
			{"some tools", store.CallFilter{Person: "p1", Tool: "home_*"},
				func(i int) bool { return i < 39 && i%3 < 2 }},
			{"a percent sign", store.CallFilter{Person: "p1", Tool: "*%b"}, func(i int) bool { return i%3 == 1 }},
			{"a key", store.CallFilter{Person: "p1", Key: "k1"}, func(i int) bool { return i < 39 && i%2 == 1 }},
			{"wrong", store.CallFilter{Person: "p1", Outcome: store.Wrong},
				func(i int) bool { return i < 39 && i%5 > 0 && i%5 < 4 }},
			{"asked", store.CallFilter{Person: "p1", Outcome: "asked"}, func(i int) bool { return i < 39 && i%5 == 4 }},
			{"a bot's", store.CallFilter{Person: "p1", Bot: 1}, func(int) bool { return false }},
		} {
			var got, want []string
			for i := 39; i >= 0; i-- {
				if c.want(i) {
					want = append(want, fmt.Sprintf("call-%02d", i))
				}
			}
			for f := c.f; ; {
				list, err := db.Calls.Find(ctx, f, 7)
				must(t, err)
				for _, call := range list {
					got = append(got, call.ID)
				}
				if len(list) < 7 {
					break
				}
				f.After = store.RecordCursor{At: list[6].At, ID: list[6].ID}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: %v, not %v", c.name, got, want)
			}
		}
	})
}

// Of latencies from 1 to 100 ms, the median is 50 and the 95th percentile 95.
func TestCounts(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := twoPeople(t, o)
		var calls []store.Call
		for i := range 100 {
			must(t, db.Traces.Finish(ctx, store.Trace{
				Turn: fmt.Sprint(i), Owner: "p1", At: now.Add(time.Hour),
				First: time.Duration(100-i) * time.Millisecond, Outcome: []string{"done", "failed"}[i/99],
			}, nil))
			calls = append(calls, store.Call{ID: fmt.Sprint(i),
				Person: "p1", At: now.Add(time.Duration(i) * time.Minute),
				Outcome: []string{"done", "asked", "failed", "refused"}[i%4]})
		}
		for i, tr := range []store.Trace{{At: now}, {At: now, First: time.Second}, {At: now.Add(-1)},
			{At: now.Add(3 * time.Hour)}, {At: now, Owner: "p2", First: time.Hour}} {
			tr.Turn, tr.Outcome = fmt.Sprint("x", i), "done"
			if tr.Owner == "" {
				tr.Owner = "p1"
			}
			must(t, db.Traces.Finish(ctx, tr, nil))
		}
		must(t, db.Calls.Add(ctx, calls))
		until := now.Add(3 * time.Hour)
		counts, err := db.Traces.Counts(ctx, "p1", now, until, time.Hour)
		if want := []store.TurnCount{{0, "done", 2}, {1, "done", 99}, {1, "failed", 1}}; err != nil ||
			!slices.Equal(counts, want) {
			t.Errorf("%v, %v, not %v", counts, err, want)
		}
		latencies, err := db.Traces.Latencies(ctx, "p1", now, until, time.Hour)
		if want := []store.Latency{{0, 1, time.Second, time.Second},
			{1, 100, 50 * time.Millisecond, 95 * time.Millisecond}}; err != nil || !slices.Equal(latencies, want) {
			t.Errorf("%v, %v, not %v", latencies, err, want)
		}
		wrongs, err := db.Calls.CountFailed(ctx, "p1", now, until, time.Hour)
		if want := []store.SpanCount{{0, 30}, {1, 20}}; err != nil || !slices.Equal(wrongs, want) {
			t.Errorf("%v, %v, not %v", wrongs, err, want)
		}
		if all, err := db.Traces.Counts(ctx, "", now, until, time.Hour); err != nil || len(all) != 3 ||
			all[0].Turns != 3 {
			t.Errorf("everybody's: %v, %v", all, err)
		}
	})
}

// Forget deletes what was requested, and nothing of others.
func TestForget(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := recorded(t, o)
		left := func() [3]int {
			t.Helper()
			traces, err := db.Traces.Find(ctx, store.TraceFilter{}, 100)
			must(t, err)
			var said []store.Exchange
			for bot := range int64(3) {
				some, err := db.Conversations.Last(ctx, bot+1, "w", "", 100)
				must(t, err)
				said = append(said, some...)
			}
			calls, err := db.Calls.Find(ctx, store.CallFilter{}, 100)
			must(t, err)
			args := 0
			for _, c := range calls {
				if c.Args != "" {
					args++
				}
			}
			if len(calls) != 40 {
				t.Errorf("%d calls of 40", len(calls))
			}
			return [3]int{len(traces), len(said), args}
		}
		for _, c := range []struct {
			name   string
			forget func() (int64, error)
			n      int64
			left   [3]int
		}{
			{"traces of another's bot", func() (int64, error) { return db.Traces.Forget(ctx, "p1", 3) }, 0,
				[3]int{40, 40, 40}},
			{"traces of a bot", func() (int64, error) { return db.Traces.Forget(ctx, "p1", 1) }, 20,
				[3]int{20, 40, 40}},
			{"what traces say", func() (int64, error) {
				if err := db.Traces.ForgetSaid(ctx, "p1", 2); err != nil {
					return 0, err
				}
				list, err := db.Traces.Find(ctx, store.TraceFilter{Outcome: store.Wrong}, 100)
				for _, tr := range list {
					if (tr.Question == "") != (tr.Owner == "p1") || (tr.Answer == "") != (tr.Owner == "p1") {
						t.Errorf("a trace of %s says %q", tr.Owner, tr.Question)
					}
				}
				return 0, err
			}, 0, [3]int{20, 40, 40}},
			{"all traces", func() (int64, error) { return db.Traces.Forget(ctx, "p1", 0) }, 19, [3]int{1, 40, 40}},
			{"what another's bot said", func() (int64, error) { return db.Conversations.Forget(ctx, "p1", 3) }, 0,
				[3]int{1, 40, 40}},
			{"what a bot said", func() (int64, error) { return db.Conversations.Forget(ctx, "p1", 2) }, 19,
				[3]int{1, 21, 40}},
			{"what all bots said", func() (int64, error) { return db.Conversations.Forget(ctx, "p1", 0) }, 20,
				[3]int{1, 1, 40}},
			{"arguments of a bot", func() (int64, error) { return db.Calls.ForgetArgs(ctx, "p1", 1) }, 0,
				[3]int{1, 1, 40}},
			{"arguments", func() (int64, error) { return db.Calls.ForgetArgs(ctx, "p1", 0) }, 39, [3]int{1, 1, 1}},
		} {
			n, err := c.forget()
			if got := left(); err != nil || n != c.n || got != c.left {
				t.Errorf("%s: %d went, %v; left are %v, not %v", c.name, n, err, got, c.left)
			}
		}
	})
}

// The newest turns of several bots are read together, a few of each.
func TestRecentTraces(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := recorded(t, o)
		long := strings.Repeat("长", 400)
		must(t, db.Traces.Finish(ctx, store.Trace{Turn: "turn-99", Owner: "p1", Bot: 1, At: now.Add(time.Hour),
			First: time.Second, Total: 2 * time.Second, Outcome: "failed", Code: "timeout", Cause: "why", Question: "q",
			Answer: long}, nil))
		got, err := db.Traces.RecentByBot(ctx, []int64{1, 2, 77}, 3)
		must(t, err)
		if len(got) != 2 || !slices.Equal(turnsOf(got[1]), []string{"99", "38", "36"}) ||
			!slices.Equal(turnsOf(got[2]), []string{"37", "35", "33"}) {
			t.Fatalf("got %v and %v of %d", turnsOf(got[1]), turnsOf(got[2]), len(got))
		}
		want := store.Trace{Turn: "turn-99", Owner: "p1", Bot: 1, At: now.Add(time.Hour), First: time.Second,
			Total: 2 * time.Second, Outcome: "failed", Code: "timeout", Cause: "why", Answer: long[:3*300]}
		if first := got[1][0]; !first.At.Equal(want.At) {
			t.Errorf("at %s, want %s", first.At, want.At)
		} else if first.At = want.At; !reflect.DeepEqual(first, want) {
			t.Errorf("got %+v", first)
		}
		// More bots than one query has.
		many := make([]int64, 120)
		for i := range many {
			many[i] = int64(120 - i)
		}
		if got, err = db.Traces.RecentByBot(ctx, many, 1); err != nil || len(got) != 3 || len(got[1]) != 1 {
			t.Errorf("of many bots: %v, %v", got, err)
		}
	})
}
