package learn

import (
	"patchbay/internal/console/page"
	learning "patchbay/internal/plug/learn"
)

// todayView is the data of the first page.
type todayView struct {
	*learning.Stats
	Decks []learning.DeckStats // those with due points
	Next  string               // when the next points are due, if nothing is left
	Later string               // local time of the next learning step
}

// today shows what is due and what was done.
func (p *pages) today(v *page.Visit) {
	s, err := p.Points.Stats(v.Context(), personID(v), 1, 0)
	if err != nil {
		v.Fail(err)
		return
	}
	t := &todayView{Stats: s}
	for _, d := range s.Decks {
		if d.Due+d.New > 0 {
			t.Decks = append(t.Decks, d)
		}
	}
	if s.Points > 0 && s.Left.New+s.Left.Reviews == 0 {
		q, err := p.Points.Queue(v.Context(), personID(v), learning.QueueFilter{Limit: 1})
		if err == nil && len(q.Entries) == 0 && !q.NextStepDue.IsZero() {
			t.Later = q.NextStepDue.In(q.Learner.Calendar.Zone).Format("15:04")
		} else if err == nil && len(q.Entries) == 0 {
			t.Next, err = p.nextDay(v, q.Learner)
		}
		if err != nil {
			v.Fail(err)
			return
		}
	}
	v.Render(ok, todayPage(v, t))
}
