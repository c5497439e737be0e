package quiz

import (
	"strconv"
	"strings"

	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// Person returns whose points a turn is about: the bot's owner, if the asker can only be the owner,
// or the person with whom the bot is shared. If ok is false, Learn ignores the turn and it goes to
// the bot.
//
// The points may be private, and reviews change the plan. Therefore Learn ignores bots that several
// wearers share (shared) or that anybody may ask by number, unless the owner's own key asks. It
// ignores programs and bots too: they have tools.
func Person(bot store.Bot, shared bool, turn *talk.Turn) (person string, ok bool) {
	if bot.Owner == "" || turn.Person == "" || turn.Depth > 0 {
		return "", false
	}
	switch turn.Channel {
	case "mcp":
		return "", false
	}
	if turn.ActsFor != "" {
		return turn.ActsFor, true
	}
	switch turn.Channel {
	case "cli", "console":
		// Administrators can ask other people's bots.
		return bot.Owner, turn.Person == turn.Channel+":"+bot.Owner
	}
	if shared {
		return "", false
	}
	// Through another account's key, a wearer reaches the bot by a binding, or because anybody may
	// ask the bot by its number.
	publisher, _, lingzhu := wearer(turn.Person)
	if lingzhu && publisher != bot.Owner && turn.AgentID == strconv.FormatInt(bot.Number, 10) {
		return "", false
	}
	return bot.Owner, true
}

// Wearer returns the asker of a turn from the glasses, by the platform's ID; ok is false for other
// channels.
func Wearer(turn *talk.Turn) (w store.Wearer, ok bool) {
	w.Publisher, w.UserID, ok = wearer(turn.Person)
	return w, ok
}

// wearer parses a person of the glasses' channel: "lingzhu:<publisher>:<user>".
func wearer(person string) (publisher, user string, ok bool) {
	rest, ok := strings.CutPrefix(person, "lingzhu:")
	if !ok {
		return "", "", false
	}
	return strings.Cut(rest, ":")
}
