package hub

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"patchbay/internal/store"
	"patchbay/internal/tool"
)

// Access has the rights of a caller: its identity, and the stored rules of its key or bot.
type Access struct {
	tool.Caller
	Rules string
	// Origin is scheme and host under which the caller reached this server; empty if it is not
	// known.
	Origin string
	// Unchecked leaves the arguments to the provider: the caller speaks the provider's own
	// protocol, and gets its errors.
	Unchecked bool
}

// checked returns the arguments as far as they are checked.
func (a *Access) checked(args []byte) []byte {
	if a.Unchecked {
		return nil
	}
	return args
}

// Outcomes in the audit trail.
const (
	callDone       = "done"
	callToolError  = "tool_error" // executed, and the tool reported an error
	callFailed     = "failed"
	callRefused    = "refused" // not executed
	callNeedsInput = "asked"   // the provider needs more input first
)

// maxDepth limits the length of a chain of bots that ask bots.
const maxDepth = 3

// Call calls a tool by its full name. It fills in the call's ID, Tool and Caller. Its error is an
// *[tool.Error], also when ctx ended. The call is in the audit trail a moment after Call has
// returned, also if the process is killed during it or in between, unless the tool only reads. A
// power cut can lose calls of the last 50 ms. Without Options.Folder, the record is on the disk
// when Call returns, unless the tool only reads.
func (h *Hub) Call(ctx context.Context, who Access, name string, c *tool.Call) (*tool.Result, error) {
	return h.call(ctx, who, name, c, func(ctx context.Context, v *View) (*RegisteredTool, error) {
		return v.find(ctx, name, who.checked(c.Args))
	})
}

// call calls the tool that find returns, which the caller may call.
func (h *Hub) call(ctx context.Context, who Access, name string, c *tool.Call,
	find func(context.Context, *View) (*RegisteredTool, error)) (*tool.Result, error) {
	began := time.Now()
	c.Caller = who.Caller
	if c.ID == "" {
		c.ID = uuid.Must(uuid.NewV7()).String()
	}
	if len(c.Args) == 0 || string(c.Args) == "null" {
		c.Args = json.RawMessage("{}")
	}
	ctx, span := h.traceCall(ctx, c)
	v, o, err := h.authorize(ctx, who, find)
	row := h.callRow(o, v.originalName(name), v.rules, c, began)
	var res *tool.Result
	ran, begun := false, false
	var rules, granted *allowance // by whom the rules of the caller ask, and by the provider's owner
	waited := 0
	defer func() { // when its record is stored
		for range waited {
			h.calling.Done()
		}
	}()
	waits := func(asked *tool.Ask) (given *allowance) { // until somebody has approved it
		if err = h.beginWaiting(); err != nil {
			return nil
		}
		waited++
		given, res, err = h.approvals.await(ctx, who, o, v.rules, c, asked)
		if err == nil && res == nil { // meanwhile, rules, tool and provider may have changed
			if v, err = h.viewOf(who); err == nil {
				o, err = v.findAgain(ctx, o, who.checked(c.Args))
			}
		}
		return given
	}
	if c.Approved, c.Prepared = "", nil; err == nil && v.Asks(name) {
		rules = waits(nil)
	}
	for err == nil && res == nil {
		if err = h.beginCall(); err != nil {
			break
		}
		ran = true
		c.Tool, row.Provider = o.Tool.Name, o.offer.ID
		if c.Approved = granted.approved(); !begun && !o.IsReadOnly() {
			begun = true
			h.audit.begin(row)
		}
		res, err = h.invoke(ctx, o, c)
		asked := askedBy(err)
		if asked == nil || granted != nil {
			defer h.endCall() // when its record is stored: whoever drains the hub waits for that
			break
		}
		h.endCall()
		ran, c.Prepared = false, asked.Prepared
		if granted = waits(asked); granted == nil && res == nil && err == nil {
			err = tool.Fail(tool.Cancelled, "The caller does not wait for the approval any more.", nil)
		}
	}
	rules.end(ran, res)
	granted.end(ran, res)
	h.record(o, &row, res, err, ran, begun)
	endCallSpan(span, o, &row)
	if err != nil {
		return nil, tool.AsError(err)
	}
	return res, nil
}

// askedBy returns what a provider asks its owner before it does anything, or nil.
func askedBy(err error) *tool.Ask {
	var e *tool.Error
	if errors.As(err, &e) {
		return e.Ask
	}
	return nil
}

// WaitForCallRecords waits until the records of finished calls of this instance are in the
// database, or until ctx ends.
func (h *Hub) WaitForCallRecords(ctx context.Context) { h.audit.waitCommitted(ctx) }

// authorize finds a tool and checks whether the caller may call it. The view is never nil.
func (h *Hub) authorize(ctx context.Context, who Access,
	find func(context.Context, *View) (*RegisteredTool, error)) (*View, *RegisteredTool, error) {
	v, err := h.viewOf(who)
	if err != nil {
		return v, nil, err
	}
	if err := h.checkPaused(&who); err != nil {
		return v, nil, err
	}
	if who.Depth > maxDepth {
		return v, nil, tool.Fail(tool.Denied, "Too many bots ask one another; answer without this tool.", nil)
	}
	if !h.rates.allow(who.Caller, v.rules.PerMinute) {
		return v, nil, tool.Fail(tool.RateLimited, "Too many calls; wait a minute and call again.", nil)
	}
	o, err := find(ctx, v)
	return v, o, err
}

// viewOf returns what a caller may use now; it is never nil.
func (h *Hub) viewOf(who Access) (*View, error) {
	v, err := h.View(who.Person, who.Rules)
	if err != nil {
		return new(View), tool.Fail(tool.Failed, "The rules of this key cannot be read.", err)
	}
	return v, nil
}

// find finds a tool that the caller may call with the arguments, which are not checked if they are
// nil. The tool is also returned if the arguments are wrong.
func (v *View) find(ctx context.Context, name string, args []byte) (*RegisteredTool, error) {
	o := v.Tool(name)
	if o == nil {
		return nil, v.missingToolError(name)
	}
	return o, o.checkArgs(ctx, args)
}

// checkArgs returns the error for arguments that do not match the tool's schema. Nil ones are not
// checked.
func (o *RegisteredTool) checkArgs(ctx context.Context, args []byte) error {
	if args == nil {
		return nil
	}
	if args[0] != '{' {
		return tool.Fail(tool.BadArgs, "The arguments must be a JSON object.", nil)
	}
	switch err := o.check(ctx, args); err {
	case nil:
		return nil
	case ctx.Err():
		return tool.Fail(tool.Cancelled, "The call was cancelled.", context.Cause(ctx))
	default:
		return tool.Fail(tool.BadArgs, err.Error(), nil)
	}
}

// findAgain finds a tool whose call has waited. It is still the same tool, whatever its owner calls
// it, or another one, by now.
func (v *View) findAgain(ctx context.Context, was *RegisteredTool, args []byte) (*RegisteredTool, error) {
	o, err := v.find(ctx, was.OriginalName(), args)
	if o != nil && (o.offer.ID != was.offer.ID || o.Served().Name != was.Served().Name) {
		return was, tool.Fail(tool.Unknown, "The tool was replaced by another one meanwhile; call again.", nil)
	}
	return o, err
}

// missingToolError returns why there is no such tool for a caller.
func (v *View) missingToolError(name string) error {
	switch v.hidden[v.shownName(name)].verdict {
	case denied:
		return tool.Fail(tool.Denied, fmt.Sprintf("The tool %s is not allowed here.", name), nil)
	case held:
		return tool.Fail(tool.Held, fmt.Sprintf("The server of the tool %s has changed it. "+
			"It can be called when its owner has approved the change (patchbay upstream diff).", name), nil)
	case personal:
		return tool.Fail(tool.Denied,
			fmt.Sprintf("The tool %s is for people, and its owner has not allowed it to programs (patchbay tool allow %s).", name, name), nil)
	case dangerous:
		return tool.Fail(tool.Denied,
			fmt.Sprintf("The tool %s is dangerous, and its owner has not allowed it (patchbay tool allow %s).", name,
				name), nil)
	}
	return tool.Fail(tool.Unknown, "Unknown tool: "+name, nil)
}

var errCallStopping = tool.Fail(tool.Stopping, "The server is restarting; call again in a moment.", ErrStopping)

// beginWaiting counts a call that waits for an approval, unless the hub is stopping.
func (h *Hub) beginWaiting() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.draining {
		return errCallStopping
	}
	h.calling.Add(1)
	return nil
}

// beginCall counts a call, unless the hub is stopping or full.
func (h *Hub) beginCall() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.draining {
		return errCallStopping
	}
	if len(h.callSlots)+h.callsLeft >= cap(h.callSlots) {
		return errTooManyCalls(h)
	}
	select {
	case h.callSlots <- struct{}{}:
		h.calling.Add(1)
		return nil
	default:
		return errTooManyCalls(h)
	}
}

func errTooManyCalls(h *Hub) error {
	return tool.Fail(tool.Busy, "Too many calls are running; call again in a moment.",
		fmt.Errorf("%d calls at a time", cap(h.callSlots)))
}

func (h *Hub) endCall() {
	<-h.callSlots
	h.calling.Done()
}

var errProviderTimeout = errors.New("the provider took too long")

// invoke calls the provider and checks its result.
func (h *Hub) invoke(ctx context.Context, o *RegisteredTool, c *tool.Call) (res *tool.Result, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, o.offer.Timeout, errProviderTimeout)
	defer cancel()
	stop := context.AfterFunc(h.ctx, cancel)
	defer stop()
	res, err = h.callBackend(ctx, o, c)
	switch {
	case err == nil && res == nil:
		return nil, tool.Fail(tool.Garbled, "The tool gave no result.", nil)
	case err == nil && len(res.Content) > 0 && res.Content[0] != '[',
		err == nil && len(res.Structured) > 0 && res.Structured[0] != '{':
		return nil, tool.Fail(tool.Garbled, "The tool's answer cannot be used.", nil)
	case err == nil && len(o.Output) > 0:
		if err := o.checkResult(ctx, res); err != nil {
			return nil, err
		}
		declared := *res // which may be in use elsewhere
		declared.Declared = true
		return &declared, nil
	case err == nil:
		return res, nil
	}
	var told *tool.Error
	if ctx.Err() == nil || errors.As(err, &told) {
		return nil, err
	}
	switch {
	case errors.Is(context.Cause(ctx), errProviderTimeout):
		return nil, tool.Fail(tool.TimedOut, fmt.Sprintf("The tool did not answer within %s.", o.offer.Timeout), err)
	case h.ctx.Err() != nil:
		return nil, tool.Fail(tool.Lost,
			"The server stopped during the call. It is not known whether the call was carried out.", ErrStopping)
	}
	return nil, tool.Fail(tool.Cancelled, "The call was cancelled.", context.Cause(ctx))
}

// callRow returns the record of a call, as far as it is known before its execution.
func (h *Hub) callRow(o *RegisteredTool, name string, rules Rules, c *tool.Call, began time.Time) store.Call {
	row := store.Call{
		ID: c.ID, At: began, Person: c.Caller.Person, Actor: c.Caller.Actor, Address: c.Caller.Address,
		Key: c.Caller.Key, Bot: c.Caller.Bot, Turn: c.Caller.Turn, Channel: c.Caller.Channel,
		Program: clip(c.Caller.Program, 100), Device: clip(c.Caller.Device, 100), Tool: clip(name, 100),
		Instance: h.Bus.Instance,
	}
	if len(c.State) > 0 || len(c.Answers) > 0 {
		// The call is repeated with the answers that its provider asked for.
		row.ID = uuid.Must(uuid.NewV7()).String()
	}
	if o != nil {
		row.Provider = o.offer.ID
	}
	if rules.KeepArgs || h.KeepArgs {
		row.Args = clip(string(c.Args), maxArgsBytes)
	}
	return row
}

// record completes the record of a call, stores it and counts the call. Begun reports whether the
// record was stored before.
func (h *Hub) record(o *RegisteredTool, row *store.Call, res *tool.Result, err error, ran, begun bool) {
	row.Took = time.Since(row.At)
	kind := ""
	if o != nil {
		kind = o.offer.Kind
	}
	switch e := tool.AsError(err); {
	case e != nil:
		row.Outcome, row.Code, row.Cause = callFailed, string(e.Code), clip(e.Error(), 500)
		if !ran {
			row.Outcome = callRefused
		}
	case res.InputRequired != nil:
		row.Outcome = callNeedsInput
	default:
		row.Outcome, row.Bytes = callDone, int64(len(res.Content)+len(res.Structured))
		if res.IsError {
			row.Outcome, row.Cause = callToolError, clip(res.PlainText(), 500)
		}
	}
	h.metrics.call(*row, kind)
	h.audit.add(*row, begun)
	if row.Outcome == callRefused {
		h.Logger.Warn("a call was refused", "tool", row.Tool, "channel", row.Channel, "person", row.Person,
			"key", row.Key, "code", row.Code)
	}
}

// clip shortens a text from outside for a record.
func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return string(bytes.ToValidUTF8([]byte(s[:most]), nil)) + "…"
}
