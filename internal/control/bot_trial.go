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

// Problems of a bot and their remedies, by the code of the failure.
const (
	msgWhyOffline     = i18n.Message("The bot is not connected here.")
	msgDoPlugin       = i18n.Message("On the computer where OpenClaw runs, check that the gateway is running and that the plugin has the correct address and token. If the token is lost, create a new one in the settings.")
	msgDoGateway      = i18n.Message("Check that the gateway is running, and that its address and token in the settings are correct.")
	msgWhyTimeout     = i18n.Message("The bot did not answer in time.")
	msgDoTimeout      = i18n.Message("A model can be slow while it is loading. Try again in a moment, or allow more time in the settings.")
	msgWhyBusy        = i18n.Message("Too many questions are queued.")
	msgDoBusy         = i18n.Message("Try again in a moment, or let the bot answer more questions at the same time in the settings.")
	msgWhyLost        = i18n.Message("The connection was lost during the answer.")
	msgDoAgain        = i18n.Message("Try again. If the problem persists, check the bot's network and its log.")
	msgWhyNoAnswer    = i18n.Message("The bot ended without an answer.")
	msgWhyStopping    = i18n.Message("The server is restarting.")
	msgDoSoon         = i18n.Message("Try again in a moment.")
	msgWhyInternal    = i18n.Message("An internal error occurred.")
	msgDoInternal     = i18n.Message("See the log of the server.")
	msgWhyUnreachable = i18n.Message("The server cannot connect to the bot.")
	msgWhyFailed      = i18n.Message("The bot reported an error: %s")
	msgWhyFailed0     = i18n.Message("The bot reported an error without details.")
	msgDoModel        = i18n.Message("Check the address, the name of the model and the key in the settings.")
	msgDoFarCommand   = i18n.Message("Run on the bot's computer:")
)

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
	why, do := msgWhyFailed0, msgDoAgain
	switch f.Code {
	case talk.Offline:
		why, do = msgWhyOffline, s.connectBotAction(b)
	case talk.TimedOut:
		why, do = msgWhyTimeout, msgDoTimeout
	case talk.Busy:
		why, do = msgWhyBusy, msgDoBusy
	case talk.Lost:
		why = msgWhyLost
	case talk.NoAnswer:
		why = msgWhyNoAnswer
	case talk.Stopping:
		why, do = msgWhyStopping, msgDoSoon
	case talk.Internal:
		why, do = msgWhyInternal, msgDoInternal
	case talk.BotFailed:
		do = s.connectBotAction(b)
	case talk.Unreachable:
		why, do = msgWhyUnreachable, s.connectBotAction(b)
	}
	t.Problem, t.Do = why.In(l), do.In(l)
	if f.Code == talk.BotFailed && f.Told != "" {
		t.Problem = msgWhyFailed.In(l, f.Told)
	}
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

// connectBotAction returns the remedy for a peer that is not connected or answers wrongly.
func (s *Service) connectBotAction(b BotStatus) i18n.Message {
	switch b.Kind {
	case "openai":
		return msgDoModel
	case "openclaw":
		return msgDoGateway
	}
	if s.Hub.Registry.IsInbound(b.Kind) {
		return msgDoPlugin
	}
	return msgDoAgain
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
