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

	"patchbay/internal/console/page"
	"patchbay/internal/control"
	"patchbay/internal/hub"
	"patchbay/internal/i18n"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

const (
	// pieceBuffer is how many pieces of an answer are queued for sending. When the queue is full,
	// the bot blocks, as it does for glasses.
	pieceBuffer = 64
	// pieceInterval is how often new pieces are sent. Bots send single characters, and a browser
	// needs a moment for each update.
	pieceInterval = 60 * time.Millisecond
	// openText is how long the open end of a text is, in bytes, that is sent again every
	// pieceInterval.
	openText = 2 << 10
)

// answer is an answer with the pieces received so far.
type answer struct {
	ID       string // of the turn
	Bot      string // its name
	Running  bool
	Late     []string // late answers to earlier questions
	Text     string
	Note     string // latest progress note
	Commands []talk.Command
	Suggest  []string
	Tools    []usedTool
	// toolChanges counts the changes of Tools.
	toolChanges int
	// Question is what can be asked again; empty: it had a picture, which is gone, or it is not the
	// last one.
	Question string
	At       time.Time
	Took     time.Duration     // 0: unknown
	Tokens   int               // of the bot's model, read and written; 0: unknown
	Failure  *page.TurnFailure // nil: it has not failed
	Stopped  bool
	// Forgotten means that the question is not kept.
	Forgotten bool

	base         string // path of the bot's chat page
	conversation string
	lang         i18n.Lang
	sent         answerProgress
}

// answerProgress is how much of an answer has been sent to the browser.
type answerProgress struct {
	late, text, commands int // text: of the part that does not change any more
	all                  int // of the whole text
	tools                int // changes of the tools
	note                 string
}

// progress returns how much has been received.
func (a *answer) progress() answerProgress {
	return answerProgress{late: len(a.Late), text: a.settledText(), commands: len(a.Commands), all: len(a.Text),
		tools: a.toolChanges, note: a.Note}
}

// settledText returns the length of the text that is shown for good.
func (a *answer) settledText() int {
	if !a.Running {
		return len(a.Text)
	}
	return a.sent.text + settled(a.Text[a.sent.text:])
}

// trimEvent returns a copy of an event that stays valid after the bot continues.
func trimEvent(e talk.Event) talk.Event {
	if e.Command != nil {
		e.Command = &talk.Command{Name: e.Command.Name, Args: maps.Clone(e.Command.Args)}
	}
	e.Suggest = slices.Clone(e.Suggest)
	return e
}

// applyEvent adds an event.
func (a *answer) applyEvent(e talk.Event) {
	switch e.Kind {
	case talk.KindText:
		a.Text += e.Text
	case talk.KindNote:
		if late, ok := strings.CutPrefix(e.Text, talk.MsgLate.In(a.lang)); ok {
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

// setResult records how the answer of a bot ended.
func (a *answer) setResult(v *page.Visit, b control.BotStatus, err error) {
	a.Running, a.Note = false, ""
	for i := range a.Tools {
		if t := &a.Tools[i]; t.Running { // how it ended is not known any more
			t.Running, t.Failed, t.Took = false, true, time.Since(t.Began)
		}
	}
	switch {
	case err == nil:
	case errors.Is(err, talk.ErrStopped):
		a.Stopped = true
	case errors.Is(err, talk.ErrDisconnected): // the server stops, or the browser has disconnected
		a.Failure = page.NewTurnFailure(v, &talk.Failure{Code: talk.Lost}, b.Bot, !b.Shared)
	default:
		a.Failure = page.NewTurnFailure(v, talk.AsFailure(err), b.Bot, !b.Shared)
	}
}

// newAnswer returns an empty answer.
func newAnswer(turn *talk.Turn, b control.BotStatus) *answer {
	a := &answer{
		ID: turn.ID, Bot: b.Name, Running: true, lang: turn.Lang, base: base(b.Bot), conversation: turn.Conversation,
		At: time.Now(),
	}
	if len(turn.Images()) == 0 {
		a.Question = turn.Text()
	}
	return a
}

// newStoredAnswer returns the answer of an earlier turn.
func newStoredAnswer(v *page.Visit, chat control.Chat, e store.Exchange, past control.PastTurn) *answer {
	a := &answer{ID: e.Turn, Bot: chat.Bot.Name, Text: e.Answer, At: e.At, Tools: recordedTools(v, past.Calls),
		Took: past.Took, Tokens: past.Input + past.Output,
		base: base(chat.Bot.Bot), conversation: chat.Conversation, lang: v.Lang}
	a.setResult(v, chat.Bot, past.End)
	return a
}

// setQuestion lets a stored question be asked again, unless it had a picture.
func (a *answer) setQuestion(stored string) {
	if text, pictures := hub.SplitImages(stored); pictures == 0 {
		a.Question = text
	}
}

// stream responds to the script with the answer, piece by piece.
func stream(v *page.Visit, turn *talk.Turn) {
	b, ok := bot(v)
	if !ok {
		return
	}
	v.Live(func(ctx context.Context, send page.Send) error {
		a := newAnswer(turn, b)
		if err := send(acceptedPart(v, turn, a)); err != nil {
			return err
		}
		err := a.streamTo(ctx, v, b.Bot, turn, send)
		a.end(ctx, v, b, err)
		b = refreshBot(ctx, v, b)
		return send(ended(v, a, b))
	})
}

// streamTo asks the bot and sends the pieces of the answer as they come. It returns the error that
// ended it.
func (a *answer) streamTo(ctx context.Context, v *page.Visit, b store.Bot, turn *talk.Turn,
	send page.Send) error {
	tools := newToolWatch(v, b)
	turn.UsesTool = tools.use
	pieces := make(chan talk.Event, pieceBuffer)
	var err error
	var asking sync.WaitGroup
	asking.Go(func() {
		defer close(pieces)
		err = v.Instance.Control.Answer(ctx, turn, func(e talk.Event) error {
			select {
			case pieces <- trimEvent(e):
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
			a.applyEvent(e)
		case <-tools.changed:
			a.Tools = tools.list()
			a.toolChanges++
		case <-due:
			due, last = nil, time.Now()
			if sending := send(a.fresh(v)); sending != nil {
				asking.Wait() // the context ends with the browser's connection
				return sending
			}
			continue
		}
		if due == nil {
			due = time.After(a.interval() - time.Since(last))
		}
	}
	asking.Wait()
	a.Tools = tools.list()
	return err
}

// interval returns how long the next pieces are collected. The open end of the text is sent again
// each time, so a long one, such as a program, is sent less often.
func (a *answer) interval() time.Duration {
	return pieceInterval * time.Duration(1+(len(a.Text)-a.sent.text)/openText)
}

// end records how the answer ended, what it took, and what the bot called if that was not seen.
func (a *answer) end(ctx context.Context, v *page.Visit, b control.BotStatus, err error) {
	a.setResult(v, b, err)
	if a.At.IsZero() {
		a.At = time.Now()
	} else {
		a.Took = time.Since(a.At)
	}
	past, failed := v.Instance.Control.PastTurns(ctx, v.Caller(), b.Bot, []string{a.ID})
	if failed != nil {
		return // it is on the page of the turn
	}
	a.Tokens = past[a.ID].Input + past[a.ID].Output
	if len(a.Tools) == 0 {
		a.Tools = recordedTools(v, past[a.ID].Calls)
	}
}

// showWhole responds to a browser without JavaScript when the answer is complete.
func showWhole(v *page.Visit, chat control.Chat, turn *talk.Turn) {
	a := newAnswer(turn, chat.Bot)
	err := v.Instance.Control.Answer(v.Context(), turn, func(e talk.Event) error {
		a.applyEvent(trimEvent(e))
		return nil
	})
	if v.Context().Err() != nil {
		return
	}
	a.end(v.Context(), v, chat.Bot, err)
	render(v, http.StatusOK, chat, questionForm{Turn: turn, Answer: a})
}

// commandText describes a command of the bot to glasses, for people without glasses.
func (a *answer) commandText(c talk.Command) (does i18n.Message, args []any) {
	arg := func(name string) string { return c.Args[name] }
	switch c.Name {
	case talk.CommandTakePhoto:
		return msgTakePhoto, nil
	case talk.CommandNavigate:
		if arg("action") == "close" {
			return msgNavigateEnd, nil
		}
		how := msgByCar
		switch arg("navi_type") {
		case "1":
			how = msgOnFoot
		case "2":
			how = msgByBike
		}
		return msgNavigate, []any{arg("poi_name"), how.In(a.lang)}
	case talk.CommandCalendar:
		if arg("end_time") == "" || arg("end_time") == arg("start_time") {
			return msgCalendar, []any{arg("title"), arg("start_time")}
		}
		return msgCalendarTo, []any{arg("title"), arg("start_time"), arg("end_time")}
	case talk.CommandLeave:
		return msgLeave, nil
	}
	var words []string
	for _, name := range slices.Sorted(maps.Keys(c.Args)) {
		words = append(words, name+": "+c.Args[name])
	}
	return msgCommand, []any{c.Name, strings.Join(words, ", ")}
}
