package cli

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/google/uuid"

	"patchbay/internal/i18n"
)

type learnReviewCmd struct {
	Limit       int    `help:"End after this number of reviews; 0: when nothing is due." placeholder:"N"`
	Judge       bool   `help:"Compare what you type with the answer and suggest a grade; Enter accepts it."`
	Query       string `help:"Only knowledge points that match, such as tag:x or forgotten:7d; see patchbay learn bulk --help." placeholder:"QUERY"`
	Cram        bool   `help:"Practise all that match, due or not; nothing is recorded and dates stay."`
	Count       bool   `help:"With --cram: record the reviews, as early ones."`
	learnFilter `embed:""`
	learnFlags  `embed:""`
}

// Help returns the command's detailed help with examples.
func (learnReviewCmd) Help() string {
	return `Asks due questions. Recall the answer, or type it, and press Enter to see it. Then grade yourself: a (again), h (hard), g (good), e (easy), or 1 to 4; Enter means good. u undoes the last step, s suspends the knowledge point, d deletes it, q or Ctrl-D ends the review. At a question, u, s, d and q alone do the same; put a space before them if they are your answer. Every review is saved immediately, so you can end at any time.

Without a terminal, one line is read per step. With --json the dialogue is written to standard error and a summary to standard output.

Examples:

    patchbay learn review
    patchbay learn review --deck Geography --limit 20
    patchbay learn review --judge
    patchbay learn review --query "forgotten:7d tag:verbs" --cram
    printf 'Paris\ng\nq\n' | patchbay learn review --json`
}

// Run runs a review session.
func (c *learnReviewCmd) Run(ctx context.Context, sh *shell) error {
	if c.Limit < 0 {
		return usage(i18n.Message("--limit is %d; it must not be negative"), c.Limit)
	}
	if c.Count && !c.Cram {
		return usage(i18n.Message("--count belongs to --cram; other reviews are always recorded"))
	}
	return c.open(ctx, sh, func(l learnCaller) error {
		s := &learnSession{query: c.Query, cram: c.Cram, early: c.Count,
			sh: sh, out: sh.stdout, learnCaller: l, keys: newKeyReader(sh), learnFilter: c.learnFilter,
			limit: c.Limit, judges: c.Judge, again: c.retryFlags(), begun: time.Now()}
		if sh.json {
			s.out = sh.stderr
		}
		s.style = sh.newStyle(s.out)
		err := s.run(ctx)
		if errors.Is(err, errQuit) || errors.Is(err, io.EOF) || ctx.Err() != nil {
			err = nil // given answers are saved
		}
		return errors.Join(err, s.summary(ctx))
	})
}

// errQuit ends a session.
var errQuit = errors.New("no more")

// learnCard is a question.
type learnCard struct {
	Point    string   `json:"knowledge_point_id"`
	Plan     string   `json:"schedule_id"`
	Question string   `json:"question"`
	Deck     string   `json:"deck"`
	Tags     []string `json:"tags"`
	State    string   `json:"state"`
}

// learnStep is an action that can be undone.
type learnStep struct {
	point  string
	review string // its ID; empty if it was not a review
	grade  string
	rests  bool // suspended if true; otherwise, without a review, deleted
	// practice is a review that was not recorded.
	practice bool
}

// learnSession is a session of reviews.
type learnSession struct {
	learnCaller
	learnFilter
	sh     *shell
	out    io.Writer
	style  style
	keys   *keyReader
	query  string
	cram   bool   // all that match the query
	early  bool   // reviews of a cram session are recorded
	cursor string // position in a cram session
	limit  int
	judges bool
	again  string // flags to append to suggested commands

	begun time.Time
	card  *learnCard // nil if nothing is left
	left  learnLeft
	steps []learnStep
}

func (s *learnSession) run(ctx context.Context) error {
	if err := s.next(ctx); err != nil {
		return err
	}
	if s.card != nil {
		s.say(msgReviewKeys)
	}
	for s.card != nil {
		if n, _ := s.reviews(); s.limit > 0 && n >= s.limit {
			return nil
		}
		if err := s.one(ctx); err != nil {
			return err
		}
	}
	return nil
}

// reviews counts the reviews, and those graded "again".
func (s *learnSession) reviews() (n, again int) {
	for _, step := range s.steps {
		if step.review != "" || step.practice {
			n++
		}
		if step.grade == "again" {
			again++
		}
	}
	return n, again
}

// next loads the next question.
func (s *learnSession) next(ctx context.Context) error {
	var next struct {
		Card   *learnCard `json:"card"`
		Left   learnLeft  `json:"remaining"`
		Cursor string     `json:"cursor"`
	}
	if err := s.call(ctx, "next_review", s.which(), &next); err != nil {
		return err
	}
	s.card, s.left, s.cursor = next.Card, next.Left, next.Cursor
	return nil
}

// which returns the arguments that say which points are reviewed.
func (s *learnSession) which() map[string]any {
	args := s.put(map[string]any{})
	if s.query != "" {
		args["query"] = s.query
	}
	if s.cram {
		args["cram"] = true
		if s.cursor != "" {
			args["cursor"] = s.cursor
		}
	}
	return args
}

// one asks one question.
func (s *learnSession) one(ctx context.Context) error {
	begun := time.Now()
	s.ask()
	recall, err := s.keys.line(ctx)
	if err != nil {
		s.newline()
		return err
	}
	if moved, err := s.command(ctx, recall); moved || err != nil {
		return err
	}
	recall = strings.TrimSpace(recall)
	var shown learnAnswer
	err = s.call(ctx, "reveal_answer", map[string]any{"knowledge_point_id": s.card.Point}, &shown)
	if t := asLearnError(err); t != nil {
		return s.alreadyReviewed(ctx, t)
	}
	if err != nil {
		return err
	}
	s.show(&shown)
	a := givenAnswer{recall: recall, begun: begun, id: uuid.NewString(), grade: "good", score: noScore}
	if s.judges && recall != "" {
		s.judge(ctx, &a)
	}
	return s.grade(ctx, &a)
}

// command runs the command of a letter, before or after the answer is shown; moved means that there
// is another question now, or none.
func (s *learnSession) command(ctx context.Context, text string) (moved bool, err error) {
	switch text {
	case "q":
		return true, errQuit
	case "u":
		return true, s.undo(ctx)
	case "s":
		return true, s.set(ctx, learnStep{point: s.card.Point, rests: true})
	case "d":
		return true, s.set(ctx, learnStep{point: s.card.Point})
	}
	return false, nil
}

// givenAnswer is the user's recall and its review.
type givenAnswer struct {
	recall string
	begun  time.Time
	id     string // of the review: sent twice, it counts once
	grade  string // the default for Enter
	score  int
}

// noScore means that the recall was not judged.
const noScore = -1

// learnKeys maps keys to grades.
var learnKeys = map[rune]string{'a': "again", 'h': "hard", 'g': "good", 'e': "easy", '1': "again", '2': "hard",
	'3': "good", '4': "easy"}

// grade asks for a grade until one is saved.
func (s *learnSession) grade(ctx context.Context, a *givenAnswer) error {
	for {
		key, err := s.keys.key(ctx, s.out, "["+s.sh.learnGrade(a.grade)+"] ")
		s.newline()
		if err != nil {
			return err
		}
		if moved, err := s.command(ctx, string(key)); moved || err != nil {
			return err
		}
		grade := learnKeys[key]
		if key == '\n' {
			grade = a.grade
		}
		if grade == "" {
			s.say(msgReviewKeys)
			continue
		}
		kept, err := s.submit(ctx, a, grade)
		switch t := asLearnError(err); {
		case kept:
			return err
		case t != nil:
			return s.alreadyReviewed(ctx, t)
		case ctx.Err() != nil:
			return err
		}
		// It is unknown whether the review arrived. Sent again, it counts once.
		s.say(msgReviewLost, singleLine(i18n.Localize(err, s.sh.lang)))
	}
}

// maxAnswerTime is the longest recorded duration of a review; longer ones are breaks.
const maxAnswerTime = 10 * time.Minute

// submit submits a review. If kept, the review is saved and the error is about what followed.
func (s *learnSession) submit(ctx context.Context, a *givenAnswer, grade string) (kept bool, err error) {
	if s.cram && !s.early {
		s.steps = append(s.steps, learnStep{point: s.card.Point, grade: grade, practice: true})
		return true, s.next(ctx)
	}
	args := s.which()
	args["knowledge_point_id"], args["grade"], args["review_id"] = s.card.Point, grade, a.id
	args["took_ms"] = min(time.Since(a.begun), maxAnswerTime).Milliseconds()
	if s.early {
		args["early"] = true
	}
	if s.card.Plan != "" {
		args["schedule_id"] = s.card.Plan
	}
	if a.recall != "" {
		args["recall_text"] = a.recall
	}
	if a.score != noScore {
		args["score"] = a.score
	}
	var done struct {
		Grade string     `json:"grade"`
		Due   string     `json:"due"`
		Leech bool       `json:"leech"`
		Next  *learnCard `json:"next_card"`
		Left  learnLeft  `json:"remaining"`
		At    string     `json:"cursor"`
	}
	if err := s.call(ctx, "submit_review", args, &done); err != nil {
		return false, err
	}
	s.steps = append(s.steps, learnStep{point: s.card.Point, review: a.id, grade: done.Grade})
	s.say(msgReviewKept, s.sh.learnGrade(done.Grade), s.sh.learnDue(done.Due))
	if done.Leech {
		s.say(msgReviewLeech)
	}
	s.card, s.left = done.Next, done.Left
	if s.cursor = done.At; s.card == nil && !s.cram { // nothing is left, or the next question could not be loaded
		err = s.next(ctx)
	}
	return true, err
}

// alreadyReviewed continues after a tool has refused a request, usually because the point was
// reviewed or deleted on another device.
func (s *learnSession) alreadyReviewed(ctx context.Context, t *learnError) error {
	was := s.card.Point
	if t.reason == "already_reviewed" {
		s.say(msgReviewAlready)
	} else {
		s.say(msgReviewRefused, singleLine(plain(t.text)))
	}
	if err := s.next(ctx); err != nil {
		return err
	}
	if s.card != nil && s.card.Point == was && t.reason != "already_reviewed" {
		return t // it would be refused every time
	}
	return nil
}

// set suspends or deletes the point.
func (s *learnSession) set(ctx context.Context, step learnStep) error {
	var err error
	if step.rests {
		err = s.call(ctx, "update_knowledge_point", map[string]any{"id": step.point, "suspended": true}, nil)
	} else {
		err = s.call(ctx, "delete_knowledge_point", map[string]any{"id": step.point}, nil)
	}
	if t := asLearnError(err); t != nil {
		return s.alreadyReviewed(ctx, t)
	}
	if err != nil {
		return err
	}
	s.steps = append(s.steps, step)
	if step.rests {
		s.say(msgReviewRests, learnShort(step.point), s.again)
	} else {
		s.say(msgReviewDeleted, learnShort(step.point), s.again)
	}
	return s.next(ctx)
}

// undo undoes the last step and asks that question again.
func (s *learnSession) undo(ctx context.Context) error {
	if len(s.steps) == 0 {
		s.say(msgReviewNoStep)
		return nil
	}
	step := s.steps[len(s.steps)-1]
	var err error
	switch {
	case step.practice:
	case step.review != "":
		err = s.call(ctx, "undo_review", map[string]any{"review_id": step.review}, nil)
	case step.rests:
		err = s.call(ctx, "update_knowledge_point", map[string]any{"id": step.point, "suspended": false}, nil)
	default:
		err = s.call(ctx, "restore_knowledge_point", map[string]any{"id": step.point}, nil)
	}
	if t := asLearnError(err); t != nil {
		s.say(msgReviewRefused, singleLine(plain(t.text)))
		return nil
	}
	if err != nil {
		return err
	}
	s.steps = s.steps[:len(s.steps)-1]
	s.say(msgReviewBack)
	if !s.cram {
		if err := s.next(ctx); err != nil { // for the number of points left
			return err
		}
	}
	var card learnCard
	if err := s.call(ctx, "reveal_answer", map[string]any{"knowledge_point_id": step.point}, &card); err != nil {
		return err
	}
	s.card = &card
	return nil
}

// judge has the recall compared with the answer. If that fails, the session continues.
func (s *learnSession) judge(ctx context.Context, a *givenAnswer) {
	var j learnJudgement
	err := s.call(ctx, "analyze_recall", map[string]any{"knowledge_point_id": s.card.Point, "recall_text": a.recall},
		&j)
	if err != nil {
		s.say(msgReviewUnjudged, singleLine(i18n.Localize(err, s.sh.lang)))
		return
	}
	s.verdict(&j)
	a.score = j.Score
	if _, known := learnGrades[j.Grade]; known {
		a.grade = j.Grade
	}
}

var learnGrades = map[string]i18n.Message{
	"again": "again",
	"hard":  "hard",
	"good":  msgGradeGood, // the message "good" is about keys
	"easy":  "easy",
}

// learnGrade returns the name of a grade.
func (sh *shell) learnGrade(name string) string {
	if s, ok := learnGrades[name]; ok {
		return s.In(sh.lang)
	}
	return plain(name)
}

// learnUndone is the result of undoing a review.
type learnUndone struct {
	Grade   string    `json:"grade"`
	Already bool      `json:"already"`
	Card    learnCard `json:"card"`
}
