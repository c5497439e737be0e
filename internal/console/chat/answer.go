package chat

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"patchbay/internal/board"
	"patchbay/internal/console/page"
	"patchbay/internal/control"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

const (
	// piecesWait is how many pieces of an answer wait to be sent. When it is full, the bot
	// waits, as it does for glasses.
	piecesWait = 64
	// piecesEvery is how often new pieces are sent. Bots send single characters, and a
	// browser takes a moment for each thing that comes.
	piecesEvery = 60 * time.Millisecond
)

// answer is an answer, as far as it has come.
type answer struct {
	ID       string // of the turn
	Bot      string // its name
	Running  bool
	Late     []string // answers to earlier questions
	Text     string
	Note     string // the last word about the work
	Commands []talk.Command
	Suggest  []string
	// Told is how it ended, if there is something to say about that, and Cause what only
	// the owner is told.
	Told, Cause string
	Stopped     bool

	base         string // where one talks with the bot
	conversation string
	lang         talk.Lang
	sent         answered
}

// answered is how much of an answer was sent.
type answered struct {
	late, text, commands int
	note                 string
}

// come is how much has come.
func (a *answer) come() answered {
	return answered{late: len(a.Late), text: len(a.Text), commands: len(a.Commands), note: a.Note}
}

// kept is a piece that stays when its bot goes on.
func kept(e talk.Event) talk.Event {
	if e.Command != nil {
		e.Command = &talk.Command{Name: e.Command.Name, Args: maps.Clone(e.Command.Args)}
	}
	e.Suggest = slices.Clone(e.Suggest)
	return e
}

// take adds a piece.
func (a *answer) take(e talk.Event) {
	switch e.Kind {
	case talk.KindText:
		a.Text += e.Text
	case talk.KindNote:
		if late, ok := strings.CutPrefix(e.Text, talk.SayLate.In(a.lang)); ok {
			a.Late = append(a.Late, strings.TrimSpace(late))
			return
		}
		a.Note = e.Text
	case talk.KindCommand:
		a.Commands = append(a.Commands, *e.Command)
	case talk.KindSuggest:
		a.Suggest = e.Suggest
	}
}

// end says how the answer ended.
func (a *answer) end(err error) {
	a.Running, a.Note = false, ""
	switch {
	case err == nil:
	case errors.Is(err, board.ErrStopped):
		a.Stopped = true
	case errors.Is(err, talk.ErrHungUp): // the server stops, or the browser has gone
		a.Told = (&talk.Failure{Code: talk.Lost}).Sentence(a.lang)
	default:
		f := talk.AsFailure(err)
		a.Told, a.Cause = f.Sentence(a.lang), f.Error()
	}
}

// begun is an answer of which nothing has come.
func begun(turn *talk.Turn, b store.Bot) *answer {
	return &answer{
		ID: turn.ID, Bot: b.Name, Running: true, lang: turn.Lang, base: base(b), conversation: turn.Conversation,
	}
}

// stream answers the script piece by piece.
func stream(v *page.Visit, turn *talk.Turn) {
	b, ok := bot(v)
	if !ok {
		return
	}
	v.Live(func(ctx context.Context, send page.Send) error {
		a := begun(turn, b.Bot)
		if err := send(taken(v, turn, a)); err != nil {
			return err
		}
		err := a.follow(ctx, v, turn, send)
		a.end(err)
		b = after(ctx, v, b)
		return send(ended(v, a, b))
	})
}

// follow sends the pieces of an answer as they come. It returns why it ended.
func (a *answer) follow(ctx context.Context, v *page.Visit, turn *talk.Turn, send page.Send) error {
	pieces := make(chan talk.Event, piecesWait)
	var err error
	var asking sync.WaitGroup
	asking.Go(func() {
		defer close(pieces)
		err = v.House.Control.Board.Answer(ctx, turn, func(e talk.Event) error {
			select {
			case pieces <- kept(e):
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
	})
	var due <-chan time.Time
	var last time.Time
	for open := true; open; {
		var e talk.Event
		select {
		case e, open = <-pieces:
			if a.take(e); due == nil {
				due = time.After(piecesEvery - time.Since(last))
			}
		case <-due:
			due, last = nil, time.Now()
			if sending := send(a.fresh(v)); sending != nil {
				asking.Wait() // the context ends with the browser
				return sending
			}
		}
	}
	asking.Wait()
	return err
}

// whole answers a browser without a script, when the answer has ended.
func whole(v *page.Visit, chat control.Chat, turn *talk.Turn) {
	a := begun(turn, chat.Bot.Bot)
	err := v.House.Control.Board.Answer(v.Context(), turn, func(e talk.Event) error {
		a.take(kept(e))
		return nil
	})
	if v.Context().Err() != nil {
		return
	}
	a.end(err)
	v.Show(http.StatusOK, chatPage(v, chat, said{Turn: turn, Answer: a}))
}

// doing is a command of the bot's in words, for whoever has no glasses on.
func (a *answer) doing(c talk.Command) (does talk.Say, args []any) {
	arg := func(name string) string { return c.Args[name] }
	switch c.Name {
	case talk.CommandTakePhoto:
		return sayTakePhoto, nil
	case talk.CommandNavigate:
		if arg("action") == "close" {
			return sayNavigateEnd, nil
		}
		how := sayByCar
		switch arg("navi_type") {
		case "1":
			how = sayOnFoot
		case "2":
			how = sayByBike
		}
		return sayNavigate, []any{arg("poi_name"), how.In(a.lang)}
	case talk.CommandCalendar:
		if arg("end_time") == "" || arg("end_time") == arg("start_time") {
			return sayCalendar, []any{arg("title"), arg("start_time")}
		}
		return sayCalendarTo, []any{arg("title"), arg("start_time"), arg("end_time")}
	case talk.CommandLeave:
		return sayLeave, nil
	}
	var words []string
	for _, name := range slices.Sorted(maps.Keys(c.Args)) {
		words = append(words, name+": "+c.Args[name])
	}
	return sayCommand, []any{c.Name, strings.Join(words, ", ")}
}
