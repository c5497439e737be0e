package cli

import (
	"context"
	"fmt"
	"strconv"

	"patchbay/internal/api"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
	"patchbay/internal/plug/mcp/sim"
)

// familyQuestions is how many questions a day the guest of the demo may ask.
const familyQuestions = 2

const (
	msgGuest      = i18n.Message("ben")
	msgInKitchen  = i18n.Message("And in the kitchen?")
	msgFamilyNote = i18n.Message("ben was invited, may ask %d questions in a day, and was told when they were used up; his account was paused, and he was told so")
)

// playFamily shares a bot with a member, who has limits, and pauses the account.
func playFamily(ctx context.Context, st *demoRun) error {
	bot, err := st.find(ctx, msgButler)
	if err != nil {
		return err
	}
	number := strconv.FormatInt(bot.Number, 10)
	if _, err := api.ChangeBot.Call(ctx, st.at, control.BotChange{Bot: number,
		Settings: control.SettingTexts{"lend_tools": toolWarmth}}); err != nil {
		return err
	}
	p, err := api.AddPerson.Call(ctx, st.at, control.NewPerson{Name: msgGuest.In(st.sh.lang), Lang: string(st.sh.lang),
		Invite: true, Bots: []string{number},
		Limits: control.PersonLimits{Questions: familyQuestions, SharedOnly: true}})
	if err != nil {
		return err
	}
	if p.Invitation == nil {
		return fmt.Errorf("%s was not invited", p.Name)
	}
	k, err := api.AddKey.Call(ctx, st.at, control.NewKey{User: p.Name, Name: "glasses", Scopes: []string{"lingzhu"}})
	if err != nil {
		return err
	}
	g := st.glassesOf(k.Secret, stranger, number)
	for range familyQuestions {
		heard, err := g.say(ctx, msgHowWarm.In(st.sh.lang))
		if err == nil {
			err = heard.expect(sim.Temperature)
		}
		if err != nil {
			return err
		}
	}
	heard, err := g.say(ctx, msgInKitchen.In(st.sh.lang))
	if err == nil {
		err = heard.expect(strconv.Itoa(familyQuestions))
	}
	if err != nil {
		return err
	}
	paused := true
	if _, err := api.ChangePerson.Call(ctx, st.at, control.PersonChange{PersonRef: control.PersonRef{Person: p.ID},
		Paused: &paused}); err != nil {
		return err
	}
	if heard, err = g.say(ctx, msgHowWarm.In(st.sh.lang)); err == nil {
		err = heard.expect(control.MsgPaused.In(st.sh.lang))
	}
	st.note = msgFamilyNote.In(st.sh.lang, familyQuestions)
	return err
}
