package openai

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/talk"
	"patchbay/internal/toolbox"
)

// emitError wraps an error of emit, to distinguish it from other errors.
type emitError struct{ err error }

func (e *emitError) Error() string { return e.err.Error() }
func (e *emitError) Unwrap() error { return e.err }

// Answer asks the model and emits its output as it arrives. It executes the calls of functions of
// the [toolbox.Tools] and sends the results in another request, until the model has answered or may
// not make further calls.
//
// It returns the error of ctx, the error of emit, or a *talk.Failure: TimedOut for a model that is
// silent, NoAnswer for an empty answer, Unreadable for a turn without content, Unreachable if no
// connection was made, BotFailed for everything else. The request is cancelled as soon as ctx ends
// or emit fails; running calls are cancelled, and Answer waits for them.
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

// answer is the state of one turn.
type answer struct {
	bot  *Bot
	turn *talk.Turn
	emit talk.Emit
	// functions are the functions that the model knows of.
	functions []function
	// closed means that no further calls are possible. The functions are not offered any more, or,
	// with sendDisabled, offered with tool_choice "none" for servers that require them.
	closed, sendDisabled bool
	step                 step       // the current round
	thread               callThread // the earlier rounds
	stats                callStats
	failures             map[string]failureCount
	lastNoteAt           time.Time // time of the last progress note
	// hasText reports whether text was emitted.
	hasText         bool
	endsLine        bool // the last text ended with a line break
	sentCommands    []talk.Command
	suggest         []string
	asksTokens      bool // the last request did
	commandRejected bool // a command was dropped because of invalid arguments
	// refusal and suspects are the last refusal by the server and the functions that it may be
	// about. They count only once a request without them succeeds.
	refusal  *serverError
	suspects []function
}

// step is the model's output in one round.
type step struct {
	text    strings.Builder
	hasText bool
	calls   []*pendingCall
	// needsRun reports whether a call is to be executed by the toolbox.
	needsRun bool
}

func (a *answer) run(ctx context.Context) error {
	out, err := a.runRounds(ctx)
	if err == nil && a.isSilent() && len(a.suggest) > 0 {
		// Some models treat the suggestions as the answer. Without the function they answer.
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

// runRounds sends requests until no call is left to execute. It terminates, because runCalls closes
// the turn to further calls in the end.
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

// runRound sends one request with the current functions.
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
	began := time.Now()
	a.asksTokens = !b.withoutUsage.Load()
	body := b.request(a.turn, append(messages, a.thread.messages...), offered, choice, a.asksTokens)
	out, err := b.round(ctx, body, sink{
		text:  a.onText,
		calls: func(made []call) error { return a.onCalls(ctx, made) },
	})
	a.reportUse(ctx, time.Since(began), out, err)
	if err == nil && out.usage != nil {
		b.log.DebugContext(ctx, "the model answered", "turn", a.turn.ID, "model", b.settings.Model,
			"finish", out.finish,
			"prompt_tokens", out.usage.Prompt, "completion_tokens", out.usage.Completion)
	}
	return out, err
}

// reportUse reports a request that has ended, for the record of the turn. One that was stopped has
// not failed.
func (a *answer) reportUse(ctx context.Context, took time.Duration, out outcome, err error) {
	if a.turn.UsesModel == nil {
		return
	}
	_, ours := errors.AsType[*emitError](err)
	u := talk.ModelUse{Model: a.bot.settings.Model, Took: took, First: out.first,
		Failed: err != nil && !ours && ctx.Err() == nil}
	if out.usage != nil {
		u.Input, u.Output = out.usage.Prompt, out.usage.Completion
	}
	a.turn.UsesModel(u)
}

// offeredFunctions returns the functions that the model can call now.
func (a *answer) offeredFunctions() []function {
	if a.closed {
		return nil
	}
	return a.functions
}

// isSilent reports whether nothing was sent to the person yet.
func (a *answer) isSilent() bool { return !a.hasText && len(a.sentCommands) == 0 }

// emptyAnswerError returns the error for a complete answer without content.
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
		a.step.text.WriteString(toolbox.Clip(text, maxEcho-a.step.text.Len()))
	}
	if a.hasText && !a.step.hasText && !a.endsLine {
		text = "\n" + text // text after calls begins on a new line
	}
	a.hasText, a.step.hasText, a.endsLine = true, true, strings.HasSuffix(text, "\n")
	return a.send(talk.Text(text))
}

// onCalls processes the calls of the model. Commands for the device are sent at once; calls of the
// toolbox wait until the response is complete.
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

// onCommand sends a command to the device. An invalid command is logged and dropped; the rest of
// the answer may still be good.
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

// isRepeated reports whether the same command was already sent in this answer.
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
