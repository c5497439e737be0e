package hub

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"patchbay/internal/bus"
	"patchbay/internal/tool"
	"patchbay/internal/tracing"
)

// A call of a remote provider is a request to its holder's subject with an inbox for the reply.
// Frames come back, numbered from 1: progress and log messages, empty heartbeats, and then the
// result, in as many parts as it needs. A cancellation goes to another subject of the holder.

func callSubject(instance string) string       { return "call." + instance }
func callCancelSubject(instance string) string { return "cancel." + instance }

type callRequest struct {
	Asker    string       `json:"asker"`
	Provider string       `json:"provider"`
	Call     tool.Call    `json:"call"`
	Progress bool         `json:"progress,omitempty"`
	Log      bool         `json:"log,omitempty"`
	Trace    tracing.Link `json:"trace,omitzero"`
	// Content, if not nil, asks for prompts or resources instead of calling a tool; of the call,
	// only what that needs is set.
	Content *contentQuery `json:"content,omitempty"`
}

type callFrame struct {
	N        int            `json:"n"`
	Progress *tool.Progress `json:"progress,omitempty"`
	Log      *tool.Log      `json:"log,omitempty"`
	Part     []byte         `json:"part,omitempty"` // of the result
	End      bool           `json:"end,omitempty"`
}

type callResult struct {
	Result *tool.Result `json:"result,omitempty"`
	Error  *tool.Error  `json:"error,omitempty"`
	// Content is the answer to a [contentQuery]; NotFound stands for [tool.ErrNotFound].
	Content  json.RawMessage `json:"content,omitempty"`
	NotFound bool            `json:"none,omitempty"`
}

// remoteBackend gets the calls of a provider that another instance holds.
type remoteBackend struct {
	catalogSync *catalogSync
	instance    string
	provider    string
	title       string
}

// EndsWithContext implements [Cancellable].
func (*remoteBackend) EndsWithContext() {}

// Call makes the other instance execute the call.
func (f *remoteBackend) Call(ctx context.Context, c *tool.Call) (*tool.Result, error) {
	end, err := f.exchange(ctx, c, nil)
	if err != nil {
		return nil, err
	}
	return end.Result, nil
}

// exchange makes the other instance execute a call, or answer a query.
func (f *remoteBackend) exchange(ctx context.Context, c *tool.Call, q *contentQuery) (*callResult, error) {
	instances := f.catalogSync.hub.Bus
	offline := notConnected(f.title)
	text, err := json.Marshal(callRequest{instances.Instance, f.provider, *c, c.Progress != nil, c.Log != nil,
		f.catalogSync.hub.Tracer.LinkTo(ctx), q})
	if err != nil {
		return nil, err
	}
	if len(text) > maxFrameBytes {
		return nil, tool.Fail(tool.TooLarge, "The arguments are too large.", nil)
	}
	frames := make(chan *nats.Msg, frameBuffer)
	inbox, sub, err := instances.Inbox(frames)
	if err != nil {
		return nil, err
	}
	defer sub.Unsubscribe() //nolint:errcheck // fails only when the bus is closed
	lost, unsubscribe := f.catalogSync.hub.presence.watchLost()
	defer unsubscribe()
	if err := instances.PublishRequest(callSubject(f.instance), inbox, text); err != nil {
		return nil, offline
	}
	alive := time.NewTicker(acceptTimeout)
	defer alive.Stop()
	gone := tool.Fail(tool.Lost,
		"The connection broke before there was a result. It is not known whether the call was carried out.", nil)
	var end []byte
	silent := 0
	for next := 1; ; next++ {
		select {
		case m := <-frames:
			if bus.IsNoResponders(m) {
				return nil, offline
			}
			var p callFrame
			if json.Unmarshal(m.Data, &p) != nil || p.N != next {
				return nil, gone
			}
			silent = 0
			end = append(end, p.Part...)
			if p.End {
				return decodeResult(end)
			}
			forwardProgress(c, p)
		case instance := <-lost:
			if next--; instance == f.instance {
				return nil, gone
			}
		case <-alive.C:
			silent++
			if next--; silent >= maxSilentChecks || !instances.IsAlive(f.instance) {
				f.catalogSync.publish(callCancelSubject(f.instance), c.ID)
				return nil, gone
			}
		case <-ctx.Done():
			f.catalogSync.publish(callCancelSubject(f.instance), c.ID)
			return nil, context.Cause(ctx)
		}
	}
}

func forwardProgress(c *tool.Call, p callFrame) {
	if p.Progress != nil && c.Progress != nil {
		c.Progress(*p.Progress)
	}
	if p.Log != nil && c.Log != nil {
		c.Log(*p.Log)
	}
}

func decodeResult(text []byte) (*callResult, error) {
	var e callResult
	if err := json.Unmarshal(text, &e); err != nil {
		return nil, tool.Fail(tool.Garbled, "The tool's answer cannot be used.", err)
	}
	if e.Error != nil {
		return nil, e.Error
	}
	return &e, nil
}

// serve executes a call for another instance.
func (x *catalogSync) serve(m *nats.Msg) {
	var o callRequest
	if err := json.Unmarshal(m.Data, &o); err != nil || m.Reply == "" {
		x.hub.Logger.Warn("an order from the bus cannot be read", "error", err)
		return
	}
	c := x.hub.catalog
	c.mu.Lock()
	s := c.local[o.Provider]
	c.mu.Unlock()
	ctx, cancel := context.WithCancelCause(x.hub.ctx)
	x.mu.Lock()
	x.running[o.Call.ID], x.askers[o.Call.ID] = cancel, o.Asker
	x.mu.Unlock()
	x.jobs.Go(func() {
		defer func() {
			cancel(nil)
			x.mu.Lock()
			defer x.mu.Unlock()
			delete(x.running, o.Call.ID)
			delete(x.askers, o.Call.ID)
		}()
		x.deliver(ctx, s, o, m.Reply)
	})
}

func (x *catalogSync) deliver(ctx context.Context, s *Registration, o callRequest, inbox string) {
	var mu sync.Mutex
	n := 0
	send := func(p callFrame) {
		mu.Lock()
		defer mu.Unlock()
		n++
		p.N = n
		x.publish(inbox, p)
	}
	if o.Progress {
		o.Call.Progress = func(p tool.Progress) { send(callFrame{Progress: &p}) }
	}
	if o.Log {
		o.Call.Log = func(l tool.Log) { send(callFrame{Log: &l}) }
	}
	var end callResult
	if s == nil {
		end.Error = notConnected("")
	} else {
		t, what := x.hub.Tracer, o.Call.Tool
		if o.Content != nil {
			what = o.Content.Method
		}
		ctx, span := t.Start(t.Join(ctx, o.Trace), "remote_call", what)
		ended := startHeartbeat(func() { send(callFrame{}) })
		end = x.execute(ctx, s, &o)
		ended()
		if end.Error != nil {
			span.Fail(string(end.Error.Code))
		}
		span.End()
	}
	text, err := json.Marshal(end)
	if err != nil {
		text, _ = json.Marshal(callResult{Error: tool.Fail(tool.Garbled, "The tool's answer cannot be used.", err)})
	}
	for len(text) > maxFrameBytes {
		send(callFrame{Part: text[:maxFrameBytes]})
		text = text[maxFrameBytes:]
	}
	send(callFrame{Part: text, End: true})
}

// execute executes a call or a query of another instance.
func (x *catalogSync) execute(ctx context.Context, s *Registration, o *callRequest) callResult {
	if o.Content != nil {
		return x.answerQuery(ctx, s.provider, o)
	}
	of := &RegisteredTool{Tool: &tool.Tool{Name: o.Call.Tool}, offer: &offer{ProviderRef: s.ref(), backend: s.provider}}
	res, err := x.hub.callSafely(ctx, of, &o.Call)
	return callResult{Result: res, Error: tool.AsError(err)}
}

// onCallCancel cancels a call that nobody waits for any more.
func (x *catalogSync) onCallCancel(m *nats.Msg) {
	var id string
	if json.Unmarshal(m.Data, &id) != nil {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if cancel := x.running[id]; cancel != nil {
		cancel(context.Canceled)
	}
}
