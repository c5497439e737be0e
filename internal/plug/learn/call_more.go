package learn

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"patchbay/internal/i18n"
	"patchbay/internal/plug/learn/schedule"
	"patchbay/internal/tool"
)

// deckJSON is a deck in results for programs.
type deckJSON struct {
	Name     string            `json:"name"`
	Points   int               `json:"points"`
	New      int               `json:"new"`
	Due      int               `json:"due"`
	Settings schedule.Settings `json:"settings"`
	Own      json.RawMessage   `json:"own_settings,omitempty"` // the deck's own settings
}

func (s *Service) callDecks(ctx context.Context, c *tool.Call, _ *arguments) (*tool.Result, error) {
	_, decks, err := s.Decks(ctx, c.Caller.Person)
	if err != nil {
		return nil, err
	}
	rows := make([]deckJSON, len(decks))
	for i, d := range decks {
		rows[i] = deckJSON{d.Name, d.Points, d.New, d.Due, d.Settings, json.RawMessage(d.Own)}
	}
	return result(rows, map[string]any{"decks": rows}, ""), nil
}

func (s *Service) callSaveDeck(ctx context.Context, c *tool.Call, a *arguments) (*tool.Result, error) {
	d, err := s.SaveDeck(ctx, c.Caller.Person, DeckEdit{Name: a.Name, NewName: a.NewName, Settings: a.Settings},
		progressFunc(c))
	if err != nil {
		return nil, err
	}
	l, err := s.Learner(ctx, c.Caller.Person)
	if err != nil {
		return nil, err
	}
	shape := struct {
		Name     string            `json:"name"`
		Settings schedule.Settings `json:"settings"`
		Own      json.RawMessage   `json:"own_settings"`
	}{d.Name, l.Settings(d.ID), d.Settings}
	return result(shape, shape, ""), nil
}

// progressFunc returns a function that reports the progress of a long operation to the caller.
func progressFunc(c *tool.Call) func(done, total int) {
	if c.Progress == nil {
		return nil
	}
	return func(done, total int) {
		c.Progress(tool.Progress{Done: float64(done), Total: float64(total),
			Message: fmt.Sprintf("%d of %d points", done, total)})
	}
}

func (s *Service) callDropDeck(ctx context.Context, c *tool.Call, a *arguments) (*tool.Result, error) {
	if err := s.RemoveDeck(ctx, c.Caller.Person, a.Name); err != nil {
		return nil, err
	}
	done := map[string]any{"success": true, "name": a.Name}
	return result(done, done, ""), nil
}

func (s *Service) callTags(ctx context.Context, c *tool.Call, a *arguments) (*tool.Result, error) {
	list, err := s.Store.Learn.Tags(ctx, c.Caller.Person, a.Cursor, pageLimit(a.Limit)+1)
	if err != nil {
		return nil, fmt.Errorf("list tags: %w", err)
	}
	next := ""
	if len(list) > pageLimit(a.Limit) {
		list = list[:pageLimit(a.Limit)]
		next = list[len(list)-1].Tag
	}
	if list == nil {
		return result([]any{}, map[string]any{"tags": []any{}, "next_cursor": nil}, ""), nil
	}
	return result(list, map[string]any{"tags": list, "next_cursor": nilIfEmpty(next)}, ""), nil
}

func (s *Service) callStats(ctx context.Context, c *tool.Call, a *arguments) (*tool.Result, error) {
	days := a.Days
	if days == 0 {
		days = 14
	}
	st, err := s.Stats(ctx, c.Caller.Person, days, a.Back)
	if err != nil {
		return nil, err
	}
	rows := make([]deckJSON, len(st.Decks))
	for i, d := range st.Decks {
		rows[i] = deckJSON{d.Name, d.Points, d.New, d.Due, d.Settings, json.RawMessage(d.Own)}
	}
	type deckLine struct {
		Name   string `json:"name"`
		Points int    `json:"points"`
		New    int    `json:"new"`
		Due    int    `json:"due"`
	}
	lines := make([]deckLine, len(st.Decks))
	for i, d := range st.Decks {
		lines[i] = deckLine{d.Name, d.Points, d.New, d.Due}
	}
	shape := struct {
		*Stats
		Decks []deckLine `json:"decks"`
	}{st, lines}
	return result(shape, shape, ""), nil
}

// settingsJSON is a person's profile and the settings that result from it.
type settingsJSON struct {
	Profile
	Zone     string            `json:"time_zone"`
	DayStart string            `json:"day_start"`
	Today    string            `json:"today"`
	Settings schedule.Settings `json:"settings"`
}

func newSettingsJSON(l *Learner) settingsJSON {
	start := int(l.Calendar.Start.Minutes())
	return settingsJSON{l.Profile, l.Calendar.Zone.String(), fmt.Sprintf("%02d:%02d", start/60, start%60),
		l.Today.String(), l.Settings("")}
}

func (s *Service) callSettings(ctx context.Context, c *tool.Call, _ *arguments) (*tool.Result, error) {
	l, err := s.Learner(ctx, c.Caller.Person)
	if err != nil {
		return nil, err
	}
	shape := newSettingsJSON(l)
	return result(shape, shape, ""), nil
}

func (s *Service) callConfigure(ctx context.Context, c *tool.Call, _ *arguments) (*tool.Result, error) {
	l, err := s.SaveProfile(ctx, c.Caller.Person, c.Args, progressFunc(c))
	if err != nil {
		return nil, err
	}
	shape := newSettingsJSON(l)
	return result(shape, shape, ""), nil
}

// lang returns the language to answer in: the requested one, or else the person's.
func (s *Service) lang(ctx context.Context, c *tool.Call) i18n.Lang {
	if c.Caller.Lang == "" {
		if p, err := s.Store.People.ByID(ctx, c.Caller.Person); err == nil {
			return i18n.ParseLang(p.Lang, i18n.Chinese)
		}
	}
	return i18n.ParseLang(c.Caller.Lang, i18n.Chinese)
}

func (s *Service) callJudge(ctx context.Context, c *tool.Call, a *arguments) (*tool.Result, error) {
	in := Recall{Question: deref(a.Question), Answer: deref(a.Answer), Recall: a.Recall, Lang: s.lang(ctx, c)}
	if a.Point != "" {
		e, err := s.Get(ctx, c.Caller.Person, a.Point)
		if err != nil {
			return nil, err
		}
		in.Question, in.Answer = e.Question, e.Answer
	}
	if strings.TrimSpace(in.Answer) == "" {
		return nil, invalid(i18n.Message("give knowledge_point_id, or question and answer"))
	}
	j, err := s.Judge(ctx, c.Caller.Person, in)
	if err != nil {
		return nil, err
	}
	return result(j, j, ""), nil
}

func (s *Service) callAsk(ctx context.Context, c *tool.Call, a *arguments) (*tool.Result, error) {
	reply, err := s.Ask(ctx, c.Caller.Person, deref(a.Question), s.lang(ctx, c))
	if err != nil {
		return nil, err
	}
	type source struct {
		Cite  int  `json:"cite"` // cited as [1] in the answer
		Cited bool `json:"cited"`
		pointRow
	}
	shape := struct {
		Answer  string   `json:"answer"`
		Sources []source `json:"sources"`
		By      string   `json:"answered_by"`
		Why     string   `json:"note,omitempty"`
	}{reply.Text, make([]source, len(reply.Sources)), reply.By, reply.Why}
	for i := range reply.Sources {
		r := &reply.Sources[i]
		shape.Sources[i] = source{r.Cite, r.Cited, newPointRow(reply.learner, &r.Point)}
	}
	return result(shape, shape, ""), nil
}
