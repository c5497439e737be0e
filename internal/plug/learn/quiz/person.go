package quiz

import (
	"strconv"
	"strings"

	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// Person says whose points a turn is about: those of the bot's owner, if nobody but
// the owner can be the one who asks. Not ok means that Learn does not listen, and the
// bot hears everything.
//
// What is at stake are somebody's notes, which may be private, and their plan. So a
// bot that several wearers share (shared), or that strangers may ask by its number,
// is left alone, unless the owner's own key asks. Programs and bots are left alone
// too: they have tools.
func Person(bot store.Bot, shared bool, turn *talk.Turn) (person string, ok bool) {
	if bot.Owner == "" || turn.Person == "" || turn.Depth > 0 {
		return "", false
	}
	switch turn.Door {
	case "mcp":
		return "", false
	case "cli", "console":
		// An administrator can ask other people's bots.
		return bot.Owner, turn.Person == turn.Door+":"+bot.Owner
	}
	if shared {
		return "", false
	}
	// Through somebody else's key, a wearer reaches the bot because they are bound
	// to it, or because it lets anybody ask by its number.
	publisher, _, lingzhu := wearer(turn.Person)
	if lingzhu && publisher != bot.Owner && turn.AgentID == strconv.FormatInt(bot.Number, 10) {
		return "", false
	}
	return bot.Owner, true
}

// Wearer is who asks through the glasses' door, as the platform knows them; not ok
// for other doors.
func Wearer(turn *talk.Turn) (w store.Wearer, ok bool) {
	w.Publisher, w.UserID, ok = wearer(turn.Person)
	return w, ok
}

// wearer takes apart how the glasses' door names people: "lingzhu:<publisher>:<user>".
func wearer(person string) (publisher, user string, ok bool) {
	rest, ok := strings.CutPrefix(person, "lingzhu:")
	if !ok {
		return "", "", false
	}
	return strings.Cut(rest, ":")
}
