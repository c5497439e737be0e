package cli

import (
	"context"
	"encoding/json"

	"patchbay/internal/i18n"
)

type learnListCmd struct {
	Due         bool   `help:"Only knowledge points that are due, in review order." xor:"which"`
	Drafts      bool   `help:"Only drafts." xor:"which"`
	Trash       bool   `help:"Only knowledge points deleted in the last 30 days." xor:"which"`
	Query       string `help:"Search text; best matches first." xor:"which" placeholder:"TEXT"`
	Limit       int    `help:"Maximum number of knowledge points." default:"50" placeholder:"N"`
	All         bool   `help:"List all."`
	learnFilter `embed:""`
	learnFlags  `embed:""`
}

// Help returns the command's detailed help with examples.
func (learnListCmd) Help() string {
	return `Newest first. Ids are shortened to their last letters, which the other commands accept; --json shows complete ids.

Examples:

    patchbay learn list
    patchbay learn list --due --deck Geography
    patchbay learn list --query "photosynthesis"
    patchbay learn list --all --json`
}

const (
	msgLearnDue      = i18n.Message("DUE")
	msgLearnDeck     = i18n.Message("DECK")
	msgLearnQuestion = i18n.Message("QUESTION")
	msgLearnNothing  = i18n.Message("knowledge points\x04There are none.")
	msgLearnMore     = i18n.Message("There are more; --all lists them.")
)

const (
	// leastQuestion is how many columns of a question are shown on narrow terminals.
	leastQuestion = 20
	// deckWidth is how many columns of a deck's name are shown.
	deckWidth = 20
	// maxSearchResults is the maximum number of results of a search.
	maxSearchResults = 40
)

// Run lists the points.
func (c *learnListCmd) Run(ctx context.Context, sh *shell) error {
	if c.Limit < 1 {
		return usage(i18n.Message("--limit is %d; it must be at least 1"), c.Limit)
	}
	if c.Trash && c.learnFilter != (learnFilter{}) {
		return usage(i18n.Message("--trash lists all deleted points and cannot be used with --deck or --tag"))
	}
	return c.open(ctx, sh, func(l learnCaller) error {
		rows, more, err := c.rows(ctx, l)
		if err != nil {
			return err
		}
		return sh.result(rows, func() { sh.learnTable(rows, more) })
	})
}

// rows returns at most the requested number of points; more means that there are others.
func (c *learnListCmd) rows(ctx context.Context, l learnCaller) (rows []json.RawMessage, more bool, err error) {
	name, args := "list_knowledge_points", c.put(map[string]any{})
	most := c.Limit
	switch {
	case c.Query != "":
		name, most = "search_knowledge_points", min(c.Limit, maxSearchResults)
		args["query"] = c.Query
		if c.All {
			most = maxSearchResults
		}
	case c.Trash:
		name = learnTrash
	case c.Due:
		args["due_only"] = true
	case c.Drafts:
		args["drafts"] = true
	}
	rows = []json.RawMessage{}
	args["limit"] = min(most+1, learnPage)
	if c.Query != "" {
		args["limit"] = most
	} else if c.All {
		args["limit"] = learnPage
	}
	err = learnPages(ctx, l, name, args, func(page []json.RawMessage) bool {
		rows = append(rows, page...)
		return c.All || len(rows) <= most
	})
	if !c.All && len(rows) > most {
		rows, more = rows[:most], true
	}
	return rows, more, err
}

// learnTable prints points in the width of the terminal.
func (sh *shell) learnTable(rows []json.RawMessage, more bool) {
	if len(rows) == 0 {
		sh.say(msgLearnNothing)
		return
	}
	points := make([]learnPoint, 0, len(rows))
	cells := make([][]string, 0, len(rows))
	widths := [4]int{learnShortID, columns(msgState.In(sh.lang)), columns(msgLearnDue.In(sh.lang)),
		columns(msgLearnDeck.In(sh.lang))}
	for _, row := range rows {
		var p learnPoint
		if json.Unmarshal(row, &p) != nil {
			continue
		}
		line := []string{learnShort(p.ID), sh.learnState(p.State), sh.learnDue(p.Due), short(p.Deck, deckWidth)}
		for i, cell := range line {
			widths[i] = max(widths[i], columns(cell))
		}
		points, cells = append(points, p), append(cells, line)
	}
	room := sh.width()
	for _, w := range widths {
		room -= w + 2
	}
	for i, p := range points {
		cells[i] = append(cells[i], short(p.Question, max(room, leastQuestion)))
	}
	sh.table([]i18n.Message{msgID, msgState, msgLearnDue, msgLearnDeck, msgLearnQuestion}, cells)
	if more {
		sh.say(msgLearnMore)
	}
}
