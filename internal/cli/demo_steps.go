package cli

import (
	"context"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	"patchbay/internal/api"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
	"patchbay/internal/qr"
	"patchbay/internal/talk"
)

// demoPiecePause is the pause between two pieces of an answer, so that the streaming is visible.
const demoPiecePause = 40 * time.Millisecond

// The glasses of the demo. IDs of the real platform look like these.
const (
	platformAgent = "5f0c8d0e6b7a4c2f9d3e1a2b4c6d8e0f"
	stranger      = "7C1E9A3B5D7F40218E6C0A4B2D9F8E13"
	owner         = "A2B4C6D8E0F1234567890ABCDEF13579"
)

const (
	msgParrot = i18n.Message("Parrot")
	msgHello  = i18n.Message("Hello, Patchbay!")
)

// playAsk has glasses ask a bot by its number.
func playAsk(ctx context.Context, st *demoRun) error {
	bot, err := st.bot(ctx, msgParrot, "echo", map[string]string{"pace": demoPiecePause.String()})
	if err != nil {
		return err
	}
	text := msgHello.In(st.sh.lang)
	heard, err := st.glasses(owner, strconv.FormatInt(bot.Number, 10)).say(ctx, text)
	if err != nil {
		return err
	}
	// Characters that could begin Markdown that glasses cannot show are held back until the next
	// one.
	return heard.exactly(text, utf8.RuneCountInString(text)/2)
}

const (
	msgWhoAmI = i18n.Message("What is on my calendar?")
	msgAfter  = i18n.Message("Can you hear me now?")
	msgBounds = i18n.Message("the QR code was decoded locally, from a photo of %d × %d pixels")
)

// playBind binds an unknown user by a photo of a QR code.
func playBind(ctx context.Context, st *demoRun) error {
	bot, err := st.find(ctx, msgParrot)
	if err != nil {
		return err
	}
	inv, err := api.InviteWearer.Call(ctx, st.at, control.BotRef{Bot: strconv.FormatInt(bot.Number, 10)})
	if err != nil {
		return err
	}
	code, err := qr.Encode(inv.Token)
	if err != nil {
		return err
	}
	const scale = 8
	photo := code.Image(scale)
	st.note = msgBounds.In(st.sh.lang, photo.Bounds().Dx(), photo.Bounds().Dy())

	g := st.glasses(stranger, platformAgent)
	heard, err := g.say(ctx, msgWhoAmI.In(st.sh.lang))
	if err == nil {
		err = heard.commanded(talk.CommandTakePhoto)
	}
	if err != nil {
		return err
	}
	if heard, err = g.show(ctx, encodePNG(photo)); err == nil {
		err = heard.expect(bot.Name)
	}
	if err != nil {
		return err
	}
	bound, err := api.Wearers.Call(ctx, st.at, control.BotRef{Bot: strconv.FormatInt(bot.Number, 10)})
	if err != nil {
		return err
	}
	if len(bound.Wearers) != 1 || bound.Wearers[0].UserID != stranger {
		return fmt.Errorf("bot %d has the wearers %+v", bot.Number, bound.Wearers)
	}
	text := msgAfter.In(st.sh.lang)
	if heard, err = g.say(ctx, text); err != nil {
		return err
	}
	return heard.exactly(text, 2)
}

const (
	msgMyName    = i18n.Message("My name is Ming.")
	msgWhatName  = i18n.Message("What is my name?")
	msgWhatSee   = i18n.Message("What is in front of me?")
	msgQwen      = i18n.Message("Model")
	msgBookQuest = i18n.Message("Book a ticket for tomorrow")
	msgStillHere = i18n.Message("I am back")
)

// playModel has a model remember a name and request a photo.
func playModel(ctx context.Context, st *demoRun) error {
	m, err := startModel(st.sh.lang)
	if err != nil {
		return err
	}
	st.model = m
	st.stops = append(st.stops, func() error { m.server.Close(); return nil })
	bot, err := st.bot(ctx, msgQwen, "openai", map[string]string{"base_url": m.server.URL, "model": "demo",
		"retries": "-1"})
	if err != nil {
		return err
	}
	g := st.glasses(owner, strconv.FormatInt(bot.Number, 10))
	if _, err := g.say(ctx, msgMyName.In(st.sh.lang)); err != nil {
		return err
	}
	heard, err := g.say(ctx, msgWhatName.In(st.sh.lang))
	if err == nil {
		err = heard.expect(m.name)
	}
	if err != nil {
		return err
	}
	if heard, err = g.say(ctx, msgWhatSee.In(st.sh.lang)); err == nil {
		err = heard.commanded(talk.CommandTakePhoto)
	}
	if err != nil {
		return err
	}
	photo := samplePhoto()
	if heard, err = g.show(ctx, photo); err != nil {
		return err
	}
	return heard.expect(strconv.Itoa(len(photo)))
}

// playLate has the glasses disconnect and come back.
func playLate(ctx context.Context, st *demoRun) error {
	bot, err := st.find(ctx, msgQwen)
	if err != nil {
		return err
	}
	g := st.glasses(owner, strconv.FormatInt(bot.Number, 10))
	begin := time.Now()
	if err := g.disconnect(ctx, msgBookQuest.In(st.sh.lang), st.model.thinking); err != nil {
		return err
	}
	if err := st.disconnectEarly(ctx, bot.Number); err != nil {
		return err
	}
	close(st.model.decided)
	if err := st.awaitPendingAnswer(ctx, bot.Number); err != nil {
		return err
	}
	st.note = msgLateAfter.In(st.sh.lang, took(time.Since(begin)))
	heard, err := g.say(ctx, msgStillHere.In(st.sh.lang))
	if err != nil {
		return err
	}
	return heard.expect(talk.MsgLate.In(st.sh.lang), st.model.booked.In(st.sh.lang), st.model.welcome.In(st.sh.lang))
}

const msgLateAfter = i18n.Message("the answer was stored after %s")

// disconnectEarly waits until the server has noticed that the client disconnected.
func (st *demoRun) disconnectEarly(ctx context.Context, bot int64) error {
	return await(ctx, "the server did not notice that the glasses disconnected", func() (bool, error) {
		newest, err := api.Turns.Call(ctx, st.at, control.TurnQuery{Limit: 1})
		return len(newest.Turns) > 0 && newest.Turns[0].Bot == bot && newest.Turns[0].Outcome == "disconnected", err
	})
}

// awaitPendingAnswer waits until an answer is pending delivery.
func (st *demoRun) awaitPendingAnswer(ctx context.Context, bot int64) error {
	return await(ctx, "the late answer was not kept", func() (bool, error) {
		newest, err := api.Turns.Call(ctx, st.at, control.TurnQuery{Limit: 1})
		return len(newest.Turns) > 0 && newest.Turns[0].Bot == bot && newest.Turns[0].Late > 0, err
	})
}
