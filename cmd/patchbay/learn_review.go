package main

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/google/uuid"

	"patchbay/internal/talk"
)

type learnReviewCmd struct {
	Limit       int  `help:"End after so many reviews; 0: when nothing is left." placeholder:"N"`
	Judge       bool `help:"Have what you type compared with the answer; Enter takes the grade that is suggested then."`
	learnFilter `embed:""`
	learnFlags  `embed:""`
}

// Help is the command's examples.
func (learnReviewCmd) Help() string {
	return `Asks what is due. Recall the answer, or type it, and press Enter to see it. Then say how well you knew it: a (again), h (hard), g (good), e (easy), or 1 to 4; Enter is good. u takes the last step back, s lets the knowledge point rest, d deletes it, q or Ctrl-D ends. At the question u, s, d and q alone mean the same; put a space before them if one is your answer. Every review is kept at once, so ending loses nothing.

Without a terminal it reads a line for each of these steps. With --json the talk goes to standard error and a summary to standard output.

Examples:

    patchbay learn review
    patchbay learn review --deck Geography --limit 20
    patchbay learn review --judge
    printf 'Paris\ng\nq\n' | patchbay learn review --json`
}

// Run asks.
func (c *learnReviewCmd) Run(ctx context.Context, sh *shell) error {
	if c.Limit < 0 {
		return usage(talk.Say{Zh: "--limit 是 %d；不能是负数", En: "--limit is %d; it must not be negative"}, c.Limit)
	}
	return c.open(ctx, sh, func(l learnCaller) error {
		s := &learnSession{sh: sh, out: sh.stdout, learnCaller: l, typed: newTypist(sh), learnFilter: c.learnFilter, limit: c.Limit, judges: c.Judge, again: c.again(), begun: time.Now()}
		if sh.json {
			s.out = sh.stderr
		}
		s.ink = sh.ink(s.out)
		err := s.run(ctx)
		if errors.Is(err, errEnough) || errors.Is(err, io.EOF) || ctx.Err() != nil {
			err = nil // what was answered is kept
		}
		return errors.Join(err, s.summary(ctx))
	})
}

// errEnough ends a session.
var errEnough = errors.New("no more")

// learnCard is a question.
type learnCard struct {
	Point    string   `json:"knowledge_point_id"`
	Plan     string   `json:"schedule_id"`
	Question string   `json:"question"`
	Deck     string   `json:"deck"`
	Tags     []string `json:"tags"`
	State    string   `json:"state"`
}

// learnStep is something that was done and can be taken back.
type learnStep struct {
	point  string
	review string // its id; empty: it was no review
	grade  string
	rests  bool // it was suspended; else, if it is no review, it was deleted
}

// learnSession is a session of reviews.
type learnSession struct {
	learnCaller
	learnFilter
	sh     *shell
	out    io.Writer
	ink    ink
	typed  *typist
	limit  int
	judges bool
	again  string // what has to follow a command that is suggested

	begun time.Time
	card  *learnCard // nil: nothing is left
	left  learnLeft
	steps []learnStep
}

func (s *learnSession) run(ctx context.Context) error {
	if err := s.next(ctx); err != nil {
		return err
	}
	if s.card != nil {
		s.say(sayReviewKeys)
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

// reviews counts what was done, and how often something was forgotten.
func (s *learnSession) reviews() (n, again int) {
	for _, step := range s.steps {
		if step.review != "" {
			n++
		}
		if step.grade == "again" {
			again++
		}
	}
	return n, again
}

// next looks up the next question.
func (s *learnSession) next(ctx context.Context) error {
	var next struct {
		Card *learnCard `json:"card"`
		Left learnLeft  `json:"remaining"`
	}
	if err := s.call(ctx, "next_review", s.put(map[string]any{}), &next); err != nil {
		return err
	}
	s.card, s.left = next.Card, next.Left
	return nil
}

// one asks one question.
func (s *learnSession) one(ctx context.Context) error {
	begun := time.Now()
	s.ask()
	recall, err := s.typed.line(ctx)
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
	if t := asTrouble(err); t != nil {
		return s.elsewhere(ctx, t)
	}
	if err != nil {
		return err
	}
	s.show(&shown)
	a := learnGiven{recall: recall, begun: begun, id: uuid.NewString(), grade: "good", score: noScore}
	if s.judges && recall != "" {
		s.judge(ctx, &a)
	}
	return s.grade(ctx, &a)
}

// command does what a letter stands for, at a question as behind its answer; moved
// says that there is another question now, or none.
func (s *learnSession) command(ctx context.Context, text string) (moved bool, err error) {
	switch text {
	case "q":
		return true, errEnough
	case "u":
		return true, s.undo(ctx)
	case "s":
		return true, s.set(ctx, learnStep{point: s.card.Point, rests: true})
	case "d":
		return true, s.set(ctx, learnStep{point: s.card.Point})
	}
	return false, nil
}

// learnGiven is what somebody answered.
type learnGiven struct {
	recall string
	begun  time.Time
	id     string // of the review: sent again, it counts once
	grade  string // what Enter takes
	score  int
}

// noScore is the score of what nobody judged.
const noScore = -1

// learnKeys are the grades by what is typed.
var learnKeys = map[rune]string{'a': "again", 'h': "hard", 'g': "good", 'e': "easy", '1': "again", '2': "hard", '3': "good", '4': "easy"}

// grade reads how well it was known, until that is kept.
func (s *learnSession) grade(ctx context.Context, a *learnGiven) error {
	for {
		key, err := s.typed.key(ctx, s.out, "["+s.sh.learnGrade(a.grade)+"] ")
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
			s.say(sayReviewKeys)
			continue
		}
		kept, err := s.submit(ctx, a, grade)
		switch t := asTrouble(err); {
		case kept:
			return err
		case t != nil:
			return s.elsewhere(ctx, t)
		case ctx.Err() != nil:
			return err
		}
		// Nobody knows whether it arrived. Sent again it counts once.
		s.say(sayReviewLost, oneLine(talk.Told(err, s.sh.lang)))
	}
}

// tookMost is the longest time that counts as one review: who goes for lunch in
// between does not think all the while.
const tookMost = 10 * time.Minute

// submit hands a review in. If it is kept, the error is about what follows.
func (s *learnSession) submit(ctx context.Context, a *learnGiven, grade string) (kept bool, err error) {
	args := s.put(map[string]any{"knowledge_point_id": s.card.Point, "grade": grade, "review_id": a.id, "took_ms": min(time.Since(a.begun), tookMost).Milliseconds()})
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
	}
	if err := s.call(ctx, "submit_review", args, &done); err != nil {
		return false, err
	}
	s.steps = append(s.steps, learnStep{point: s.card.Point, review: a.id, grade: done.Grade})
	s.say(sayReviewKept, s.sh.learnGrade(done.Grade), s.sh.learnDue(done.Due))
	if done.Leech {
		s.say(sayReviewLeech)
	}
	s.card, s.left = done.Next, done.Left
	if s.card == nil { // nothing is left, or it could not be looked up
		err = s.next(ctx)
	}
	return true, err
}

// elsewhere goes on after a tool refused something: mostly the point was reviewed
// or deleted on another device.
func (s *learnSession) elsewhere(ctx context.Context, t *learnTrouble) error {
	was := s.card.Point
	if t.reason == "already_reviewed" {
		s.say(sayReviewAlready)
	} else {
		s.say(sayReviewRefused, oneLine(plain(t.text)))
	}
	if err := s.next(ctx); err != nil {
		return err
	}
	if s.card != nil && s.card.Point == was && t.reason != "already_reviewed" {
		return t // it would be refused for ever
	}
	return nil
}

// set lets the point rest, or deletes it.
func (s *learnSession) set(ctx context.Context, step learnStep) error {
	var err error
	if step.rests {
		err = s.call(ctx, "update_knowledge_point", map[string]any{"id": step.point, "suspended": true}, nil)
	} else {
		err = s.call(ctx, "delete_knowledge_point", map[string]any{"id": step.point}, nil)
	}
	if t := asTrouble(err); t != nil {
		return s.elsewhere(ctx, t)
	}
	if err != nil {
		return err
	}
	s.steps = append(s.steps, step)
	if step.rests {
		s.say(sayReviewRests, learnShort(step.point), s.again)
	} else {
		s.say(sayReviewDeleted, learnShort(step.point), s.again)
	}
	return s.next(ctx)
}

// undo takes the last step back and asks that question again.
func (s *learnSession) undo(ctx context.Context) error {
	if len(s.steps) == 0 {
		s.say(sayReviewNoStep)
		return nil
	}
	step := s.steps[len(s.steps)-1]
	var err error
	switch {
	case step.review != "":
		err = s.call(ctx, "undo_review", map[string]any{"review_id": step.review}, nil)
	case step.rests:
		err = s.call(ctx, "update_knowledge_point", map[string]any{"id": step.point, "suspended": false}, nil)
	default:
		err = s.call(ctx, "restore_knowledge_point", map[string]any{"id": step.point}, nil)
	}
	if t := asTrouble(err); t != nil {
		s.say(sayReviewRefused, oneLine(plain(t.text)))
		return nil
	}
	if err != nil {
		return err
	}
	s.steps = s.steps[:len(s.steps)-1]
	s.say(sayReviewBack)
	if err := s.next(ctx); err != nil { // for how many are left
		return err
	}
	var card learnCard
	if err := s.call(ctx, "reveal_answer", map[string]any{"knowledge_point_id": step.point}, &card); err != nil {
		return err
	}
	s.card = &card
	return nil
}

// judge has the recall compared with the answer. Without a verdict the session goes
// on.
func (s *learnSession) judge(ctx context.Context, a *learnGiven) {
	var j learnJudgement
	err := s.call(ctx, "analyze_recall", map[string]any{"knowledge_point_id": s.card.Point, "recall_text": a.recall}, &j)
	if err != nil {
		s.say(sayReviewUnjudged, oneLine(talk.Told(err, s.sh.lang)))
		return
	}
	s.verdict(&j)
	a.score = j.Score
	if _, known := learnGrades[j.Grade]; known {
		a.grade = j.Grade
	}
}

var learnGrades = map[string]talk.Say{
	"again": {Zh: "重来", En: "again"},
	"hard":  {Zh: "困难", En: "hard"},
	"good":  {Zh: "良好", En: "good"},
	"easy":  {Zh: "简单", En: "easy"},
}

// learnGrade is the name of a grade.
func (sh *shell) learnGrade(name string) string {
	if s, ok := learnGrades[name]; ok {
		return s.In(sh.lang)
	}
	return plain(name)
}

// learnUndone is what became of a review that was taken back.
type learnUndone struct {
	Grade   string    `json:"grade"`
	Already bool      `json:"already"`
	Card    learnCard `json:"card"`
}
