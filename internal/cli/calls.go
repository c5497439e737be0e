package cli

import (
	"cmp"
	"context"
	"strconv"
	"strings"

	"patchbay/internal/api"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

type callsCmd struct {
	Limit       int    `help:"Maximum number of calls, up to 1000." default:"50" placeholder:"N"`
	User        string `help:"Account whose calls are listed; default: all accounts." placeholder:"NAME"`
	Failed      bool   `help:"Only calls that did not succeed."`
	targetFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (callsCmd) Help() string {
	return `Lists the audit trail of tool calls with caller, key, address and outcome, newest first. Outcomes are done, trouble (the tool reported an error), failed, refused (not executed) and asked (the tool requested more input).

Examples:

    patchbay calls
    patchbay calls --failed --user ada
    patchbay calls --limit 500 --json`
}

// Run lists the calls.
func (c *callsCmd) Run(ctx context.Context, sh *shell) error {
	if c.Limit < 1 || c.Limit > control.CallsMost {
		return usage(i18n.Message("--limit is %d; it must be between 1 and %d"), c.Limit,
			control.CallsMost)
	}
	return c.connect(ctx, sh, func(at *conn) error {
		page, err := api.Calls.Call(ctx, at.Client, control.CallQuery{User: c.User, Limit: c.Limit, Failed: c.Failed})
		if err != nil {
			return err
		}
		return sh.callTable(page.Calls)
	})
}

const (
	msgWho      = i18n.Message("WHO")
	msgTerminal = i18n.Message("command line")
	msgTook     = i18n.Message("TOOK")
	msgNoCalls  = i18n.Message("There are none.")
)

// causeWidth is how many columns of a cause the table shows.
const causeWidth = 80

func (sh *shell) callTable(calls []control.Call) error {
	return sh.result(calls, func() {
		if len(calls) == 0 {
			sh.say(msgNoCalls)
			return
		}
		var rows [][]string
		for _, c := range calls {
			rows = append(rows, []string{
				c.At.Local().Format("01-02 15:04:05"), plain(c.Tool), sh.whoCalled(c), c.Channel, plain(c.Address),
				took(c.Took), c.Outcome, short(singleLine(causeOf(c)), causeWidth),
			})
		}
		sh.table([]i18n.Message{msgAt, msgTool, msgWho, msgChannel, msgFrom, msgTook, msgOutcome, msgCause}, rows)
	})
}

const msgOnBehalf = i18n.Message("%s for %s")

// whoCalled returns the person and the channel of a call, and the owner if the tool is another
// person's.
func (sh *shell) whoCalled(c control.Call) string {
	who := cmp.Or(c.PersonName, c.Person)
	switch {
	case c.IsActorMachine():
		who = msgOnBehalf.In(sh.lang, msgTerminal.In(sh.lang), who)
	case c.IsActorOther():
		who = msgOnBehalf.In(sh.lang, cmp.Or(c.ActorName, c.Actor), who)
	}
	by := c.KeyName
	switch {
	case c.Bot != 0 && c.BotName != "":
		by = c.BotName
	case c.Bot != 0:
		by = "#" + strconv.FormatInt(c.Bot, 10)
	case by == "":
		by = c.Key
	}
	return strings.Trim(who+"/"+by, "/")
}

// causeOf returns why a call failed.
func causeOf(c control.Call) string {
	if c.Code == "" {
		return c.Cause
	}
	return c.Code + ": " + c.Cause
}
