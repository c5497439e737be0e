package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/prometheus/client_golang/prometheus"

	"patchbay/internal/api"
	"patchbay/internal/app"
	"patchbay/internal/bus"
	"patchbay/internal/control"
	"patchbay/internal/hub"
	"patchbay/internal/i18n"
	"patchbay/internal/talk"
)

type askCmd struct {
	Bot          string `arg:"" help:"Number or name of the bot."`
	Text         string `arg:"" optional:"" help:"What to ask."`
	Image        string `help:"A picture to show: WebP, JPEG, PNG or GIF." placeholder:"FILE"`
	Conversation string `help:"A name under which the bot remembers what was said before." placeholder:"ID"`
	dataFlags    `embed:""`
	serverFlags  `embed:""`
}

// Help returns the command's detailed help with examples.
func (askCmd) Help() string {
	return `The question goes through the server that runs on the data folder, if there is one. Without one, bots are asked from here, apart from those that connect to a server.

Examples:

    patchbay ask 1 "hello"
    patchbay ask qwen "What is in this picture?" --image photo.jpg
    patchbay ask qwen "And what is behind it?" --conversation evening
    patchbay ask lobster "hello" --server https://board.example.org --key $KEY`
}

// maxPicture is the maximum size of a picture, in bytes, as for glasses.
const maxPicture = 8 << 20

// Run asks the bot and prints the answer.
func (c *askCmd) Run(ctx context.Context, sh *shell) error {
	q := control.Question{Bot: c.Bot, Text: c.Text, Conversation: c.Conversation, Lang: string(sh.lang)}
	if c.Image != "" {
		picture, err := readPicture(c.Image)
		if err != nil {
			return err
		}
		q.Image = picture
	}
	show := &answer{sh: sh}
	r, err := c.remote(sh)
	if err != nil {
		return err
	}
	if r != nil {
		return show.done(r.ask(ctx, q, show.line))
	}
	settings, err := c.load(sh)
	if err != nil {
		return err
	}
	if !hasData(settings) {
		return c.noData(settings)
	}
	if r, err = findRunning(ctx, sh, settings); err != nil {
		return err
	}
	if r != nil {
		return show.done(r.ask(ctx, q, show.line))
	}
	return withBase(ctx, sh, settings, func(b *app.Base) error { return show.done(askLocal(ctx, b, q, show.line)) })
}

func readPicture(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxPicture+1))
	if err == nil && len(b) > maxPicture {
		err = i18n.Message("%s is larger than %d MiB").Errorf(name, maxPicture>>20)
	}
	return b, err
}

// askLocal asks a bot in this process, without a server.
func askLocal(ctx context.Context, b *app.Base, q control.Question, line func(api.Line) error) error {
	bot, err := findBot(ctx, b, q.Bot)
	if err != nil {
		return err
	}
	if isInbound(bot) {
		return i18n.Message("%s is asked through a running server, to which it connects; start one with: patchbay serve").Errorf(bot.Name)
	}
	turn, err := control.NewTurn(bot, q, control.ChannelCLI, bot.Owner)
	if err != nil {
		return err
	}
	alone, err := bus.Open(ctx, bus.Options{})
	if err != nil {
		return err
	}
	defer alone.Close()
	h, err := hub.New(hubOptions(b, alone))
	if err != nil {
		return err
	}
	defer h.Close()
	err = h.Answer(ctx, turn, func(e talk.Event) error { return line(api.Line{Event: &e}) })
	if ctx.Err() != nil {
		return ctx.Err()
	}
	last := api.Line{End: true, Turn: turn.ID}
	if f := talk.AsFailure(err); f != nil {
		last.Error, last.Failure = f.Sentence(turn.Lang), f.Error()
	}
	return line(last)
}

func hubOptions(b *app.Base, alone *bus.Bus) hub.Options {
	t := b.Config.Turn
	return hub.Options{
		Store: b.Store, Registry: b.Registry, Bus: alone, Logger: slog.New(slog.DiscardHandler),
		Registerer:        prometheus.NewRegistry(),
		FirstPieceTimeout: t.FirstPiece, IdleTimeout: t.Idle, HistoryLength: b.Config.History.Turns,
		KeepContent: b.Config.Trace.Content,
		LateTimeout: -1, // this process cannot deliver late answers
	}
}

// answer prints an answer as it arrives.
type answer struct {
	sh   *shell
	open bool // the current line is not terminated
}

// line prints one event of the answer.
func (a *answer) line(l api.Line) error {
	if a.sh.json {
		if err := a.sh.writeJSON(l, ""); err != nil {
			return err
		}
	}
	switch {
	case l.Error != "":
		return failure(l)
	case l.Event == nil || a.sh.json:
		return nil
	}
	a.event(*l.Event)
	return nil
}

func failure(l api.Line) error {
	if l.Failure == "" {
		return errors.New(l.Error)
	}
	return fmt.Errorf("%s (%s)", l.Error, l.Failure)
}

func (a *answer) event(e talk.Event) {
	switch e.Kind {
	case talk.KindText:
		a.words(e.Text)
	case talk.KindNote:
		a.words(e.Text)
		a.end()
	case talk.KindCommand:
		a.end()
		a.sh.printf("⟶ %s\n", command(e.Command))
	case talk.KindSuggest:
		a.end()
		for _, s := range e.Suggest {
			a.sh.printf("? %s\n", s)
		}
	}
}

func (a *answer) words(text string) {
	if text == "" {
		return
	}
	a.sh.printf("%s", text)
	a.open = text[len(text)-1] != '\n'
}

// end terminates the current line.
func (a *answer) end() {
	if a.open {
		a.sh.printf("\n")
		a.open = false
	}
}

// done terminates the current line and returns err.
func (a *answer) done(err error) error {
	a.end()
	return err
}
