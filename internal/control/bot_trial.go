package control

import (
	"context"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"patchbay/internal/i18n"
	"patchbay/internal/talk"
)

// Trial is the result of a test question to a bot.
type Trial struct {
	// Asked is the question.
	Asked string `json:"asked"`
	// Notes are progress notes, and Text is the answer so far.
	Notes []string `json:"notes,omitempty"`
	Text  string   `json:"text,omitempty"`
	// First and Total are the times to the first piece and to the end.
	First time.Duration `json:"first"`
	Total time.Duration `json:"total"`
	Ended bool          `json:"ended"`
	// Problem explains why there is no complete answer, and Do the remedy, for the bot's owner.
	// Cause has details. Command is a command to run on the peer's machine.
	Problem string    `json:"problem,omitempty"`
	Do      string    `json:"do,omitempty"`
	Cause   string    `json:"cause,omitempty"`
	Command string    `json:"command,omitempty"`
	Code    talk.Code `json:"code,omitempty"`
}

// OK reports whether the bot has answered.
func (t *Trial) OK() bool { return t.Ended && t.Code == "" }

// trialText limits the kept text of a trial's answer, in bytes.
const trialText = 4 << 10

const msgTrial = i18n.Message("Hello! This is a test of the connection. Please answer in one sentence.")

const msgDoFarCommand = i18n.Message("Run on the bot's computer:")

// TryBot asks a bot a question as glasses do, and returns the result. The question and the answer
// are not stored in the history. Step, if it is not nil, gets the state after each event, from one
// goroutine; its error ends the trial.
func (s *Service) TryBot(ctx context.Context, c Caller, in BotRef, step func(*Trial) error) (*Trial, error) {
	b, err := s.FindBot(ctx, c, in.Bot)
	if err != nil {
		return nil, err
	}
	t := &Trial{Asked: msgTrial.In(c.Lang)}
	if step == nil {
		step = func(*Trial) error { return nil }
	}
	if err := step(t); err != nil {
		return nil, err
	}
	began := time.Now()
	turn := &talk.Turn{ID: uuid.Must(uuid.NewV7()).String(), Bot: b.Number, Channel: c.channel(), Asker: c.Person,
		Address: c.Address, KeyRules: c.Bound, BotOnly: c.Only != 0, Lang: c.Lang, Parts: []talk.Part{{Text: t.Asked}}}
	turn.Conversation = turn.ID // so that it does not repeat an earlier trial
	err = s.Hub.Answer(ctx, turn, func(e talk.Event) error {
		switch e.Kind {
		case talk.KindText:
			if t.First == 0 {
				t.First = max(time.Since(began), 1)
			}
			if len(t.Text) < trialText {
				t.Text += e.Text
			}
		case talk.KindNote:
			if len(t.Notes) < 20 {
				t.Notes = append(t.Notes, e.Text)
			}
		default:
			return nil
		}
		return step(t)
	})
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	t.Total, t.Ended = time.Since(began), true
	t.Text = strings.ToValidUTF8(t.Text, "")
	if f := talk.AsFailure(err); f != nil {
		t.Code = f.Code
		is, err := s.BotState(ctx, c, in) // the state after the question
		if err != nil {
			return nil, err
		}
		s.explain(t, is, f, c.Lang)
	}
	return t, step(t)
}

// explain returns why a bot did not answer. The state of its connection says more than the failure.
func (s *Service) explain(t *Trial, b BotStatus, f *talk.Failure, l i18n.Lang) {
	p := s.ExplainTurn(f, b.Kind, l)
	t.Problem, t.Do = p.Problem, p.Do
	t.Cause = truncate(f.Cause)
	if b.Problem != "" {
		// It has the same cause, in the owner's language.
		t.Problem, t.Do, t.Command = b.Problem, "", b.Command
		if b.Kind != "openai" { // the text of a model names only the kind of failure
			t.Cause = ""
		}
		if t.Command != "" {
			t.Do = msgDoFarCommand.In(l)
		}
	}
}

// truncate shortens a cause.
func truncate(cause string) string {
	const most = 500 // characters
	if utf8.RuneCountInString(cause) > most {
		return string([]rune(cause)[:most]) + "…"
	}
	return cause
}

// TestBot is [Service.TryBot] without progress.
func (s *Service) TestBot(ctx context.Context, c Caller, in BotRef) (*Trial, error) {
	return s.TryBot(ctx, c, in, nil)
}
