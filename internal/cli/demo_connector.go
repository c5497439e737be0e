package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"patchbay/internal/i18n"
	"patchbay/internal/netx"
	"patchbay/internal/plug/eyeclaw/connector"
	"patchbay/internal/plug/eyeclaw/sim"
	"patchbay/internal/talk"
)

const (
	msgCrab        = i18n.Message("Crab")
	msgBringMe     = i18n.Message("Take me to the zoo")
	msgZoo         = i18n.Message("Zoo")
	msgOnOurWay    = i18n.Message("I have started navigation to the zoo. Have fun!")
	msgConnectorIn = i18n.Message("the connector has dialled in with its only setting")
	msgConnectNote = i18n.Message("nothing on OpenClaw's computer can be reached from outside; its agent started navigation on the glasses")
)

// playConnector has glasses ask an agent behind a router, which gives them a command.
func playConnector(ctx context.Context, st *demoRun) error {
	bot, err := st.bot(ctx, msgCrab, "connector", nil)
	if err != nil {
		return err
	}
	joined := make(chan struct{}, 8)
	c, err := sim.NewConnector(sim.ConnectorOptions{
		Connection: connector.Connection(st.url, bot.SDKToken),
		Agent:      st.leadTheWay,
		Joined: func() {
			select {
			case joined <- struct{}{}:
			default: // it is only waited for once
			}
		},
	})
	if err != nil {
		return err
	}
	st.runInBackground(context.WithoutCancel(ctx), c.Run)
	select {
	case <-joined:
	case <-ctx.Done():
		return errors.New("the connector was not let in")
	}
	if err := st.awaitBot(ctx, bot.Number); err != nil {
		return err
	}
	st.line("⇠", msgConnectorIn.In(st.sh.lang))
	heard, err := st.glasses(owner, strconv.FormatInt(bot.Number, 10)).say(ctx, msgBringMe.In(st.sh.lang))
	if err == nil {
		err = heard.exactly(msgOnOurWay.In(st.sh.lang), 2)
	}
	if err == nil {
		err = heard.commanded(talk.CommandNavigate)
	}
	st.note = msgConnectNote.In(st.sh.lang)
	return err
}

// leadTheWay plays the agent of the connector.
func (st *demoRun) leadTheWay(ctx context.Context, q *sim.Question) error {
	if !slices.ContainsFunc(q.Functions, func(f sim.Function) bool {
		return f.Device && f.Name == talk.CommandNavigate
	}) {
		return fmt.Errorf("the agent may not call %s", talk.CommandNavigate)
	}
	result, failed, err := q.Call(ctx, talk.CommandNavigate, map[string]string{"action": "open",
		"poi_name": msgZoo.In(st.sh.lang), "navi_type": "walk"})
	if err != nil {
		return err
	}
	if failed {
		return errors.New(result)
	}
	words := []rune(msgOnOurWay.In(st.sh.lang))
	for _, piece := range [][]rune{words[:len(words)/2], words[len(words)/2:]} {
		q.Say(ctx, string(piece))
		if err := netx.Wait(ctx, 3*demoPiecePause); err != nil {
			return err
		}
	}
	return nil
}
