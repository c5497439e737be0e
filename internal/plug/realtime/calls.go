package realtime

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/talk"
	"patchbay/internal/tool"
	"patchbay/internal/toolbox"
	"patchbay/internal/voice/realtime"
)

const (
	// maxTools limits the functions of a session, and maxDescription the description of one, in
	// bytes. They are part of every session.
	maxTools, maxDescription = 64, 1024
	// maxRounds is how often a model may call tools in a turn. In the next round calls are refused,
	// and after that the turn fails.
	maxRounds = 8
	// maxCalls limits the calls of a response.
	maxCalls = 16
	// maxOutput limits the result of one call, in bytes.
	maxOutput = 16 << 10
	// maxTitle limits the name of a tool in a note, in characters.
	maxTitle = 40
)

const msgUsing = i18n.Message("Using %s…")

// Results for the model in place of those of a tool.
const (
	resultInterrupted = "Error: the person interrupted this."
	resultEnough      = "Error: no more calls are possible in this turn. Answer now with what you have."
	resultMany        = "Error: these are too many calls at once."
)

// call is a call of the model.
type call struct{ id, name, arguments string }

// result is the result of a call for the model.
type result struct{ id, output string }

// calls are the calls of an exchange. The zero value has none.
type calls struct {
	made    []call            // by the running response
	open    map[string]string // id → title of those without a result
	rounds  int
	results chan result
	slow    <-chan time.Time // has a value when the person is to be told
	cancel  context.CancelFunc
	workers sync.WaitGroup
}

func (s *calls) add(c call) { s.made = append(s.made, c) }

// begin begins the calls that a response made, and reports whether there are some.
func (s *calls) begin(x *exchange) bool {
	made := s.made
	s.made = nil
	if len(made) == 0 {
		return false
	}
	if s.rounds++; s.cancel == nil {
		s.results = make(chan result, maxCalls)
		s.open = map[string]string{}
	} else {
		s.cancel()
	}
	// They end with the turn, and have their time.
	ctx, cancel := context.WithTimeout(x.ctx, x.bot.limits.tools)
	s.cancel = cancel
	s.slow = time.After(x.bot.limits.note)
	for i, c := range made {
		switch {
		case i >= maxCalls:
			x.c.send(realtime.CallResult(c.id, resultMany))
			continue
		case s.rounds > maxRounds:
			x.c.send(realtime.CallResult(c.id, resultEnough))
			continue
		}
		s.open[c.id] = toolbox.Clip(strings.Join(strings.Fields(c.name), " "), maxTitle)
		s.workers.Go(func() { s.results <- result{c.id, x.bot.call(ctx, x.turn, c)} })
	}
	if len(s.open) == 0 {
		x.next()
	}
	return true
}

// titles returns the names of the running calls.
func (s *calls) titles() string {
	var list []string
	for _, title := range s.open {
		list = append(list, title)
	}
	return strings.Join(list, ", ")
}

// unanswered returns the ids of the calls without a result, and forgets them.
func (s *calls) unanswered() (ids []string) {
	for id := range s.open {
		ids = append(ids, id)
	}
	clear(s.open)
	return ids
}

// stop cancels the calls and waits for them.
func (s *calls) stop() {
	if s.cancel != nil {
		s.cancel()
	}
	s.workers.Wait()
}

// onResult tells the model a result, and has it go on after the last.
func (x *exchange) onResult(r result) {
	if _, ok := x.calls.open[r.id]; !ok || x.ctx.Err() != nil {
		return // of a turn that has been interrupted, the model learns that (see takeBack)
	}
	delete(x.calls.open, r.id)
	x.c.send(realtime.CallResult(r.id, r.output))
	if len(x.calls.open) == 0 {
		x.next()
	}
}

// next asks for another response.
func (x *exchange) next() {
	x.calls.slow = nil
	x.waits = true
	x.quiet.Reset(x.bot.limits.first)
	if x.calls.rounds > maxRounds+1 {
		x.fail(errManyCalls)
		return
	}
	x.c.send(realtime.Respond())
}

// call executes a call and returns its result for the model.
func (b *Bot) call(ctx context.Context, turn *talk.Turn, c call) string {
	args, err := toolbox.Arguments(c.arguments)
	switch {
	case errors.Is(err, toolbox.ErrLongArguments):
		return toolbox.TooLong
	case err != nil:
		return toolbox.NotJSON
	case b.toolbox == nil:
		return toolbox.UnknownFunction
	}
	began := time.Now()
	r, err := b.toolbox.Call(ctx, turn, c.name, json.RawMessage(args), func(tool.Progress) {})
	b.log.DebugContext(ctx, "a tool was called", "turn", turn.ID, "function", toolbox.Clip(c.name, maxTitle),
		"took", time.Since(began), "failed", err != nil)
	switch {
	case err == nil:
		text, _ := toolbox.ResultText(r, maxOutput)
		return text
	case ctx.Err() != nil:
		return toolbox.OutOfTime
	}
	return toolbox.Truncate("Error: "+cmp.Or(tool.AsError(err).Told, "the tool failed."), maxOutput)
}
