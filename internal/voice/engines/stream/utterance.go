package stream

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/coder/websocket"

	"patchbay/internal/voice/engine"
)

// errQuiet ends the wait for a message.
var errQuiet = errors.New("no message in time")

// utterance implements [engine.Utterance]. One goroutine connects and receives, and a second one,
// which the first waits for, sends.
type utterance struct {
	l      *listener
	ctx    context.Context
	cancel context.CancelCauseFunc
	wake   chan struct{} // has a token after Write and Finish
	news   chan struct{} // has a token after a transcript
	done   chan struct{} // closed when run has returned
	err    error         // of run; read after done

	mu       sync.Mutex
	wire     dialect
	pending  []int16 // not sent yet; at most maxSamples
	total    int     // samples written
	finished bool    // Finish was called
	ended    bool    // the end of the sound is being sent
	sendErr  error
	// newest is the last transcript that Next has not returned. A new one replaces it, so nothing
	// queues up when nobody calls Next.
	newest *engine.Transcript
	quiet  *time.Timer // ends the wait for a message; nil before the connection stands
}

// Write implements [engine.Utterance]. It never waits for the server.
func (u *utterance) Write(samples []int16) error {
	if err := u.failure(); err != nil {
		return err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.total+len(samples) > maxSamples {
		err := engine.Errorf(engine.Input, "the utterance is longer than %s", engine.MaxUtterance)
		u.cancel(err)
		return err
	}
	u.total += len(samples)
	u.pending = append(u.pending, samples...)
	token(u.wake)
	return nil
}

// Finish implements [engine.Utterance].
func (u *utterance) Finish() error {
	if err := u.failure(); err != nil {
		return err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.finished = true
	token(u.wake)
	return nil
}

// failure returns why the utterance ended before its transcript, or nil.
func (u *utterance) failure() error {
	if u.ctx.Err() != nil {
		return context.Cause(u.ctx)
	}
	select {
	case <-u.done:
		if !errors.Is(u.err, io.EOF) {
			return u.err
		}
	default:
	}
	return nil
}

// Next implements [engine.Utterance].
func (u *utterance) Next() (engine.Transcript, error) {
	for {
		select {
		case <-u.news:
			if t, ok := u.take(); ok {
				return t, nil
			}
		case <-u.done:
			if t, ok := u.take(); ok && t.Final {
				return t, nil
			}
			return engine.Transcript{}, u.err
		}
	}
}

func (u *utterance) take() (engine.Transcript, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.newest == nil {
		return engine.Transcript{}, false
	}
	t := *u.newest
	u.newest = nil
	return t, true
}

// Close implements [engine.Utterance]. It waits for all goroutines of the utterance.
func (u *utterance) Close() {
	u.cancel(context.Canceled)
	<-u.done
}

func (u *utterance) run() {
	defer close(u.done)
	err := u.converse()
	switch {
	case err == nil:
		u.err = io.EOF
	case u.ctx.Err() != nil:
		u.err = context.Cause(u.ctx)
	default:
		e := u.preferred(err)
		u.l.log.Debug("stream: the engine failed", "host", u.l.address.Host, "dialect", u.l.settings.Dialect, "error", e)
		u.err = e
	}
	u.cancel(context.Canceled) // only to release the context; the error is set
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

// converse connects, and returns nil after the final transcript.
func (u *utterance) converse() error {
	ws, err := u.l.connect(u.ctx)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancelCause(u.ctx)
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
		piece, last, err := u.nextPiece(ctx, message[:0])
		if err != nil {
			return err
		}
		if message = piece; len(message) > 0 {
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

// nextPiece waits for a piece of sound and appends its encoding to b. Only the last piece is
// shorter than pieceSamples.
func (u *utterance) nextPiece(ctx context.Context, b []byte) (piece []byte, last bool, err error) {
	for {
		u.mu.Lock()
		n, last := min(len(u.pending), pieceSamples), u.finished && len(u.pending) <= pieceSamples
		if n == pieceSamples || last {
			b = u.wire.encode(b, u.pending[:n])
			u.pending = u.pending[n:]
			u.mu.Unlock()
			return b, last, nil
		}
		u.mu.Unlock()
		select {
		case <-u.wake:
		case <-ctx.Done():
			return nil, false, context.Cause(ctx)
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
		u.publish(true)
		return nil
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
	if text := u.wire.transcript().Text; len(text) > engine.MaxTranscript {
		return false, engine.Errorf(engine.Broken, "the transcript has more than %d KiB", engine.MaxTranscript>>10)
	}
	u.publish(final)
	u.expect()
	return final, nil
}

// publish makes the transcript so far the newest.
func (u *utterance) publish(final bool) {
	t := u.wire.transcript()
	t.Final = final
	if t.Language == "" {
		t.Language = u.l.settings.Language
	}
	if t.Text == "" && !final {
		return // nobody has spoken yet
	}
	u.newest = &t
	token(u.news)
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

// token puts a token into a channel that has room for one.
func token(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // there is one already
	}
}
