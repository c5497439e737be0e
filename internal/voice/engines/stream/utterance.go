package stream

import (
	"context"
	"crypto/tls"
	"errors"
	"sync"
	"time"

	"github.com/coder/websocket"

	"patchbay/internal/voice/engine"
	"patchbay/internal/voice/engines/socket"
)

// errQuiet ends the wait for a message.
var errQuiet = errors.New("no message in time")

// utterance is the recognition of one utterance. A goroutine connects and receives, and a second
// one, which the first waits for, sends.
type utterance struct {
	l *listener
	d *engine.Dictation

	mu      sync.Mutex
	wire    dialect
	ended   bool // the end of the sound is being sent
	sendErr error
	quiet   *time.Timer // ends the wait for a message; nil before the connection stands
}

// recognise is an [engine.ListenLive].
func (l *listener) recognise(ctx context.Context, h engine.Hints, d *engine.Dictation) error {
	u := &utterance{l: l, d: d, wire: l.newDialect(h)}
	err := u.converse(ctx)
	if err == nil || ctx.Err() != nil {
		return err
	}
	e := u.preferred(err)
	l.log.Debug("stream: the engine failed", "host", l.server.URL.Host, "dialect", l.settings.Dialect, "error", e)
	return e
}

// preferred returns the error of receiving, unless it only follows from a write that timed out.
func (u *utterance) preferred(err error) *engine.Error {
	u.mu.Lock()
	defer u.mu.Unlock()
	e := classify(err)
	if u.sendErr != nil && e.Class == engine.Closed {
		if sent := classify(u.sendErr); sent.Class == engine.Timeout {
			return sent
		}
	}
	return e
}

// classify adds the way out of errors that settings can cause.
func classify(err error) *engine.Error {
	e := socket.Classify(err)
	if _, ok := errors.AsType[*tls.CertificateVerificationError](e); ok {
		return engine.Errorf(e.Class, "%w (skip_tls_verify accepts a self-signed certificate)", e.Err)
	}
	return e
}

// converse connects, and returns nil after the final transcript.
func (u *utterance) converse(ctx context.Context) error {
	server := u.l.server
	server.Timeout = u.l.limits.connect
	ws, err := server.Connect(ctx)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancelCause(ctx)
	u.mu.Lock()
	u.quiet = time.AfterFunc(u.l.limits.speech, func() { stop(errQuiet) })
	u.mu.Unlock()
	var sender sync.WaitGroup
	sender.Go(func() {
		if err := u.send(ctx, ws); err != nil && ctx.Err() == nil {
			u.sendFailed(err)
		}
	})
	err = u.receive(ctx, ws)
	stop(context.Canceled)
	_ = ws.CloseNow() // a server that ignores Close frames is not waited for
	sender.Wait()
	u.quiet.Stop()
	return err
}

// sendFailed gives the receiver a moment to read why the server closed the connection.
func (u *utterance) sendFailed(err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.sendErr = err
	u.quiet.Reset(u.l.limits.lost)
}

// send sends the configuration, the sound and its end.
func (u *utterance) send(ctx context.Context, ws *websocket.Conn) error {
	if first := u.wire.first(); first != nil {
		if err := u.write(ctx, ws, websocket.MessageText, first); err != nil {
			return err
		}
	}
	var message []byte
	for sent := 0; ; {
		samples, last, err := u.d.Piece(ctx, pieceSamples)
		if err != nil {
			return err
		}
		if len(samples) > 0 {
			message = u.wire.encode(message[:0], samples)
			if err := u.write(ctx, ws, websocket.MessageBinary, message); err != nil {
				return err
			}
			sent++
		}
		if last {
			return u.write(ctx, ws, websocket.MessageText, u.end(sent))
		}
	}
}

// end returns the message that ends the sound. What is received from now on may be the final
// transcript.
func (u *utterance) end(sent int) []byte {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.ended = true
	u.wire.ended(sent)
	u.expect()
	return u.wire.end()
}

func (u *utterance) write(ctx context.Context, ws *websocket.Conn, kind websocket.MessageType, data []byte) error {
	ctx, cancel := context.WithTimeout(ctx, u.l.limits.write)
	defer cancel()
	return ws.Write(ctx, kind, data)
}

// receive receives messages up to the final transcript.
func (u *utterance) receive(ctx context.Context, ws *websocket.Conn) error {
	for {
		// The context ends when no message comes in time.
		_, data, err := ws.Read(ctx)
		if err != nil {
			return u.received(err, errors.Is(context.Cause(ctx), errQuiet))
		}
		if final, err := u.accept(data); err != nil || final {
			return err
		}
	}
}

// received handles the end of the messages. Some servers say nothing, or just close the connection,
// when there is no more text.
func (u *utterance) received(err error, quiet bool) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	_, isEnd := u.wire.patience(u.l.limits)
	clean := websocket.CloseStatus(err) == websocket.StatusNormalClosure
	switch {
	case u.sendErr != nil:
		if quiet {
			return u.sendErr
		}
		return err
	case u.ended && (quiet && isEnd || clean):
		return u.publish(true)
	case quiet:
		return engine.Errorf(engine.Timeout, "the server sent no result in time")
	}
	return err
}

// accept handles a message and reports whether the transcript is final.
func (u *utterance) accept(message []byte) (final bool, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	final, err = u.wire.accept(message)
	if err != nil {
		return false, err
	}
	u.expect()
	return final, u.publish(final)
}

// publish makes the transcript so far the newest.
func (u *utterance) publish(final bool) error {
	t := u.wire.transcript()
	t.Final = final
	if t.Language == "" {
		t.Language = u.l.settings.Language
	}
	return u.d.Publish(t)
}

// expect starts the wait for the next message anew.
func (u *utterance) expect() {
	switch {
	case u.sendErr != nil: // the connection is lost
	case u.ended:
		limit, _ := u.wire.patience(u.l.limits)
		u.quiet.Reset(limit)
	default:
		u.quiet.Reset(u.l.limits.speech)
	}
}
