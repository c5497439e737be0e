package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"patchbay/internal/i18n"
)

type learnDeckCmd struct {
	Name       string `arg:"" optional:"" help:"The deck; default: list all decks."`
	New        bool   `help:"Create the deck if it does not exist."`
	Rename     string `help:"The new name." placeholder:"NAME"`
	Rm         bool   `help:"Delete the deck. Its knowledge points move to the default deck."`
	learnRules `embed:""`
	learnFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (learnDeckCmd) Help() string {
	return `A deck is created when a knowledge point is added to it, or when one of its settings is changed. Settings that a deck does not have are those of patchbay learn set; "" removes a setting. Changing the scheduling algorithm reschedules all its points and keeps their history.

Examples:

    patchbay learn deck
    patchbay learn deck Geography --new-per-day 5 --retention 0.85
    patchbay learn deck Geography --schedule classic
    patchbay learn deck Geography --rename "World geography"
    patchbay learn deck Geography --rm`
}

const (
	msgDeckSaved   = i18n.Message("The deck %s: %s")
	msgDeckRemoved = i18n.Message("The deck %s is deleted; its knowledge points are in the default one.")
	msgDeckCommon  = i18n.Message("has the settings of all decks")
)

// Run lists the decks, or changes one.
func (c *learnDeckCmd) Run(ctx context.Context, sh *shell) error {
	rules, err := c.changes()
	if err != nil {
		return err
	}
	change := c.New || c.Rename != "" || len(rules) > 0
	switch {
	case c.Name == "" && (change || c.Rm):
		return usage(i18n.Message("the name of a deck is missing"))
	case c.Rm && change:
		return usage(i18n.Message("--rm cannot be used with other flags"))
	}
	return c.open(ctx, sh, func(l learnCaller) error {
		switch {
		case c.Rm:
			if err := l.call(ctx, "delete_deck", map[string]any{"name": c.Name}, nil); err != nil {
				return err
			}
			return sh.result(map[string]any{"name": c.Name, "removed": true}, func() { sh.say(msgDeckRemoved, c.Name) })
		case change:
			return c.save(ctx, sh, l, rules)
		}
		return c.list(ctx, sh, l)
	})
}

func (c *learnDeckCmd) save(ctx context.Context, sh *shell, l learnCaller, rules map[string]any) error {
	args := map[string]any{"name": c.Name, "settings": rules}
	if c.Rename != "" {
		// The tool would create a missing deck.
		if _, err := c.find(ctx, l); err != nil {
			return err
		}
		args["new_name"] = c.Rename
	}
	var raw json.RawMessage
	if err := l.call(ctx, "save_deck", args, &raw); err != nil {
		return err
	}
	var d learnDeckRow
	if err := json.Unmarshal(raw, &d); err != nil {
		return err
	}
	return sh.result(raw, func() {
		sh.say(msgDeckSaved, plain(d.Name), cmp.Or(ownSettings(d.Own), msgDeckCommon.In(sh.lang)))
	})
}

// learnDecks lists the decks.
func learnDecks(ctx context.Context, l learnCaller) ([]json.RawMessage, error) {
	var out struct {
		Decks []json.RawMessage `json:"decks"`
	}
	err := l.call(ctx, "list_decks", map[string]any{}, &out)
	return out.Decks, err
}

// find returns the deck.
func (c *learnDeckCmd) find(ctx context.Context, l learnCaller) (json.RawMessage, error) {
	decks, err := learnDecks(ctx, l)
	if err != nil {
		return nil, err
	}
	for _, raw := range decks {
		var d learnDeckRow
		if json.Unmarshal(raw, &d) == nil && strings.EqualFold(d.Name, c.Name) {
			return raw, nil
		}
	}
	return nil, i18n.Message("there is no deck %q; --new creates it, and patchbay learn deck lists the decks").
		Errorf(c.Name)
}

func (c *learnDeckCmd) list(ctx context.Context, sh *shell, l learnCaller) error {
	var decks []json.RawMessage
	var err error
	if c.Name == "" {
		decks, err = learnDecks(ctx, l)
	} else {
		var one json.RawMessage
		one, err = c.find(ctx, l)
		decks = []json.RawMessage{one}
	}
	if err != nil {
		return err
	}
	rows := make([]learnDeckRow, len(decks))
	for i, raw := range decks {
		if err := json.Unmarshal(raw, &rows[i]); err != nil {
			return err
		}
	}
	return sh.result(decks, func() { sh.learnDecks(rows, true) })
}

// ownSettings describes the settings of a deck that differ from the defaults; empty if there are
// none.
func ownSettings(own json.RawMessage) string {
	var settings map[string]json.RawMessage
	if json.Unmarshal(own, &settings) != nil {
		return ""
	}
	var list []string
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		list = append(list, name+"="+plain(strings.Trim(string(settings[name]), `"`)))
	}
	return strings.Join(list, ", ")
}
