package rokid

import (
	"context"
	"errors"
	"strconv"

	"patchbay/internal/hub"
	"patchbay/internal/store"
)

// destination is the target of a request: a bot, or the binding of its wearer. The zero value means
// that there is none.
type destination struct {
	bot   *store.Bot
	bound bool // found by the wearer's binding
	bind  bool
}

// route returns the destination of a request, in this order: the bot of the key, the bot that the
// wearer is bound to, the bot whose number is the agent id, and binding for an unknown wearer.
//
// The agent ids of the platform have 32 hex digits (see the logs), so a plain number is always
// taken as a bot number.
func (h *Handler) route(ctx context.Context, c *call) (destination, error) {
	db := h.Hub.Store
	if n := c.principal.Key.Bot; n != 0 {
		return destinationFor(db.Bots.ByNumber(ctx, n))
	}
	if c.UserID != "" {
		bot, err := h.Accounts.BoundBot(ctx, c.wearer)
		if err == nil {
			return destination{bot: &bot, bound: true}, nil
		}
		if !errors.Is(err, store.ErrNotFound) {
			return destination{}, err
		}
	}
	n, err := strconv.ParseInt(c.AgentID, 10, 64)
	if err != nil || !isDecimal(c.AgentID) {
		return destination{bind: c.UserID != "" && h.Binding}, nil
	}
	bot, err := db.Bots.ByNumber(ctx, n)
	if err == nil && !h.mayAddress(c, bot) {
		err = store.ErrNotFound // do not reveal that the bot exists
	}
	return destinationFor(bot, err)
}

func destinationFor(bot store.Bot, err error) (destination, error) {
	switch {
	case errors.Is(err, store.ErrNotFound):
		return destination{}, nil
	case err != nil:
		return destination{}, err
	}
	return destination{bot: &bot}, nil
}

// isDecimal reports whether an id has digits only; ParseInt accepts signs as well.
func isDecimal(id string) bool {
	for _, c := range id {
		if c < '0' || c > '9' {
			return false
		}
	}
	return id != ""
}

// mayAddress reports whether the bot's owner lets this key ask it by its number.
func (h *Handler) mayAddress(c *call, bot store.Bot) bool {
	var s hub.Common
	if err := h.Hub.Registry.Settings(bot, &s); err != nil {
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
