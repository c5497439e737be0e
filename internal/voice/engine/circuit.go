package engine

import (
	"context"
	"errors"
	"sync"
	"time"
)

const (
	// A circuit opens after circuitFailures within circuitWindow, and stays open for circuitPause.
	circuitFailures = 3
	circuitWindow   = time.Minute
	circuitPause    = 30 * time.Second
)

// Circuit keeps turns from waiting for an engine that fails. The zero value is ready. It is safe
// for concurrent use.
//
// While it is open, the engine is not used; after the pause one turn tries it again. A refused key
// keeps it open: only other settings help, which make another engine with another circuit.
type Circuit struct {
	mu       sync.Mutex
	failures []time.Time // the latest, oldest first
	last     *Error
	until    time.Time // when it may be tried again
	refused  bool      // the key
}

// State returns the last error of the engine, or nil after a success, and until when the engine is
// left out: forever is set for a refused key.
func (c *Circuit) State() (last *Error, until time.Time, forever bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Now().Before(c.until) {
		until = c.until
	}
	return c.last, until, c.refused
}

// allow returns nil if the engine may be used now, or its last error.
func (c *Circuit) allow(now time.Time) *Error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.refused:
		return c.last
	case now.Before(c.until):
		return c.last
	case !c.until.IsZero():
		c.until = now.Add(circuitPause) // for all others but this one
	}
	return nil
}

// closed reports whether the engine is used without being on trial.
func (c *Circuit) closed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.refused && c.until.IsZero()
}

// record notes how a use of the engine ended. The end of the person's patience is neither success
// nor failure, and neither is a request that no engine of its kind can carry out.
func (c *Circuit) record(err error, now time.Time) {
	if errors.Is(err, context.Canceled) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		c.failures, c.last, c.until, c.refused = c.failures[:0], nil, time.Time{}, false
		return
	}
	c.last = AsError(err)
	switch c.last.Class {
	case Input:
		return
	case Auth:
		c.refused = true
		return
	}
	if c.last.RetryAfter > 0 {
		c.until = now.Add(min(c.last.RetryAfter, time.Hour))
		return
	}
	for len(c.failures) > 0 && now.Sub(c.failures[0]) > circuitWindow {
		c.failures = c.failures[1:]
	}
	if c.failures = append(c.failures, now); len(c.failures) >= circuitFailures {
		c.until, c.failures = now.Add(circuitPause), nil
	}
}
