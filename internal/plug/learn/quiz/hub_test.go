package quiz_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"patchbay/internal/hub"
	"patchbay/internal/hub/hubtest"
	"patchbay/internal/i18n"
	"patchbay/internal/plug/learn"
	"patchbay/internal/plug/learn/quiz"
	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
	"patchbay/internal/talk"
)

// A whole review works through the hub while the bot is offline; turns before and after it go to
// the bot.
func TestAReviewThroughTheHub(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		ctx := context.Background()
		r := hubtest.New(t, hubtest.Options{DB: o, Hub: hub.Options{ReconnectGrace: time.Millisecond}})
		service := learn.New(learn.Options{Store: r.Store, Zone: time.UTC})
		r.Hub.Intercept("learn", quiz.New(quiz.Options{Service: service, Store: r.Store}).Intercept)
		_, err := service.Create(ctx, r.Person.ID, []learn.Draft{{Question: "Capital of France?", Answer: "Paris"}})
		if err != nil {
			t.Fatal(err)
		}
		bot := r.Add(t, "plugin", nil)
		say := func(text string) (heard string, kind string) {
			t.Helper()
			turn := &talk.Turn{Bot: bot.Number, Channel: "lingzhu", Person: "lingzhu:" + r.Person.ID + ":U",
				Conversation: "1774245909000", Lang: i18n.English, Parts: []talk.Part{{Text: text}}}
			var b strings.Builder
			err := r.Hub.Answer(ctx, turn, func(e talk.Event) error {
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
		if err != nil || last.Channel != "quiz" || last.Recall != "Paris" {
			t.Fatalf("the log: %+v, %v", last, err)
		}
	})
}
