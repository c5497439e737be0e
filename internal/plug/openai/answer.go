package openai

import (
	"context"
	"errors"
	"reflect"

	"patchbay/internal/talk"
)

// emitError is an error of whoever takes the events, to be told from our own.
type emitError struct{ err error }

func (e *emitError) Error() string { return e.err.Error() }
func (e *emitError) Unwrap() error { return e.err }

// Answer asks the model and emits what it says as it says it. Its errors are
// ctx's, emit's, or a *talk.Failure: TimedOut for a model that is silent,
// NoAnswer for one that ends without a word, Unreadable for a turn in which
// nothing is said, BotFailed for everything else. The request is given up as
// soon as ctx ends or emit fails.
func (b *Bot) Answer(ctx context.Context, turn *talk.Turn, emit talk.Emit) error {
	a := answer{bot: b, turn: turn, emit: emit, tools: b.tools(turn)}
	if err := a.run(ctx); err != nil {
		return b.failed(ctx, turn, err)
	}
	return nil
}

// answer is the work on one turn.
type answer struct {
	bot   *Bot
	turn  *talk.Turn
	emit  talk.Emit
	tools []tool
	// texts and commands say that such events were emitted.
	texts    bool
	done     []talk.Command
	suggest  []string
	rejected bool // a command was dropped because of its arguments
}

func (a *answer) run(ctx context.Context) error {
	out, err := a.round(ctx)
	if e, ok := errors.AsType[*serverError](err); ok && e.aboutTools() && len(a.tools) > 0 {
		a.tools = nil
		if out, err = a.round(ctx); err == nil && !a.bot.toolless.Swap(true) {
			a.bot.log.WarnContext(ctx, "the server refuses functions, so the model cannot command the device; "+
				"set tools to false if that is meant to be", "model", a.bot.settings.Model, "error", a.bot.redact(e.Error()))
		}
	}
	if err == nil && a.silent() && len(a.suggest) > 0 {
		// Some models take the suggestions for the answer. Without the function
		// they answer.
		a.tools = without(a.tools, toolSuggest)
		out, err = a.round(ctx)
	}
	if err != nil {
		return err
	}
	if a.silent() {
		return a.nothing(out)
	}
	if len(a.suggest) > 0 {
		return a.send(talk.Suggest(a.suggest...))
	}
	return nil
}

// round asks once, with the functions as they are now.
func (a *answer) round(ctx context.Context) (outcome, error) {
	b := a.bot
	messages, err := b.conversation(a.turn, a.tools)
	if err != nil {
		return outcome{}, err
	}
	out, err := b.round(ctx, b.request(a.turn, messages, a.tools), sink{
		text:  a.text,
		calls: func(made []call) error { return a.calls(ctx, made) },
	})
	if err == nil && out.usage != nil {
		b.log.DebugContext(ctx, "the model answered", "turn", a.turn.ID, "model", b.settings.Model, "finish", out.finish,
			"prompt_tokens", out.usage.Prompt, "completion_tokens", out.usage.Completion)
	}
	return out, err
}

// silent says that the person got nothing yet.
func (a *answer) silent() bool { return !a.texts && len(a.done) == 0 }

// nothing says why a complete answer has nothing in it.
func (a *answer) nothing(out outcome) error {
	say := talk.Say{}
	switch {
	case a.rejected:
		say = sayBadCommand
	case out.finish == "content_filter":
		say = sayFiltered
	case out.finish == "length":
		say = sayOutOfLength
	default:
		return talk.Fail(talk.NoAnswer, "", nil)
	}
	return &talk.Failure{Code: talk.BotFailed, Told: say.In(a.turn.Lang), Cause: say.In(talk.English)}
}

func (a *answer) send(e talk.Event) error {
	if err := a.emit(e); err != nil {
		return &emitError{err}
	}
	return nil
}

func (a *answer) text(text string) error {
	a.texts = true
	return a.send(talk.Text(text))
}

// calls carries out what the model asked for. What makes no sense is logged and
// left out; the rest of the answer may well be good.
func (a *answer) calls(ctx context.Context, made []call) error {
	for _, c := range made {
		event, err := a.event(c)
		if err != nil {
			a.bot.log.WarnContext(ctx, "a call of the model is left out", "turn", a.turn.ID, "model", a.bot.settings.Model,
				"function", oneLine(c.name, maxArgument), "error", err)
			continue
		}
		if event.Kind == talk.KindSuggest {
			a.suggest = event.Suggest
			continue
		}
		if a.repeated(event.Command) {
			continue
		}
		a.done = append(a.done, *event.Command)
		if err := a.send(event); err != nil {
			return err
		}
	}
	return nil
}

func (a *answer) event(c call) (talk.Event, error) {
	t, ok := find(a.tools, c.name)
	if !ok {
		return talk.Event{}, errors.New("there is no such function")
	}
	args, err := parseArguments(c.arguments)
	event := talk.Event{}
	if err == nil {
		event, err = t.event(args)
	}
	if err != nil && c.name != toolSuggest {
		a.rejected = true
	}
	return event, err
}

// repeated says that a device was asked to do exactly that in this answer.
func (a *answer) repeated(c *talk.Command) bool {
	for i := range a.done {
		if reflect.DeepEqual(a.done[i], *c) {
			return true
		}
	}
	return false
}

func without(tools []tool, name string) []tool {
	var out []tool
	for _, t := range tools {
		if t.name != name {
			out = append(out, t)
		}
	}
	return out
}
