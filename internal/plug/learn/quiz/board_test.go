package quiz_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"patchbay/internal/board"
	"patchbay/internal/board/boardtest"
	"patchbay/internal/plug/learn"
	"patchbay/internal/plug/learn/quiz"
	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
	"patchbay/internal/talk"
)

// A whole review goes through the board while the bot is away; what is the bot's is
// the bot's before and after.
func TestAReviewThroughTheBoard(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		ctx := context.Background()
		r := boardtest.New(t, boardtest.Options{DB: o, Board: board.Options{Grace: time.Millisecond}})
		service := learn.New(learn.Options{Store: r.Store, Zone: time.UTC})
		r.Board.Interpose("learn", quiz.New(quiz.Options{Service: service, Store: r.Store}).Interpose)
		_, err := service.Create(ctx, r.Person.ID, []learn.Draft{{Question: "Capital of France?", Answer: "Paris"}})
		if err != nil {
			t.Fatal(err)
		}
		bot := r.Add(t, "plugin", nil)
		say := func(text string) (heard string, kind string) {
			t.Helper()
			turn := &talk.Turn{Bot: bot.Number, Door: "lingzhu", Person: "lingzhu:" + r.Person.ID + ":U", Conversation: "1774245909000", Lang: talk.English, Parts: []talk.Part{{Text: text}}}
			var b strings.Builder
			err := r.Board.Answer(ctx, turn, func(e talk.Event) error {
				b.WriteString(e.Text)
				return nil
			})
			if f := talk.AsFailure(err); f != nil {
				b.WriteString(string(f.Code))
			}
			tr, err := r.Store.Traces.ByTurn(ctx, turn.ID)
			if err != nil {
				t.Fatal(err)
			}
			return b.String(), tr.Kind
		}
		for _, c := range [][3]string{
			{"who are you?", "offline", "plugin"},
			{"quiz me", "Question 1, the last: Capital of France?", "learn"},
			{"Paris", "All done! 1 reviewed, 0 forgotten.", "learn"},
			{"and now?", "offline", "plugin"},
		} {
			if heard, kind := say(c[0]); !strings.Contains(heard, c[1]) || kind != c[2] {
				t.Fatalf("%q: heard %q from %s", c[0], heard, kind)
			}
		}
		last, err := service.Store.Learn.LastReview(ctx, r.Person.ID)
		if err != nil || last.Door != "quiz" || last.Recall != "Paris" {
			t.Fatalf("the log: %+v, %v", last, err)
		}
	})
}
