package openai

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"time"

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
	if t := a.tally; t.calls > 0 {
		b.log.InfoContext(ctx, "the model used tools", "turn", turn.ID, "model", b.settings.Model,
			"calls", t.calls, "failed", t.failed, "rounds", t.steps, "took", t.took)
	}
	if err != nil {
		return b.failed(ctx, turn, err)
	}
	b.ended(ctx, "")
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
	closed, insist bool
	step           step   // the round that runs
	thread         thread // the rounds before
	tally          tally
	failing        map[string]failing
	noted          time.Time // when the person was last told about calls
	// texts and done say that such events were emitted.
	texts    bool
	newline  bool // the last text ended a line
	done     []talk.Command
	suggest  []string
	rejected bool // a command was dropped because of its arguments
	// refused and unfit are what the server did not want to be offered, as long as
	// it is not sure that it was that.
	refused *serverError
	unfit   []function
}

// step is what the model says and calls in one round.
type step struct {
	text    strings.Builder
	said    bool
	errands []*errand
	// follow says that the toolbox has to carry something out.
	follow bool
}

func (a *answer) run(ctx context.Context) error {
	out, err := a.converse(ctx)
	if err == nil && a.silent() && len(a.suggest) > 0 {
		// Some models take the suggestions for the answer. Without the function
		// they answer.
		a.functions = without(a.functions, toolSuggest)
		out, err = a.converse(ctx)
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

// converse asks until there is nothing left to be carried out. It ends, since
// follow closes the turn to calls in the end.
func (a *answer) converse(ctx context.Context) (outcome, error) {
	for {
		out, err := a.ask(ctx)
		if err != nil || !a.step.follow {
			return out, err
		}
		if err := a.follow(ctx, out); err != nil {
			return out, err
		}
	}
}

// round asks once, with the functions as they are now.
func (a *answer) round(ctx context.Context) (outcome, error) {
	b := a.bot
	messages, err := b.conversation(a.turn, a.functions)
	if err != nil {
		return outcome{}, err
	}
	offered, choice := a.offered(), ""
	if a.insist {
		offered, choice = a.functions, "none"
	}
	a.step = step{}
	body := b.request(a.turn, append(messages, a.thread.messages...), offered, choice)
	out, err := b.round(ctx, body, sink{
		text:  a.text,
		calls: func(made []call) error { return a.calls(ctx, made) },
	})
	if err == nil && out.usage != nil {
		b.log.DebugContext(ctx, "the model answered", "turn", a.turn.ID, "model", b.settings.Model, "finish", out.finish,
			"prompt_tokens", out.usage.Prompt, "completion_tokens", out.usage.Completion)
	}
	return out, err
}

// offered are the functions that the model can call now.
func (a *answer) offered() []function {
	if a.closed {
		return nil
	}
	return a.functions
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
	if a.bot.toolbox != nil {
		a.step.text.WriteString(clip(text, maxEcho-a.step.text.Len()))
	}
	if a.texts && !a.step.said && !a.newline {
		text = "\n" + text // not in one line with what was said before the calls
	}
	a.texts, a.step.said, a.newline = true, true, strings.HasSuffix(text, "\n")
	return a.send(talk.Text(text))
}

// calls takes what the model called. Commands for the device go out at once; what
// the toolbox has to carry out waits until the model is finished.
func (a *answer) calls(ctx context.Context, made []call) error {
	_, _, toolbox := kinds(a.offered())
	for _, c := range made {
		e := &errand{call: c}
		a.step.errands = append(a.step.errands, e)
		if f, _ := find(a.offered(), c.name); toolbox && f.event == nil {
			a.step.follow = true
			continue
		}
		e.done = true
		if err := a.command(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

// command passes on what the device is asked to do. What makes no sense is logged
// and left out; the rest of the answer may well be good.
func (a *answer) command(ctx context.Context, e *errand) error {
	event, err := a.event(e.call)
	switch {
	case err != nil:
		a.bot.log.WarnContext(ctx, "a call of the model is left out", "turn", a.turn.ID, "model", a.bot.settings.Model,
			"function", oneLine(e.name, maxArgument), "error", err)
		e.told = "Error: " + err.Error()
		return nil
	case event.Kind == talk.KindSuggest:
		a.suggest, e.told = event.Suggest, toldShown
		return nil
	}
	e.told = toldSent
	if a.repeated(event.Command) {
		return nil
	}
	a.done = append(a.done, *event.Command)
	return a.send(event)
}

func (a *answer) event(c call) (talk.Event, error) {
	f, ok := find(a.offered(), c.name)
	if !ok {
		return talk.Event{}, errors.New("there is no such function")
	}
	args, err := parseArguments(c.arguments)
	event := talk.Event{}
	if err == nil {
		event, err = f.event(args)
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

func without(functions []function, name string) []function {
	var out []function
	for _, f := range functions {
		if f.name != name {
			out = append(out, f)
		}
	}
	return out
}
