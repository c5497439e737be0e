package main

import (
	"context"
	"errors"
	"slices"

	"patchbay/internal/app"
	"patchbay/internal/i18n"
	"patchbay/internal/plug/learn"
	"patchbay/internal/store"
)

const (
	msgCheckLearn   = i18n.Message("learn %s")
	msgLearnGood    = i18n.Message("%d points, %d to review today, time zone %s")
	msgDoctorHeld   = i18n.Message("%d more are due today than the daily limits let through")
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

// learning checks what concerns knowledge points.
func (d *doctor) learning(ctx context.Context, b *app.Base) {
	o, err := app.LearnOptions(b, d.sh.logger())
	if err != nil {
		d.fail(msgCheckVectors.With(), d.errorText(err), adviceVectors)
		return
	}
	d.vectors(ctx, o.Embedder)
	people, err := b.Store.People.All(ctx)
	if err != nil {
		return // the check of the people reports it
	}
	s := learn.New(o)
	for _, p := range people {
		d.learner(ctx, b, s, p)
	}
}

func (d *doctor) vectors(ctx context.Context, e learn.Embedder) {
	if e == nil {
		return
	}
	list, err := e.Embed(ctx, []string{"patchbay"})
	if err != nil {
		d.fail(msgCheckVectors.With(), msgVectorsBad.In(d.sh.lang, err), adviceVectors)
		return
	}
	d.ok(msgCheckVectors.With(), msgVectorsGood, e.Model(), len(list[0]))
}

// learner checks the learning data of one person. Without points there is nothing to check.
func (d *doctor) learner(ctx context.Context, b *app.Base, s *learn.Service, p store.Person) {
	name := msgCheckLearn.With(p.Name)
	st, err := s.Stats(ctx, p.ID, 1, 0)
	if err != nil {
		d.fail(name, d.errorText(err), adviceLook)
		return
	}
	if st.Points == 0 {
		return
	}
	l, err := s.Learner(ctx, p.ID)
	if err != nil {
		d.fail(name, d.errorText(err), adviceLook)
		return
	}
	d.ok(name, msgLearnGood, st.Points, st.Left.Total(), st.Zone)
	if st.Left.HeldBack > 0 {
		d.warn(name, msgDoctorHeld.In(d.sh.lang, st.Left.HeldBack), adviceLearnLimits, d.retryFlags)
	}
	if bot := l.Profile.Bot; bot != "" && bot != "none" {
		if _, err := b.Registry.Find(ctx, p.ID, bot); errors.Is(err, store.ErrNotFound) {
			d.warn(name, msgLearnNoBot.In(d.sh.lang, bot), adviceLearnBot, d.retryFlags)
		}
	}
	switch r := l.Profile.Remind; {
	case r.At == "":
	case len(r.Via) == 0:
		d.warn(name, msgLearnNoWay.In(d.sh.lang, r.At), adviceLearnVia, d.retryFlags)
	case slices.Contains(r.Via, "webhook") && r.Webhook == "":
		d.warn(name, msgLearnNoHook.In(d.sh.lang), adviceLearnHook, d.retryFlags)
	}
}
