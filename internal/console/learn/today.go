package learn

import (
	"patchbay/internal/console/page"
	learning "patchbay/internal/plug/learn"
)

// todays is what the first page shows.
type todays struct {
	*learning.Stats
	Decks []learning.DeckStats // in which something waits
	Next  string               // when there will be something, if nothing is left
	Later string               // the clock when the next step of a point is due
}

// today tells what waits, and what was done.
func (p *pages) today(v *page.Visit) {
	s, err := p.Points.Stats(v.Context(), who(v), 1, 0)
	if err != nil {
		v.Fail(err)
		return
	}
	t := &todays{Stats: s}
	for _, d := range s.Decks {
		if d.Due+d.New > 0 {
			t.Decks = append(t.Decks, d)
		}
	}
	if s.Points > 0 && s.Left.New+s.Left.Reviews == 0 {
		q, err := p.Points.Queue(v.Context(), who(v), learning.QueueFilter{Limit: 1})
		if err == nil && len(q.Entries) == 0 && !q.Later.IsZero() {
			t.Later = q.Later.In(q.Learner.Calendar.Zone).Format("15:04")
		} else if err == nil && len(q.Entries) == 0 {
			t.Next, err = p.nextDay(v, q.Learner)
		}
		if err != nil {
			v.Fail(err)
			return
		}
	}
	v.Show(ok, todayPage(v, t))
}
