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

	"patchbay/internal/hub"
	"patchbay/internal/netx"
	"patchbay/internal/plug/openclaw/client"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/talk"
)

const (
	// connectTimeout is how long a turn waits for the connection.
	connectTimeout = 25 * time.Second
	// refusedTimeout is how long a new turn waits if nothing accepts connections at the gateway's
	// address. A busy gateway, or one that is starting, accepts them.
	refusedTimeout = 4 * time.Second
	// sendTimeout is how long a gateway may take to accept a message; a busy one takes
	// seconds.
	sendTimeout = 30 * time.Second
	// historyTimeout limits fetching the state of an answer.
	historyTimeout = 10 * time.Second
	// abortTimeout limits aborting an unwanted answer.
	abortTimeout = 5 * time.Second
	// defaultRecheckDelay and maxRechecks limit the search for an answer when the gateway's
	// history has only the question. A restarted gateway resumes it after some seconds.
	defaultRecheckDelay = time.Second
	maxRechecks         = 15
	// The asker is told to wait after noticeRechecks of these searches, or after noticeDelay
	// without a connection.
	noticeRechecks = 3
	noticeDelay    = 3 * time.Second
	// maxRewrites is how often emitted text may be replaced. After that the end is awaited.
	maxRewrites = 2
)

// Bot answers turns by asking an agent. It is safe for concurrent use.
type Bot struct {
	bots     *Bots
	gateway  *gatewayLink
	settings Settings
	log      *slog.Logger
}

var _ talk.Bot = (*Bot)(nil)

// errDeadline ends an answer that exceeds the bot's deadline.
var errDeadline = errors.New("the answer took longer than the bot's deadline")

// Check connects to the gateway, and returns a [*client.ConnectionError] if that fails.
func (b *Bot) Check(ctx context.Context) error {
	if err := b.gateway.acquire(); err != nil {
		return err
	}
	defer b.gateway.release()
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	_, err := b.gateway.conn(ctx)
	return err
}

// Answer sends the turn to the agent and emits the answer as it arrives. Each person and
// conversation has its own conversation with the agent; a new question in a conversation
// interrupts the active answer.
//
// The errors are ctx's, emit's, or a *talk.Failure. When the turn is cancelled, the answer is
// aborted at the gateway.
func (b *Bot) Answer(ctx context.Context, turn *talk.Turn, emit talk.Emit) error {
	if strings.TrimSpace(turn.Text()) == "" && len(turn.Images()) == 0 {
		return talk.Fail(talk.Unreadable, "", errors.New("nothing was said"))
	}
	if err := b.gateway.acquire(); err != nil {
		return talk.Fail(talk.Offline, "", err)
	}
	defer b.gateway.release()
	ours, cancel := context.WithTimeoutCause(ctx, b.settings.deadline(), errDeadline)
	defer cancel()
	a := &answer{Bot: b, turn: turn, emit: emit, run: newRun(turn.ID, b.session(turn)), sent: make(chan error, 1)}
	a.gateway.add(a.run)
	defer a.gateway.remove(a.run)
	return b.answerError(ctx, turn, a.execute(ours))
}

// session returns the key of the conversation at the gateway.
func (b *Bot) session(turn *talk.Turn) string {
	sum := sha256.Sum256([]byte(turn.ConversationKey()))
	channel := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' {
			return r
		}
		return -1
	}, strings.ToLower(turn.Channel))
	return "agent:" + strings.ToLower(b.settings.agent()) + ":" + b.settings.prefix() + "-" + channel + "-" +
		hex.EncodeToString(sum[:10])
}

// answer is the state of one turn.
type answer struct {
	*Bot
	turn *talk.Turn
	emit talk.Emit
	run  *run
	conn *client.Conn

	sent         chan error // result of the last send
	sending      bool       // the result is pending
	mayBeRunning bool       // the gateway may have got the message
	emitted      string     // emitted text, in the agent's form
	rewrites     int
	rechecks     int
	waiting      bool // the asker was told so
}

// emitError is an error of the emit function.
type emitError struct{ err error }

func (e *emitError) Error() string { return e.err.Error() }
func (e *emitError) Unwrap() error { return e.err }

// execute connects, sends and listens.
func (a *answer) execute(ctx context.Context) error {
	connecting, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	c, err := a.connect(connecting, a.gateway.connSoon)
	if err != nil {
		return err
	}
	message, err := a.message(c)
	if err != nil {
		return err
	}
	a.conn = c
	if err := a.gateway.subscribe(connecting, c, a.run.session); err != nil && !errors.Is(err, client.ErrLost) {
		return err
	}
	a.send(message)
	err = a.listen(ctx, message)
	stopping := errors.Is(context.Cause(ctx), hub.ErrStopping) // the next server gets the rest
	if _, end := a.run.snapshot(); end == nil && a.mayBeRunning && !stopping {
		a.abort()
	}
	return err
}

// message returns the parameters of chat.send.
func (a *answer) message(c *client.Conn) (*wire.ChatSend, error) {
	m := &wire.ChatSend{
		SessionKey: a.run.session, Message: neutralizeCommands(a.turn.Text()), IdempotencyKey: a.run.id,
		Thinking:  a.settings.Thinking,
		QueueMode: wire.QueueInterrupt, TimeoutMS: a.settings.deadline().Milliseconds(),
	}
	most := c.Hello().MaxImage
	for i, im := range a.turn.Images() {
		if most > 0 && int64(len(im.Data)) > most {
			return nil, talk.Fail(talk.Unreadable, msgLarge.In(a.turn.Lang),
				fmt.Errorf("a picture of %d bytes; the gateway takes %d", len(im.Data), most))
		}
		_, kind, _ := strings.Cut(im.MIME, "/")
		m.Attachments = append(m.Attachments, wire.Attachment{
			Type: "image", MIMEType: im.MIME, FileName: fmt.Sprintf("picture-%d.%s", i+1, kind), Content: im.Data,
		})
	}
	return m, nil
}

// errTakenForCommand means that a message starts no run.
var errTakenForCommand = errors.New("the gateway took the message for a command")

// send sends the message. The result is delivered through sent even after the turn has ended,
// which decides whether there is something to abort.
func (a *answer) send(m *wire.ChatSend) {
	a.sending, a.mayBeRunning = true, true
	c := a.conn
	a.bots.goBackground(func() {
		ctx, cancel := context.WithTimeout(context.Background(), sendTimeout)
		defer cancel()
		payload, err := c.Call(ctx, wire.MethodChatSend, m)
		var run wire.Run
		if err == nil && (json.Unmarshal(payload, &run) != nil || run.Status == "") {
			err = errTakenForCommand
		}
		a.sent <- err
	})
}

// listen emits the answer until it has ended.
func (a *answer) listen(ctx context.Context, m *wire.ChatSend) error {
	quiet := time.NewTimer(a.bots.opt.silenceTimeout)
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
				a.mayBeRunning = false
				return err
			}
		case <-a.run.changed:
			a.rechecks = 0
			quiet.Reset(a.bots.opt.silenceTimeout)
			if over, err := a.emitNew(); over || err != nil {
				return a.unlessLeft(ctx, err)
			}
		case <-a.conn.Done():
			if err := a.reconnect(ctx); err != nil {
				return err
			}
			quiet.Reset(0)
		case <-quiet.C:
			next, err := a.checkState(ctx, m)
			if err != nil {
				return err
			}
			quiet.Reset(next)
		}
	}
}

// connect returns the connection, and tells the asker if they wait for it.
func (a *answer) connect(ctx context.Context,
	get func(context.Context) (*client.Conn, error)) (c *client.Conn, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	got := make(chan struct{})
	go func() {
		defer close(got)
		c, err = get(ctx)
	}()
	netx.WaitUnless(ctx, got, noticeDelay)
	select {
	case <-got:
		return c, err
	default:
	}
	if gone := a.tellWaiting(); gone != nil {
		cancel()
		<-got
		return nil, gone
	}
	<-got
	return c, err
}

// tellWaiting tells the asker that they wait for the gateway.
func (a *answer) tellWaiting() error {
	if a.waiting {
		return nil
	}
	a.waiting = true
	if err := a.emit(talk.Waiting(talk.MsgReconnecting.In(a.turn.Lang))); err != nil {
		return &emitError{err}
	}
	return nil
}

// reconnect waits for a new connection.
func (a *answer) reconnect(ctx context.Context) error {
	if a.sending { // returns soon: the connection is lost
		select {
		case err := <-a.sent:
			a.sending = false
			if _, refused := errors.AsType[*wire.Error](err); refused {
				a.mayBeRunning = false
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	for {
		c, err := a.connect(ctx, a.gateway.conn)
		if err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return err
		}
		a.conn = c
		err = a.gateway.subscribe(ctx, c, a.run.session)
		if !errors.Is(err, client.ErrLost) {
			return err
		}
	}
}

// checkState fetches the state of the answer, and returns the delay before the next check.
func (a *answer) checkState(ctx context.Context, m *wire.ChatSend) (time.Duration, error) {
	asking, cancel := context.WithTimeout(ctx, historyTimeout)
	defer cancel()
	what, err := a.gateway.fetchState(asking, a.conn, a.run)
	switch {
	case ctx.Err() != nil:
		return 0, context.Cause(ctx)
	case errors.Is(err, client.ErrLost):
		return a.bots.opt.silenceTimeout, nil // a lost connection is handled elsewhere
	case err != nil:
		what = runUnanswered
	}
	switch {
	case what >= runActive:
		a.rechecks = 0
		return a.bots.opt.silenceTimeout, nil
	case a.sending:
		return a.bots.opt.recheckDelay, nil
	case what == runUnknown && a.emitted == "" && a.rechecks == 1:
		// The message was lost with the connection. If it was not, its idempotency key prevents
		// a second answer.
		a.send(m)
	}
	switch a.rechecks++; {
	case a.rechecks > maxRechecks:
		return 0, errRunUnknown
	case a.rechecks == noticeRechecks:
		if err := a.tellWaiting(); err != nil {
			return 0, err
		}
	}
	return a.bots.opt.recheckDelay, nil
}

// errRunUnknown means that the gateway no longer knows the run.
var errRunUnknown = errors.New("the gateway has restarted, or does not know the answer any more")

// emitNew emits new text. over means that the run has ended, with an error if it failed.
func (a *answer) emitNew() (over bool, err error) {
	text, end := a.run.snapshot()
	more, ok := extension(a.emitted, text)
	if _, less := extension(text, a.emitted); !ok && !less {
		if a.rewrites >= maxRewrites && end == nil {
			return false, nil
		}
		a.rewrites++
		if err := a.emit(talk.Note(msgRewritten.In(a.turn.Lang))); err != nil {
			return true, &emitError{err}
		}
		more = "\n\n" + text
	}
	if more != "" {
		e := talk.Text(more)
		e.Mark = markOf(text)
		if err := a.emit(e); err != nil {
			return true, &emitError{err}
		}
		a.emitted, a.waiting = text, false
	}
	if end == nil {
		return false, nil
	}
	if end.State == wire.ChatFinal {
		if err := a.emit(talk.Complete()); err != nil {
			return true, &emitError{err}
		}
	}
	return true, a.endError(end)
}

// abortGrace is how long the asker of an aborted answer may take to leave. Whoever interrupts asks
// anew at the same moment, and is told of no failure.
const abortGrace = time.Second

// unlessLeft returns the error of an answer that is over. If it was aborted, it returns the cause
// of ctx should the asker leave now.
func (a *answer) unlessLeft(ctx context.Context, err error) error {
	if _, end := a.run.snapshot(); end == nil || end.State != wire.ChatAborted {
		return err
	}
	if netx.Wait(ctx, abortGrace) != nil {
		return context.Cause(ctx)
	}
	return err
}

// endError returns the error for the last event of a run.
func (a *answer) endError(end *wire.ChatEvent) error {
	switch end.State {
	case wire.ChatAborted:
		return talk.Fail(talk.BotFailed, msgAborted.In(a.turn.Lang),
			fmt.Errorf("the run was aborted (%s)", clip(end.StopReason)))
	case wire.ChatError:
		return runFailure(a.turn.Lang, end)
	}
	if strings.TrimSpace(a.emitted) == "" {
		return talk.Fail(talk.NoAnswer, "", nil)
	}
	return nil
}

// abort aborts an unwanted answer at the gateway, in the background.
func (a *answer) abort() {
	if a.gateway.acquire() != nil {
		return
	}
	id := a.gateway.currentID(a.run)
	a.bots.goBackground(func() {
		defer a.gateway.release()
		ctx, cancel := context.WithTimeout(context.Background(), abortTimeout)
		defer cancel()
		if a.sending { // a run that has not started cannot be aborted
			select {
			case <-a.sent:
			case <-ctx.Done():
			}
		}
		c, err := a.gateway.conn(ctx)
		if err == nil {
			_, err = c.Call(ctx, wire.MethodChatAbort, wire.ChatAbort{SessionKey: a.run.session, RunID: id})
		}
		a.bots.metrics.aborted(err)
		if err != nil {
			a.log.WarnContext(ctx, "openclaw: an answer that nobody wants was not aborted", "turn", a.turn.ID,
				"error", err)
		}
	})
}
