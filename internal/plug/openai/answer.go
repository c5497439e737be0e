package openai

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/talk"
)

// emitError is an error of whoever takes the events, to be told from our own.
type emitError struct{ err error }

func (e *emitError) Error() string { return e.err.Error() }
func (e *emitError) Unwrap() error { return e.err }

// Answer asks the model and emits what it says as it says it. What it calls of the
// [Toolbox] is carried out, and it is asked again with the results, until it has
// answered or must not call any more.
//
// Its errors are ctx's, emit's, or a *talk.Failure: TimedOut for a model that is
// silent, NoAnswer for one that ends without a word, Unreadable for a turn in
// which nothing is said, BotFailed for everything else. The request is given up as
// soon as ctx ends or emit fails; calls are told to stop, and waited for.
func (b *Bot) Answer(ctx context.Context, turn *talk.Turn, emit talk.Emit) error {
	a := answer{bot: b, turn: turn, emit: emit, functions: b.commands(turn)}
	a.functions = append(a.functions, b.toolboxFunctions(ctx, turn, a.functions)...)
	err := a.run(ctx)
	if t := a.stats; t.calls > 0 {
		b.log.InfoContext(ctx, "the model used tools", "turn", turn.ID, "model", b.settings.Model,
			"calls", t.calls, "failed", t.failed, "rounds", t.rounds, "took", t.took)
	}
	if err != nil {
		return b.toFailure(ctx, turn, err)
	}
	b.onEnd(ctx, "")
	return nil
}

// answer is the work on one turn.
type answer struct {
	bot  *Bot
	turn *talk.Turn
	emit talk.Emit
	// functions are those that the model is told of.
	functions []function
	// closed says that nothing can be called any more: the functions are not
	// offered, or, for servers that insist on them, offered not to be called.
	closed, sendDisabled bool
	step                 step       // the round that runs
	thread               callThread // the rounds before
	stats                callStats
	failures             map[string]failureCount
	lastNoteAt           time.Time // when the person was last told about calls
	// hasText and done say that such events were emitted.
	hasText         bool
	endsLine        bool // the last text ended a line
	sentCommands    []talk.Command
	suggest         []string
	commandRejected bool // a command was dropped because of its arguments
	// refusal and unfit are what the server did not want to be offered, as long as
	// it is not sure that it was that.
	refusal  *serverError
	suspects []function
}

// step is what the model says and calls in one round.
type step struct {
	text    strings.Builder
	hasText bool
	calls   []*pendingCall
	// needsRun says that the toolbox has to carry something out.
	needsRun bool
}

func (a *answer) run(ctx context.Context) error {
	out, err := a.runRounds(ctx)
	if err == nil && a.isSilent() && len(a.suggest) > 0 {
		// Some models take the suggestions for the answer. Without the function
		// they answer.
		a.functions = withoutFunction(a.functions, toolSuggest)
		out, err = a.runRounds(ctx)
	}
	if err != nil {
		return err
	}
	if a.isSilent() {
		return a.emptyAnswerError(out)
	}
	if len(a.suggest) > 0 {
		return a.send(talk.Suggest(a.suggest...))
	}
	return nil
}

// runRounds asks until there is nothing left to be carried out. It ends, since
// follow closes the turn to calls in the end.
func (a *answer) runRounds(ctx context.Context) (outcome, error) {
	for {
		out, err := a.ask(ctx)
		if err != nil || !a.step.needsRun {
			return out, err
		}
		if err := a.runCalls(ctx, out); err != nil {
			return out, err
		}
	}
}

// runRound asks once, with the functions as they are now.
func (a *answer) runRound(ctx context.Context) (outcome, error) {
	b := a.bot
	messages, err := b.conversation(a.turn, a.functions)
	if err != nil {
		return outcome{}, err
	}
	offered, choice := a.offeredFunctions(), ""
	if a.sendDisabled {
		offered, choice = a.functions, "none"
	}
	a.step = step{}
	body := b.request(a.turn, append(messages, a.thread.messages...), offered, choice)
	out, err := b.round(ctx, body, sink{
		text:  a.onText,
		calls: func(made []call) error { return a.onCalls(ctx, made) },
	})
	if err == nil && out.usage != nil {
		b.log.DebugContext(ctx, "the model answered", "turn", a.turn.ID, "model", b.settings.Model,
			"finish", out.finish,
			"prompt_tokens", out.usage.Prompt, "completion_tokens", out.usage.Completion)
	}
	return out, err
}

// offeredFunctions are the functions that the model can call now.
func (a *answer) offeredFunctions() []function {
	if a.closed {
		return nil
	}
	return a.functions
}

// isSilent says that the person got nothing yet.
func (a *answer) isSilent() bool { return !a.hasText && len(a.sentCommands) == 0 }

// emptyAnswerError says why a complete answer has nothing in it.
func (a *answer) emptyAnswerError(out outcome) error {
	say := i18n.Message("")
	switch {
	case a.commandRejected:
		say = msgBadCommand
	case out.finish == "content_filter":
		say = msgFiltered
	case out.finish == "length":
		say = msgOutOfLength
	default:
		return talk.Fail(talk.NoAnswer, "", nil)
	}
	return &talk.Failure{Code: talk.BotFailed, Told: say.In(a.turn.Lang), Cause: say.In(i18n.English)}
}

func (a *answer) send(e talk.Event) error {
	if err := a.emit(e); err != nil {
		return &emitError{err}
	}
	return nil
}

func (a *answer) onText(text string) error {
	if a.bot.toolbox != nil {
		a.step.text.WriteString(clip(text, maxEcho-a.step.text.Len()))
	}
	if a.hasText && !a.step.hasText && !a.endsLine {
		text = "\n" + text // not in one line with what was said before the calls
	}
	a.hasText, a.step.hasText, a.endsLine = true, true, strings.HasSuffix(text, "\n")
	return a.send(talk.Text(text))
}

// onCalls takes what the model called. Commands for the device go out at once; what
// the toolbox has to carry out waits until the model is finished.
func (a *answer) onCalls(ctx context.Context, made []call) error {
	_, _, toolbox := functionKinds(a.offeredFunctions())
	for _, c := range made {
		e := &pendingCall{call: c}
		a.step.calls = append(a.step.calls, e)
		if f, _ := find(a.offeredFunctions(), c.name); toolbox && f.event == nil {
			a.step.needsRun = true
			continue
		}
		e.done = true
		if err := a.onCommand(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

// onCommand passes on what the device is asked to do. What makes no sense is logged
// and left out; the rest of the answer may well be good.
func (a *answer) onCommand(ctx context.Context, e *pendingCall) error {
	event, err := a.toEvent(e.call)
	switch {
	case err != nil:
		a.bot.log.WarnContext(ctx, "a call of the model is left out", "turn", a.turn.ID, "model", a.bot.settings.Model,
			"function", oneLine(e.name, maxArgument), "error", err)
		e.result = "Error: " + err.Error()
		return nil
	case event.Kind == talk.KindSuggest:
		a.suggest, e.result = event.Suggest, resultShown
		return nil
	}
	e.result = resultSent
	if a.isRepeated(event.Command) {
		return nil
	}
	a.sentCommands = append(a.sentCommands, *event.Command)
	return a.send(event)
}

func (a *answer) toEvent(c call) (talk.Event, error) {
	f, ok := find(a.offeredFunctions(), c.name)
	if !ok {
		return talk.Event{}, errors.New("there is no such function")
	}
	args, err := parseArguments(c.arguments)
	event := talk.Event{}
	if err == nil {
		event, err = f.event(args)
	}
	if err != nil && c.name != toolSuggest {
		a.commandRejected = true
	}
	return event, err
}

// isRepeated says that a device was asked to do exactly that in this answer.
func (a *answer) isRepeated(c *talk.Command) bool {
	for i := range a.sentCommands {
		if reflect.DeepEqual(a.sentCommands[i], *c) {
			return true
		}
	}
	return false
}

func withoutFunction(functions []function, name string) []function {
	var out []function
	for _, f := range functions {
		if f.name != name {
			out = append(out, f)
		}
	}
	return out
}
