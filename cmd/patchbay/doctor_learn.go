package main

import (
	"context"
	"errors"
	"slices"

	"patchbay/internal/app"
	"patchbay/internal/plug/learn"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

var (
	sayCheckLearn   = talk.Say{Zh: "学习 %s", En: "learn %s"}
	sayLearnGood    = talk.Say{Zh: "%d 个知识点，今天要复习 %d 个，时区 %s", En: "%d points, %d to review today, time zone %s"}
	sayDoctorHeld   = talk.Say{Zh: "今天到期的还有 %d 个超出每日上限", En: "%d more are due today than the daily limits let through"}
	sayLearnNoBot   = talk.Say{Zh: "负责评判的机器人 %s 不存在", En: "the bot that judges recalls, %s, does not exist"}
	sayLearnNoWay   = talk.Say{Zh: "提醒设在 %s，却没有写怎么送到", En: "reminders are set for %s, but nothing says by which way"}
	sayLearnNoHook  = talk.Say{Zh: "提醒要发到网址，却没有写网址", En: "reminders go to a webhook, but there is no address"}
	sayCheckVectors = talk.Say{Zh: "向量", En: "embeddings"}
	sayVectorsBad   = talk.Say{Zh: "接口没有回答：%s", En: "their API does not answer: %s"}
	sayVectorsGood  = talk.Say{Zh: "%s 能用，向量长 %d", En: "%s works, vectors have length %d"}

	adviceLearnLimits = talk.Say{Zh: "每天想多复习就提高上限：patchbay learn set --reviews-per-day 400%s",
		En: "To do more a day: patchbay learn set --reviews-per-day 400%s"}
	adviceLearnBot = talk.Say{Zh: "另选一个：patchbay learn set --bot 名字%s",
		En: "Choose another: patchbay learn set --bot NAME%s"}
	adviceLearnVia = talk.Say{Zh: "例如：patchbay learn set --via glasses%s",
		En: "Such as: patchbay learn set --via glasses%s"}
	adviceLearnHook = talk.Say{Zh: "patchbay learn set --webhook 网址%s", En: "patchbay learn set --webhook ADDRESS%s"}
	adviceVectors   = talk.Say{Zh: "检查 learn.embeddings_url、_key 和 _model；没有它，查找只看字词。",
		En: "See whether learn.embeddings_url, _key and _model are right; without it, points are found by their words."}
)

// learning checks what concerns knowledge points.
func (d *doctor) learning(ctx context.Context, b *app.Base) {
	o, err := app.LearnOptions(b, d.sh.logger())
	if err != nil {
		d.fail(sayCheckVectors, d.errorText(err), adviceVectors)
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
		d.fail(sayCheckVectors, sayVectorsBad.In(d.sh.lang, err), adviceVectors)
		return
	}
	d.ok(sayCheckVectors, sayVectorsGood, e.Model(), len(list[0]))
}

// learner checks the learning data of one person. Without points there is nothing to check.
func (d *doctor) learner(ctx context.Context, b *app.Base, s *learn.Service, p store.Person) {
	name := localizeBoth(sayCheckLearn, p.Name)
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
	d.ok(name, sayLearnGood, st.Points, st.Left.Total(), st.Zone)
	if st.Left.HeldBack > 0 {
		d.warn(name, sayDoctorHeld.In(d.sh.lang, st.Left.HeldBack), adviceLearnLimits, d.retryFlags)
	}
	if bot := l.Profile.Bot; bot != "" && bot != "none" {
		if _, err := b.Registry.Find(ctx, p.ID, bot); errors.Is(err, store.ErrNotFound) {
			d.warn(name, sayLearnNoBot.In(d.sh.lang, bot), adviceLearnBot, d.retryFlags)
		}
	}
	switch r := l.Profile.Remind; {
	case r.At == "":
	case len(r.Via) == 0:
		d.warn(name, sayLearnNoWay.In(d.sh.lang, r.At), adviceLearnVia, d.retryFlags)
	case slices.Contains(r.Via, "webhook") && r.Webhook == "":
		d.warn(name, sayLearnNoHook.In(d.sh.lang), adviceLearnHook, d.retryFlags)
	}
}
