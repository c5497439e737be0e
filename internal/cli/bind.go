package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"patchbay/internal/api"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
	"patchbay/internal/qr"
)

type bindCmd struct {
	Bot         string `arg:"" help:"Number or name of the bot."`
	PNG         string `name:"png" help:"Also write the QR code to a picture file." placeholder:"FILE"`
	Wait        bool   `help:"With --json: wait until the glasses are bound."`
	List        bool   `help:"List the bound wearers instead."`
	targetFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (bindCmd) Help() string {
	return `Ask something with the glasses: an unbound wearer is asked to photograph the QR code. The six-digit code does the same without a camera. Both are valid once, for five minutes.

Examples:

    patchbay bind lobster
    patchbay bind 1 --png code.png
    patchbay bind 1 --json
    patchbay bind 1 --list`
}

// Run creates an invitation and waits until it is used.
func (c *bindCmd) Run(ctx context.Context, sh *shell) error {
	return c.connect(ctx, sh, func(at *conn) error {
		bot, err := at.findBot(ctx, c.Bot)
		if err != nil {
			return err
		}
		ref := control.BotRef{Bot: strconv.FormatInt(bot.Number, 10)}
		if c.List {
			return listWearers(ctx, sh, at, ref, bot.Name)
		}
		inv, err := api.InviteWearer.Call(ctx, at.Client, ref)
		if err != nil {
			return err
		}
		if err := c.show(sh, bot.Name, inv); err != nil {
			return err
		}
		if sh.json && !c.Wait {
			return nil
		}
		return awaitWearer(ctx, sh, at, bot.Name, inv)
	})
}

const (
	msgLook  = i18n.Message("Photograph this code with the glasses to bind them to %s.\nOr say to the glasses: “bind %s”")
	msgLeft  = i18n.Message("%d:%02d left ")
	msgBound = i18n.Message("Bound! %s uses %s now.")
)

// show prints the invitation.
func (c *bindCmd) show(sh *shell, bot string, inv control.Invitation) error {
	code, err := qr.Encode(inv.Token)
	if err != nil {
		return err
	}
	if c.PNG != "" {
		if err := writePNG(c.PNG, code); err != nil {
			return err
		}
	}
	if sh.json {
		return sh.writeJSON(struct {
			Token   string    `json:"token"`
			Code    string    `json:"code"`
			Expires time.Time `json:"expires_at"`
			TakenBy string    `json:"taken_by,omitempty"`
		}{inv.Token, inv.Code, inv.Expires, inv.TakenBy}, "")
	}
	_, isTerminal := terminal(sh.stdout)
	if err := code.Terminal(sh.stdout, qr.TerminalOptions{Plain: !isTerminal ||
		sh.getenv("NO_COLOR") != ""}); err != nil {
		return err
	}
	sh.say(msgLook, bot, inv.Code)
	if inv.TakenBy != "" {
		sh.say(control.MsgTakenBy, inv.TakenBy)
	}
	return nil
}

// pictureScale makes the QR code of a token 330 pixels wide.
const pictureScale = 10

func writePNG(name string, code *qr.Code) (err error) {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return code.PNG(f, pictureScale)
}

// pollInterval is how often the server is asked whether the invitation was used.
const pollInterval = 500 * time.Millisecond

// awaitWearer waits until an invitation is used or has expired.
func awaitWearer(ctx context.Context, sh *shell, at *conn, bot string, inv control.Invitation) error {
	_, live := terminal(sh.stderr)
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	ref := control.InvitationRef{Bot: strconv.FormatInt(inv.Bot, 10), Invitation: inv.ID}
	for {
		state, err := api.Invitation.Call(ctx, at.Client, ref)
		if err != nil {
			return err
		}
		left := time.Until(inv.Expires).Round(time.Second)
		if live {
			fmt.Fprint(sh.stderr, "\r"+msgLeft.In(sh.lang, int(left.Minutes()), int(left.Seconds())%60))
			if state.Used || left <= 0 {
				fmt.Fprintln(sh.stderr)
			}
		}
		switch {
		case state.Used:
			return showWearer(ctx, sh, at, bot, ref.Bot, state.UserID)
		case left <= 0:
			return i18n.Message("the invitation has expired and was not used; run bind again for a new one").Errorf()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// showWearer prints who was bound, if they still are.
func showWearer(ctx context.Context, sh *shell, at *conn, bot, number, user string) error {
	if !sh.json {
		if user != "" {
			sh.say(msgBound, user, bot)
		}
		return nil
	}
	list, err := api.Wearers.Call(ctx, at.Client, control.BotRef{Bot: number})
	for _, w := range list.Wearers {
		if w.UserID == user {
			return sh.writeJSON(w, "")
		}
	}
	return err
}

const (
	msgWearer    = i18n.Message("USER ID")
	msgSince     = i18n.Message("BOUND")
	msgAgent     = i18n.Message("AGENT ID")
	msgNoWearers = i18n.Message("No wearers are bound to %s.")
)

func listWearers(ctx context.Context, sh *shell, at *conn, ref control.BotRef, bot string) error {
	list, err := api.Wearers.Call(ctx, at.Client, ref)
	if err != nil {
		return err
	}
	return sh.result(list.Wearers, func() {
		if len(list.Wearers) == 0 {
			sh.say(msgNoWearers, bot)
			return
		}
		sh.wearerTable(list.Wearers)
	})
}

func (sh *shell) wearerTable(wearers []control.Wearer) {
	var rows [][]string
	for _, w := range wearers {
		rows = append(rows, []string{w.UserID, w.AgentID, sh.when(w.Created)})
	}
	sh.table([]i18n.Message{msgWearer, msgAgent, msgSince}, rows)
}
