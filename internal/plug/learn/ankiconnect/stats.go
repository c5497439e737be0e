package ankiconnect

import (
	"context"
	"slices"
	"strconv"
	"time"

	"patchbay/internal/plug/learn"
)

func statActions() map[string]*action {
	return map[string]*action{
		"getNumCardsReviewedToday": doing(toolStats, (*exchange).reviewedToday),
		"getNumCardsReviewedByDay": doing(toolStats, (*exchange).reviewedByDay),
		"cardReviews":              doing(toolStats, (*exchange).cardReviews),
		"getReviewsOfCards":        doing(toolStats, (*exchange).reviewsOfCards),
		"getLatestReviewID":        doing(toolStats, (*exchange).latestReview),
	}
}

func (x *exchange) reviewedToday(ctx context.Context, _ none) (any, error) {
	l, err := x.learner(ctx)
	if err != nil {
		return nil, err
	}
	days, err := x.points.ReviewsByDay(ctx, x.person, l.Today)
	return days[l.Today], err
}

// reviewedByDay lists the days with reviews, the last one first.
func (x *exchange) reviewedByDay(ctx context.Context, _ none) (any, error) {
	days, err := x.points.ReviewsByDay(ctx, x.person, 0)
	out := [][2]any{}
	for day, n := range days {
		if n > 0 {
			out = append(out, [2]any{day.String(), n})
		}
	}
	slices.SortFunc(out, func(a, b [2]any) int {
		if a[0].(string) > b[0].(string) {
			return -1
		}
		return 1
	})
	return out, err
}

// maxReviews limits the reviews of an answer.
const maxReviews = 100_000

// cardReviews lists the reviews of a deck after one, in the columns of Anki's table.
func (x *exchange) cardReviews(ctx context.Context, in struct {
	deckParams
	Start int64 `json:"startID"`
}) (any, error) {
	l, err := x.learner(ctx)
	if err != nil {
		return nil, err
	}
	d, err := deckNamed(l, in.Deck)
	if err != nil {
		return nil, err
	}
	list, err := x.points.AnkiReviewsOfDeck(ctx, x.person, d.ID, time.UnixMilli(in.Start), maxReviews)
	if err != nil {
		return nil, err
	}
	var points []int64
	for _, r := range list {
		points = append(points, r.Point)
	}
	slices.Sort(points)
	cards, err := x.points.CardIDs(ctx, x.person, slices.Compact(points))
	out := make([][9]int64, len(list))
	for i, r := range list {
		out[i] = [9]int64{r.ID, cards[r.Point], 0, r.Ease, r.Interval, r.Last, r.Factor, r.Took, r.Kind}
	}
	return out, err
}

func (x *exchange) reviewsOfCards(ctx context.Context, in cardsParams) (any, error) {
	if len(in.Cards) > maxInfos {
		return nil, refusal("there are %d cards at most", maxInfos)
	}
	cards, err := x.cards(ctx, in.Cards)
	if err != nil {
		return nil, err
	}
	out := map[string]any{}
	for _, id := range in.Cards {
		list := []map[string]int64{}
		if p := cards[id]; p != nil {
			reviews, err := x.points.AnkiReviews(ctx, p)
			if err != nil {
				return nil, err
			}
			for _, r := range reviews {
				list = append(list, reviewInfo(&r))
			}
		}
		out[strconv.FormatInt(id, 10)] = list
	}
	return out, nil
}

func reviewInfo(r *learn.AnkiReview) map[string]int64 {
	return map[string]int64{"id": r.ID, "usn": 0, "ease": r.Ease, "ivl": r.Interval, "lastIvl": r.Last,
		"factor": r.Factor, "time": r.Took, "type": r.Kind}
}

// latestReview returns the number of the last review of a deck; 0 if there is none.
func (x *exchange) latestReview(ctx context.Context, in deckParams) (any, error) {
	l, err := x.learner(ctx)
	if err != nil {
		return nil, err
	}
	d, err := deckNamed(l, in.Deck)
	if err != nil {
		return nil, err
	}
	return x.points.LatestReview(ctx, x.person, d.ID)
}
