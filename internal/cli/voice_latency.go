package cli

import (
	"context"
	"strconv"

	"patchbay/internal/api"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

type voiceLatencyCmd struct {
	User        string `help:"Show the turns of this person's bots. Only for administrators." placeholder:"NAME"`
	targetFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (voiceLatencyCmd) Help() string {
	return `For the last 100 spoken turns, the time from the end of the speech to each stage: the median, and the time within which 95 of 100 turns reached it. The page of a turn shows its own times.

Examples:

    patchbay voice latency
    patchbay voice latency --user ada
    patchbay voice latency --json`
}

const (
	msgLatencyNone   = i18n.Message("Nobody has talked with a bot through a board yet.")
	msgLatencyTurns  = i18n.Message("The last %d spoken turns, in milliseconds after the end of the speech; %d were interrupted:")
	msgLatencyStage  = i18n.Message("STAGE")
	msgLatencyMedian = i18n.Message("MEDIAN")
	msgLatencyP95    = i18n.Message("95 %")
	msgLatencyCount  = i18n.Message("TURNS")
)

// Run shows the times.
func (c *voiceLatencyCmd) Run(ctx context.Context, sh *shell) error {
	return c.connect(ctx, sh, func(at *conn) error {
		l, err := api.VoiceLatency.Call(ctx, at.Client, control.VoiceLatencyQuery{User: c.User})
		if err != nil {
			return err
		}
		return sh.result(l, func() {
			if l.Turns == 0 {
				sh.say(msgLatencyNone)
				return
			}
			sh.say(msgLatencyTurns, l.Turns, l.Interrupted)
			var cells [][]string
			for _, s := range l.Stages {
				cells = append(cells, []string{s.Title().In(sh.lang), strconv.FormatInt(s.MedianMS, 10),
					strconv.FormatInt(s.P95MS, 10), strconv.Itoa(s.Turns)})
			}
			sh.table([]i18n.Message{msgLatencyStage, msgLatencyMedian, msgLatencyP95, msgLatencyCount}, cells)
		})
	})
}
