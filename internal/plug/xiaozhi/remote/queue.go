package remote

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"time"

	"patchbay/internal/jsonrpc"
	"patchbay/internal/plug/xiaozhi/wire"
)

const (
	// maxWaiting is how many calls may wait for a board. More are refused, since the last one would
	// wait for minutes already.
	maxWaiting = 20
	// progressInterval is how often a waiting caller gets progress.
	progressInterval = 5 * time.Second
)

var errFull = errors.New("too many calls wait for the board")

// unsentError is the error of a request that was certainly not carried out.
type unsentError struct{ err error }

func (e *unsentError) Error() string { return e.err.Error() }
func (e *unsentError) Unwrap() error { return e.err }

// sentRequest is the current request, sent and not answered yet.
type sentRequest struct {
	id    int64
	done  chan answer // capacity 1, for the only answer
	timer *time.Timer // the timeout
}

// answer is the outcome of a request: the result or the error as the board wrote it (or neither, if
// the response had none), or the failure that prevented a response.
type answer struct {
	result, err json.RawMessage
	failure     error
}

// outgoingRequest is a request to be sent.
type outgoingRequest struct {
	method  string
	params  []byte // a JSON object
	timeout time.Duration
	// priority puts the request before all calls and does not count it as waiting. It is for the
	// client's own requests, not for calls.
	priority bool
	// onProgress, if not nil, is called every progressInterval while the request waits.
	onProgress func(sent bool)
}

// ask sends a request when it has the turn, and waits for the answer. The error is ctx's,
// [ErrSilent], [ErrClosed], errFull or an unsentError.
func (c *Client) ask(ctx context.Context, o outgoingRequest) (answer, error) {
	if err := c.acquireTurn(ctx, &o); err != nil {
		return answer{}, err
	}
	r, err := c.begin(o.timeout)
	if err != nil {
		return answer{}, err
	}
	payload := jsonrpc.AppendRequest(nil, strconv.AppendInt(nil, r.id, 10), o.method, o.params)
	if err := c.opt.Send(payload); err != nil {
		c.mu.Lock()
		c.finish(r, answer{failure: &unsentError{err}})
		c.mu.Unlock()
	}
	// If ctx ends first, the request keeps the turn until the board has answered or the timeout is
	// over.
	a, err := awaitWithProgress(ctx, r.done, func() { o.reportProgress(true) }, o.onProgress != nil)
	if err == nil {
		err = a.failure
	}
	return a, err
}

func (o *outgoingRequest) reportProgress(sent bool) {
	if o.onProgress != nil {
		o.onProgress(sent)
	}
}

// awaitWithProgress waits for a value and, with notes, calls note every progressInterval.
func awaitWithProgress[T any](ctx context.Context, from <-chan T, note func(), notes bool) (T, error) {
	var tick <-chan time.Time
	if notes {
		ticker := time.NewTicker(progressInterval)
		defer ticker.Stop()
		tick = ticker.C
	}
	for {
		select {
		case v := <-from:
			return v, nil
		case <-ctx.Done():
			var none T
			return none, ctx.Err()
		case <-tick:
			note()
		}
	}
}

// acquireTurn waits until the request has the turn.
func (c *Client) acquireTurn(ctx context.Context, o *outgoingRequest) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.mu.Lock()
	switch {
	case c.closed != nil:
		c.mu.Unlock()
		return &unsentError{c.closed}
	case !c.busy:
		c.busy = true
		c.mu.Unlock()
		return nil
	case !o.priority && len(c.waiting) >= maxWaiting:
		c.mu.Unlock()
		return errFull
	}
	w := make(chan error, 1)
	if o.priority {
		c.waiting = slices.Insert(c.waiting, 0, w)
	} else {
		c.waiting = append(c.waiting, w)
	}
	c.mu.Unlock()
	turnErr, err := awaitWithProgress(ctx, w, func() { o.reportProgress(false) }, o.onProgress != nil)
	if err == nil {
		return turnErr
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := slices.Index(c.waiting, w); i >= 0 {
		c.waiting = slices.Delete(c.waiting, i, i+1)
	} else if <-w == nil {
		c.passTurn() // the turn was passed on at the same moment
	}
	return err
}

// begin starts a request. The caller has the turn.
func (c *Client) begin(limit time.Duration) (*sentRequest, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed != nil {
		return nil, &unsentError{c.closed}
	}
	c.lastID = c.lastID%wire.MaxID + 1
	r := &sentRequest{id: c.lastID, done: make(chan answer, 1)}
	r.timer = time.AfterFunc(limit, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.finish(r, answer{failure: ErrSilent})
	})
	c.inFlight = r
	return r, nil
}

// finish ends a request, unless it has ended already, and passes the turn on. The caller holds
// c.mu.
func (c *Client) finish(r *sentRequest, a answer) {
	if c.inFlight != r {
		return
	}
	c.inFlight = nil
	r.timer.Stop()
	r.done <- a
	c.passTurn()
}

// passTurn passes the turn to the next waiting request. The caller holds c.mu.
func (c *Client) passTurn() {
	if c.busy = len(c.waiting) > 0; c.busy {
		c.waiting[0] <- nil
		c.waiting = slices.Delete(c.waiting, 0, 1)
	}
}
