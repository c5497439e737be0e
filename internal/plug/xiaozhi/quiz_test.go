package xiaozhi_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"patchbay/internal/plug/learn"
	"patchbay/internal/plug/learn/quiz"
	"patchbay/internal/plug/xiaozhi/sim"
	"patchbay/internal/talk"
)

// reviewed is a review by voice: what is said, and a part of what the board then says.
type reviewed struct{ said, heard string }

// TestQuiz has people review their points aloud, and note new ones.
func TestQuiz(t *testing.T) {
	t.Parallel()
	for lang, c := range map[string]struct {
		points []learn.Draft
		steps  []reviewed
		note   string // the answer of the new point
	}{
		"en-US": {
			points: []learn.Draft{{Question: "The capital of France", Answer: "Paris"},
				{Question: "What does one say who leaves?", Answer: "Goodbye"}, {Question: "One and one", Answer: "Two"}},
			steps: []reviewed{
				{"quiz me", "Question 1, 2 more: The capital of France"},
				{"Paris.", "What does one say who leaves?"},
				{"Goodbye!", "One and one"},
				{"Stop.", "Stopped. 2 reviewed, 0 forgotten,"},
				{"Who are you?", "I am the bot."},
				{"Note: water boils at 100 degrees.", "Say “save”, “cancel”, or “change it to …”."},
				{"Save.", "Saved 1."},
				{"Quiz me.", "One and one"},
				{"Goodbye.", "Goodbye!"},
			},
			note: "water boils at 100 degrees",
		},
		"zh-CN": {
			points: []learn.Draft{{Question: "法国的首都", Answer: "巴黎"}, {Question: "告别时说什么？", Answer: "再见"},
				{Question: "一加一", Answer: "二"}},
			steps: []reviewed{
				{"复习。", "法国的首都"}, {"巴黎", "告别时说什么"}, {"再见。", "一加一"}, {"停。", "2"}, {"你是谁？", "I am the bot."},
				{"记一下，水在一百度沸腾。", "保存"}, {"保存。", "1"}, {"考考我。", "一加一"}, {"再见。", "再见"},
			},
			note: "水在一百度沸腾",
		},
	} {
		t.Run(lang, func(t *testing.T) {
			t.Parallel()
			ctx := limit(t, 2*time.Minute)
			var said atomic.Pointer[string]
			h := newTestServer(t, testServerOptions{boards: streaming(time.Millisecond,
				func(_ int, _ time.Duration, finished bool) string {
					if finished {
						return *said.Load()
					}
					return ""
				})})
			service := learn.New(learn.Options{Store: h.Store, Zone: time.UTC})
			h.Hub.Intercept("learn", quiz.New(quiz.Options{Service: service, Store: h.Store}).Intercept)
			for _, p := range c.points {
				_, err := service.Create(ctx, h.Person.ID, []learn.Draft{p})
				must(t, err)
			}
			b := h.device(sim.Options{Lang: lang})
			must(t, b.Boot(ctx))
			h.bindScript(ctx, b, func(_ context.Context, _ *talk.Turn, emit talk.Emit) error {
				return emit(talk.Text("I am the bot."))
			})
			say := func(s reviewed) {
				t.Helper()
				said.Store(&s.said)
				a, err := b.Ask(ctx, spoken(t))
				must(t, err)
				if got := strings.Join(a.Sentences, " "); !strings.Contains(got, s.heard) {
					t.Fatalf("%s: the board says %q", s.said, got)
				}
			}
			for i, s := range c.steps {
				if i == 1 && lang == "en-US" { // people think for longer than after a short answer
					must(t, b.Talk(ctx, quietPackets(120)))
				}
				say(s)
			}
			_, err := b.Await(ctx, func(v sim.View) bool { return v.State == sim.Idle })
			must(t, err)
			say(reviewed{"quiz me", c.points[2].Question})
			must(t, b.Press(ctx))
			say(reviewed{c.points[2].Answer, "I am the bot."}) // it is another conversation
			found, err := service.Search(ctx, h.Person.ID, c.note, learn.SearchFilter{})
			must(t, err)
			if len(found) == 0 {
				t.Error("the note is no point")
			}
			clean(t, b)
		})
	}
}
