package transfer

import (
	"encoding/json"
	"errors"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"patchbay/internal/plug/learn/transfer/apkg"
	"patchbay/internal/store"
)

// Values of [apkg.Card].Mark for states that Anki does not have; such cards are suspended there.
const (
	markDone = "done" // the classic course is complete
	markOut  = "out"  // not in the plan
	markRest = "rest" // not in the plan, and suspended
)

// kinMemo is the prefix of the memo of notes written by Patchbay; the kin follows, which may be
// empty.
const kinMemo = "kin:"

// fromGUID is the prefix of the GUIDs of notes whose items came from other files.
const fromGUID = "from:"

func (in *itemReader) readAnki(r io.ReaderAt, size int64) error {
	o := apkg.Options{Zone: in.o.Zone, DayStart: in.o.DayStart, MaxCards: in.o.MaxItems, Temp: in.o.Temp,
		Progress: in.o.Progress, Contents: in.ankiContents,
		OnError: func(b apkg.CardError) { in.reject(b.Row, b.What, b.Why) }}
	row := 0
	err := apkg.Read(in.ctx, r, size, o, func(c apkg.Card) error {
		row++
		return in.item(row, in.o.ankiItem(&c))
	})
	var many *apkg.TooManyError
	switch {
	case errors.As(err, &many):
		return &TooManyError{many.Max}
	case errors.Is(err, apkg.ErrBroken):
		return &UnreadableError{err}
	}
	return err
}

// ankiItem converts a card to an item.
func (o ReadOptions) ankiItem(c *apkg.Card) Item {
	it := Item{Origin: "anki:" + c.GUID + ":" + strconv.Itoa(c.Order), Kin: "anki:" + c.GUID,
		Deck:     c.Deck,
		Question: c.Question, Answer: c.Answer, Tags: c.Tags, Created: c.Created, Updated: c.Updated, InPlan: true,
		Suspended: c.Suspended}
	// written by Patchbay
	if c.Order == 0 && (strings.HasPrefix(c.GUID, "learn:") || strings.HasPrefix(c.GUID, "anki:")) {
		it.Origin = c.GUID
	}
	if origin, ok := strings.CutPrefix(c.GUID, fromGUID); ok && c.Order == 0 {
		it.Origin = origin
	}
	if id, ok := strings.CutPrefix(it.Origin, "learn:"); ok && uuid.Validate(id) == nil {
		it.ID = id
	}
	if kin, ok := strings.CutPrefix(c.Memo, kinMemo); ok {
		it.Kin = kin
	}
	it.History = o.ankiHistory(c, it.Origin)
	it.Card = o.ankiCard(c)
	if marks := strings.Fields(c.Mark); c.Suspended && len(marks) > 0 {
		it.Suspended, it.InPlan = slices.Contains(marks, markRest), !slices.Contains(marks, markOut)
		if it.Card != nil && slices.Contains(marks, markDone) {
			it.Card.Phase = store.Done
		}
	}
	if !c.Text() {
		it.addNote(c)
	}
	return it
}

// Anki's default learning steps (rslib/src/deckconfig/mod.rs, learn_steps and relearn_steps). A
// package tells how many steps remain; the total is only in the deck options, which are rarely
// included.
const (
	learningSteps   = 2
	relearningSteps = 1
)

// ankiCard converts a card's state. It returns nil for a card being learned without a known memory;
// its history is replayed instead.
func (o ReadOptions) ankiCard(c *apkg.Card) *store.Card {
	if c.Phase == apkg.New {
		return nil
	}
	card := &store.Card{Phase: store.Phase(c.Phase), Stability: c.Stability, Difficulty: c.Difficulty,
		Due: store.Day(c.Due), DueAt: c.DueAt,
		Reps: c.Reps, Lapses: c.Lapses, LastAt: c.LastReview}
	if !c.DueAt.IsZero() {
		card.Due = o.day(c.DueAt)
	}
	switch c.Phase {
	case apkg.Learning:
		card.Step = max(learningSteps-c.Left, 0)
		if c.Stability == 0 {
			return nil
		}
	case apkg.Relearning:
		card.Step = max(relearningSteps-c.Left, 0)
	}
	if c.Stability == 0 {
		card.Stability = max(float64(c.Interval), 1)
		card.Difficulty = difficulty(c.Ease, card.Stability)
	}
	switch {
	case !card.LastAt.IsZero():
		card.LastDay = o.day(card.LastAt)
	case c.Phase == apkg.Review && c.Interval > 0: // exported without its log
		card.LastDay = card.Due - store.Day(c.Interval)
		card.LastAt = card.LastDay.Time().Add(12 * time.Hour)
	}
	return card
}

// difficulty returns the difficulty with which FSRS, with its default weights, would lengthen the
// interval after a review at 90 % as much as the older scheduler does with the given ease. The
// constants are w8 to w10 of fsrs.Published.
func difficulty(ease, stability float64) float64 {
	const w8, w9, w10 = 1.8722, 0.1666, 0.796
	if ease < 1.3 {
		ease = 2.5
	}
	d := 11 - (ease-1)/(math.Exp(w8)*math.Pow(stability, -w9)*(math.Exp(0.1*w10)-1))
	return min(max(d, 1), 10)
}

// guid returns the note's GUID in Anki. A note from Anki keeps its own, so that a re-import creates
// no duplicates; further cards of such a note become notes of their own, because their note type is
// no longer known.
func guid(it Item) string {
	if rest, ok := strings.CutPrefix(it.Origin, "anki:"); ok {
		if own, ok := strings.CutSuffix(rest, ":0"); ok && own != "" && !strings.HasPrefix(own, "anki:") &&
			!strings.HasPrefix(own, "learn:") {
			return own
		}
		return it.Origin
	}
	switch {
	case strings.HasPrefix(it.Origin, "learn:"):
		return it.Origin
	case it.ID != "":
		return "learn:" + it.ID
	case it.Origin != "":
		return fromGUID + it.Origin
	}
	// Without an ID, the content identifies the note.
	return "learn:" + uuid.NewSHA1(uuid.NameSpaceOID, []byte(it.Deck+"\x1f"+it.Question)).String()
}

func (o WriteOptions) card(it Item) apkg.Card {
	c := apkg.Card{GUID: guid(it), Deck: cleanDeck(it.Deck), Question: plainText(it.Question),
		Answer: plainText(it.Answer), Tags: it.Tags,
		Created: it.Created, Updated: it.Updated, Suspended: it.Suspended, Memo: kinMemo + it.Kin}
	if card := it.Card; card != nil && card.Phase != store.New {
		o.state(&c, card)
	}
	c.Reviews, c.Others = o.reviews(it.History, c.Interval)
	var marks []string
	if it.Card != nil && it.Card.Phase == store.Done {
		marks = append(marks, markDone)
	}
	if !it.InPlan {
		marks = append(marks, markOut)
	}
	if len(marks) > 0 {
		if it.Suspended {
			marks = append(marks, markRest)
		}
		c.Suspended, c.Mark = true, strings.Join(marks, " ")
	}
	return c
}

func (o WriteOptions) state(c *apkg.Card, card *store.Card) {
	c.Phase, c.Due, c.DueAt, c.Reps, c.Lapses = apkg.Phase(card.Phase), int64(card.Due), card.DueAt, card.Reps,
		card.Lapses
	c.Stability, c.Difficulty, c.LastReview = card.Stability, card.Difficulty, card.LastAt
	c.Interval = max(int(math.Round(min(card.Stability, 36500))), 1)
	switch card.Phase {
	case store.Learning:
		c.Left, c.Interval = max(learningSteps-card.Step, 1), 0
	case store.Relearning:
		c.Left = max(relearningSteps-card.Step, 1)
	case store.Done:
		c.Phase = apkg.Review
		fallthrough
	default:
		c.DueAt = time.Time{}
		if days := int(card.Due - card.LastDay); card.LastDay > 0 && days > 0 {
			c.Interval = min(days, 36500)
		}
	}
}

// reviews converts a history to rows of Anki's review log. Entries that came from there get their
// rows; of others, only reviews are written, ungraded ones as good.
func (o WriteOptions) reviews(history []store.LogEntry, interval int) (list []apkg.ReviewEntry, others []apkg.LogRow) {
	for _, e := range history {
		var row apkg.LogRow
		if e.Source != "" {
			_ = json.Unmarshal([]byte(e.Source), &row)
		}
		if e.Kind != store.LogReview && e.Kind != "" || e.At.IsZero() {
			if row.ID != 0 {
				others = append(others, row)
			}
			continue
		}
		a := apkg.ReviewEntry{At: e.At, Ease: int(e.Grade), Took: e.Took, Last: e.Elapsed, Interval: interval,
			Phase: apkg.Review, Row: row}
		if e.Grade < store.Again || e.Grade > store.Easy {
			a.Ease = int(store.Good)
		}
		if e.Elapsed == 0 {
			a.Phase = apkg.Learning
		}
		if n := len(list); n > 0 {
			list[n-1].Interval = e.Elapsed
		}
		list = append(list, a)
	}
	return list, others
}
