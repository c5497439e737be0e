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
	"patchbay/internal/problem"
	"patchbay/internal/store"
)

// nameMost is the maximum length of a deck's name, in bytes, as in the service.
const nameMost = 200

// deckForm is the form of a deck.
type deckForm struct {
	learner *learning.Learner

	Deck  store.Deck
	Name  string
	Rules ruleForm
	Wrong string
	Note  string
}

// decks shows the list of decks.
func (p *pages) decks(v *page.Visit) { p.decksWith(v, ok, "", "") }

func (p *pages) decksWith(v *page.Visit, status int, name, wrong string) {
	_, list, err := p.Points.Decks(v.Context(), personID(v))
	if err != nil {
		v.Fail(err)
		return
	}
	v.Render(status, decksPage(v, list, name, wrong))
}

// addDeck creates a deck.
func (p *pages) addDeck(v *page.Visit) {
	name := strings.Join(strings.Fields(v.FormValue("name")), " ")
	l, err := p.Points.Learner(v.Context(), personID(v))
	if err != nil {
		v.Fail(err)
		return
	}
	switch _, known := l.DeckID(name); {
	case name == "":
		p.decksWith(v, http.StatusUnprocessableEntity, name, v.Text(msgNeedName))
		return
	case len(name) > nameMost:
		p.decksWith(v, http.StatusUnprocessableEntity, name, v.Text(msgNameTooLong))
		return
	case known:
		p.decksWith(v, http.StatusConflict, name, v.Text(msgDeckThere, name))
		return
	}
	var d store.Deck
	err = changeAudited(v, "save_deck", control.LearnDeckArgs{Name: name}, func() (err error) {
		d, err = p.Points.SaveDeck(v.Context(), personID(v), learning.DeckEdit{Name: name}, nil)
		return err
	})
	if err != nil {
		if text, status := v.Wrong(learnError(err)); text != "" {
			p.decksWith(v, status, name, text)
		}
		return
	}
	v.Redirect("/learn/decks/" + d.ID)
}

// deckForm loads the deck that the path names.
func (p *pages) deckForm(v *page.Visit) (*deckForm, error) {
	l, err := p.Points.Learner(v.Context(), personID(v))
	if err != nil {
		return nil, err
	}
	for _, d := range l.Decks {
		if d.ID == v.PathValue("deck") {
			// Settings that are common to all decks are those of a deck without its own.
			return &deckForm{learner: l, Deck: d, Name: d.Name,
				Rules: ruleFormOf(d.Settings, l.Settings(d.ID), l.Settings(""), true)}, nil
		}
	}
	return nil, problem.New(problem.NotFound, msgNoDeck)
}

// deck shows the page of a deck.
func (p *pages) deck(v *page.Visit) {
	f, err := p.deckForm(v)
	if err != nil {
		v.Fail(err)
		return
	}
	if v.FormValue("saved") != "" {
		f.Note = v.Text(msgSaved)
	}
	v.Render(ok, deckPage(v, f))
}

// saveDeck saves a deck. A change of the schedule may take a while.
func (p *pages) saveDeck(v *page.Visit) {
	f, err := p.deckForm(v)
	if err != nil {
		v.Fail(err)
		return
	}
	f.Name = strings.Join(strings.Fields(v.FormValue("name")), " ")
	changes, wrong := f.Rules.readChanges(v)
	id, known := f.learner.DeckID(f.Name)
	switch {
	case f.Name == "":
		wrong = v.Text(msgNeedName)
	case len(f.Name) > nameMost:
		wrong = v.Text(msgNameTooLong)
	case known && id != f.Deck.ID && f.Name != f.Deck.Name:
		wrong = v.Text(msgDeckThere, f.Name)
	}
	again := func(status int, wrong string) {
		f.Wrong = wrong
		v.Render(status, deckPage(v, f))
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
		return learnError(changeAudited(v, "save_deck", control.LearnDeckArgs{Name: f.Deck.Name, NewName: f.Name,
			Settings: settings}, func() error {
			_, err := p.Points.SaveDeck(ctx, personID(v), learning.DeckEdit{Name: f.Deck.ID, NewName: f.Name,
				Settings: settings}, progress)
			return err
		}))
	}
	p.saveWithProgress(v, save, "/learn/decks/"+f.Deck.ID+"?saved=1", again)
}

// refuse shows the error of a form: beside its button if the script sent it, else on the whole page
// again.
func refuse(v *page.Visit, status int, wrong string, again func(int, string)) {
	if v.IsPartial() {
		v.Render(status, page.Note("bad", wrong))
		return
	}
	again(status, wrong)
}

// saveTime is the timeout for saving settings that reschedule every point.
const saveTime = 10 * time.Minute

// saveWithProgress runs a save that may take a while and shows its progress: in place for the
// script, else only the result. It finishes even if the browser disconnects.
func (p *pages) saveWithProgress(v *page.Visit, save func(context.Context, func(done, total int)) error, after string,
	again func(int, string)) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(v.Context()), saveTime)
	defer cancel()
	if !v.IsPartial() {
		if err := save(ctx, nil); err != nil {
			if text, status := v.Wrong(err); text != "" {
				again(status, text)
			}
			return
		}
		v.Redirect(after)
		return
	}
	v.Live(func(_ context.Context, send page.Send) error {
		report := throttledProgress(send, func(done, total int) templ.Component { return savingPart(v, done, total) })
		if err := save(ctx, report); err != nil {
			text, _ := v.Wrong(err)
			return send(savedPart("bad", text))
		}
		return send(savedPart("good", v.Text(msgSaved)))
	})
}

// reportEvery is the interval of progress updates.
const reportEvery = 250 * time.Millisecond

// throttledProgress returns a function that sends progress at most once per reportEvery.
func throttledProgress(send page.Send, part func(done, total int) templ.Component) func(done, total int) {
	var last time.Time
	return func(done, total int) {
		if now := time.Now(); now.Sub(last) >= reportEvery {
			last = now
			send(part(done, total)) //nolint:errcheck // the browser may have disconnected
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
	err = changeAudited(v, "delete_deck", control.LearnDeckArgs{Name: f.Deck.Name},
		func() error { return p.Points.RemoveDeck(v.Context(), personID(v), f.Deck.ID) })
	if err != nil {
		v.Fail(learnError(err))
		return
	}
	v.Redirect("/learn/decks")
}
