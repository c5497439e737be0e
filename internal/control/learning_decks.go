package control

import (
	"context"
	"encoding/json"
	"fmt"

	"patchbay/internal/i18n"
	"patchbay/internal/plug/learn"
	"patchbay/internal/plug/learn/schedule"
	"patchbay/internal/problem"
	"patchbay/internal/store"
)

const (
	msgNeedDeckName = i18n.Message("A deck needs a name.")
	msgBadDays      = i18n.Message("%s is a number from 0 to %d.")
)

// LearnDeck is a deck with the number of points that wait in it.
type LearnDeck struct {
	ID       string            `json:"id,omitempty"` // empty for the default deck
	Name     string            `json:"name"`
	Points   int               `json:"points"`
	New      int               `json:"new"`
	Due      int               `json:"due"`
	Settings schedule.Settings `json:"settings"`
	Own      json.RawMessage   `json:"own_settings,omitempty"` // settings of the deck itself
}

// LearnDecks are a person's decks, the default deck first, the others by name.
type LearnDecks struct {
	Decks []LearnDeck `json:"decks"`
}

// Decks lists the decks.
func (p *Learning) Decks(ctx context.Context, c Caller, _ Empty) (out LearnDecks, err error) {
	person, err := p.person(c, "list_decks")
	if err != nil {
		return out, err
	}
	_, list, err := p.points.Decks(ctx, person)
	out.Decks = make([]LearnDeck, len(list))
	for i, d := range list {
		out.Decks[i] = LearnDeck{d.ID, d.Name, d.Points, d.New, d.Due, d.Settings, d.Own}
	}
	return out, err
}

// LearnDeckRef identifies a deck by its id or its name.
type LearnDeckRef struct {
	Deck string `path:"deck" json:"-"`
}

// Deck returns a deck.
func (p *Learning) Deck(ctx context.Context, c Caller, in LearnDeckRef) (LearnDeck, error) {
	person, err := p.person(c, "list_decks")
	if err != nil {
		return LearnDeck{}, err
	}
	return p.deck(ctx, person, in.Deck)
}

func (p *Learning) deck(ctx context.Context, person, ref string) (LearnDeck, error) {
	l, list, err := p.points.Decks(ctx, person)
	if err != nil {
		return LearnDeck{}, err
	}
	if id, ok := l.DeckID(ref); ok {
		for _, d := range list {
			if d.ID == id {
				return LearnDeck{d.ID, d.Name, d.Points, d.New, d.Due, d.Settings, d.Own}, nil
			}
		}
	}
	return LearnDeck{}, problem.New(problem.NotFound, msgNoDeck)
}

// NewLearnDeck describes a deck to create.
type NewLearnDeck struct {
	Name     string          `json:"name"`
	Settings json.RawMessage `json:"settings,omitempty"` // an object: what differs from the person's settings
}

// LearnDeckArgs are the arguments of save_deck.
type LearnDeckArgs struct {
	Name     string          `json:"name"`
	NewName  string          `json:"new_name,omitempty"`
	Settings json.RawMessage `json:"settings,omitempty"`
}

// AddDeck creates a deck.
func (p *Learning) AddDeck(ctx context.Context, c Caller, in NewLearnDeck) (LearnDeck, error) {
	l, err := p.learner(ctx, c, "save_deck")
	if err != nil {
		return LearnDeck{}, err
	}
	switch _, known := l.DeckID(in.Name); {
	case in.Name == "":
		return LearnDeck{}, problem.New(problem.Invalid, msgNeedDeckName)
	case known:
		return LearnDeck{}, problem.New(problem.Conflict, msgDeckThere, in.Name)
	}
	var d store.Deck
	err = p.recordChange(c, "save_deck", LearnDeckArgs{Name: in.Name, Settings: in.Settings}, func() (err error) {
		d, err = p.points.SaveDeck(ctx, l.Person, learn.DeckEdit{Name: in.Name, Settings: in.Settings}, nil)
		return err
	})
	if err != nil {
		return LearnDeck{}, err
	}
	return p.deck(ctx, l.Person, d.ID)
}

// LearnDeckChange changes a deck.
type LearnDeckChange struct {
	LearnDeckRef
	Name     string          `json:"name,omitempty"`     // empty: unchanged
	Settings json.RawMessage `json:"settings,omitempty"` // an object of changes; null resets a setting
}

// ChangeDeck renames a deck or changes its settings. Another scheduler recalculates all due dates,
// which may take a while.
func (p *Learning) ChangeDeck(ctx context.Context, c Caller, in LearnDeckChange) (LearnDeck, error) {
	l, err := p.learner(ctx, c, "save_deck")
	if err != nil {
		return LearnDeck{}, err
	}
	id, known := l.DeckID(in.Deck)
	if !known {
		return LearnDeck{}, problem.New(problem.NotFound, msgNoDeck)
	}
	if other, taken := l.DeckID(in.Name); in.Name != "" && taken && other != id {
		return LearnDeck{}, problem.New(problem.Conflict, msgDeckThere, in.Name)
	}
	ctx, cancel := Detached(ctx)
	defer cancel()
	err = p.recordChange(c, "save_deck", LearnDeckArgs{l.DeckName(id), in.Name, in.Settings}, func() error {
		_, err := p.points.SaveDeck(ctx, l.Person, learn.DeckEdit{Name: in.Deck, NewName: in.Name,
			Settings: in.Settings}, nil)
		return err
	})
	if err != nil {
		return LearnDeck{}, err
	}
	return p.deck(ctx, l.Person, id)
}

// RemoveDeck deletes a deck. Its points move to the default deck.
func (p *Learning) RemoveDeck(ctx context.Context, c Caller, in LearnDeckRef) (Done, error) {
	l, err := p.learner(ctx, c, "delete_deck")
	if err != nil {
		return Done{}, err
	}
	id, known := l.DeckID(in.Deck)
	if !known {
		return Done{}, problem.New(problem.NotFound, msgNoDeck)
	}
	ctx, cancel := Detached(ctx)
	defer cancel()
	err = p.recordChange(c, "delete_deck", LearnDeckArgs{Name: l.DeckName(id)},
		func() error { return p.points.RemoveDeck(ctx, l.Person, in.Deck) })
	return Done{err == nil}, err
}

// LearnTagsQuery selects tags.
type LearnTagsQuery struct {
	After string `query:"after"` // next of the page before
	Limit int    `query:"limit"`
}

// LearnTags is a page of tags, by name. The tags of deleted points are included.
type LearnTags struct {
	Tags []store.TagCount `json:"tags"`
	Next string           `json:"next,omitempty"`
}

// Tags lists the tags.
func (p *Learning) Tags(ctx context.Context, c Caller, in LearnTagsQuery) (out LearnTags, err error) {
	person, err := p.person(c, "list_tags")
	if err != nil {
		return out, err
	}
	limit, err := pointsLimit(in.Limit)
	if err != nil {
		return out, err
	}
	list, err := p.points.Store.Learn.Tags(ctx, person, in.After, limit+1)
	if len(list) > limit {
		list = list[:limit]
		out.Next = list[limit-1].Tag
	}
	out.Tags = append([]store.TagCount{}, list...)
	return out, err
}

// LearnTagRename renames a tag.
type LearnTagRename struct {
	Tag   string `path:"tag" json:"-"`
	Name  string `json:"name"`
	Merge bool   `json:"merge,omitempty"` // allows a name that other points have: the two become one
}

// LearnTagArgs are the arguments of a renaming, for the audit trail.
type LearnTagArgs struct {
	Tag   string `json:"tag"`
	Name  string `json:"name"`
	Merge bool   `json:"merge,omitempty"`
}

// RenamedTag is the result of a renaming.
type RenamedTag struct {
	Tag    string `json:"tag"`
	Points int    `json:"points"` // number of changed points
}

// RenameTag renames a tag of all its points.
func (p *Learning) RenameTag(ctx context.Context, c Caller, in LearnTagRename) (out RenamedTag, err error) {
	person, err := p.person(c, "update_knowledge_point")
	if err != nil {
		return out, err
	}
	ctx, cancel := Detached(ctx)
	defer cancel()
	err = p.recordChange(c, LearnRenameTag, LearnTagArgs(in), func() (err error) {
		out.Tag, out.Points, err = p.points.RenameTag(ctx, person, in.Tag, in.Name, in.Merge, nil)
		return err
	})
	return out, err
}

// Names of operations in the audit trail for which there is no tool.
const (
	LearnRenameTag = "rename_tag"
	LearnImport    = "import"
	learnExport    = "export"
)

// learnTitles are their titles.
var learnTitles = map[string]string{
	LearnRenameTag: "Rename a tag", LearnImport: "Import knowledge points", learnExport: "Export knowledge points",
	"save_media": "Save a picture or sound", "delete_media": "Delete a picture or sound",
	"delete_unused_media": "Delete unused pictures and sounds",
}

// LearnStatsQuery limits statistics.
type LearnStatsQuery struct {
	Days int `query:"days"`         // of the forecast; 0: 14
	Back int `query:"history_days"` // of the history
	Week int `query:"weeks"`        // of the retention figures
}

// LearnStats are learning statistics.
type LearnStats struct {
	*learn.Stats
	Decks []LearnDeckCount `json:"decks"`
	// Weeks are the shares of due reviews that were remembered.
	Weeks []learn.Week `json:"weeks,omitempty"`
}

// LearnDeckCount is the number of points that wait in a deck.
type LearnDeckCount struct {
	Name   string `json:"name"`
	Points int    `json:"points"`
	New    int    `json:"new"`
	Due    int    `json:"due"`
}

const (
	// Length of a forecast in days: forecastShown by default, statsMost at most.
	forecastShown = 14
	statsMost     = 365
	// weeksMost limits the weeks of the retention figures.
	weeksMost = 52
)

// Stats returns the statistics.
func (p *Learning) Stats(ctx context.Context, c Caller, in LearnStatsQuery) (out LearnStats, err error) {
	person, err := p.person(c, "learning_stats")
	if err != nil {
		return out, err
	}
	for _, n := range []struct {
		name     string
		is, most int
	}{{"days", in.Days, statsMost}, {"history_days", in.Back, statsMost}, {"weeks", in.Week, weeksMost}} {
		if n.is < 0 || n.is > n.most {
			return out, problem.New(problem.Invalid, msgBadDays, n.name, n.most)
		}
	}
	if in.Days == 0 {
		in.Days = forecastShown
	}
	if out.Stats, err = p.points.Stats(ctx, person, in.Days, in.Back); err != nil {
		return out, err
	}
	out.Decks = make([]LearnDeckCount, len(out.Stats.Decks))
	for i, d := range out.Stats.Decks {
		out.Decks[i] = LearnDeckCount{d.Name, d.Points, d.New, d.Due}
	}
	if in.Week > 0 {
		recalls, err := p.points.Store.Learn.Recalls(ctx, person, out.Today-store.Day(7*in.Week)+1)
		if err != nil {
			return out, err
		}
		out.Weeks = learn.Weeks(out.Today, recalls, in.Week)
	}
	return out, nil
}

// LearnSettings are a person's settings for learning, with the effective values.
type LearnSettings struct {
	learn.Profile
	Zone     string            `json:"time_zone"`
	DayStart string            `json:"day_start"`
	Today    store.Day         `json:"today"`
	Settings schedule.Settings `json:"settings"`
}

func learnSettings(l *learn.Learner) LearnSettings {
	start := int(l.Calendar.Start.Minutes())
	return LearnSettings{l.Profile, l.Calendar.Zone.String(), fmt.Sprintf("%02d:%02d", start/60, start%60), l.Today,
		l.Settings("")}
}

// Settings returns a person's settings.
func (p *Learning) Settings(ctx context.Context, c Caller, _ Empty) (LearnSettings, error) {
	l, err := p.learner(ctx, c, "get_learning_settings")
	if err != nil {
		return LearnSettings{}, err
	}
	return learnSettings(l), nil
}

// LearnSettingsChange changes settings; null resets one.
type LearnSettingsChange struct {
	Zone       json.RawMessage `json:"time_zone,omitempty"`  // such as Asia/Shanghai
	DayStart   json.RawMessage `json:"day_start,omitempty"`  // such as 04:00
	Bot        json.RawMessage `json:"bot,omitempty"`        // number or name of the bot that judges; null: none
	Strictness json.RawMessage `json:"strictness,omitempty"` // lenient, normal, strict
	Defaults   json.RawMessage `json:"defaults,omitempty"`   // settings of all decks
	Remind     json.RawMessage `json:"remind,omitempty"`     // at, via, webhook
	// FitMonthly lets the memory model be fitted to the reviews each month.
	FitMonthly json.RawMessage `json:"fit_monthly,omitempty"`
}

// ChangeSettings changes a person's settings. Another scheduler recalculates all due dates, which
// may take a while.
func (p *Learning) ChangeSettings(ctx context.Context, c Caller, in LearnSettingsChange) (LearnSettings, error) {
	person, err := p.person(c, "update_learning_settings")
	if err != nil {
		return LearnSettings{}, err
	}
	changes, err := json.Marshal(in)
	if err != nil {
		return LearnSettings{}, err
	}
	ctx, cancel := Detached(ctx)
	defer cancel()
	var l *learn.Learner
	err = p.recordChange(c, "update_learning_settings", in, func() (err error) {
		l, err = p.points.SaveProfile(ctx, person, changes, nil)
		return err
	})
	if err != nil {
		return LearnSettings{}, err
	}
	return learnSettings(l), nil
}
