package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"patchbay/internal/api"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
	"patchbay/internal/plug/learn/sim"
)

// A learner's day has three steps: the morning with the glasses on, the kitchen with a program and
// the board, and the evening in a browser.

const (
	msgQuizOn      = i18n.Message("quiz me on %s")
	msgForgot      = i18n.Message("I forgot")
	msgGradeGood   = i18n.Message("grade\x04good")
	msgPackage     = i18n.Message("learn import demo.apkg  %d KB, from Anki")
	msgImportedAll = i18n.Message("%d cards in 5 decks, with %d pictures and sounds and %d earlier reviews; %d are due today, %d are new")
	msgFormulaIs   = i18n.Message("a formula: %s = %s, drawn without a script")
	msgOneByOne    = i18n.Message("the deck %s: a forgotten card comes back after one minute")
	msgCameBack    = i18n.Message("%s was forgotten, and came back in the same review")
	msgMorningNote = i18n.Message("%d cards were reviewed on the glasses, %d of them forgotten once")
)

// learner is the person of a learner's day, with what is due.
type learner struct {
	deck sim.Contents
	key  string // of the program that adds and fits
}

// playMorning imports a package of Anki, and reviews its cloze cards with glasses.
func playMorning(ctx context.Context, st *demoRun) error {
	key, err := st.newKey(ctx, "study", "learn")
	if err != nil {
		return err
	}
	st.learner.key = key
	if err := st.importDeck(ctx); err != nil {
		return err
	}
	if err := st.showFormula(ctx); err != nil {
		return err
	}
	// No model judges here: the recall is compared with the answer.
	if err := st.learn(ctx, key, "update_learning_settings", map[string]any{"bot": "none"}, nil); err != nil {
		return err
	}
	poem := st.learner.deck.Poem
	st.line("⇢", msgOneByOne.In(st.sh.lang, poem))
	for _, deck := range []string{poem, st.learner.deck.Words} {
		if err := st.learn(ctx, key, "save_deck", map[string]any{"name": deck, "settings": map[string]any{
			"bury": false, "relearn": []int{1}}}, nil); err != nil {
			return err
		}
	}
	return st.reviewPoem(ctx)
}

// importDeck imports the learner's package, which it checks.
func (st *demoRun) importDeck(ctx context.Context) error {
	var file bytes.Buffer
	c, err := writeDemoDeck(&file, st.sh.lang)
	if err != nil {
		return err
	}
	st.learner.deck = c
	st.line("⇢", msgPackage.In(st.sh.lang, file.Len()>>10))
	got, err := importDemoDeck(ctx, st.at, &file)
	if err != nil {
		return err
	}
	st.line("⇠", msgImportedAll.In(st.sh.lang, c.Cards, c.Media, c.Reviews, c.Due, c.Fresh))
	stats, err := api.LearnStats.Call(ctx, st.at, control.LearnStatsQuery{})
	if err != nil {
		return err
	}
	due, fresh := 0, 0
	for _, d := range stats.Decks { // what is left today has no cards that others of their note will hide
		due, fresh = due+d.Due, fresh+d.New
	}
	if got.Added != c.Cards || got.Media != c.Media || due != c.Due || fresh != c.Fresh {
		return fmt.Errorf("of %+v the import took %+v, and %d are due and %d new", c, got, due, fresh)
	}
	return nil
}

// writeDemoDeck writes the package of a simulated learner of this machine.
func writeDemoDeck(w io.Writer, lang i18n.Lang) (sim.Contents, error) {
	return sim.Write(w, sim.Options{Lang: lang, Now: time.Now(), Zone: time.Local, DayStart: 4 * time.Hour})
}

const msgDeckWritten = i18n.Message("Written to %s: %d cards, %d of them due today. Import it: patchbay learn import %s")

// writeDemoFile writes the package into a new file.
func writeDemoFile(name string, sh *shell) error {
	var c sim.Contents
	err := writeNew(name, func(w io.Writer) (err error) {
		c, err = writeDemoDeck(w, sh.lang)
		return err
	})
	if err != nil {
		return err
	}
	if sh.json {
		return sh.writeJSON(map[string]any{"file": name, "cards": c.Cards, "due": c.Due, "media": c.Media}, "")
	}
	sh.say(msgDeckWritten, name, c.Cards, c.Due, quoteWord(name))
	return nil
}

// importDemoDeck imports it for the person of a key.
func importDemoDeck(ctx context.Context, at *api.Client, file *bytes.Buffer) (*control.LearnImported, error) {
	got, err := at.ImportPoints(ctx, control.LearnImportFile{Name: "demo.apkg"}, file, int64(file.Len()))
	if err == nil && !got.Done {
		err = fmt.Errorf("the package was not imported: %+v", got)
	}
	return got, err
}

// showFormula shows a point whose answer is a formula.
func (st *demoRun) showFormula(ctx context.Context) error {
	page, err := api.LearnPoints.Call(ctx, st.at, control.LearnPointsQuery{Query: "tag:maths", Limit: 50})
	if err != nil {
		return err
	}
	for _, p := range page.Points {
		if !strings.Contains(p.Answer, `e^{i\pi}`) {
			continue
		}
		detail, err := api.LearnPoint.Call(ctx, st.at, control.LearnPointRef{Point: p.ID})
		if err != nil {
			return err
		}
		if detail.HTML == nil || !strings.Contains(detail.HTML.Back, "<math") {
			return fmt.Errorf("the formula is not drawn: %+v", detail.HTML)
		}
		st.line("⇠", msgFormulaIs.In(st.sh.lang, p.Question, `e^{i\pi}+1=0`))
		return nil
	}
	return fmt.Errorf("the formula is not among the %d points", len(page.Points))
}

// reviewPoem reviews the poem with the glasses that were bound by a photo: others may not see the
// owner's points. The second card is forgotten, and comes back.
func (st *demoRun) reviewPoem(ctx context.Context) error {
	g := st.glasses(stranger, platformAgent)
	heard, err := g.say(ctx, msgQuizOn.In(st.sh.lang, st.learner.deck.Poem))
	forgotten := ""
	for turn := 1; err == nil && turn <= 4; turn++ {
		blank := blankOf(heard.Answer)
		switch {
		case blank == "":
			return fmt.Errorf("there is no card of the poem in %q", heard.Answer)
		case turn == 4 && blank != forgotten:
			return fmt.Errorf("%s was forgotten, and did not come back: %q", forgotten, heard.Answer)
		case turn == 2:
			forgotten = blank
			if heard, err = g.say(ctx, msgForgot.In(st.sh.lang)); err == nil {
				err = heard.expect(blank)
			}
			continue
		}
		heard, err = g.say(ctx, blank) // which is all that is asked for, and needs no grade
	}
	if err != nil {
		return err
	}
	st.line("⇠", msgCameBack.In(st.sh.lang, forgotten))
	stats, err := api.LearnStats.Call(ctx, st.at, control.LearnStatsQuery{})
	if err != nil {
		return err
	}
	if stats.Done.Reviews != 4 || stats.Done.Again != 1 {
		return fmt.Errorf("%d reviews are counted, %d of them forgotten, instead of 4 and 1", stats.Done.Reviews,
			stats.Done.Again)
	}
	st.note = msgMorningNote.In(st.sh.lang, 3, stats.Done.Again)
	return nil
}

// blankOf returns what the last question about the poem in a text asks for, "" if there is none.
func blankOf(text string) string {
	from := strings.LastIndex(text, "床前")
	if from < 0 {
		return ""
	}
	for _, b := range sim.Blanks() {
		if !strings.Contains(text[from:], b) {
			return b
		}
	}
	return ""
}

// learn calls a tool at Learn's endpoint, as programs without an MCP library do.
func (st *demoRun) learn(ctx context.Context, key, tool string, args map[string]any, into any) error {
	var m struct {
		Result struct {
			Content    []struct{ Text string }
			Structured json.RawMessage `json:"structuredContent"`
			IsError    bool
		}
		Error *struct{ Message string }
	}
	err := postJSON(ctx, st.url+"/api/mcp", map[string]string{"Authorization": "Bearer " + key},
		map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/call",
			"params": map[string]any{"name": tool, "arguments": args}}, &m)
	if err != nil {
		return fmt.Errorf("%s: %w", tool, err)
	}
	switch {
	case m.Error != nil:
		return errors.New(m.Error.Message)
	case m.Result.IsError && len(m.Result.Content) > 0:
		return errors.New(m.Result.Content[0].Text)
	case into != nil:
		return json.Unmarshal(m.Result.Structured, into)
	}
	return nil
}
