package ankiconnect

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"patchbay/internal/problem"
	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

// What was done counts: an error is the answer only if nothing was.
func TestOutcomes(t *testing.T) {
	r := newRig(t, store.Options{})
	x := &exchange{server: r.server, points: r.learn}
	broken := errors.New("broken")
	var none, some outcomes
	if none.ends(x, t.Context(), "a", textEmpty) || !none.ends(x, t.Context(), "a", broken) || none.err() != broken {
		t.Errorf("nothing was done: %v", none.err())
	}
	if some.ends(x, t.Context(), "a", nil) || !some.ends(x, t.Context(), "a", broken) || some.err() != nil {
		t.Errorf("one was done: %v", some.err())
	}
	if away := problem.New(problem.Unavailable, "away"); !new(outcomes).ends(x, t.Context(), "a", away) {
		t.Error("the next one is tried though the database is away")
	}
}

// Notes of one request are compared with each other, too, each where duplicates of it count; and
// one that is refused does not keep the others from being added.
func TestAddNotesTogether(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		r := newRig(t, o)
		for _, name := range []string{"A", "A::B"} {
			r.result(nil, "createDeck", `{"deck":"`+name+`"}`)
		}
		r.addNote("there")
		deck := func(name, more string) string {
			return `"options":{"duplicateScope":"deck","duplicateScopeOptions":{"deckName":"` + name + `"` + more + `}}`
		}
		var notes, want []string
		for _, c := range []struct {
			deck, model, front, more string
			can, added               bool // alone, and after those before
		}{
			{"Default", "Basic", "<b>there</b>", "", false, false},
			{"A::B", "Basic", "there", deck("A::B", ""), true, true},
			{"Default", "Basic", "new", "", true, true},
			{"A::B", "Basic", "<i>new</i>", "", true, false},
			{"A::B", "Basic", "new", deck("A::B", ""), true, true},
			{"A::B", "Basic", "new", deck("A", ""), true, true},
			{"A::B", "Basic", "new", deck("A", `,"checkChildren":true`), true, false},
			{"Default", "Basic (and reversed card)", "new", "", true, true},
			{"Default", "Basic (and reversed card)", "new", "", true, false},
			{"Default", "Basic (and reversed card)", "there", `"options":{"duplicateScopeOptions":{"checkAllModels":true}}`,
				false, false},
			{"Default", "Basic", "new", `"options":{"allowDuplicate":true}`, true, true},
			{"Default", "Basic", "long tag", `"tags":["` + strings.Repeat("x", 1000) + `"]`, true, false},
			{"Default", "Nothing", "x", "", false, false},
			{"Default", "Basic", "last", "", true, true},
		} {
			text := `{"deckName":"` + c.deck + `","modelName":"` + c.model + `","fields":{"Front":"` + c.front + `","Back":"b"}`
			if c.more != "" {
				text += "," + c.more
			}
			notes = append(notes, text+"}")
			want = append(want, fmt.Sprint(c.can, c.added))
		}
		in := `{"notes":[` + strings.Join(notes, ",") + `]}`
		var can []bool
		r.result(&can, "canAddNotes", in)
		var ids []*int64
		r.result(&ids, "addNotes", in)
		for i := range want {
			if got := fmt.Sprint(can[i], ids[i] != nil); got != want[i] {
				t.Errorf("%s: %s, want %s", notes[i], got, want[i])
			}
		}
	})
}

// A card that cannot be reviewed does not keep those after it from being reviewed.
func TestAnswerCardsTogether(t *testing.T) {
	r := newRig(t, store.Options{})
	r.addNote("first")
	r.must(r.Store.Learn.Add(t.Context(), r.Person.ID, []store.NewPoint{{Point: store.Point{ID: "unplanned",
		Question: "q", Answer: "a", Created: start.Add(time.Minute), Updated: start}}}))
	r.pass(time.Hour)
	r.addNote("last")
	var cards []int64
	r.result(&cards, "findCards", `{"query":""}`)
	if len(cards) != 3 {
		t.Fatal(cards)
	}
	var answers []string
	for _, id := range append([]int64{7}, cards...) {
		answers = append(answers, fmt.Sprintf(`{"cardId":%d,"ease":3}`, id))
	}
	in := `{"answers":[` + strings.Join(answers, ",") + `]}`
	if got := r.invoke("answerCards", in); got != `{"error":null,"result":[false,true,false,true]}` {
		t.Error(got)
	}
	var reviewed int
	if r.result(&reviewed, "getNumCardsReviewedToday", "{}"); reviewed != 2 {
		t.Errorf("%d reviews", reviewed)
	}
}
