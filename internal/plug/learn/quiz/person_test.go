package quiz

import (
	"testing"

	"patchbay/internal/store"
	"patchbay/internal/talk"
)

func TestPerson(t *testing.T) {
	bot := store.Bot{Number: 7, Owner: "ada"}
	for name, c := range map[string]struct {
		shared bool
		turn   talk.Turn
		ok     bool
	}{
		"glasses": {false, talk.Turn{Channel: "lingzhu", Person: "lingzhu:ada:U1",
			AgentID: "0123456789abcdef"}, true},
		"glasses bound through another's key": {false, talk.Turn{Channel: "lingzhu", Person: "lingzhu:admin:U1",
			AgentID: "0123456789abcdef"}, true},
		"the bot's number through another key": {false, talk.Turn{Channel: "lingzhu", Person: "lingzhu:bob:U1",
			AgentID: "7"}, false},
		"the bot's number, the owner's key": {false, talk.Turn{Channel: "lingzhu", Person: "lingzhu:ada:U1",
			AgentID: "7"}, true},
		"shared glasses":               {true, talk.Turn{Channel: "lingzhu", Person: "lingzhu:ada:U1"}, false},
		"the owner's command line":     {true, talk.Turn{Channel: "cli", Person: "cli:ada"}, true},
		"somebody else's command line": {false, talk.Turn{Channel: "cli", Person: "cli:bob"}, false},
		"the owner's browser":          {true, talk.Turn{Channel: "console", Person: "console:ada"}, true},
		"somebody else's browser":      {false, talk.Turn{Channel: "console", Person: "console:bob"}, false},
		"no conversation":              {false, talk.Turn{Channel: "cli"}, false},
		"a program":                    {false, talk.Turn{Channel: "mcp", Person: "mcp:key:k1"}, false},
		"a bot": {false, talk.Turn{Channel: "lingzhu", Person: "lingzhu:ada:U1",
			Depth: 1}, false},
		"another channel":         {false, talk.Turn{Channel: "voice", Person: "voice:1"}, true},
		"another channel, shared": {true, talk.Turn{Channel: "voice", Person: "voice:1"}, false},
	} {
		person, ok := Person(bot, c.shared, &c.turn)
		if ok != c.ok || ok && person != "ada" {
			t.Errorf("%s: %q, %v", name, person, ok)
		}
	}
	if _, ok := Person(store.Bot{Number: 7}, false, &talk.Turn{Channel: "voice", Person: "p"}); ok {
		t.Error("a bot without an owner")
	}
}

// A bot's new owner does not continue the former owner's review.
func TestAnotherOwner(t *testing.T) {
	r := newRig(t, store.Options{Folder: t.TempDir()})
	r.add(1)
	r.expect("quiz me", "q1?")
	r.bot.Owner = "bob"
	r.expect("RIGHT", toBot)
	r.expect("quiz me", "There are no points yet")
}
