package learn

import (
	"context"
	"errors"
	"slices"

	"patchbay/internal/check"
	"patchbay/internal/hub"
	"patchbay/internal/i18n"
	"patchbay/internal/store"
)

const (
	msgCheckLearn   = i18n.Message("learn %s")
	msgLearnGood    = i18n.Message("%d points, %d to review today, time zone %s")
	msgLearnHeld    = i18n.Message("%d more are due today than the daily limits let through")
	msgLearnNoBot   = i18n.Message("the bot that judges recalls, %s, does not exist")
	msgLearnNoWay   = i18n.Message("reminders are set for %s, but nothing says by which way")
	msgLearnNoHook  = i18n.Message("reminders go to a webhook, but there is no address")
	msgCheckVectors = i18n.Message("embeddings")
	msgVectorsBad   = i18n.Message("their API does not answer: %s")
	msgVectorsGood  = i18n.Message("%s works, vectors have length %d")

	adviceLearnLimits = i18n.Message("To do more a day: patchbay learn set --reviews-per-day 400%s")
	adviceLearnBot    = i18n.Message("Choose another: patchbay learn set --bot NAME%s")
	adviceLearnVia    = i18n.Message("Such as: patchbay learn set --via glasses%s")
	adviceLearnHook   = i18n.Message("patchbay learn set --webhook ADDRESS%s")
	adviceVectors     = i18n.Message("See whether learn.embeddings_url, _key and _model are right; without it, points are found by their words.")
)

// Check checks what concerns knowledge points. Err is why the configured embedder cannot be used;
// nil: it can.
func Check(ctx context.Context, r *check.Report, o Options, err error, bots *hub.Registry) {
	if err != nil {
		r.Error(msgCheckVectors.With(), err, adviceVectors.With())
		return
	}
	checkEmbedder(ctx, r, o.Embedder)
	people, err := o.Store.People.All(ctx)
	if err != nil {
		return // the check of the people reports it
	}
	s := New(o)
	for _, p := range people {
		s.checkLearner(ctx, r, p, bots)
	}
}

func checkEmbedder(ctx context.Context, r *check.Report, e Embedder) {
	if e == nil {
		return
	}
	list, err := e.Embed(ctx, []string{"patchbay"})
	if err != nil {
		r.Fail(msgCheckVectors.With(), msgVectorsBad.With(err), adviceVectors.With())
		return
	}
	r.OK(msgCheckVectors.With(), msgVectorsGood.With(e.Model(), len(list[0])))
}

// checkLearner checks the learning data of one person. Without points there is nothing to check.
func (s *Service) checkLearner(ctx context.Context, r *check.Report, p store.Person, bots *hub.Registry) {
	name := msgCheckLearn.With(p.Name)
	st, err := s.Stats(ctx, p.ID, 1, 0)
	if err != nil {
		r.Error(name, err, check.AdviceLog.With())
		return
	}
	if st.Points == 0 {
		return
	}
	l, err := s.Learner(ctx, p.ID)
	if err != nil {
		r.Error(name, err, check.AdviceLog.With())
		return
	}
	r.OK(name, msgLearnGood.With(st.Points, st.Left.Total(), st.Zone))
	if st.Left.HeldBack > 0 {
		r.Warn(name, msgLearnHeld.With(st.Left.HeldBack), adviceLearnLimits.With(r.Flags))
	}
	if bot := l.Profile.Bot; bot != "" && bot != "none" {
		if _, err := bots.Find(ctx, p.ID, bot); errors.Is(err, store.ErrNotFound) {
			r.Warn(name, msgLearnNoBot.With(bot), adviceLearnBot.With(r.Flags))
		}
	}
	switch remind := l.Profile.Remind; {
	case remind.At == "":
	case len(remind.Via) == 0:
		r.Warn(name, msgLearnNoWay.With(remind.At), adviceLearnVia.With(r.Flags))
	case slices.Contains(remind.Via, "webhook") && remind.Webhook == "":
		r.Warn(name, msgLearnNoHook.With(), adviceLearnHook.With(r.Flags))
	}
}
