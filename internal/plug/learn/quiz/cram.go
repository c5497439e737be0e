package quiz

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"patchbay/internal/i18n"
	"patchbay/internal/plug/learn"
	"patchbay/internal/store"
)

// A cram session by voice asks all points of a deck or with a tag, due or not, oldest first.
// Recalls are judged as in a review, and nothing is recorded.

// cramming is the state of a cram session.
type cramming struct {
	Deck   string  `json:"deck,omitempty"` // ID; either this or the tag is set
	Tag    string  `json:"tag,omitempty"`
	After  int64   `json:"after,omitempty"`  // number of the last point that was passed
	Number int64   `json:"number,omitempty"` // number of the current point
	Total  int     `json:"total,omitempty"`
	Passed int     `json:"passed,omitempty"`
	Last   *passed `json:"last,omitempty"` // the last point that was passed; nil: none
}

// passed is where a session was before its last point was passed.
type passed struct {
	After  int64 `json:"after"`
	Graded bool  `json:"graded,omitempty"` // not skipped
	Forgot bool  `json:"forgot,omitempty"`
}

// left returns what is left of the session, with the current point.
func (c *cramming) left() learn.Remaining {
	return learn.Remaining{Reviews: max(c.Total-c.Passed, 0)}
}

// maxSpokenTags is how many tags of a person are compared with what was said.
const maxSpokenTags = 2000

// Words that say that the name of a tag or a deck follows, or that it is before them.
var (
	tagBefore  = []string{"带标签", "标签", "有标签", "tagged", "tag", "タグ"}
	deckBefore = []string{"牌组", "卡组", "deck", "デッキ"}
	tagAfter   = []string{"的标签", "标签", "tag", "タグ"}
)

// cutWord removes one of the words from the beginning or the end of a text.
func cutWord(text string, words []string, cut func(string, string) (string, bool)) (string, bool) {
	for _, w := range words {
		if rest, ok := cut(text, w); ok && rest != "" {
			return rest, true
		}
	}
	return text, false
}

// cramTarget finds the deck or tag that somebody named; nil means neither. A deck goes before a tag
// of the same name, unless the tag was asked for.
func (q *Quiz) cramTarget(ctx context.Context, person, said string) (*cramming, error) {
	tight := parseUtterance(said).tight
	name, isTag := cutWord(tight, tagBefore, strings.CutPrefix)
	if !isTag {
		name, isTag = cutWord(tight, tagAfter, strings.CutSuffix)
	}
	names := []string{name}
	if !isTag {
		deckSaid, _ := cutWord(tight, deckBefore, strings.CutPrefix)
		id, ok, err := q.deck(ctx, person, deckSaid)
		if err != nil {
			return nil, err
		}
		if ok {
			return &cramming{Deck: id}, nil
		}
		for _, word := range slices.Sorted(maps.Keys(deckWords)) {
			if rest, ok := strings.CutSuffix(name, word); ok && rest != "" {
				names = append(names, rest)
			}
		}
	}
	tag, err := q.tag(ctx, person, names)
	if tag == "" || err != nil {
		return nil, err
	}
	return &cramming{Tag: tag}, nil
}

// tag finds a person's tag by one of its spoken names, the first that there is; empty: none.
func (q *Quiz) tag(ctx context.Context, person string, names []string) (string, error) {
	tags, err := q.Service.Tags(ctx, person, "", maxSpokenTags)
	if err != nil {
		return "", fmt.Errorf("look up tags: %w", err)
	}
	spoken := make(map[string]string, len(tags))
	for _, t := range tags {
		spoken[parseUtterance(t.Tag).tight] = t.Tag
	}
	for _, name := range names {
		if tag := spoken[name]; tag != "" && name != "" {
			return tag, nil
		}
	}
	return "", nil
}

// beginCram starts a cram session.
func (t *turnHandler) beginCram(ctx context.Context, c *cramming) error {
	t.state = &state{Step: stepAsked, Cram: c}
	return t.nextCram(ctx)
}

// nextCram asks the next question of a cram session. If there is none, the session ends.
func (t *turnHandler) nextCram(ctx context.Context) error {
	s, c := t.state, t.state.Cram
	page, err := t.Service.Cram(ctx, t.person, new(learn.Expression).Within(c.Deck, c.Tag), c.After, 1)
	if err != nil {
		return err
	}
	if c.Total == 0 {
		if c.Total = page.Total; c.Total == 0 {
			t.state = nil
			t.reply.say(msgCramNone.In(t.lang))
			return nil
		}
		begin := msgCramBegin
		if c.Total == learn.MaxCramCount {
			begin = msgCramMany
		}
		t.reply.say(begin.In(t.lang, c.Total))
	}
	if len(page.Entries) == 0 {
		t.endCram(msgCramDone)
		return nil
	}
	c.Number = page.Entries[0].Number
	s.Asked++
	t.askQuestion(&page.Entries[0], c.left())
	return nil
}

// passCram goes on after a recall was judged, or graded by its person.
func (t *turnHandler) passCram(ctx context.Context, g store.Grade, line string) error {
	s, c := t.state, t.state.Cram
	t.rememberReply = true
	c.Last = &passed{After: c.After, Graded: true, Forgot: g == store.Again}
	c.After = c.Number
	c.Passed++
	s.Done++
	s.Again += countForgotten(g)
	t.reply.say(line)
	return t.next(ctx)
}

// cram handles what is different in a cram session. done reports whether that was all.
func (t *turnHandler) cram(ctx context.Context) (done bool, err error) {
	s, c := t.state, t.state.Cram
	switch order, _ := t.utterance.parseCommand(s.Step != stepShown); order {
	case commandSkip:
		c.Last = &passed{After: c.After}
		c.After = c.Number
		c.Passed++
		return true, t.next(ctx)
	case commandCount:
		t.reply.say(msgLeft.In(t.lang, c.left().Total()))
		return true, t.repeat(ctx)
	case commandUndo:
		if c.Last == nil {
			t.reply.say(msgNoLast.In(t.lang))
			return true, t.repeat(ctx)
		}
		c.After = c.Last.After
		c.Passed--
		s.Asked = max(s.Asked-2, 0) // the one in between comes again, and so does this one
		if c.Last.Graded {
			s.Done--
		}
		if c.Last.Forgot {
			s.Again--
		}
		c.Last = nil
		t.reply.say(msgUndone.In(t.lang))
		return true, t.next(ctx)
	}
	return false, nil
}

// endCram ends the session with its result. After a recall that was judged, the state stays for the
// repetition of that turn.
func (t *turnHandler) endCram(how i18n.Message) {
	s := t.state
	t.reply.say(how.In(t.lang, s.Done, s.Again))
	t.reply.offer = []i18n.Message{tipBegin, tipDueToday}
	t.state = nil
	if t.rememberReply {
		t.state = &state{Step: stepOver}
	}
}

const (
	msgCramBegin   = i18n.Message("Cramming %d. Nothing is recorded, and dates stay.")
	msgCramMany    = i18n.Message("Cramming %d or more. Nothing is recorded, and dates stay.")
	msgCramNone    = i18n.Message("Nothing to cram there.")
	msgCramDone    = i18n.Message("That was all: %d asked, %d of them not known. Nothing was recorded.")
	msgCramStopped = i18n.Message("Stopped: %d asked, %d of them not known. Nothing was recorded.")
)
