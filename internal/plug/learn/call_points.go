package learn

import (
	"bytes"
	"context"
	"slices"
	"strings"

	"patchbay/internal/i18n"
	"patchbay/internal/tool"
)

func (s *Service) callGet(ctx context.Context, c *tool.Call, a *arguments) (*tool.Result, error) {
	e, err := s.Get(ctx, c.Caller.Person, a.ID)
	if err != nil {
		return nil, err
	}
	res, err := s.pointResult(ctx, e)
	if err != nil {
		return nil, err
	}
	return s.addMedia(ctx, res, &e.Point, true), nil
}

// pointResult returns one point with its plan.
func (s *Service) pointResult(ctx context.Context, e *Entry) (*tool.Result, error) {
	l, err := s.Learner(ctx, e.Person)
	if err != nil {
		return nil, err
	}
	row := newFullPointRow(l, e)
	return result(row, row, ""), nil
}

// changedResult returns one point without its plan, as the original service does after a change.
func changedResult(l *Learner, e *Entry) *tool.Result {
	row := newPointRow(l, &e.Point)
	return result(row, row, "")
}

func (s *Service) callCreate(ctx context.Context, c *tool.Call, a *arguments) (*tool.Result, error) {
	d := a.draft()
	if err := s.storeMedia(ctx, c, a.Media, &d.Question, &d.Answer); err != nil {
		return nil, err
	}
	l, err := s.Learner(ctx, c.Caller.Person)
	if err != nil {
		return nil, err
	}
	made, err := s.create(ctx, l, []Draft{d})
	if err != nil {
		return nil, err
	}
	if made[0].Err != nil {
		return nil, made[0].Err
	}
	res := changedResult(l, &made[0].Entry)
	if more := made[0].More; len(more) > 0 {
		ids := make([]string, len(more))
		for i := range more {
			ids[i] = more[i].ID
		}
		res.Content = append(bytes.TrimSuffix(res.Content, []byte("]")), ',')
		res.Content = append(append(res.Content, compactJSON(map[string]string{"type": "text",
			"text": "The clozes made further cards of the same note: " + strings.Join(ids, ", ")})...), ']')
	}
	return res, nil
}

func (a *arguments) draft() Draft {
	d := Draft{Question: deref(a.Question), Answer: deref(a.Answer), Deck: deref(a.Deck), Tags: deref(a.Tags),
		Unconfirmed: deref(a.Draft)}
	d.Unplanned = a.InPlan != nil && !*a.InPlan
	return d
}

func (s *Service) callCreateMany(ctx context.Context, c *tool.Call, a *arguments) (*tool.Result, error) {
	type bad struct {
		Index int    `json:"index"`
		Error string `json:"error"`
	}
	out := struct {
		Created []string `json:"created"`
		Errors  []bad    `json:"errors"`
	}{Created: []string{}, Errors: []bad{}}
	var drafts []Draft
	var index []int
	for i := range a.Points {
		d, err := a.Points[i].draft()
		if err != nil {
			out.Errors = append(out.Errors, bad{i, i18n.Localize(err, langOf(c))})
			continue
		}
		d.Unconfirmed = deref(a.Draft)
		drafts, index = append(drafts, d), append(index, i)
	}
	made, err := s.Create(ctx, c.Caller.Person, drafts)
	if err != nil {
		return nil, err
	}
	for i, m := range made {
		if m.Err != nil {
			out.Errors = append(out.Errors, bad{index[i], i18n.Localize(m.Err, langOf(c))})
		} else {
			out.Created = append(out.Created, m.Entry.ID)
			for j := range m.More {
				out.Created = append(out.Created, m.More[j].ID)
			}
		}
	}
	slices.SortStableFunc(out.Errors, func(a, b bad) int { return a.Index - b.Index })
	res := result(out, out, "")
	res.IsError = len(out.Created) == 0
	return res, nil
}

func (s *Service) callUpdate(ctx context.Context, c *tool.Call, a *arguments) (*tool.Result, error) {
	if len(a.Media) > 0 {
		if err := s.updateMedia(ctx, c, a); err != nil {
			return nil, err
		}
	}
	l, err := s.Learner(ctx, c.Caller.Person)
	if err != nil {
		return nil, err
	}
	e, err := s.update(ctx, l, a.ID, Edit{Question: a.Question, Answer: a.Answer, Deck: a.Deck,
		Tags: a.Tags, InPlan: a.InPlan, Suspended: a.Suspended, Draft: a.Draft, Flag: a.Flag, Bury: a.Bury,
		Fields: a.Fields})
	if err != nil {
		return nil, err
	}
	return changedResult(l, e), nil
}

func (s *Service) callDelete(ctx context.Context, c *tool.Call, a *arguments) (*tool.Result, error) {
	if err := s.Delete(ctx, c.Caller.Person, a.ID); err != nil {
		return nil, err
	}
	done := struct {
		Success bool   `json:"success"`
		ID      string `json:"id"`
	}{true, a.ID}
	return result(done, done, ""), nil
}

func (s *Service) callRestore(ctx context.Context, c *tool.Call, a *arguments) (*tool.Result, error) {
	e, err := s.Restore(ctx, c.Caller.Person, a.ID)
	if err != nil {
		return nil, err
	}
	return s.pointResult(ctx, e)
}
