package quiz

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/plug/learn"
	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
	"patchbay/internal/talk"
)

func TestMain(m *testing.M) { storetest.Main(m) }

var ctx = context.Background()

// rig is a quiz on a real service, with a model that the test controls.
type rig struct {
	*Quiz
	t       *testing.T
	service *learn.Service
	db      *store.DB
	bot     store.Bot

	mu     sync.Mutex
	now    time.Time
	asked  int // number of requests to the model
	broken error
}

func newRig(t *testing.T, o store.Options) *rig {
	t.Helper()
	r := &rig{t: t, db: storetest.Open(t, o), now: time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC),
		bot: store.Bot{Number: 7, Owner: "ada"}}
	for _, person := range []string{"ada", "bob"} {
		r.must(r.db.People.Add(ctx, store.Person{ID: person, Name: person, Role: "member", Lang: "en", Created: r.now}))
	}
	r.service = learn.New(learn.Options{Store: r.db, Zone: time.UTC, Now: r.clock, Model: r.model})
	r.Quiz = r.instance()
	return r
}

// instance returns another quiz on the same database, as after a restart or on another instance.
func (r *rig) instance() *Quiz {
	return New(Options{Service: r.service, Store: r.db, Now: r.clock})
}

func each(t *testing.T, run func(t *testing.T, r *rig)) {
	storetest.Each(t, func(t *testing.T, o store.Options) { run(t, newRig(t, o)) })
}

func (r *rig) clock() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now
}

func (r *rig) pass(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now = r.now.Add(d)
}

// model judges recalls by a word in them, and makes points from notes.
func (r *rig) model(_ context.Context, _ string, p learn.Prompt) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked++
	if r.broken != nil {
		return "", r.broken
	}
	switch {
	case p.Image != nil:
		return `{"points":[{"question":"What is in the picture?","answer":"` + string(p.Image.Data) + `"}]}`, nil
	case strings.Contains(p.Text, "two notes"):
		return `{"points":[{"question":"One?","answer":"1"},{"question":"Two?","answer":"2"}]}`, nil
	case strings.Contains(p.Text, "flashcards"):
		return `{"points":[{"question":"Capital of France?","answer":"Paris"}]}`, nil
	case strings.Contains(p.Text, "PERFECT"):
		return `{"score":99,"suggested_grade":"easy","right":["all"],"missing":[],"wrong":[],"verdict":"Perfect."}`, nil
	case strings.Contains(p.Text, "RIGHT"):
		return `{"score":80,"suggested_grade":"good","right":["all"],"missing":[],"wrong":[],"verdict":"Well said."}`,
			nil
	}
	return `{"score":5,"suggested_grade":"again","right":[],"missing":["it"],"wrong":[],"verdict":"No."}`, nil
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// add adds points with the questions q1?, q2?, … and answers a1, a2, ….
func (r *rig) add(n int) (ids []string) {
	r.t.Helper()
	for i := range n {
		ids = append(ids, r.put(learn.Draft{Question: fmt.Sprintf("q%d?", i+1), Answer: fmt.Sprintf("a%d", i+1)}))
	}
	return ids
}

func (r *rig) put(d learn.Draft) string {
	r.t.Helper()
	made, err := r.service.Create(ctx, "ada", []learn.Draft{d})
	r.must(err)
	r.must(made[0].Err)
	return made[0].Entry.ID
}

func (r *rig) reviews(id string) (log []store.LogEntry) {
	r.t.Helper()
	e, err := r.service.Get(ctx, "ada", id)
	r.must(err)
	log, err = r.db.Learn.Log(ctx, "ada", e.Number, time.Time{}, "", 100)
	r.must(err)
	return log
}

func (r *rig) reps(id string) int {
	r.t.Helper()
	e, err := r.service.Get(ctx, "ada", id)
	r.must(err)
	return e.Card.Reps
}

func turn(text string) *talk.Turn {
	return &talk.Turn{
		ID: "t", Bot: 7, Channel: "lingzhu", Person: "lingzhu:ada:U1", Conversation: "1774245909000",
		Lang: i18n.English, Parts: []talk.Part{{Text: text}},
		Commands: []string{talk.CommandTakePhoto, talk.CommandCalendar},
	}
}

// request returns a turn of a request with the given ID.
func request(name, text string) *talk.Turn {
	out := turn(text)
	out.Request = name
	return out
}

func photo(data string) *talk.Turn {
	out := turn("")
	out.Parts = []talk.Part{{Image: &talk.Image{MIME: "image/png", Data: []byte(data)}}}
	return out
}

// toBot is the result of a turn that goes to the bot.
const toBot = "(to the bot)"

// ask passes a turn to a quiz, as the hub does.
func ask(t *testing.T, q *Quiz, bot store.Bot, turn *talk.Turn) string {
	t.Helper()
	who := q.Intercept(ctx, bot, turn)
	if who == nil {
		return toBot
	}
	var b strings.Builder
	err := who.Answer(ctx, turn, func(e talk.Event) error {
		switch e.Kind {
		case talk.KindText:
			b.WriteString(e.Text)
		case talk.KindCommand:
			fmt.Fprintf(&b, "<%s>", e.Command.Name)
			for _, k := range []string{"title", "start_time"} {
				if v := e.Command.Args[k]; v != "" {
					fmt.Fprintf(&b, "<%s>", v)
				}
			}
		case talk.KindSuggest:
			if len(e.Suggest) == 0 || len(e.Suggest) > 3 {
				t.Errorf("%d suggestions", len(e.Suggest))
			}
			fmt.Fprintf(&b, " [%s]", strings.Join(e.Suggest, "|"))
		}
		return nil
	})
	if err != nil {
		t.Fatalf("%q: %v", turn.Text(), err)
	}
	return b.String()
}

// say sends a turn some time after the previous reply.
func (r *rig) say(text string) string {
	r.t.Helper()
	r.pass(8 * time.Second)
	return ask(r.t, r.Quiz, r.bot, turn(text))
}

// expect sends a turn and checks that the reply contains all the given texts.
func (r *rig) expect(text string, want ...string) {
	r.t.Helper()
	got := r.say(text)
	for _, w := range want {
		if !strings.Contains(got, w) {
			r.t.Fatalf("%q was answered with %q, want %q in it", text, got, w)
		}
	}
}

func TestAReview(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		ids := r.add(3)
		r.expect("what's the weather", toBot)
		r.expect("What's due?", "3 to review today, 3 of them new", "[Quiz me]")
		r.expect("and the weather?", toBot)
		r.expect("Quiz me", "Question 1, 2 more: q1?", "[Answer|Skip|Stop]")
		r.pass(time.Minute)
		r.expect("PERFECT", "Perfect.\nQuestion 2, 1 more: q2?")
		log := r.reviews(ids[0])
		if len(log) != 1 || log[0].Grade != store.Easy || log[0].Score < 90 || log[0].Channel != "quiz" ||
			log[0].Recall != "PERFECT" || log[0].Took != 68*time.Second {
			t.Fatalf("the log: %+v", log)
		}
		// Noise, silence and a photo are not answers.
		for _, noise := range []string{"um", "嗯", "…"} {
			r.expect(noise, "Question 2, 1 more: q2?")
		}
		if got := ask(t, r.Quiz, r.bot, photo("cat")); !strings.Contains(got, "Please say the answer.\nQuestion 2") {
			t.Fatalf("a photo was answered with %q", got)
		}
		r.expect("say that again", "Question 2, 1 more: q2?")
		r.expect("how many left", "2 left.\nQuestion 2")
		r.expect("something wrong", "No.\nAnswer: a2\nQuestion 3", "q3?", "[Answer|Skip|Change to good]")
		if got := r.reviews(ids[1]); got[0].Grade != store.Again {
			t.Fatalf("the log: %+v", got)
		}
		r.expect("answer", "Answer: a3\nHow well did you know it?", "[Forgot|Hard|Good]")
		r.expect("easy", "Marked easy.\nQuestion 4, the last: q2?")
		if got := r.reviews(ids[2]); got[0].Grade != store.Easy || got[0].Score != -1 {
			t.Fatalf("the log: %+v", got)
		}
		// The forgotten point is on its learning steps; nothing else is left.
		r.expect("PERFECT", "Perfect.\nAll done! 4 reviewed, 1 forgotten.", "Next: ", "[Undo|Remind me to review]")
		r.expect("what's the weather", toBot)
		r.expect("quiz me", "Nothing is due now.", "Next: ")
	})
}

func TestCommandsInAReview(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		ids := r.add(4)
		r.expect("复习", "Question 1, 3 more: q1?")
		// Skipping is not an answer, and the point keeps its place.
		r.expect("跳过", "Question 2, 2 more: q2?")
		if r.reps(ids[0]) != 0 {
			t.Fatal("skipping counted")
		}
		r.expect("RIGHT", "Well said.\nQuestion 3, 2 more: q3?")
		r.expect("change to easy", "Changed to easy.\nQuestion 3, 1 more: q3?")
		r.expect("改成忘了", "Changed to forgot.\nQuestion 3")
		r.expect("改成忘了", "Changed to forgot.\nQuestion 3")
		kinds := ""
		for _, e := range r.reviews(ids[1]) {
			kinds += fmt.Sprint(e.Kind, e.Grade, " ")
		}
		if r.reps(ids[1]) != 1 || strings.Count(kinds, "review") != 3 || strings.Count(kinds, "undo") != 2 {
			t.Fatalf("the log: %s", kinds)
		}
		r.expect("undo", "Undone.\nQuestion 2, ", "q2?")
		if r.reps(ids[1]) != 0 {
			t.Fatal("it was not undone")
		}
		r.expect("undo", "There is nothing to change yet.\nQuestion 2", "q2?")
		r.expect("PERFECT", "Perfect.\nQuestion 3", "q3?")
		// After "I remember" the answer is shown before the grade.
		r.expect("I remember", "Answer: a3\nHow well")
		r.expect("um", "q3?\nHow well")
		r.expect("it is RIGHT", "Right, but you saw the answer: hard.\nQuestion 4")
		if got := r.reviews(ids[2]); got[0].Grade != store.Hard {
			t.Fatalf("the log: %+v", got)
		}
		r.expect("I don't know", "Answer: a4\nAll done! 3 reviewed, 1 forgotten.\n1 were skipped.")
		r.expect("stop", "Stopped. 3 reviewed, 1 forgotten, ", " left.")
		r.expect("change it to good", "Changed to good.")
		last, err := r.db.Learn.LastReview(ctx, "ada")
		r.must(err)
		if last.Grade != store.Good || !strings.HasSuffix(last.ID, "/1") || r.reps(ids[3]) != 1 {
			t.Fatalf("the last review: %+v", last)
		}
		r.expect("the weather", toBot)
		r.expect("undo", "Undone.\nQuestion ", "q4?")
		r.expect("退出复习", "Stopped. 2 reviewed, 0 forgotten")
	})
}

// A turn that is literally the answer is not a command.
func TestAnswersThatSoundLikeCommands(t *testing.T) {
	r := newRig(t, store.Options{Folder: t.TempDir()})
	r.put(learn.Draft{Question: "The opposite of start?", Answer: "Stop."})
	id := r.put(learn.Draft{Question: "The opposite of last?", Answer: "next"})
	r.expect("quiz me", "start?")
	r.expect("stop", "The opposite of last?")
	r.expect("next", "Question 3")
	if r.reps(id) != 1 {
		t.Fatal("the answer was taken for a command")
	}
}

// A turn that the platform sends twice counts once, whether the second arrives right after, at the
// same moment, or at another instance.
func TestRepeatedTurnsCountOnce(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		ids := r.add(3)
		r.expect("quiz me", "q1?")
		first := ask(t, r.Quiz, r.bot, request("1", "RIGHT"))
		r.pass(time.Second)
		if again := ask(t, r.instance(), r.bot, request("1", "RIGHT")); again != first {
			t.Fatalf("again: %q, first: %q", again, first)
		}
		if r.reps(ids[0]) != 1 || r.reps(ids[1]) != 0 {
			t.Fatalf("reviews: %d, %d", r.reps(ids[0]), r.reps(ids[1]))
		}
		r.pass(time.Minute)
		var wg sync.WaitGroup
		for _, q := range []*Quiz{r.Quiz, r.Quiz, r.instance(), r.instance()} {
			wg.Go(func() { ask(t, q, r.bot, turn("something RIGHT")) })
		}
		wg.Wait()
		if r.reps(ids[1]) != 1 || r.reps(ids[2]) != 0 {
			t.Fatalf("reviews: %d, %d", r.reps(ids[1]), r.reps(ids[2]))
		}
		r.pass(time.Minute) // by now it answers the next question
		r.expect("something RIGHT", "Well said.")
		if r.reps(ids[2]) != 1 {
			t.Fatal("a later answer was taken for a repetition")
		}
	})
}

// The last turn of a review, if repeated, does not reach the bot.
func TestTheLastTurnRepeated(t *testing.T) {
	r := newRig(t, store.Options{Folder: t.TempDir()})
	r.add(1)
	r.expect("quiz me", "Question 1, the last: q1?")
	first := ask(t, r.Quiz, r.bot, request("1", "PERFECT"))
	r.pass(time.Second)
	if again := ask(t, r.Quiz, r.bot, request("1", "PERFECT")); again != first || !strings.Contains(first, "All done") {
		t.Fatalf("again: %q, first: %q", again, first)
	}
	r.pass(time.Minute)
	r.expect("PERFECT", toBot)
}

// The same words in two requests count twice: neither is taken for a retry.
func TestTheSameWordsOfTwoRequestsCountTwice(t *testing.T) {
	r := newRig(t, store.Options{Folder: t.TempDir()})
	ids := r.add(3)
	r.expect("quiz me", "q1?")
	for i := range ids {
		r.pass(700 * time.Millisecond)
		r.expect("RIGHT", "Well said.")
		if r.reps(ids[i]) != 1 {
			t.Fatalf("question %d was counted %d times", i+1, r.reps(ids[i]))
		}
	}
}

func TestIdleEndsAReview(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.add(2)
		r.expect("quiz me", "q1?")
		r.pass(9 * time.Minute)
		r.expect("um", "q1?")
		r.pass(9 * time.Minute)
		// Another instance, as after a restart, continues the conversation.
		if got := ask(t, r.instance(), r.bot, turn("RIGHT")); !strings.Contains(got, "q2?") {
			t.Fatalf("after a restart: %q", got)
		}
		// A new session of the glasses is a new conversation.
		other := turn("RIGHT")
		other.Conversation = "1774249999999"
		if got := ask(t, r.Quiz, r.bot, other); got != toBot {
			t.Fatalf("in another session: %q", got)
		}
		r.pass(11 * time.Minute)
		r.expect("RIGHT", toBot)
	})
}

func TestNobodyIsPunishedWithoutAModel(t *testing.T) {
	r := newRig(t, store.Options{Folder: t.TempDir()})
	ids := r.add(2)
	r.expect("quiz me", "q1?")
	r.broken = errors.New("no")
	r.expect("a paraphrase that shares no word", "I cannot judge that now", "Answer: a1", "[Forgot|Hard|Good]")
	if r.reps(ids[0]) != 0 {
		t.Fatal("it counted")
	}
	r.expect("good", "Marked good.", "q2?")
	if got := r.reviews(ids[0]); got[0].Grade != store.Good || !strings.Contains(got[0].Recall, "paraphrase") {
		t.Fatalf("the log: %+v", got)
	}
	r.expect("a2", "All done! 2 reviewed, 0 forgotten.") // an exact match needs no model
	if r.reps(ids[1]) != 1 {
		t.Fatal("it did not count")
	}
}

func TestNothingToReview(t *testing.T) {
	r := newRig(t, store.Options{Folder: t.TempDir()})
	for _, text := range []string{"quiz me", "what's due"} {
		r.expect(text, "There are no points yet. Say “note: …”")
	}
	r.expect("Paris", toBot)
	r.add(1)
	r.must(r.service.Delete(ctx, "ada", r.add(1)[0]))
	r.expect("quiz me on history", toBot)
	r.put(learn.Draft{Question: "When was Hastings?", Answer: "1066", Deck: "World History"})
	r.expect("quiz me on world history", "Question 1, the last: When was Hastings?")
	r.expect("stop", "Stopped. 0 reviewed, 0 forgotten, 1 left.", "[Quiz me]")
}

// The reply mentions points that the daily limits hold back.
func TestHeldBack(t *testing.T) {
	r := newRig(t, store.Options{Folder: t.TempDir()})
	_, err := r.service.SaveProfile(ctx, "ada", []byte(`{"defaults":{"new_per_day":1}}`), nil)
	r.must(err)
	r.add(3)
	r.expect("what's due", "1 to review today, 1 of them new.\n2 more are held back by the daily limit.")
	r.expect("quiz me", "Question 1, the last: q1?")
	r.expect("PERFECT", "All done! 1 reviewed, 0 forgotten.\n2 more are held back")
}

// A point that was meanwhile reviewed or deleted elsewhere does no harm.
func TestReviewedElsewhere(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		ids := r.add(3)
		r.expect("quiz me", "q1?")
		_, err := r.service.Submit(ctx, "ada", learn.Submission{Point: ids[0], Grade: store.Easy, Score: -1,
			Channel: "web"})
		r.must(err)
		r.expect("something wrong", "That one was reviewed elsewhere.", "q2?")
		if got := r.reviews(ids[0]); len(got) != 1 || got[0].Grade != store.Easy {
			t.Fatalf("the log: %+v", got)
		}
		r.must(r.service.Delete(ctx, "ada", ids[1]))
		r.expect("RIGHT", "q3?")
		r.expect("RIGHT", "Well said.")
		_, err = r.service.Submit(ctx, "ada", learn.Submission{Point: ids[2], Grade: store.Easy, Score: -1, Early: true,
			Channel: "web"})
		r.must(err)
		r.expect("change to easy", "That cannot be changed")
	})
}

func TestRemindMe(t *testing.T) {
	r := newRig(t, store.Options{Folder: t.TempDir()})
	r.expect("remind me to review", "Nothing is due soon")
	r.add(2)
	r.expect("remind me to review",
		"<control_calendar><To review: 2><2026-11-21 20:00>In your calendar: today at 20:00.")
	_, err := r.service.SaveProfile(ctx, "ada", []byte(`{"remind":{"at":"08:00"},"defaults":{"easy_days":{}}}`), nil)
	r.must(err)
	r.expect("quiz me", "q1?")
	r.expect("PERFECT", "q2?")
	r.expect("PERFECT", "All done")
	r.expect("remind me to review", "<control_calendar><To review: ", " 08:00>In your calendar: in ", " days at 08:00.")
	deaf := turn("remind me to review")
	deaf.Commands = nil
	if got := ask(t, r.Quiz, r.bot, deaf); !strings.Contains(got, "no calendar") {
		t.Fatalf("without a calendar: %q", got)
	}
}

func TestChinese(t *testing.T) {
	r := newRig(t, store.Options{Folder: t.TempDir()})
	r.add(2)
	zh := func(text string) string {
		r.pass(8 * time.Second)
		turn := turn(text)
		turn.Lang = i18n.Chinese
		return ask(t, r.Quiz, r.bot, turn)
	}
	for _, c := range [][2]string{
		{"今天学什么", "今天有 2 题要复习，其中 2 题是新的。\n说“开始复习”就开始。 [开始复习]"},
		{"开始复习", "第 1 题，还剩 1 题：q1? [答案|跳过|停]"},
		{"忘了", "答案：a1\n第 2 题，还剩 1 题：q2? [答案|跳过|改成记得]"},
		{"改成记得", "已改成记得。\n第 2 题，还剩 1 题：q2? [答案|跳过|停]"},
		{"停", "先到这里。这次 1 题，忘了 0 题，还剩 2 题。 [开始复习|撤销]"},
	} {
		if got := zh(c[0]); got != c[1] {
			t.Errorf("%s: %q, want %q", c[0], got, c[1])
		}
	}
}
