package rokid

import (
	"context"
	"errors"
	"strconv"

	"patchbay/internal/board"
	"patchbay/internal/store"
)

// destination is who answers a request: a bot, or the binding of its wearer.
// The zero value is nobody.
type destination struct {
	bot   *store.Bot
	bound bool // found by the wearer's binding
	bind  bool
}

// route finds who answers, in this order: the bot that the key opens, the bot
// that the wearer is bound to, the bot whose number is the agent id, and for a
// wearer whom nobody knows, binding.
//
// The platform sends agent ids of 32 hex digits, so that a plain number is
// always meant as a bot's.
func (d *Door) route(ctx context.Context, c *call) (destination, error) {
	db := d.Board.Store
	if n := c.principal.Key.Bot; n != 0 {
		return found(db.Bots.ByNumber(ctx, n))
	}
	if c.UserID != "" {
		bot, err := d.Accounts.BoundBot(ctx, c.wearer)
		if err == nil {
			return destination{bot: &bot, bound: true}, nil
		}
		if !errors.Is(err, store.ErrNotFound) {
			return destination{}, err
		}
	}
	n, err := strconv.ParseInt(c.AgentID, 10, 64)
	if err != nil || !decimal(c.AgentID) {
		return destination{bind: c.UserID != "" && d.Binding}, nil
	}
	bot, err := db.Bots.ByNumber(ctx, n)
	if err == nil && !d.mayAddress(c, bot) {
		err = store.ErrNotFound // somebody else's bot is as good as none
	}
	return found(bot, err)
}

func found(bot store.Bot, err error) (destination, error) {
	switch {
	case errors.Is(err, store.ErrNotFound):
		return destination{}, nil
	case err != nil:
		return destination{}, err
	}
	return destination{bot: &bot}, nil
}

// decimal says whether an id is digits only: ParseInt takes signs as well.
func decimal(id string) bool {
	for _, c := range id {
		if c < '0' || c > '9' {
			return false
		}
	}
	return id != ""
}

// mayAddress says whether a bot's owner lets this key ask it by its number.
func (d *Door) mayAddress(c *call, bot store.Bot) bool {
	var s board.Common
	if err := d.Board.Registry.Settings(bot, &s); err != nil {
		return false
	}
	switch s.AgentID {
	case "off":
		return false
	case "anyone":
		return true
	}
	return bot.Owner == c.principal.Person.ID
}
