package store_test

import (
	"fmt"
	"testing"
	"time"

	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

// Concurrent and repeated writes store each call once and unchanged.
func TestCalls(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := storetest.Open(t, o)
		must(t, db.People.Add(ctx, store.Person{ID: "p", Name: "ada", Created: time.Now()}))
		at := time.Now().Truncate(time.Millisecond).UTC()
		var all []store.Call
		for i := range 100 {
			all = append(all, store.Call{
				ID: fmt.Sprintf("call-%03d", i), At: at.Add(time.Duration(i) * time.Millisecond),
				Person: "p", Key: "k", Bot: int64(i), Turn: "t", Channel: "d",
				Program: "prog", Device: "dev", Provider: "prov", Tool: "tool", Instance: "here",
				Took: time.Duration(i) * time.Microsecond, Bytes: int64(i),
				Outcome: "done", Code: "c", Cause: "why", Actor: "other", Address: "192.0.2.1",
				Args: []string{"", `{"a":1}`}[i%2],
			})
		}
		for _, some := range [][]store.Call{nil, all[:1], all[:70], all} { // existing calls are skipped
			if err := db.Calls.Add(ctx, some); err != nil {
				t.Fatalf("%d calls: %v", len(some), err)
			}
		}
		got, err := db.Calls.ByTurn(ctx, "t")
		if err != nil || len(got) != len(all) {
			t.Fatalf("%d calls of %d: %v", len(got), len(all), err)
		}
		for i := range all {
			if got[i] != all[i] {
				t.Errorf("call %d is %+v, not %+v", i, got[i], all[i])
			}
		}
	})
}

// Of many calls in some turns, the newest are listed, oldest first, and none of others.
func TestCallsByTurns(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := storetest.Open(t, o)
		at := time.Now().Truncate(time.Millisecond).UTC()
		for _, id := range []string{"p", "q"} {
			must(t, db.People.Add(ctx, store.Person{ID: id, Name: "name of " + id, Created: at}))
		}
		var all []store.Call
		for i := range 1100 {
			all = append(all, store.Call{ID: fmt.Sprintf("call-%04d", i), At: at.Add(time.Duration(i) * time.Second),
				Person: "p", Bot: 1, Turn: fmt.Sprintf("turn-%02d", i/100), Tool: "tool", Outcome: "done"})
		}
		for i := range 50 { // of others, in a turn of that name
			other := all[1099]
			other.ID, other.At = fmt.Sprintf("other-%d", i), other.At.Add(time.Hour)
			if other.Person = "q"; i%2 == 0 {
				other.Person, other.Bot = "p", 2
			}
			all = append(all, other)
		}
		must(t, db.Calls.Add(ctx, all))
		turns := []string{"none"}
		for i := range 11 {
			turns = append(turns, fmt.Sprintf("turn-%02d", i))
		}
		got, err := db.Calls.ByTurns(ctx, store.Bot{Number: 1, Owner: "p"}, "", turns)
		if err != nil || len(got) != 10 || len(got["turn-00"]) != 0 {
			t.Fatalf("calls of %d turns, %v", len(got), err)
		}
		for i := 1; i < 11; i++ {
			calls := got[turns[i+1]]
			if len(calls) != 100 || calls[0].ID != fmt.Sprintf("call-%04d", i*100) ||
				calls[99].ID != fmt.Sprintf("call-%04d", i*100+99) {
				t.Errorf("%s has %d calls", turns[i+1], len(calls))
			}
		}
	})
}

// Texts that a database cannot store do not cost any row.
func TestCallsWithTextsThatCannotBeKept(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := storetest.Open(t, o)
		bad := "a\x00b\xffc"
		calls := []store.Call{
			{ID: "1", At: time.Now(), Turn: "t", Tool: "good"},
			{ID: "2", At: time.Now(), Turn: "t", Tool: bad, Program: bad, Device: bad, Cause: bad, Args: bad},
		}
		if err := db.Calls.Add(ctx, calls); err != nil {
			t.Fatal(err)
		}
		got, err := db.Calls.ByTurn(ctx, "t")
		if err != nil || len(got) != 2 {
			t.Fatalf("%d calls, %v", len(got), err)
		}
		for _, text := range []string{got[1].Tool, got[1].Program, got[1].Device, got[1].Cause, got[1].Args} {
			if text != "a\uFFFDb\uFFFDc" {
				t.Errorf("kept is %q", text)
			}
		}
		must(t, db.People.Add(ctx, store.Person{ID: "p", Name: "ada", Created: time.Now()}))
		bot, err := db.Bots.Add(ctx, store.Bot{Owner: "p", Name: "b", Kind: "echo", Settings: []byte(`{}`),
			Created: time.Now()})
		must(t, err)
		tr := store.Trace{Turn: "x", At: time.Now(), Person: bad, Conversation: bad, Cause: bad, Question: bad,
			Answer: bad}
		if err := db.Traces.Finish(ctx, tr, nil); err != nil {
			t.Errorf("a trace: %v", err)
		}
		if err := db.Traces.FinishLate(ctx, "x", time.Second, bad, bad, nil, nil); err != nil {
			t.Errorf("its late end: %v", err)
		}
		if err := db.Traces.Finish(ctx, store.Trace{Turn: "y", At: time.Now()},
			&store.Exchange{Turn: "y", Bot: bot.Number, Person: bad, Conversation: bad, At: time.Now(), Question: bad,
				Answer: bad}); err != nil {
			t.Errorf("an exchange: %v", err)
		}
		if kept, err := db.Conversations.Last(ctx, bot.Number, bad, bad, 10); err != nil || len(kept) != 1 {
			t.Errorf("looking for a conversation: %v", err)
		}
	})
}
