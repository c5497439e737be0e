package hub

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/nats-io/nats.go"

	"patchbay/internal/netx"
	"patchbay/internal/talk"
)

// Instances ask each other about active turns by an inquiry: first all of them, then the one that
// has the turn. Each inquiry gets one report at once, so that no instance has to keep state for
// observers, and no observer has to sign off.

const (
	inquirySubject = "ongoing"
	// inquiryTimeout limits the wait for reports while somebody waits for a page. All instances
	// reply within milliseconds, except dying ones.
	inquiryTimeout = 250 * time.Millisecond
	// reportTimeout limits the wait for the report of an instance that has a turn.
	reportTimeout = 2 * time.Second
	// remoteObserveInterval is the interval at which an instance that has a turn is asked for new
	// events, and remoteStopInterval that for whether a turn has stopped.
	remoteObserveInterval = 300 * time.Millisecond
	remoteStopInterval    = 50 * time.Millisecond
	// maxReportBytes limits the text in a report. In JSON it can become six times as long, which
	// still fits into a message.
	maxReportBytes = 64 << 10
	// reportBuffer limits the reports that wait to be read. More instances than that do not reply
	// in the same moment.
	reportBuffer = 64
)

// inquiry asks an instance about a conversation.
type inquiry struct {
	Asker        string          `json:"asker"`
	Conversation ConversationRef `json:"talk"`
	Stop         bool            `json:"stop,omitempty"` // stop its turns
	// Turn asks for one turn, and its events after From.
	Turn string         `json:"turn,omitempty"`
	From observerCursor `json:"from"`
	// Cut asks for a turn that was cut off, whose bot goes on with it at the asking instance.
	Cut *cutRef `json:"cut,omitempty"`
}

// report is the reply to an inquiry.
type report struct {
	Instance string       `json:"instance"`
	Turns    []ActiveTurn `json:"turns,omitempty"`    // active turns, or those that were stopped
	Progress *progress    `json:"progress,omitempty"` // of the requested turn; nil: unknown
	Cut      *runningTurn `json:"cut,omitempty"`      // the turn that was cut off; nil: unknown
}

func instanceInquirySubject(instance string) string { return inquirySubject + "." + instance }

func newActiveTurns(h *Hub) (*activeTurns, error) {
	cs := &activeTurns{hub: h, byAsker: map[askerKey][]*activeTurn{}}
	if h.Bus.IsStandalone() {
		return cs, nil
	}
	for _, subject := range []string{inquirySubject, instanceInquirySubject(h.Bus.Instance)} {
		sub, err := h.Bus.Subscribe(subject, cs.onInquiry)
		if err != nil {
			return nil, err
		}
		cs.subs = append(cs.subs, sub)
	}
	return cs, nil
}

func (cs *activeTurns) close() {
	for _, s := range cs.subs {
		s.Unsubscribe() //nolint:errcheck // the connection is closed next
	}
}

// onInquiry replies to an inquiry.
func (cs *activeTurns) onInquiry(m *nats.Msg) {
	var in inquiry
	if json.Unmarshal(m.Data, &in) != nil || m.Reply == "" || in.Asker == cs.hub.Bus.Instance {
		return
	}
	text, err := json.Marshal(cs.report(in))
	if err == nil {
		err = cs.hub.Bus.Respond(m, text)
	}
	if err != nil {
		cs.hub.Logger.Warn("another instance was not told what is being answered", "error", err)
	}
}

func (cs *activeTurns) report(in inquiry) report {
	out := report{Instance: cs.hub.Bus.Instance}
	if in.Cut != nil {
		if was, ok := cs.hub.runningTurns.takeCut(*in.Cut); ok {
			cs.hub.runningTurns.end(in.Cut.Turn)
			out.Cut = &was
		}
		return out
	}
	if in.Turn != "" {
		if c := cs.find(in.Conversation, in.Turn); c != nil {
			p, _ := c.progress(in.From, maxReportBytes)
			out.Progress = &p
		}
		return out
	}
	here := cs.inConversation(in.Conversation)
	if in.Stop {
		for _, c := range here {
			c.stop()
		}
	}
	for _, c := range here[max(0, len(here)-maxActiveTurns):] {
		out.Turns = append(out.Turns, c.snapshot())
	}
	return out
}

// queryPeers sends an inquiry to all other instances, and returns their reports. Silent reports
// whether a living instance did not reply in time.
func (cs *activeTurns) queryPeers(ctx context.Context, in inquiry, wait time.Duration) (out []report, silent bool) {
	bus := cs.hub.Bus
	if bus.IsStandalone() {
		return nil, false
	}
	waiting := map[string]bool{}
	for _, name := range bus.Peers() {
		waiting[name] = true
	}
	if len(waiting) == 0 {
		return nil, false
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	in.Asker = bus.Instance
	text, err := json.Marshal(in)
	if err != nil {
		return nil, true
	}
	reports := make(chan *nats.Msg, reportBuffer)
	inbox, sub, err := bus.Inbox(reports)
	if err == nil {
		defer sub.Unsubscribe() //nolint:errcheck // fails only when the bus is closed
		err = bus.PublishRequest(inquirySubject, inbox, text)
	}
	if err != nil {
		cs.hub.Logger.Warn("other instances were not asked what is being answered", "error", err)
		return nil, true
	}
	for len(waiting) > 0 {
		select {
		case m := <-reports:
			var r report
			if json.Unmarshal(m.Data, &r) != nil {
				continue
			}
			delete(waiting, r.Instance)
			if out = append(out, r); r.Progress != nil {
				return out, false // there is only one
			}
		case <-ctx.Done():
			for name := range waiting {
				silent = silent || bus.IsAlive(name)
			}
			return out, silent
		}
	}
	return out, false
}

// queryPeer sends an inquiry to the instance that has a turn.
func (cs *activeTurns) queryPeer(ctx context.Context, instance string, in inquiry) (*progress, error) {
	bus := cs.hub.Bus
	in.Asker = bus.Instance
	text, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}
	for {
		m, err := cs.request(ctx, instance, text)
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case errors.Is(err, nats.ErrNoResponders) || err != nil && !bus.IsAlive(instance):
			return nil, ErrNotActive
		case errors.Is(err, context.DeadlineExceeded):
			continue
		case err != nil:
			return nil, err
		}
		var r report
		if err := json.Unmarshal(m.Data, &r); err != nil {
			return nil, err
		}
		if r.Progress == nil {
			return nil, ErrNotActive
		}
		return r.Progress, nil
	}
}

func (cs *activeTurns) request(ctx context.Context, instance string, text []byte) (*nats.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	return cs.hub.Bus.Request(ctx, instanceInquirySubject(instance), text)
}

// observeRemote observes a turn that another instance runs.
func (cs *activeTurns) observeRemote(ctx context.Context, t ConversationRef, turn string,
	see func([]talk.Event) error) error {
	instance := ""
	reports, _ := cs.queryPeers(ctx, inquiry{Conversation: t, Turn: turn}, reportTimeout)
	for _, r := range reports {
		if r.Progress != nil {
			instance = r.Instance
		}
	}
	if instance == "" {
		return ErrNotActive
	}
	var from observerCursor
	for first := true; ; first = false {
		p, err := cs.queryPeer(ctx, instance, inquiry{Conversation: t, Turn: turn, From: from})
		if err != nil {
			return err
		}
		from = p.Cursor
		if first || len(p.Events) > 0 {
			if err := see(p.Events); err != nil {
				return err
			}
		}
		switch {
		case p.More:
			continue
		case p.Done:
			return p.end()
		}
		if err := netx.Wait(ctx, remoteObserveInterval); err != nil {
			return err
		}
	}
}

// waitRemoteEnd waits until a stopped turn of another instance has ended. It returns false if ctx
// ended before.
func (cs *activeTurns) waitRemoteEnd(ctx context.Context, instance string, t ConversationRef, turn string) bool {
	for {
		p, err := cs.queryPeer(ctx, instance, inquiry{Conversation: t, Turn: turn})
		switch {
		case errors.Is(err, ErrNotActive) || err == nil && p.Done:
			return true
		case err != nil, netx.Wait(ctx, remoteStopInterval) != nil:
			return false
		}
	}
}
