package socket

import (
	"context"
	"time"

	"patchbay/internal/voice/engine"
)

const (
	// resultTime limits the time without a message when a server has all it needs to answer.
	resultTime = 5 * time.Second
	// lostTime is left to read why a server closed a connection, after a failed write.
	lostTime = 250 * time.Millisecond
)

// Ear is what a recogniser on a [Conn] says and understands during an utterance. Its methods are
// called by one goroutine each.
type Ear interface {
	// Sound returns the message with a piece of sound, End the one after the last.
	Sound(samples []int16) Message
	End() Message
	// Accept handles a message and returns what was said so far. It reports whether there is no
	// more.
	Accept(m Message) (t engine.Transcript, done bool, err error)
}

// Hear recognises an utterance, in pieces of a number of samples. The connection is of further use
// after it only if the error is nil.
func Hear(ctx context.Context, c *Conn, e Ear, piece int, d *engine.Dictation) error {
	sending, stop := context.WithCancel(ctx)
	sent := make(chan error, 1)
	ending, finished := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(finished)
		sent <- send(sending, c, e, piece, d, ending)
	}()
	defer func() {
		select {
		case <-ending: // to stop the last write, whose answer is there, would close the connection
			<-finished
		default:
		}
		stop()
		<-finished
	}()
	err := hear(ctx, c, e, d, sent)
	if err != nil {
		c.Close() // ends a write, too
	}
	return err
}

// send sends the sound, and its end after it has closed ending.
func send(ctx context.Context, c *Conn, e Ear, piece int, d *engine.Dictation, ending chan<- struct{}) error {
	for {
		samples, last, err := d.Piece(ctx, piece)
		if err != nil {
			return err
		}
		if len(samples) > 0 {
			if err := c.Write(ctx, e.Sound(samples)); err != nil {
				return err
			}
		}
		if last {
			close(ending)
			return c.Write(ctx, e.End())
		}
	}
}

// hear receives messages up to the final transcript. Sent gets how sending ended.
func hear(ctx context.Context, c *Conn, e Ear, d *engine.Dictation, sent <-chan error) error {
	limit := time.NewTimer(2 * engine.MaxUtterance) // until the end of the sound was sent
	defer limit.Stop()
	var sendErr error
	ended := false
	for {
		select {
		case sendErr = <-sent:
			ended, sent = true, nil
			limit.Reset(resultTime)
			if sendErr != nil {
				limit.Reset(lostTime)
			}
		case m := <-c.Messages():
			t, done, err := e.Accept(m)
			if err != nil {
				return err
			}
			t.Final = done
			if err := d.Publish(t); err != nil || done {
				return err
			}
			if ended && sendErr == nil {
				limit.Reset(resultTime)
			}
		case <-c.Done():
			return lost(c.Err(), sendErr)
		case <-limit.C:
			return lost(engine.Errorf(engine.Timeout, "the server sent no result in time"), sendErr)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// lost returns the error of receiving, unless it follows from one of sending.
func lost(received, sent error) error {
	if e := engine.AsError(sent); e != nil && e.Class == engine.Timeout {
		return e
	}
	return received
}
