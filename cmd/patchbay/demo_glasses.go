package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"patchbay/internal/plug/rokid/sim"
	"patchbay/internal/talk"
)

// glasses are the simulated glasses of the story. What they hear is shown as it
// comes, and every answer has to keep to the platform's protocol.
type glasses struct {
	*sim.Glasses
	st *stage
}

// glasses puts on a pair.
func (st *stage) glasses(user, agent string) *glasses {
	lang := "zh-CN"
	if st.sh.lang == talk.English {
		lang = "en-US"
	}
	g := sim.New(sim.Options{URL: st.url + lingzhuPath, Key: st.key, UserID: user, AgentID: agent, Lang: lang})
	st.stops = append(st.stops, func() error { g.Close(); return nil })
	return &glasses{g, st}
}

// say says something and hears the answer.
func (g *glasses) say(ctx context.Context, text string) (answered, error) {
	g.st.line("›", text)
	a, err := g.Ask(ctx, text, g.hear)
	return g.heard(text, a, err)
}

var sayPhoto = talk.Say{Zh: "[照片，%d 字节]", En: "[photo, %d bytes]"}

// show sends a photo and hears the answer.
func (g *glasses) show(ctx context.Context, photo []byte) (answered, error) {
	what := sayPhoto.In(g.st.sh.lang, len(photo))
	g.st.line("›", what)
	a, err := g.Photo(ctx, photo, g.hear)
	return g.heard(what, a, err)
}

// hear shows a piece of an answer.
func (g *glasses) hear(e sim.Event) {
	if e.Text != "" {
		g.st.words(e.Text)
	}
	if e.Command != nil {
		g.st.line("⟶", command(e.Command))
	}
}

// heard notes an answer, and finds what breaks the protocol.
func (g *glasses) heard(question string, a sim.Answer, err error) (answered, error) {
	g.st.endLine()
	heard := answered{Question: question, Answer: a.Text, First: millis(a.First), Total: millis(a.Total), Pieces: a.Pieces}
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

var sayHungUp = talk.Say{Zh: "眼镜断开", En: "the glasses hang up"}

// hangUp says something, and is gone as soon as the bot has begun to think.
func (g *glasses) hangUp(ctx context.Context, text string, thinking <-chan struct{}) error {
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
	g.st.line("×", sayHungUp.In(g.st.sh.lang))
	return nil
}
