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
	// asker is the account of the key, if it may ask the bot as its own or one that is shared with
	// it; empty: the wearer was let in otherwise.
	asker string
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
	to, err := destinationFor(bot, err)
	if err != nil || to.bot == nil {
		return to, err
	}
	may, err := db.Bots.MayAsk(ctx, n, c.principal.Person.ID)
	if err != nil {
		return destination{}, err
	}
	if may {
		to.asker = c.principal.Person.ID
	}
	if !h.mayAddress(bot, to.asker) {
		return destination{}, nil // do not reveal that the bot exists
	}
	return to, nil
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

// mayAddress reports whether the bot's owner lets a key ask it by its number. The key's person is
// the asker if it is the owner's, or that of somebody with whom the bot is shared.
func (h *Handler) mayAddress(bot store.Bot, asker string) bool {
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
	return asker != ""
}
