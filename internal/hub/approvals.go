package hub

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"patchbay/internal/pin"
	"patchbay/internal/store"
	"patchbay/internal/tool"
)

const (
	// approvalWait is how long a call waits for its approval. Many MCP clients give up after a
	// minute (the default of the TypeScript SDK).
	approvalWait = 50 * time.Second
	// approvalLife is how long a person may take to decide, and how long an allowed call may take
	// to be made again if it no longer waits.
	approvalLife = 10 * time.Minute
	// denialLife is how long the same call is refused without asking again.
	denialLife = time.Minute
	// approvalPoll is how often a waiting call looks at the database, in case that it missed what
	// another instance published.
	approvalPoll = 5 * time.Second
	// maxApprovals limits the calls of one person that wait, and maxApprovalsOfCaller those of one
	// key or bot, so that none keeps the others from asking.
	maxApprovals, maxApprovalsOfCaller = 50, 5
	// maxApprovalArgs limits the arguments of a call that can be approved, in bytes: whoever
	// decides has to see them all.
	maxApprovalArgs = 64 << 10
	// maxDialogArgs limits those that a dialog of a program shows, in bytes.
	maxDialogArgs = 1000
	// notifyLimit limits the notification about one call.
	notifyLimit = 30 * time.Second

	approvalSubject = "approval"
	// approvalState begins the state of a call whose caller was asked, and approvalName names the
	// question.
	approvalState, approvalName = "approval.", "approval"
)

// ByProgram is the channel of decisions by a dialog of the program that calls.
const ByProgram = "program"

// approvals has calls wait until a person has allowed them. The database decides; the bus only
// wakes the calls that wait.
type approvals struct {
	hub    *Hub
	sub    *nats.Subscription // nil on a standalone instance
	asked  *prometheus.CounterVec
	notify []func(context.Context, store.Approval) // of calls that wait
	tell   []func(context.Context, store.Approval) // of decisions
	work   sync.WaitGroup                          // notifications

	mu      sync.Mutex
	waiting map[string][]chan struct{} // by the approval's id; closed when it is decided
}

func newApprovals(h *Hub) (*approvals, error) {
	a := &approvals{hub: h, waiting: map[string][]chan struct{}{},
		asked: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "patchbay_approvals_total",
			Help: "Calls that a person was asked about, and what was decided."}, []string{"outcome"})}
	h.Registerer.MustRegister(a.asked, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "patchbay_approvals_waiting", Help: "Calls on this instance that wait for an approval."},
		func() float64 {
			a.mu.Lock()
			defer a.mu.Unlock()
			n := 0
			for _, list := range a.waiting {
				n += len(list)
			}
			return float64(n)
		}))
	if h.Bus.IsStandalone() {
		return a, nil
	}
	var err error
	a.sub, err = h.Bus.Subscribe(approvalSubject+".*", func(m *nats.Msg) { a.wake(string(m.Data)) })
	return a, err
}

func (a *approvals) close() {
	if a.sub != nil {
		a.sub.Unsubscribe() //nolint:errcheck // the connection is closed next
	}
	a.work.Wait()
}

// OnApproval adds what notifies a person of a call that waits. It is called once for each, in its
// own goroutine. It must be set before the first call.
func (h *Hub) OnApproval(notify func(context.Context, store.Approval)) {
	h.approvals.notify = append(h.approvals.notify, notify)
}

// OnDecision adds what notifies programs of a decision. It is called once for each, in its own
// goroutine, on the instance that decides. It must be set before the first call.
func (h *Hub) OnDecision(tell func(context.Context, store.Approval)) {
	h.approvals.tell = append(h.approvals.tell, tell)
}

// call calls functions with a call that waits or was decided, each in its own goroutine.
func (a *approvals) call(list []func(context.Context, store.Approval), row store.Approval) {
	for _, f := range list {
		a.work.Go(func() {
			ctx, cancel := context.WithTimeout(a.hub.ctx, notifyLimit)
			defer cancel()
			f(ctx, row)
		})
	}
}

// Decider is who decides about a call, for the record.
type Decider struct {
	Person  string // id; empty: whoever runs the machine
	Key     string // id of the key, if a program decides
	Address string
	Channel string // "console", "api", "cli", the channel of a turn, or [ByProgram]
	Always  bool   // allow those like it, too
}

// Actions of the admin events about decisions.
const (
	EventCallApproved = "call.approved"
	EventCallDenied   = "call.denied"
)

// DecideApproval allows or denies a call that waits, and records that. It returns the call as it is
// then. The error is [store.ErrNotFound] if it does not wait any more.
func (h *Hub) DecideApproval(ctx context.Context, id string, allow bool, by Decider) (store.Approval, error) {
	state, life, act := store.ApprovalDenied, denialLife, EventCallDenied
	if allow {
		state, life, act = store.ApprovalAllowed, approvalLife, EventCallApproved
	}
	now := time.Now()
	event := store.AdminEvent{ID: uuid.Must(uuid.NewV7()).String(), At: now, Person: by.Person, Action: act,
		Key: by.Key, Address: by.Address, Channel: by.Channel}
	if p, err := h.Store.People.ByID(ctx, by.Person); err == nil {
		event.Name = p.Name
	}
	who := by.Channel
	if event.Name != "" {
		who = event.Name + " (" + by.Channel + ")"
	}
	was, err := h.Store.Approvals.ByID(ctx, id, now)
	if err != nil {
		return was, err
	}
	if err := h.Store.Approvals.Decide(ctx, id, state, allow && by.Always, who, was.Spoken(), now,
		now.Add(life)); err != nil {
		return store.Approval{}, err
	}
	h.approvals.asked.WithLabelValues(state).Inc()
	h.approvals.wake(id)
	if !h.Bus.IsStandalone() {
		if err := h.Bus.Publish(approvalSubject+"."+h.Bus.Instance, []byte(id)); err != nil {
			h.Logger.Warn("other instances were not told of a decision about a call", "error", err)
		}
	}
	a, err := h.Store.Approvals.ByID(ctx, id, now)
	if err != nil {
		return a, err
	}
	h.approvals.call(h.approvals.tell, a)
	event.About = a.Caller + ": " + a.Tool
	if a.Kind != "" {
		event.About += " (" + a.Title + ")"
	}
	if err := h.Store.AdminEvents.Add(ctx, event); err != nil {
		// The decision holds, and cannot be undone because its record failed.
		h.Logger.ErrorContext(ctx, "a decision about a call was not recorded", "about", event.About, "error", err)
	}
	return a, nil
}

// DecidedAt returns when a call was last decided or allowed once more; zero if it waits.
func DecidedAt(a store.Approval) time.Time {
	switch a.State {
	case store.ApprovalWaiting:
		return time.Time{}
	case store.ApprovalDenied:
		return a.Expires.Add(-denialLife)
	}
	return a.Expires.Add(-approvalLife)
}

// watch returns a channel that is closed when an approval is decided.
func (a *approvals) watch(id string) (decided <-chan struct{}, forget func()) {
	c := make(chan struct{})
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waiting[id] = append(a.waiting[id], c)
	return c, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		list := a.waiting[id]
		for i := range list {
			if list[i] == c {
				list = append(list[:i:i], list[i+1:]...)
				break
			}
		}
		if a.waiting[id] = list; len(list) == 0 {
			delete(a.waiting, id)
		}
	}
}

func (a *approvals) wake(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range a.waiting[id] {
		close(c)
	}
	delete(a.waiting, id)
}

// allowance is the approval of a call that is being carried out; nil if the call needs none.
type allowance struct {
	hub    *Hub
	id     string
	always bool
}

// approved returns how the call is approved, for [tool.Call.Approved].
func (l *allowance) approved() string {
	switch {
	case l == nil:
		return ""
	case l.always:
		return tool.ApprovedAlways
	}
	return tool.ApprovedOnce
}

// end allows the call once more if it was not carried out: it was not begun, or its provider asks
// something first.
func (l *allowance) end(ran bool, res *tool.Result) {
	if l == nil || ran && (res == nil || res.InputRequired == nil) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), notifyLimit)
	defer cancel()
	if err := l.hub.Store.Approvals.Reopen(ctx, l.id, time.Now().Add(approvalLife)); err != nil {
		l.hub.Logger.Warn("a call has to be approved again", "error", err)
	}
}

// await returns when a call is approved. The result is not nil if the caller has to be asked first.
// An approval is for one call with the same arguments. Asked is nil if the rules of the caller want
// it, and else what the provider asks.
func (a *approvals) await(ctx context.Context, who Access, o *RegisteredTool, rules Rules, c *tool.Call,
	asked *tool.Ask) (*allowance, *tool.Result, error) {
	if c.Abandoned {
		return nil, nil, nil // it ends a call that was approved
	}
	answered, answer := a.takeAnswer(c)
	if len(c.Args) > maxApprovalArgs {
		return nil, nil, tool.Fail(tool.BadArgs,
			fmt.Sprintf("The arguments are too long to be approved: at most %d bytes.",
				maxApprovalArgs), nil)
	}
	row, err := a.ask(ctx, who, o, c, asked)
	if err != nil {
		return nil, nil, err
	}
	if row.State == store.ApprovalWaiting {
		program := asked == nil && rules.Ask == AskProgram && c.Capabilities.Elicit && len(row.Args) <= maxDialogArgs
		switch {
		case answered == row.ID && program:
			if row, err = a.applyAnswer(ctx, who, row, answer); err != nil {
				return nil, nil, err
			}
		case answered == row.ID: // the person went to the page
		case program, c.Capabilities.ElicitURL && who.Origin != "":
			return nil, a.question(row, who, program), nil
		}
	}
	if row, err = a.decision(ctx, who, row, c); err != nil {
		return nil, nil, err
	}
	switch row.State {
	case store.ApprovalAllowed:
		err := a.hub.Store.Approvals.Use(ctx, row.ID, time.Now())
		if errors.Is(err, store.ErrNotFound) { // another call with the same arguments was quicker
			return nil, nil, tool.Fail(tool.Unapproved, "The approval was for one call, which was carried out. "+
				"Call the tool again if it is needed once more.", nil)
		}
		if err != nil {
			return nil, nil, unapprovable(err)
		}
		return &allowance{a.hub, row.ID, row.Always}, nil, nil
	case store.ApprovalDenied:
		return nil, nil, tool.Fail(tool.Denied, "The owner was asked, and does not allow this call. Do not try it again.", nil)
	}
	told := "This call has to be approved by its owner first, who was asked and has not answered yet"
	if who.Origin != "" {
		told += " (" + ApprovalURL(who.Origin, row.ID) + ")"
	}
	return nil, nil, tool.Fail(tool.Unapproved,
		told+". Call the tool again with the same arguments when that is done.", nil)
}

// unapprovable is the error of a call whose approval cannot be stored or read.
func unapprovable(err error) error {
	return tool.Fail(tool.Failed, "The approval of this call could not be stored; call again in a moment.", err)
}

// takeAnswer takes the caller's answer to our question out of the call, so that the provider does
// not get it, with the id of the approval that was asked about. What comes without our question is
// the provider's.
func (a *approvals) takeAnswer(c *tool.Call) (id string, answer json.RawMessage) {
	id, ok := strings.CutPrefix(c.State, approvalState)
	if !ok {
		return "", nil
	}
	answer = c.Answers[approvalName]
	c.State, c.Answers, c.Refusals = "", nil, nil
	return id, answer
}

// ask stores a call that waits for its approval, or finds the decision about it.
func (a *approvals) ask(ctx context.Context, who Access, o *RegisteredTool, c *tool.Call,
	asked *tool.Ask) (store.Approval, error) {
	row := store.Approval{Tool: o.OriginalName(), Title: cmp.Or(o.Tool.Title, o.Name), Provider: o.offer.Title,
		Args: string(c.Args)}
	if asked != nil {
		row.Kind, row.Device, row.Title = asked.Kind, asked.Device, asked.Title
		row.ArgsHash = hashPrepared(row.Args, asked)
	}
	return a.store(ctx, who, row, approvalLife)
}

// store stores a question, or finds the decision about it.
func (a *approvals) store(ctx context.Context, who Access, row store.Approval,
	life time.Duration) (store.Approval, error) {
	now := time.Now()
	if row.ID == "" {
		var id [16]byte
		rand.Read(id[:])
		row.ID = hex.EncodeToString(id[:])
	}
	row.Person, row.Bot = who.Person, who.Bot
	row.Program = pin.Visible(clip(who.Program, 100))
	row.Title, row.Provider = pin.Visible(clip(row.Title, 200)), pin.Visible(clip(row.Provider, 200))
	row.Asked, row.Expires = now, now.Add(life)
	row.ArgsHash = cmp.Or(row.ArgsHash, hashArgs(json.RawMessage(row.Args)))
	var err error
	switch {
	case row.Bot != 0:
		bot, e := a.hub.Store.Bots.ByNumber(ctx, row.Bot)
		row.Caller, err = bot.Name, e
	case who.Key != "":
		row.Key = who.Key
		key, e := a.hub.Store.Keys.ByID(ctx, who.Key)
		row.Caller, err = key.Name, e
	case row.Caller == "": // a person, in the console or on the command line
		person, e := a.hub.Store.People.ByID(ctx, row.Person)
		row.Caller, err = person.Name, e
	}
	row.Caller = pin.Visible(clip(row.Caller, 100))
	if err != nil {
		return row, unapprovable(err)
	}
	stored, asked, err := a.hub.Store.Approvals.Ask(ctx, row, maxApprovals, maxApprovalsOfCaller)
	switch {
	case errors.Is(err, store.ErrTooMany):
		return row, tool.Fail(tool.RateLimited, "Too many calls wait for an approval; wait until the owner has decided.", nil)
	case err != nil:
		return row, unapprovable(err)
	}
	if asked {
		a.asked.WithLabelValues("asked").Inc()
		a.call(a.notify, stored)
	}
	return stored, nil
}
