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
	// maxWaiting is how many calls wait for a board. When so many do, further ones
	// are refused: the last would wait for minutes already.
	maxWaiting = 20
	// noteEvery is how often a caller who waits is told that nothing is wrong.
	noteEvery = 5 * time.Second
)

var errFull = errors.New("too many calls wait for the board")

// unsentError says that a request was surely not carried out.
type unsentError struct{ err error }

func (e *unsentError) Error() string { return e.err.Error() }
func (e *unsentError) Unwrap() error { return e.err }

// request is what a board was sent and has not answered yet.
type request struct {
	id    int64
	done  chan answer // has room for the only answer
	timer *time.Timer // ends it
}

// answer is what comes of a request: a result or an error, as the board wrote it
// (or neither, if it wrote nothing useful), or the reason why nothing comes.
type answer struct {
	result, err json.RawMessage
	fail        error
}

// order is a request to be sent.
type order struct {
	method string
	params []byte // an object
	limit  time.Duration
	// own says that nobody calls a tool: it goes before all calls, and does not
	// count as waiting. The client's owner alone sends such requests.
	own bool
	// note, if not nil, is called now and then while the answer takes time.
	note func(sent bool)
}

// ask sends a request when it is its turn, and waits for the answer. The error is
// ctx's, [ErrSilent], [ErrClosed], errFull or an unsentError.
func (c *Client) ask(ctx context.Context, o order) (answer, error) {
	if err := c.enter(ctx, &o); err != nil {
		return answer{}, err
	}
	r, err := c.begin(o.limit)
	if err != nil {
		return answer{}, err
	}
	payload := jsonrpc.AppendCall(nil, strconv.AppendInt(nil, r.id, 10), o.method, o.params)
	if err := c.opt.Send(payload); err != nil {
		c.mu.Lock()
		c.finish(r, answer{fail: &unsentError{err}})
		c.mu.Unlock()
	}
	// If ctx ends first, the request keeps the turn until the board has answered or
	// its time is up.
	a, err := await(ctx, r.done, func() { o.tell(true) }, o.note != nil)
	if err == nil {
		err = a.fail
	}
	return a, err
}

func (o *order) tell(sent bool) {
	if o.note != nil {
		o.note(sent)
	}
}

// await waits for a value and calls note now and then, if asked to.
func await[T any](ctx context.Context, from <-chan T, note func(), notes bool) (T, error) {
	var tick <-chan time.Time
	if notes {
		ticker := time.NewTicker(noteEvery)
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

// enter waits for the turn.
func (c *Client) enter(ctx context.Context, o *order) error {
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
	case !o.own && len(c.waiting) >= maxWaiting:
		c.mu.Unlock()
		return errFull
	}
	w := make(chan error, 1)
	if o.own {
		c.waiting = slices.Insert(c.waiting, 0, w)
	} else {
		c.waiting = append(c.waiting, w)
	}
	c.mu.Unlock()
	told, err := await(ctx, w, func() { o.tell(false) }, o.note != nil)
	if err == nil {
		return told
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := slices.Index(c.waiting, w); i >= 0 {
		c.waiting = slices.Delete(c.waiting, i, i+1)
	} else if <-w == nil {
		c.pass() // it came in the same moment
	}
	return err
}

// begin starts a request. The caller has the turn.
func (c *Client) begin(limit time.Duration) (*request, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed != nil {
		return nil, &unsentError{c.closed}
	}
	c.lastID = c.lastID%wire.MaxID + 1
	r := &request{id: c.lastID, done: make(chan answer, 1)}
	r.timer = time.AfterFunc(limit, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.finish(r, answer{fail: ErrSilent})
	})
	c.running = r
	return r, nil
}

// finish ends a request, unless it has ended, and passes the turn on. The caller
// holds c.mu.
func (c *Client) finish(r *request, a answer) {
	if c.running != r {
		return
	}
	c.running = nil
	r.timer.Stop()
	r.done <- a
	c.pass()
}

// pass gives the turn to the next. The caller holds c.mu.
func (c *Client) pass() {
	if c.busy = len(c.waiting) > 0; c.busy {
		c.waiting[0] <- nil
		c.waiting = slices.Delete(c.waiting, 0, 1)
	}
}
