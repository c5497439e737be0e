package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"patchbay/internal/api"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
	"patchbay/internal/talk"
)

type askCmd struct {
	Bot          string `arg:"" help:"Number or name of the bot."`
	Text         string `arg:"" optional:"" help:"The question."`
	Image        string `help:"A picture to attach: WebP, JPEG, PNG or GIF." placeholder:"FILE"`
	Conversation string `help:"Name of the conversation; questions with the same name share their context." placeholder:"ID"`
	targetFlags  `embed:""`
}

// Help returns the command's detailed help with examples.
func (askCmd) Help() string {
	return `The question is sent to the server that runs on the data folder, if there is one. Without a server, this command calls the bot itself, except bots that connect to a server.

Examples:

    patchbay ask 1 "hello"
    patchbay ask qwen "What is in this picture?" --image photo.jpg
    patchbay ask qwen "And what is behind it?" --conversation evening
    patchbay ask lobster "hello" --server https://board.example.org --key $KEY`
}

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
	return c.connect(ctx, sh, func(at *conn) error {
		if at.local {
			if err := checkAskedHere(ctx, at, c.Bot); err != nil {
				return err
			}
		}
		err := at.Ask(ctx, q, show.line)
		if ctx.Err() != nil {
			err = ctx.Err() // instead of the failure that follows from it
		}
		return show.done(explainNoBot(err, c.Bot))
	})
}

// checkAskedHere refuses bots that connect to a server, because none runs.
func checkAskedHere(ctx context.Context, at *conn, ref string) error {
	bot, err := at.findBot(ctx, ref)
	if err != nil {
		return err
	}
	kinds, err := api.BotKinds.Call(ctx, at.Client, struct{}{})
	for _, k := range kinds.Kinds {
		if k.Name == bot.Kind && k.Connects {
			return i18n.Message("%s connects to a running server and answers only through it; start one with: patchbay serve").Errorf(bot.Name)
		}
	}
	return err
}

func readPicture(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, control.MaxPicture+1))
	if err == nil && len(b) > control.MaxPicture {
		err = i18n.Message("%s is larger than %d MiB").Errorf(name, control.MaxPicture>>20)
	}
	return b, err
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
