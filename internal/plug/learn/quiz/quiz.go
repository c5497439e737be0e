// Package quiz lets people review their points by voice, on any channel through which they talk to
// their bot: it asks a question, judges the spoken recall, and asks the next one. It also takes
// notes, which become points.
//
// The path of a turn: the hub calls [Quiz.Intercept] before it asks the bot. The quiz takes a turn
// that opens something by a phrase (phrases.go) or continues an open conversation (state.go); all
// others go to the bot. [Quiz.Answer] answers the turn: review.go runs a review, grade.go grades
// recalls, notes.go makes points from notes.
package quiz

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/plug/learn"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// quizChannel is the channel under which reviews by voice are logged.
const quizChannel = "quiz"

// Service is the part of [learn.Service] that the quiz uses.
type Service interface {
	Learner(ctx context.Context, person string) (*learn.Learner, error)
	Queue(ctx context.Context, person string, f learn.QueueFilter) (*learn.Queue, error)
	Get(ctx context.Context, person, id string) (*learn.Entry, error)
	Submit(ctx context.Context, person string, in learn.Submission) (*learn.Outcome, error)
	Cram(ctx context.Context, person string, x *learn.Expression, after int64, limit int) (*learn.CramPage, error)
	Tags(ctx context.Context, person, after string, limit int) ([]store.TagCount, error)
	Undo(ctx context.Context, person, id, channel string) (*learn.Outcome, error)
	Create(ctx context.Context, person string, drafts []learn.Draft) ([]learn.CreateResult, error)
	Update(ctx context.Context, person, id string, e learn.Edit) (*learn.Entry, error)
	Delete(ctx context.Context, person, id string) error
	Stats(ctx context.Context, person string, days, back int) (*learn.Stats, error)
	Judge(ctx context.Context, person string, in learn.Recall) (*learn.Judgement, error)
	Compose(ctx context.Context, person, text string, image *talk.Image, lang i18n.Lang) ([]learn.Draft, error)
	SaveMedia(ctx context.Context, person, name string, data []byte) (store.MediaFile, error)
}

var _ Service = (*learn.Service)(nil)

// Options configure a [Quiz].
type Options struct {
	Service Service
	Store   *store.DB
	Logger  *slog.Logger // nil: no logging
	// Shared reports whether several people may ask a bot under one identity; see [Person]. nil
	// means that no bot is shared.
	Shared func(store.Bot) bool
	// Allowed reports whether the asker may see the points of the bot's owner; nil means everybody
	// whom [Person] accepts. It is called only for turns that the quiz would take.
	Allowed func(context.Context, store.Bot, *talk.Turn) bool
	// Now returns the current time; nil means time.Now.
	Now func() time.Time
	// Tell tells a person that a step is due, see [Quiz.Run]; nil: nobody is told.
	Tell func(context.Context, Notice) error
	// StepInterval is the time between two checks for steps that are due; 0: 5 s.
	StepInterval time.Duration
}

// Settings are the owner's settings of a bot.
type Settings struct {
	// Learn lets everybody who can ask the bot review its owner's points, not only the people bound
	// to it.
	Learn bool `json:"learn,omitempty"`
}

// Quiz answers turns about a person's points. It is safe for concurrent use.
type Quiz struct {
	Options
	locks   locks
	waiters waiters
}

// New returns a quiz.
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
	if o.StepInterval == 0 {
		o.StepInterval = stepInterval
	}
	return &Quiz{Options: o}
}

// Intercept returns the bot that answers a turn in place of the addressed bot; nil means the
// addressed bot itself. It has the signature of the hub's Intercept.
func (q *Quiz) Intercept(ctx context.Context, bot store.Bot, turn *talk.Turn) talk.Bot {
	person, ok := Person(bot, q.Shared(bot), turn)
	if !ok || !q.Matches(ctx, person, turn) || !q.Allowed(ctx, bot, turn) {
		return nil
	}
	return quizBot{q, person}
}

// quizBot is the quiz as a bot for one person.
type quizBot struct {
	quiz   *Quiz
	person string
}

// Answer implements [talk.Bot].
func (i quizBot) Answer(ctx context.Context, turn *talk.Turn, emit talk.Emit) error {
	return i.quiz.Answer(ctx, i.person, turn, emit)
}

// Matches reports whether a turn is about a person's points. If that cannot be determined, it
// returns false.
func (q *Quiz) Matches(ctx context.Context, person string, turn *talk.Turn) bool {
	matched, err := q.matches(ctx, person, turn)
	if err != nil {
		q.Logger.WarnContext(ctx, "a turn went to the bot, since nobody knows whether it is about points",
			"bot", turn.Bot, "error", err)
	}
	return matched && err == nil
}

func (q *Quiz) matches(ctx context.Context, person string, turn *talk.Turn) (bool, error) {
	switch o := parseOpening(turn.Text()); o.topic {
	case topicNone:
	case topicReviewDeck:
		if _, ok, err := q.deck(ctx, person, o.rest); ok {
			return true, nil
		} else if err != nil {
			q.Logger.WarnContext(ctx, "a person's decks could not be looked up", "error", err)
		}
	case topicCram:
		if c, err := q.cramTarget(ctx, person, o.rest); c != nil {
			return true, nil
		} else if err != nil {
			q.Logger.WarnContext(ctx, "a person's decks and tags could not be looked up", "error", err)
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

// continues reports whether a turn continues a conversation.
func (q *Quiz) continues(s *state, turn *talk.Turn) bool {
	h := parseUtterance(turn.Text())
	if s.isReviewing() || s.Step == stepContent || s.isRepeat(turn, q.Now()) {
		return true
	}
	switch s.Step {
	case stepConfirm:
		v, _ := h.parseVerdict()
		c, _ := h.parseCommand(true)
		return v != verdictNone || c == commandLeave || c == commandNoise && len(turn.Images()) == 0
	case stepOver:
		c, _ := h.parseCommand(true)
		return c == commandChange || c == commandUndo || c == commandStop
	}
	return false
}

// isRepeat reports whether a turn that arrived at a given time is a network retry of the turn
// before.
func (s *state) isRepeat(turn *talk.Turn, at time.Time) bool {
	return s.LastDelivery.Content != "" && at.Sub(s.LastDelivery.At) < repeatWindow &&
		talk.NewDelivery(turn, at).Repeats(s.LastDelivery)
}

// deck finds a person's deck by its spoken name.
func (q *Quiz) deck(ctx context.Context, person, said string) (id string, ok bool, err error) {
	l, err := q.Service.Learner(ctx, person)
	if err != nil {
		return "", false, err
	}
	want := parseUtterance(said).tight
	for _, d := range l.Decks {
		name := parseUtterance(d.Name).tight
		if name == "" {
			continue
		}
		if rest, ok := strings.CutPrefix(want, name); ok && deckWords[rest] {
			return d.ID, true, nil
		}
	}
	return "", false, nil
}

// deckWords are words that may follow a deck's name.
var deckWords = map[string]bool{"": true, "吧": true, "卡组": true, "牌组": true, "的卡片": true, "卡片": true, "的知识点": true,
	"知识点": true, "deck": true, "cards": true, "points": true}

// reply is the reply to a turn.
type reply struct {
	lines   []string
	offer   []i18n.Message
	command *talk.Command
}

func (r *reply) say(lines ...string) {
	for _, l := range lines {
		if l != "" {
			r.lines = append(r.lines, l)
		}
	}
}

// Answer answers a turn that [Quiz.Matches]. Every change that the reply reports is stored by then.
func (q *Quiz) Answer(ctx context.Context, person string, turn *talk.Turn, emit talk.Emit) error {
	arrived := q.Now() // before waiting for the previous turn
	release, err := q.locks.acquire(ctx, conversationID(turn))
	if err != nil {
		return err
	}
	defer release()
	s, err := q.load(ctx, person, turn)
	if err != nil {
		return talk.Fail(talk.Internal, "", err)
	}
	h := parseUtterance(turn.Text())
	if s != nil && s.isRepeat(turn, arrived) {
		return emitReply(emit, nil, s.LastReply, s.LastSuggestions)
	}
	t := &turnHandler{Quiz: q, person: person, turn: turn, lang: turn.Lang, utterance: h, state: s}
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
		s.LastDelivery, s.LastReply, s.LastSuggestions = talk.Delivery{}, "", nil
		if t.rememberReply {
			s.LastDelivery, s.LastReply, s.LastSuggestions = talk.NewDelivery(turn, arrived), text, offered
		}
	}
	if s != nil || t.state != nil {
		if err := q.save(ctx, person, turn, t.state); err != nil {
			return talk.Fail(talk.Internal, "", err)
		}
		q.expectStep(turn, person, t.state)
	}
	if turn.AwaitsAnswer != nil && t.state.awaitsAnswer() {
		turn.AwaitsAnswer()
	}
	return emitReply(emit, t.reply.command, text, offered)
}

// emitReply sends a reply, the command first: devices ignore a command after text.
func emitReply(emit talk.Emit, c *talk.Command, text string, offered []string) error {
	if c != nil {
		if err := emit(talk.DoCommand(*c)); err != nil {
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

// turnHandler handles one turn.
type turnHandler struct {
	*Quiz
	person        string
	turn          *talk.Turn
	lang          i18n.Lang
	utterance     utterance
	state         *state // nil: no conversation, or it ends
	reply         reply
	rememberReply bool // a repetition of this turn must not change anything
}

// handle determines what a turn asks for, and does it.
func (t *turnHandler) handle(ctx context.Context) error {
	o := parseOpening(t.turn.Text())
	if o.topic == topicReviewDeck {
		id, ok, err := t.deck(ctx, t.person, o.rest)
		if err != nil {
			return err
		}
		if ok {
			return t.begin(ctx, &id)
		}
		o = opening{}
	}
	if o.topic == topicCram {
		c, err := t.cramTarget(ctx, t.person, o.rest)
		if err != nil {
			return err
		}
		if c != nil {
			return t.beginCram(ctx, c)
		}
		o = opening{}
	}
	if s := t.state; s != nil && s.isReviewing() && s.Step != stepConfirm && s.Step != stepContent {
		if ok, err := t.isAnswer(ctx); ok || err != nil {
			if err != nil {
				return err
			}
			return t.judgeRecall(ctx)
		}
	}
	switch o.topic {
	case topicReviewAll:
		if t.state != nil && t.state.isReviewing() {
			t.state.Step = stepAsked
			return t.repeat(ctx)
		}
		return t.begin(ctx, nil)
	case topicDue:
		return t.showDue(ctx)
	case topicRemind:
		return t.remind(ctx)
	case topicNote:
		return t.composeNote(ctx, o.rest)
	case topicNoteNext:
		return t.awaitNote(ctx)
	}
	if t.state == nil {
		t.reply.say(msgOver.In(t.lang))
		return nil
	}
	switch t.state.Step {
	case stepContent:
		return t.takeNote(ctx)
	case stepConfirm:
		if done, err := t.handleDrafts(ctx); done || err != nil {
			return err
		}
	}
	return t.review(ctx)
}

// isAnswer reports whether the text is literally the answer to the current question. Then it is not
// a command, even if it sounds like one.
func (t *turnHandler) isAnswer(ctx context.Context) (bool, error) {
	if t.state.Step != stepAsked || t.utterance.tight == "" || len(t.turn.Images()) > 0 {
		return false, nil
	}
	e, err := t.Service.Get(ctx, t.person, t.state.Point)
	if errors.Is(err, learn.ErrNotFound) {
		return false, nil
	}
	return err == nil && parseUtterance(e.Answer).tight == t.utterance.tight, err
}
