package learn

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/a-h/templ"

	"patchbay/internal/console/page"
	"patchbay/internal/control"
	learning "patchbay/internal/plug/learn"
	"patchbay/internal/store"
)

// nameMost bounds the name of a deck, in bytes, as the service does.
const nameMost = 200

// deckForm is a deck as its form has it.
type deckForm struct {
	learner *learning.Learner

	Deck  store.Deck
	Name  string
	Rules ruleForm
	Wrong string
	Note  string
}

// decks lists the decks.
func (p *pages) decks(v *page.Visit) { p.decksWith(v, ok, "", "") }

func (p *pages) decksWith(v *page.Visit, status int, name, wrong string) {
	_, list, err := p.Points.Decks(v.Context(), who(v))
	if err != nil {
		v.Fail(err)
		return
	}
	v.Show(status, decksPage(v, list, name, wrong))
}

// addDeck makes a deck.
func (p *pages) addDeck(v *page.Visit) {
	name := strings.Join(strings.Fields(v.FormValue("name")), " ")
	l, err := p.Points.Learner(v.Context(), who(v))
	if err != nil {
		v.Fail(err)
		return
	}
	switch _, known := l.DeckID(name); {
	case name == "":
		p.decksWith(v, http.StatusUnprocessableEntity, name, v.Say(sayNeedName))
		return
	case len(name) > nameMost:
		p.decksWith(v, http.StatusUnprocessableEntity, name, v.Say(sayNameTooLong))
		return
	case known:
		p.decksWith(v, http.StatusConflict, name, v.Say(sayDeckThere, name))
		return
	}
	var d store.Deck
	err = did(v, "save_deck", control.LearnDeckArgs{Name: name}, func() (err error) {
		d, err = p.Points.SaveDeck(v.Context(), who(v), learning.DeckEdit{Name: name}, nil)
		return err
	})
	if err != nil {
		if text, status := v.Wrong(told(err)); text != "" {
			p.decksWith(v, status, name, text)
		}
		return
	}
	v.To("/learn/decks/" + d.ID)
}

// deckForm looks a deck up by its id.
func (p *pages) deckForm(v *page.Visit) (*deckForm, error) {
	l, err := p.Points.Learner(v.Context(), who(v))
	if err != nil {
		return nil, err
	}
	for _, d := range l.Decks {
		if d.ID == v.PathValue("deck") {
			// What all decks have in common is what one without its own has.
			return &deckForm{learner: l, Deck: d, Name: d.Name, Rules: ruleFormOf(d.Settings, l.Settings(d.ID), l.Settings(""), true)}, nil
		}
	}
	return nil, control.Fail(control.Missing, sayNoDeck)
}

// deck shows a deck.
func (p *pages) deck(v *page.Visit) {
	f, err := p.deckForm(v)
	if err != nil {
		v.Fail(err)
		return
	}
	if v.FormValue("saved") != "" {
		f.Note = v.Say(saySaved)
	}
	v.Show(ok, deckPage(v, f))
}

// saveDeck changes a deck. If its schedule changes, that may take a while.
func (p *pages) saveDeck(v *page.Visit) {
	f, err := p.deckForm(v)
	if err != nil {
		v.Fail(err)
		return
	}
	f.Name = strings.Join(strings.Fields(v.FormValue("name")), " ")
	changes, wrong := f.Rules.typed(v)
	id, known := f.learner.DeckID(f.Name)
	switch {
	case f.Name == "":
		wrong = v.Say(sayNeedName)
	case len(f.Name) > nameMost:
		wrong = v.Say(sayNameTooLong)
	case known && id != f.Deck.ID && f.Name != f.Deck.Name:
		wrong = v.Say(sayDeckThere, f.Name)
	}
	again := func(status int, wrong string) {
		f.Wrong = wrong
		v.Show(status, deckPage(v, f))
	}
	if wrong != "" {
		refuse(v, http.StatusUnprocessableEntity, wrong, again)
		return
	}
	settings, err := json.Marshal(changes)
	if err != nil {
		v.Fail(err)
		return
	}
	save := func(ctx context.Context, progress func(done, total int)) error {
		return told(did(v, "save_deck", control.LearnDeckArgs{Name: f.Deck.Name, NewName: f.Name, Settings: settings}, func() error {
			_, err := p.Points.SaveDeck(ctx, who(v), learning.DeckEdit{Name: f.Deck.ID, NewName: f.Name, Settings: settings}, progress)
			return err
		}))
	}
	p.longSave(v, save, "/learn/decks/"+f.Deck.ID+"?saved=1", again)
}

// refuse tells what is wrong with a form: beside its button if the script asked, and
// else with the whole page again.
func refuse(v *page.Visit, status int, wrong string, again func(int, string)) {
	if v.Partial() {
		v.Show(status, page.Note("bad", wrong))
		return
	}
	again(status, wrong)
}

// saveTime is how long settings may take that give every point another date.
const saveTime = 10 * time.Minute

// longSave saves what may take a while, and tells how far it is: in place if the script
// asks, and else at the end. What is begun is finished, whoever leaves meanwhile.
func (p *pages) longSave(v *page.Visit, save func(context.Context, func(done, total int)) error, after string, again func(int, string)) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(v.Context()), saveTime)
	defer cancel()
	if !v.Partial() {
		if err := save(ctx, nil); err != nil {
			if text, status := v.Wrong(err); text != "" {
				again(status, text)
			}
			return
		}
		v.To(after)
		return
	}
	v.Live(func(_ context.Context, send page.Send) error {
		report := paced(send, func(done, total int) templ.Component { return savingPart(v, done, total) })
		if err := save(ctx, report); err != nil {
			text, _ := v.Wrong(err)
			return send(savedPart("bad", text))
		}
		return send(savedPart("good", v.Say(saySaved)))
	})
}

// reportEvery is how often a browser is told how far something is.
const reportEvery = 250 * time.Millisecond

// paced tells a browser how far something is, now and then.
func paced(send page.Send, part func(done, total int) templ.Component) func(done, total int) {
	var last time.Time
	return func(done, total int) {
		if now := time.Now(); now.Sub(last) >= reportEvery {
			last = now
			send(part(done, total)) //nolint:errcheck // who has left is not told
		}
	}
}

// removeDeck deletes a deck.
func (p *pages) removeDeck(v *page.Visit) {
	f, err := p.deckForm(v)
	if err != nil {
		v.Fail(err)
		return
	}
	err = did(v, "delete_deck", control.LearnDeckArgs{Name: f.Deck.Name}, func() error { return p.Points.RemoveDeck(v.Context(), who(v), f.Deck.ID) })
	if err != nil {
		v.Fail(told(err))
		return
	}
	v.To("/learn/decks")
}
