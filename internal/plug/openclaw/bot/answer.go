package bot

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"patchbay/internal/plug/openclaw/client"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/talk"
)

const (
	// connectLimit is how long a turn waits for the gateway to be there.
	connectLimit = 25 * time.Second
	// sendLimit is how long a gateway may take to accept a message; a busy one takes
	// seconds.
	sendLimit = 30 * time.Second
	// askLimit is how long it may take to say what became of an answer.
	askLimit = 10 * time.Second
	// abortLimit is how long is tried to have an answer aborted that nobody wants.
	abortLimit = 5 * time.Second
	// doubtPause and maxDoubts are how long an answer is looked for of which the
	// gateway's record has only the question. A gateway that has restarted goes on
	// with it after some seconds.
	doubtPause = time.Second
	maxDoubts  = 15
	// maxRewrites is how often an asker is told that what was said is different now.
	// After that the end is waited for.
	maxRewrites = 2
)

// Bot answers turns by asking an agent. It is safe for concurrent use.
type Bot struct {
	bots     *Bots
	line     *line
	settings Settings
	log      *slog.Logger
}

var _ talk.Bot = (*Bot)(nil)

// errDeadline ends an answer that takes too long.
var errDeadline = errors.New("the answer took longer than the bot's deadline")

// Check connects to the gateway, and returns a [*client.Trouble] if that fails.
func (b *Bot) Check(ctx context.Context) error {
	if err := b.line.take(); err != nil {
		return err
	}
	defer b.line.give()
	ctx, cancel := context.WithTimeout(ctx, connectLimit)
	defer cancel()
	_, err := b.line.conn(ctx)
	return err
}

// Answer sends what was said to the agent and emits what it says as it says it. A
// conversation of the agent's own goes with each person and conversation; a question
// that comes while one of the same conversation is being answered ends that answer.
//
// Its errors are ctx's, emit's, or a *talk.Failure. When nobody wants the answer any
// more the gateway is told so.
func (b *Bot) Answer(ctx context.Context, turn *talk.Turn, emit talk.Emit) error {
	if strings.TrimSpace(turn.Text()) == "" && len(turn.Images()) == 0 {
		return talk.Fail(talk.Unreadable, "", errors.New("nothing was said"))
	}
	if err := b.line.take(); err != nil {
		return talk.Fail(talk.Offline, "", err)
	}
	defer b.line.give()
	ours, cancel := context.WithTimeoutCause(ctx, b.settings.deadline(), errDeadline)
	defer cancel()
	a := &answer{Bot: b, turn: turn, emit: emit, run: newRun(turn.ID, b.session(turn)), sent: make(chan error, 1)}
	a.line.add(a.run)
	defer a.line.remove(a.run)
	return b.failed(ctx, turn, a.give(ours))
}

// session is the name of the conversation at the gateway. People whom the door
// cannot tell apart have no common one.
func (b *Bot) session(turn *talk.Turn) string {
	person := turn.Person
	if person == "" && turn.Conversation == "" {
		person = turn.ID
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%d:%s%s", len(person), person, turn.Conversation))
	door := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' {
			return r
		}
		return -1
	}, strings.ToLower(turn.Door))
	return "agent:" + strings.ToLower(b.settings.agent()) + ":" + b.settings.prefix() + "-" + door + "-" + hex.EncodeToString(sum[:10])
}

// answer is the work on one turn.
type answer struct {
	*Bot
	turn *talk.Turn
	emit talk.Emit
	run  *run
	conn *client.Conn

	sent     chan error // the result of the message that was sent last
	sending  bool       // it is still to come
	begun    bool       // the gateway may have got the message
	told     string     // what was emitted, as the agent said it
	rewrites int
	doubts   int
}

// emitError is an error of whoever takes the events.
type emitError struct{ err error }

func (e *emitError) Error() string { return e.err.Error() }
func (e *emitError) Unwrap() error { return e.err }

// give connects, sends and listens.
func (a *answer) give(ctx context.Context) error {
	connecting, cancel := context.WithTimeout(ctx, connectLimit)
	defer cancel()
	c, err := a.line.conn(connecting)
	if err != nil {
		return err
	}
	message, err := a.message(c)
	if err != nil {
		return err
	}
	a.conn = c
	if err := a.line.subscribe(connecting, c, a.run.session); err != nil && !errors.Is(err, client.ErrLost) {
		return err
	}
	a.send(message)
	err = a.listen(ctx, message)
	if _, end := a.run.so(); end == nil && a.begun {
		a.abort()
	}
	return err
}

// message is what is sent.
func (a *answer) message(c *client.Conn) (*wire.ChatSend, error) {
	m := &wire.ChatSend{
		SessionKey: a.run.session, Message: harmless(a.turn.Text()), IdempotencyKey: a.run.id, Thinking: a.settings.Thinking,
		QueueMode: wire.QueueInterrupt, TimeoutMS: a.settings.deadline().Milliseconds(),
	}
	most := c.Hello().MaxImage
	for i, im := range a.turn.Images() {
		if most > 0 && int64(len(im.Data)) > most {
			return nil, talk.Fail(talk.Unreadable, sayLarge.In(a.turn.Lang), fmt.Errorf("a picture of %d bytes; the gateway takes %d", len(im.Data), most))
		}
		_, kind, _ := strings.Cut(im.MIME, "/")
		m.Attachments = append(m.Attachments, wire.Attachment{
			Type: "image", MIMEType: im.MIME, FileName: fmt.Sprintf("picture-%d.%s", i+1, kind), Content: im.Data,
		})
	}
	return m, nil
}

// errCommand says that a message begins no run.
var errCommand = errors.New("the gateway took the message for a command")

// send sends the message. The result comes by sent, even after the turn has ended,
// so that it is known then whether there is something to abort.
func (a *answer) send(m *wire.ChatSend) {
	a.sending, a.begun = true, true
	c := a.conn
	a.bots.job(func() {
		ctx, cancel := context.WithTimeout(context.Background(), sendLimit)
		defer cancel()
		payload, err := c.Call(ctx, wire.MethodChatSend, m)
		var run wire.Run
		if err == nil && (json.Unmarshal(payload, &run) != nil || run.Status == "") {
			err = errCommand
		}
		a.sent <- err
	})
}

// listen emits what the agent says until it has ended.
func (a *answer) listen(ctx context.Context, m *wire.ChatSend) error {
	quiet := time.NewTimer(a.bots.opt.quiet)
	defer quiet.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case err := <-a.sent:
			a.sending = false
			switch {
			case err == nil || errors.Is(err, client.ErrLost):
			case errors.Is(err, context.DeadlineExceeded):
				quiet.Reset(0)
			default:
				a.begun = false
				return err
			}
		case <-a.run.news:
			a.doubts = 0
			quiet.Reset(a.bots.opt.quiet)
			if over, err := a.say(); over || err != nil {
				return err
			}
		case <-a.conn.Done():
			if err := a.resume(ctx); err != nil {
				return err
			}
			quiet.Reset(0)
		case <-quiet.C:
			next, err := a.look(ctx, m)
			if err != nil {
				return err
			}
			quiet.Reset(next)
		}
	}
}

// resume gets another connection.
func (a *answer) resume(ctx context.Context) error {
	if a.sending { // it will not take long: the connection is gone
		select {
		case err := <-a.sent:
			a.sending = false
			if _, refused := errors.AsType[*wire.Error](err); refused {
				a.begun = false
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	for {
		c, err := a.line.conn(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return err
		}
		a.conn = c
		err = a.line.subscribe(ctx, c, a.run.session)
		if !errors.Is(err, client.ErrLost) {
			return err
		}
	}
}

// look asks the gateway what became of the answer, and returns when to ask again.
func (a *answer) look(ctx context.Context, m *wire.ChatSend) (time.Duration, error) {
	asking, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	what, err := a.line.ask(asking, a.conn, a.run)
	switch {
	case ctx.Err() != nil:
		return 0, context.Cause(ctx)
	case errors.Is(err, client.ErrLost):
		return a.bots.opt.quiet, nil // that the connection is gone is seen elsewhere
	case err != nil:
		what = dubious
	}
	switch {
	case what >= alive:
		a.doubts = 0
		return a.bots.opt.quiet, nil
	case a.sending:
		return a.bots.opt.doubt, nil
	case what == absent && a.told == "" && a.doubts == 1:
		// The message was lost with the connection. If it was not after all, its key
		// keeps it from being answered twice.
		a.send(m)
	}
	if a.doubts++; a.doubts > maxDoubts {
		return 0, errVanished
	}
	return a.bots.opt.doubt, nil
}

// errVanished says that the gateway knows nothing of an answer any more.
var errVanished = errors.New("the gateway has restarted, or does not know the answer any more")

// say emits what is new. It is over when the agent has ended, with an error if it
// has not ended well.
func (a *answer) say() (over bool, err error) {
	text, end := a.run.so()
	more, ok := extends(a.told, text)
	if _, less := extends(text, a.told); !ok && !less {
		if a.rewrites >= maxRewrites && end == nil {
			return false, nil
		}
		a.rewrites++
		if err := a.emit(talk.Note(sayRewritten.In(a.turn.Lang))); err != nil {
			return true, &emitError{err}
		}
		more = "\n\n" + text
	}
	if more != "" {
		if err := a.emit(talk.Text(more)); err != nil {
			return true, &emitError{err}
		}
		a.told = text
	}
	if end == nil {
		return false, nil
	}
	return true, a.verdict(end)
}

// verdict is what an end means.
func (a *answer) verdict(end *wire.ChatEvent) error {
	switch end.State {
	case wire.ChatAborted:
		return talk.Fail(talk.BotFailed, sayAborted.In(a.turn.Lang), fmt.Errorf("the run was aborted (%s)", clip(end.StopReason)))
	case wire.ChatError:
		return runFailure(a.turn.Lang, end)
	}
	if strings.TrimSpace(a.told) == "" {
		return talk.Fail(talk.NoAnswer, "", nil)
	}
	return nil
}

// abort has the gateway stop an answer that nobody wants any more. It does not keep
// the turn waiting.
func (a *answer) abort() {
	if a.line.take() != nil {
		return
	}
	id := a.line.current(a.run)
	a.bots.job(func() {
		defer a.line.give()
		ctx, cancel := context.WithTimeout(context.Background(), abortLimit)
		defer cancel()
		if a.sending { // a run that has not begun cannot be aborted
			select {
			case <-a.sent:
			case <-ctx.Done():
			}
		}
		c, err := a.line.conn(ctx)
		if err == nil {
			_, err = c.Call(ctx, wire.MethodChatAbort, wire.ChatAbort{SessionKey: a.run.session, RunID: id})
		}
		a.bots.metrics.aborted(err)
		if err != nil {
			a.log.WarnContext(ctx, "openclaw: an answer that nobody wants was not aborted", "turn", a.turn.ID, "error", err)
		}
	})
}
