package ankiconnect

import (
	"context"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"

	"github.com/google/uuid"

	"patchbay/internal/control"
	"patchbay/internal/plug/learn"
	"patchbay/internal/store"
)

func cardActions() map[string]*action {
	return map[string]*action{
		"findCards":      doing(toolList, (*exchange).findCards),
		"cardsInfo":      doing(toolGet, (*exchange).cardsInfo),
		"cardsToNotes":   doing(toolGet, (*exchange).cardsToNotes),
		"cardsModTime":   doing(toolGet, (*exchange).cardsModTime),
		"suspend":        doing(toolEdit, suspending(true)),
		"unsuspend":      doing(toolEdit, suspending(false)),
		"suspended":      doing(toolGet, (*exchange).isSuspended),
		"areSuspended":   perCard(func(_ *learn.Learner, p *store.Point) any { return p.Suspended }),
		"areDue":         perCard(func(l *learn.Learner, p *store.Point) any { return isDue(l, p) }),
		"getEaseFactors": perCard(func(_ *learn.Learner, p *store.Point) any { return learn.AnkiFactor(p) }),
		"getIntervals":   doing(toolGet, (*exchange).intervals),
		"answerCards":    doing(toolReview, (*exchange).answerCards),
		"setDueDate":     doing(toolEdit, (*exchange).setDueDate),
	}
}

// cards returns the points of cards by their numbers; missing ones are left out.
func (x *exchange) cards(ctx context.Context, ids []int64) (map[int64]*store.Point, error) {
	if len(ids) > maxCards {
		return nil, refusal("there are %d cards at most", maxCards)
	}
	return x.points.CardsByID(ctx, x.person, ids)
}

// maxCards limits the cards of an action.
const maxCards = 100_000

// perCard returns an action that tells something about each card; null stands for one that is
// missing.
func perCard(about func(*learn.Learner, *store.Point) any) *action {
	return doing(toolGet, func(x *exchange, ctx context.Context, in cardsParams) (any, error) {
		l, err := x.learner(ctx)
		if err != nil {
			return nil, err
		}
		cards, err := x.cards(ctx, in.Cards)
		if err != nil {
			return nil, err
		}
		out := make([]any, len(in.Cards))
		for i, id := range in.Cards {
			if p := cards[id]; p != nil {
				out[i] = about(l, p)
			}
		}
		return out, nil
	})
}

func isDue(l *learn.Learner, p *store.Point) bool {
	if p.Card.Buried > l.Today {
		return false
	}
	switch p.Queue() {
	case store.QueueNew:
		return true
	case store.QueueSteps:
		return !p.Card.DueAt.After(l.Now)
	case store.QueueDay:
		return p.Card.Due <= l.Today
	}
	return false
}

func (x *exchange) findCards(ctx context.Context, in queryParams) (any, error) {
	points, err := x.search(ctx, in)
	if err != nil || len(points) == 0 {
		return []int64{}, err
	}
	ids, err := x.points.CardIDs(ctx, x.person, points)
	out := make([]int64, 0, len(ids))
	for _, id := range ids {
		out = append(out, id)
	}
	slices.Sort(out)
	return out, err
}

// maxInfos limits the cards whose sides are rendered in one action.
const maxInfos = 1000

// cardsInfo describes cards; an empty object stands for one that is missing. Without question,
// answer and css for more than maxInfos.
func (x *exchange) cardsInfo(ctx context.Context, in cardsParams) (any, error) {
	l, err := x.learner(ctx)
	if err != nil {
		return nil, err
	}
	if len(in.Cards) > maxInfos {
		return nil, refusal("there are %d cards at most", maxInfos)
	}
	cards, err := x.cards(ctx, in.Cards)
	if err != nil {
		return nil, err
	}
	notes, err := x.notesOfCards(ctx, l, cards)
	if err != nil {
		return nil, err
	}
	out, size := make([]map[string]any, len(in.Cards)), 0
	for i, id := range in.Cards {
		out[i] = map[string]any{}
		p := cards[id]
		if p == nil || notes[p.Number] == nil {
			continue
		}
		view, err := x.points.Card(ctx, p, "") // as Anki, which names media without a folder
		if err != nil {
			return nil, err
		}
		out[i] = cardInfo(l, id, p, notes[p.Number])
		size += 3*len(view.CSS) + len(view.Front) + len(view.Back) + fieldsSize(notes[p.Number])
		if err := x.room(size); err != nil {
			return nil, err
		}
		style := "<style>" + view.CSS + "</style>"
		out[i]["question"], out[i]["answer"], out[i]["css"] = style+view.Front, style+view.Back, view.CSS
	}
	return out, nil
}

// notesOfCards returns the notes of cards, by the numbers of their points.
func (x *exchange) notesOfCards(ctx context.Context, l *learn.Learner,
	cards map[int64]*store.Point) (map[int64]*learn.AnkiNote, error) {
	var points []int64
	for _, p := range cards {
		points = append(points, p.Number)
	}
	ids, err := x.points.NoteIDs(ctx, x.person, points)
	if err != nil {
		return nil, err
	}
	notes, err := x.points.AnkiNotes(ctx, l, ids)
	out := map[int64]*learn.AnkiNote{}
	for _, n := range notes {
		for i := range n.Points {
			out[n.Points[i].Number] = n
		}
	}
	return out, err
}

// cardInfo describes a card with the values that Anki's database has (rslib/src/card/mod.rs). Due
// dates are days since 1970.
func cardInfo(l *learn.Learner, id int64, p *store.Point, n *learn.AnkiNote) map[string]any {
	c := &p.Card
	kind := int64(c.Phase)
	if c.Phase == store.Done {
		kind = int64(store.Review)
	}
	queue, due := kind, int64(c.Due)
	switch {
	case p.Queue() == store.QueueNone:
		queue = -1
	case c.Buried > l.Today:
		queue = -2
	case c.Phase == store.Relearning:
		queue = int64(store.Learning)
	}
	if !c.DueAt.IsZero() {
		due = c.DueAt.Unix()
	}
	return map[string]any{"cardId": id, "note": n.ID, "fields": fieldsOf(n), "fieldOrder": p.Ord, "ord": p.Ord,
		"modelName": n.Type.Name, "deckName": l.AnkiDeckName(p.Deck), "factor": learn.AnkiFactor(p),
		"interval": max(learn.AnkiInterval(c), 0), "type": kind, "queue": queue, "due": due, "reps": c.Reps,
		"lapses": c.Lapses, "left": 0, "mod": p.Updated.Unix(), "flags": p.Flag}
}

func (x *exchange) cardsToNotes(ctx context.Context, in cardsParams) (any, error) {
	cards, err := x.cards(ctx, in.Cards)
	if err != nil {
		return nil, err
	}
	var points []int64
	for _, p := range cards {
		points = append(points, p.Number)
	}
	ids, err := x.points.NoteIDs(ctx, x.person, points)
	return append([]int64{}, ids...), err
}

func (x *exchange) cardsModTime(ctx context.Context, in cardsParams) (any, error) {
	cards, err := x.cards(ctx, in.Cards)
	out := make([]map[string]any, len(in.Cards))
	for i, id := range in.Cards {
		out[i] = map[string]any{}
		if p := cards[id]; p != nil {
			out[i] = map[string]any{"cardId": id, "mod": p.Updated.Unix()}
		}
	}
	return out, err
}

// editCards changes cards by their numbers. Missing ones are left alone.
func (x *exchange) editCards(ctx context.Context, ids []int64, change control.LearnEdit) error {
	cards, err := x.cards(ctx, ids)
	if err != nil {
		return err
	}
	var points []string
	for _, p := range cards {
		points = append(points, p.ID)
	}
	slices.Sort(points)
	return x.edit(ctx, points, change)
}

// suspending returns what suspends cards or resumes them. The result is false if all were so
// already.
func suspending(to bool) func(*exchange, context.Context, cardsParams) (any, error) {
	return func(x *exchange, ctx context.Context, in cardsParams) (any, error) {
		cards, err := x.cards(ctx, in.Cards)
		if err != nil {
			return nil, err
		}
		var points []string
		for _, p := range cards {
			if p.Suspended != to {
				points = append(points, p.ID)
			}
		}
		slices.Sort(points)
		return len(points) > 0, x.edit(ctx, points, control.LearnEdit{Suspended: &to})
	}
}

func (x *exchange) isSuspended(ctx context.Context, in struct {
	Card int64 `json:"card"`
}) (any, error) {
	cards, err := x.cards(ctx, []int64{in.Card})
	if err != nil {
		return nil, err
	}
	if cards[in.Card] == nil {
		return nil, refusal("Card was not found: %d", in.Card)
	}
	return cards[in.Card].Suspended, nil
}

// intervals returns the present interval of each card, or all that it had: in days, or in seconds
// below zero.
func (x *exchange) intervals(ctx context.Context, in struct {
	cardsParams
	Complete bool `json:"complete"`
}) (any, error) {
	cards, err := x.cards(ctx, in.Cards)
	if err != nil {
		return nil, err
	}
	if in.Complete && len(in.Cards) > maxInfos {
		return nil, refusal("there are %d cards at most", maxInfos)
	}
	out := make([]any, len(in.Cards))
	for i, id := range in.Cards {
		p := cards[id]
		switch {
		case p == nil:
		case !in.Complete || p.Card.Phase == store.New:
			out[i] = learn.AnkiInterval(&p.Card)
		default:
			reviews, err := x.points.AnkiReviews(ctx, p)
			if err != nil {
				return nil, err
			}
			list := []int64{}
			for _, r := range reviews {
				list = append(list, r.Interval)
			}
			out[i] = list
		}
	}
	return out, nil
}

// answerCards records reviews. The result tells which were recorded: the others are of cards that
// are missing, or cannot be reviewed.
func (x *exchange) answerCards(ctx context.Context, in struct {
	Answers []struct {
		Card int64 `json:"cardId"`
		Ease int   `json:"ease"`
	} `json:"answers"`
}) (any, error) {
	if len(in.Answers) > maxInfos {
		return nil, refusal("there are %d answers at most", maxInfos)
	}
	for _, a := range in.Answers {
		if a.Ease < int(store.Again) || a.Ease > int(store.Easy) {
			return nil, refusal("invalid ease: %d", a.Ease)
		}
	}
	ids := make([]int64, len(in.Answers))
	for i, a := range in.Answers {
		ids[i] = a.Card
	}
	cards, err := x.cards(ctx, ids)
	if err != nil {
		return nil, err
	}
	var out outcomes
	done := make([]bool, len(in.Answers))
	for i, a := range in.Answers {
		if cards[a.Card] == nil {
			continue
		}
		_, err := x.learning.Review(ctx, x.caller, control.LearnReview{Point: cards[a.Card].ID,
			Grade: control.GradeText(strconv.Itoa(a.Ease)), Review: uuid.NewString(), Early: true})
		done[i] = err == nil
		if out.ends(x, ctx, "answerCards", err) {
			break
		}
	}
	return done, out.err()
}

// dueDays matches the days of setDueDate: one, or two of which each card gets one between. A “!”,
// which sets the interval too, has no counterpart.
var dueDays = regexp.MustCompile(`^\s*(\d{1,5})(?:-(\d{1,5}))?\s*$`)

func (x *exchange) setDueDate(ctx context.Context, in struct {
	cardsParams
	Days string `json:"days"`
}) (any, error) {
	m := dueDays.FindStringSubmatch(in.Days)
	if m == nil {
		return nil, refusal("days are such as 3 or 3-7, not %q", in.Days)
	}
	from, _ := strconv.Atoi(m[1]) // digits, as matched
	to := from
	if m[2] != "" {
		to, _ = strconv.Atoi(m[2])
	}
	if to < from {
		from, to = to, from
	}
	byDay := map[int][]int64{}
	for _, id := range in.Cards {
		day := from + rand.IntN(to-from+1)
		byDay[day] = append(byDay[day], id)
	}
	for day, cards := range byDay {
		if err := x.editCards(ctx, cards, control.LearnEdit{InDays: &day}); err != nil {
			return nil, err
		}
	}
	return true, nil
}
