package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"patchbay/internal/i18n"
	"patchbay/internal/plug/rokid/sim"
)

// demoGlasses are the simulated glasses of the demo. Answers are printed as they arrive, and every
// answer must conform to the platform's protocol.
type demoGlasses struct {
	*sim.Glasses
	st *demoRun
}

// deviceLang returns a language as simulated devices report it.
func deviceLang(l i18n.Lang) string {
	if l == i18n.English {
		return "en-US"
	}
	return l.Tag()
}

// glasses returns simulated glasses of a user, with ada's key.
func (st *demoRun) glasses(user, agent string) *demoGlasses { return st.glassesOf(st.key, user, agent) }

// glassesOf returns simulated glasses of a user with a key.
func (st *demoRun) glassesOf(key, user, agent string) *demoGlasses {
	g := sim.New(sim.Options{URL: st.url + lingzhuPath, Key: key, UserID: user, AgentID: agent,
		Lang: deviceLang(st.sh.lang)})
	st.stops = append(st.stops, func() error { g.Close(); return nil })
	return &demoGlasses{g, st}
}

// say sends a question and returns the answer.
func (g *demoGlasses) say(ctx context.Context, text string) (answered, error) {
	g.st.line("›", text)
	a, err := g.Ask(ctx, text, g.onEvent)
	return g.recordAnswer(text, a, err)
}

const msgPhoto = i18n.Message("[photo, %d bytes]")

// show sends a photo and returns the answer.
func (g *demoGlasses) show(ctx context.Context, photo []byte) (answered, error) {
	what := msgPhoto.In(g.st.sh.lang, len(photo))
	g.st.line("›", what)
	a, err := g.Photo(ctx, photo, g.onEvent)
	return g.recordAnswer(what, a, err)
}

// onEvent prints an event of an answer.
func (g *demoGlasses) onEvent(e sim.Event) {
	if e.Text != "" {
		g.st.words(e.Text)
	}
	if e.Command != nil {
		g.st.line("⟶", command(e.Command))
	}
}

// recordAnswer records an answer and checks it against the protocol.
func (g *demoGlasses) recordAnswer(question string, a sim.Answer, err error) (answered, error) {
	g.st.endLine()
	heard := answered{Question: question, Answer: a.Text, First: millis(a.First), Total: millis(a.Total),
		Pieces: a.Pieces}
	for _, c := range a.Commands {
		heard.Commands = append(heard.Commands, c.Name)
	}
	g.st.answers = append(g.st.answers, heard)
	switch {
	case err != nil:
		return heard, err
	case a.Err != "":
		return heard, errors.New(a.Err)
	case len(a.Violations) > 0:
		return heard, fmt.Errorf("the answer to %q breaks the protocol: %s", question, strings.Join(a.Violations, "; "))
	}
	return heard, nil
}

const msgDisconnected = i18n.Message("the glasses disconnect")

// disconnect sends a question and disconnects as soon as the bot has started to think.
func (g *demoGlasses) disconnect(ctx context.Context, text string, thinking <-chan struct{}) error {
	g.st.line("›", text)
	asking, goAway := context.WithCancel(ctx)
	defer goAway()
	ended := make(chan error, 1)
	go func() {
		_, err := g.Ask(asking, text, nil)
		ended <- err
	}()
	select {
	case <-thinking:
	case err := <-ended:
		return fmt.Errorf("the answer to %q ended before the bot had thought (%v)", text, err)
	}
	goAway()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		return fmt.Errorf("the glasses could not hang up: %v", err)
	}
	g.st.line("×", msgDisconnected.In(g.st.sh.lang))
	return nil
}
