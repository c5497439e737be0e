package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/app"
	"patchbay/internal/i18n"
	"patchbay/internal/qr"
	"patchbay/internal/store"
)

type bindCmd struct {
	Bot       string `arg:"" help:"Number or name of the bot."`
	PNG       string `name:"png" help:"Also write the QR code as a picture." placeholder:"FILE"`
	Wait      bool   `help:"With --json: wait until somebody is bound."`
	List      bool   `help:"List who is bound instead."`
	dataFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (bindCmd) Help() string {
	return `Say something to the glasses: whoever is not bound yet is asked to photograph the QR code. The six digits do the same without a camera. Both are good once, for five minutes.

Examples:

    patchbay bind lobster
    patchbay bind 1 --png code.png
    patchbay bind 1 --json
    patchbay bind 1 --list`
}

// Run creates an invitation and waits until it is used.
func (c *bindCmd) Run(ctx context.Context, sh *shell) error {
	return c.withData(ctx, sh, func(b *app.Base) error {
		bot, err := findBot(ctx, b, c.Bot)
		if err != nil {
			return err
		}
		if c.List {
			return listWearers(ctx, sh, b, bot)
		}
		inv, err := b.Accounts.Invite(ctx, bot.Number)
		if err != nil {
			return err
		}
		if err := c.show(sh, bot, inv); err != nil {
			return err
		}
		if sh.json && !c.Wait {
			return nil
		}
		return awaitWearer(ctx, sh, b, bot, inv)
	})
}

const (
	msgLook  = i18n.Message("Photograph this code with the glasses to bind them to %s.\nOr say to the glasses: “bind %s”")
	msgLeft  = i18n.Message("%d:%02d left ")
	msgBound = i18n.Message("Bound! %s uses %s now.")
)

// show prints the invitation.
func (c *bindCmd) show(sh *shell, bot store.Bot, inv account.Invitation) error {
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
		}{inv.Token, inv.Code, inv.Expires}, "")
	}
	_, isTerminal := terminal(sh.stdout)
	if err := code.Terminal(sh.stdout, qr.TerminalOptions{Plain: !isTerminal ||
		sh.getenv("NO_COLOR") != ""}); err != nil {
		return err
	}
	sh.say(msgLook, bot.Name, inv.Code)
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

// pollInterval is how often the database is checked for whether the invitation was used.
const pollInterval = 500 * time.Millisecond

// awaitWearer waits until an invitation is used or has expired.
func awaitWearer(ctx context.Context, sh *shell, b *app.Base, bot store.Bot, inv account.Invitation) error {
	_, live := terminal(sh.stderr)
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		used, err := b.Accounts.InvitationUsed(ctx, inv.ID)
		if err != nil {
			return err
		}
		left := time.Until(inv.Expires).Round(time.Second)
		if live {
			fmt.Fprint(sh.stderr, "\r"+msgLeft.In(sh.lang, int(left.Minutes()), int(left.Seconds())%60))
			if used || left <= 0 {
				fmt.Fprintln(sh.stderr)
			}
		}
		switch {
		case used:
			return showBindings(ctx, sh, b, bot)
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

// showBindings prints who was bound: the newest wearer of the bot.
func showBindings(ctx context.Context, sh *shell, b *app.Base, bot store.Bot) error {
	wearers, err := b.Store.Bindings.ByBot(ctx, bot.Number)
	if err != nil || len(wearers) == 0 {
		return err
	}
	w := wearers[len(wearers)-1]
	if sh.json {
		return sh.writeJSON(w, "")
	}
	sh.say(msgBound, w.UserID, bot.Name)
	return nil
}

const (
	msgWearer    = i18n.Message("USER ID")
	msgSince     = i18n.Message("BOUND")
	msgAgent     = i18n.Message("AGENT ID")
	msgNoWearers = i18n.Message("Nobody is bound to %s.")
)

func listWearers(ctx context.Context, sh *shell, b *app.Base, bot store.Bot) error {
	wearers, err := b.Store.Bindings.ByBot(ctx, bot.Number)
	if err != nil {
		return err
	}
	if wearers == nil {
		wearers = []store.Binding{}
	}
	return sh.result(wearers, func() {
		if len(wearers) == 0 {
			sh.say(msgNoWearers, bot.Name)
			return
		}
		sh.wearerTable(wearers)
	})
}

func (sh *shell) wearerTable(wearers []store.Binding) {
	var rows [][]string
	for _, w := range wearers {
		rows = append(rows, []string{w.UserID, w.AgentID, sh.when(w.Created)})
	}
	sh.table([]i18n.Message{msgWearer, msgAgent, msgSince}, rows)
}
