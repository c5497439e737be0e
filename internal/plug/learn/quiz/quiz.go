// Package quiz lets people review their points by voice, through whatever door they
// talk to their bot: the question is told, they say what they recall, it is judged,
// and the next one comes. It also takes notes, which become points.
//
// A turn's way: the board asks [Quiz.Interpose] before it asks the bot. A turn is
// taken if a phrase in it opens something (phrases.go), or if it goes on with what
// was opened (state.go); all others are the bot's. [Quiz.Answer] answers it:
// review.go leads through a review, grade.go keeps what was recalled, notes.go makes
// points.
package quiz

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"patchbay/internal/plug/learn"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// door is the name under which reviews by voice are logged.
const door = "quiz"

// Service is what the quiz needs of [learn.Service].
type Service interface {
	Learner(ctx context.Context, person string) (*learn.Learner, error)
	Queue(ctx context.Context, person string, f learn.QueueFilter) (*learn.Queue, error)
	Get(ctx context.Context, person, id string) (*learn.Entry, error)
	Submit(ctx context.Context, person string, in learn.Submission) (*learn.Outcome, error)
	Undo(ctx context.Context, person, id, door string) (*learn.Outcome, error)
	Create(ctx context.Context, person string, drafts []learn.Draft) ([]learn.Created, error)
	Update(ctx context.Context, person, id string, e learn.Edit) (*learn.Entry, error)
	Delete(ctx context.Context, person, id string) error
	Stats(ctx context.Context, person string, days, back int) (*learn.Stats, error)
	Judge(ctx context.Context, person string, in learn.Recall) (*learn.Judgement, error)
	Compose(ctx context.Context, person, text string, image *talk.Image, lang talk.Lang) ([]learn.Draft, error)
}

var _ Service = (*learn.Service)(nil)

// Options make a quiz.
type Options struct {
	Service Service
	Store   *store.DB
	Logger  *slog.Logger // nil: none
	// Shared says whether several people may ask a bot as the same one; see
	// [Person]. Nil: no bot is shared.
	Shared func(store.Bot) bool
	// Allowed says whether whoever asks may see the points of the bot's owner; nil:
	// everybody whom [Person] lets through. It is asked about turns that Learn would
	// take, and no others.
	Allowed func(context.Context, store.Bot, *talk.Turn) bool
	// Now is the clock; nil: the real one.
	Now func() time.Time
}

// Settings are what an owner can decide about a bot.
type Settings struct {
	// Learn lets everybody who can ask the bot review its owner's points, not only
	// those who are bound to it.
	Learn bool `json:"learn,omitempty"`
}

// Quiz is safe for concurrent use.
type Quiz struct {
	Options
	locks locks
}

// New makes a quiz.
func New(o Options) *Quiz {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Shared == nil {
		o.Shared = func(store.Bot) bool { return false }
	}
	if o.Allowed == nil {
		o.Allowed = func(context.Context, store.Bot, *talk.Turn) bool { return true }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Quiz{Options: o}
}

// Interpose returns who answers a turn in a bot's place; nil: the bot does. It fits
// the board's Interpose.
func (q *Quiz) Interpose(ctx context.Context, bot store.Bot, turn *talk.Turn) talk.Bot {
	person, ok := Person(bot, q.Shared(bot), turn)
	if !ok || !q.Wants(ctx, person, turn) || !q.Allowed(ctx, bot, turn) {
		return nil
	}
	return instead{q, person}
}

// instead is the quiz as one person's bot.
type instead struct {
	quiz   *Quiz
	person string
}

// Answer implements [talk.Bot].
func (i instead) Answer(ctx context.Context, turn *talk.Turn, emit talk.Emit) error {
	return i.quiz.Answer(ctx, i.person, turn, emit)
}

// Wants says whether a turn is about a person's points. When that cannot be found
// out, it is not.
func (q *Quiz) Wants(ctx context.Context, person string, turn *talk.Turn) bool {
	wants, err := q.wants(ctx, person, turn)
	if err != nil {
		q.Logger.WarnContext(ctx, "a turn went to the bot, since nobody knows whether it is about points", "bot", turn.Bot, "error", err)
	}
	return wants && err == nil
}

func (q *Quiz) wants(ctx context.Context, person string, turn *talk.Turn) (bool, error) {
	switch o := open(turn.Text()); o.topic {
	case nothing:
	case reviewDeck:
		if _, ok, err := q.deck(ctx, person, o.rest); ok {
			return true, nil
		} else if err != nil {
			q.Logger.WarnContext(ctx, "a person's decks could not be looked up", "error", err)
		}
	default:
		return true, nil
	}
	s, err := q.load(ctx, person, turn)
	if err != nil || s == nil {
		return false, err
	}
	return q.continues(s, turn), nil
}

// continues says whether a turn goes on with a conversation.
func (q *Quiz) continues(s *state, turn *talk.Turn) bool {
	h := listen(turn.Text())
	if s.reviewing() || s.Step == content || s.repeats(turn, q.Now()) {
		return true
	}
	switch s.Step {
	case confirm:
		v, _ := h.onDraft()
		c, _ := h.order(true)
		return v != unsaid || c == noise && len(turn.Images()) == 0
	case over:
		c, _ := h.order(true)
		return c == change || c == undo || c == stop
	}
	return false
}

// repeats reports whether a turn that arrived at a time is the one before, delivered
// again by the network.
func (s *state) repeats(turn *talk.Turn, at time.Time) bool {
	return s.Said.Content != "" && at.Sub(s.Said.At) < repeated && talk.Delivered(turn, at).Repeats(s.Said)
}

// deck finds a person's deck by what somebody calls it.
func (q *Quiz) deck(ctx context.Context, person, said string) (id string, ok bool, err error) {
	l, err := q.Service.Learner(ctx, person)
	if err != nil {
		return "", false, err
	}
	want := listen(said).tight
	for _, d := range l.Decks {
		name := listen(d.Name).tight
		if name == "" {
			continue
		}
		if rest, ok := strings.CutPrefix(want, name); ok && deckWords[rest] {
			return d.ID, true, nil
		}
	}
	return "", false, nil
}

// deckWords are what may stand behind a deck's name.
var deckWords = map[string]bool{"": true, "吧": true, "卡组": true, "牌组": true, "的卡片": true, "卡片": true, "的知识点": true, "知识点": true, "deck": true, "cards": true, "points": true}

// reply is what is said to a turn.
type reply struct {
	lines   []string
	offer   []talk.Say
	command *talk.Command
}

func (r *reply) say(lines ...string) {
	for _, l := range lines {
		if l != "" {
			r.lines = append(r.lines, l)
		}
	}
}

// Answer answers a turn that the quiz [Quiz.Wants]. What it says has happened is on
// the disk by then.
func (q *Quiz) Answer(ctx context.Context, person string, turn *talk.Turn, emit talk.Emit) error {
	arrived := q.Now() // the turn before may take its time
	leave, err := q.locks.enter(ctx, asker(turn))
	if err != nil {
		return err
	}
	defer leave()
	s, err := q.load(ctx, person, turn)
	if err != nil {
		return talk.Fail(talk.Internal, "", err)
	}
	h := listen(turn.Text())
	if s != nil && s.repeats(turn, arrived) {
		return tell(emit, nil, s.Told, s.Offered)
	}
	t := &turned{Quiz: q, person: person, turn: turn, lang: turn.Lang, heard: h, state: s}
	if err := t.handle(ctx); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return talk.Fail(talk.Internal, "", err)
	}
	text := strings.Join(t.reply.lines, "\n")
	offered := make([]string, len(t.reply.offer))
	for i, o := range t.reply.offer {
		offered[i] = o.In(t.lang)
	}
	if s := t.state; s != nil {
		s.Said, s.Told, s.Offered = talk.Delivery{}, "", nil
		if t.once {
			s.Said, s.Told, s.Offered = talk.Delivered(turn, arrived), text, offered
		}
	}
	if s != nil || t.state != nil {
		if err := q.save(ctx, person, turn, t.state); err != nil {
			return talk.Fail(talk.Internal, "", err)
		}
	}
	return tell(emit, t.reply.command, text, offered)
}

// tell emits a reply, the command first: devices overlook one that follows words.
func tell(emit talk.Emit, c *talk.Command, text string, offered []string) error {
	if c != nil {
		if err := emit(talk.Do(*c)); err != nil {
			return err
		}
	}
	if err := emit(talk.Text(text)); err != nil {
		return err
	}
	if len(offered) == 0 {
		return nil
	}
	return emit(talk.Suggest(offered...))
}

// turned is a turn being answered.
type turned struct {
	*Quiz
	person string
	turn   *talk.Turn
	lang   talk.Lang
	heard  heard
	state  *state // nil: there is no conversation, or it ends
	reply  reply
	once   bool // the same turn again, at once, is to change nothing
}

// handle finds out what a turn wants, and does it.
func (t *turned) handle(ctx context.Context) error {
	o := open(t.turn.Text())
	if o.topic == reviewDeck {
		id, ok, err := t.deck(ctx, t.person, o.rest)
		if err != nil {
			return err
		}
		if ok {
			return t.begin(ctx, &id)
		}
		o = opening{}
	}
	if s := t.state; s != nil && s.reviewing() && s.Step != confirm && s.Step != content {
		if ok, err := t.isAnswer(ctx); ok || err != nil {
			if err != nil {
				return err
			}
			return t.recall(ctx)
		}
	}
	switch o.topic {
	case reviewAll:
		if t.state != nil && t.state.reviewing() {
			t.state.Step = asked
			return t.repeat(ctx)
		}
		return t.begin(ctx, nil)
	case whatIsDue:
		return t.due(ctx)
	case remindMe:
		return t.remind(ctx)
	case remember:
		return t.note(ctx, o.rest)
	case rememberWhat:
		return t.noteNext(ctx)
	}
	if t.state == nil {
		t.reply.say(sayOver.In(t.lang))
		return nil
	}
	switch t.state.Step {
	case content:
		return t.noteSaid(ctx)
	case confirm:
		if done, err := t.drafts(ctx); done || err != nil {
			return err
		}
	}
	return t.review(ctx)
}

// isAnswer says whether what was said is, word for word, the answer to the question
// that was asked: then it is no command, whatever else it may mean.
func (t *turned) isAnswer(ctx context.Context) (bool, error) {
	if t.state.Step != asked || t.heard.tight == "" || len(t.turn.Images()) > 0 {
		return false, nil
	}
	e, err := t.Service.Get(ctx, t.person, t.state.Point)
	if errors.Is(err, learn.ErrNotFound) {
		return false, nil
	}
	return err == nil && listen(e.Answer).tight == t.heard.tight, err
}
