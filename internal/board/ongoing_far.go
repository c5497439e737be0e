package board

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/nats-io/nats.go"

	"patchbay/internal/talk"
)

// What is asked of other instances about turns that they answer is an inquiry: to all of
// them at first, and then to the one that has it. Each gets one report, at once, so that
// nothing has to be remembered for those who look on, and nobody has to take leave.

const (
	inquirySubject = "ongoing"
	// lookWait bounds the wait for reports while somebody waits for a page. All instances
	// answer within milliseconds, but for one that is dying.
	lookWait = 250 * time.Millisecond
	// reportWait bounds the wait for one of an instance that has a turn.
	reportWait = 2 * time.Second
	// followFarEvery is how often an instance that has a turn is asked what is new, and
	// endsFarEvery how often whether it has stopped it.
	followFarEvery = 300 * time.Millisecond
	endsFarEvery   = 50 * time.Millisecond
	// reportBytes bounds the words in a report. In JSON they can become six times as much,
	// which still fits into a message.
	reportBytes = 64 << 10
	// reportsWait is how many reports wait to be read; more instances than that do not
	// answer in the same moment.
	reportsWait = 64
)

// inquiry asks what an instance answers of a conversation.
type inquiry struct {
	Asker string `json:"asker"`
	Talk  Talk   `json:"talk"`
	Stop  bool   `json:"stop,omitempty"` // it is to be stopped
	// Turn asks for one turn, and what there is of it after From.
	Turn string `json:"turn,omitempty"`
	From seen   `json:"from"`
}

// report is the answer to one.
type report struct {
	Instance string    `json:"instance"`
	Turns    []Ongoing `json:"turns,omitempty"`    // that are being answered, and were stopped if that was asked
	Progress *progress `json:"progress,omitempty"` // of the one turn that was asked for; nil: it is not known
}

func inquirySubjectOf(instance string) string { return inquirySubject + "." + instance }

func newCourses(b *Board) (*courses, error) {
	cs := &courses{board: b, of: map[whom][]*course{}}
	if b.Bus.Alone() {
		return cs, nil
	}
	for _, subject := range []string{inquirySubject, inquirySubjectOf(b.Bus.Instance)} {
		sub, err := b.Bus.Subscribe(subject, cs.heard)
		if err != nil {
			return nil, err
		}
		cs.subs = append(cs.subs, sub)
	}
	return cs, nil
}

func (cs *courses) close() {
	for _, s := range cs.subs {
		s.Unsubscribe() //nolint:errcheck // the connection is closed next
	}
}

// heard answers an inquiry.
func (cs *courses) heard(m *nats.Msg) {
	var in inquiry
	if json.Unmarshal(m.Data, &in) != nil || m.Reply == "" || in.Asker == cs.board.Bus.Instance {
		return
	}
	text, err := json.Marshal(cs.report(in))
	if err == nil {
		err = cs.board.Bus.Respond(m, text)
	}
	if err != nil {
		cs.board.Logger.Warn("another instance was not told what is being answered", "error", err)
	}
}

func (cs *courses) report(in inquiry) report {
	out := report{Instance: cs.board.Bus.Instance}
	if in.Turn != "" {
		if c := cs.find(in.Talk, in.Turn); c != nil {
			p, _ := c.progress(in.From, reportBytes)
			out.Progress = &p
		}
		return out
	}
	here := cs.ongoing(in.Talk)
	if in.Stop {
		for _, c := range here {
			c.stop()
		}
	}
	for _, c := range here[max(0, len(here)-ongoingMost):] {
		out.Turns = append(out.Turns, c.Ongoing)
	}
	return out
}

// inquire asks all other instances, and returns what they report. Silent says that one
// that lives has not answered in time.
func (cs *courses) inquire(ctx context.Context, in inquiry, wait time.Duration) (out []report, silent bool) {
	bus := cs.board.Bus
	if bus.Alone() {
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
	reports := make(chan *nats.Msg, reportsWait)
	inbox, sub, err := bus.Inbox(reports)
	if err == nil {
		defer sub.Unsubscribe() //nolint:errcheck // fails only when the bus is closed
		err = bus.PublishRequest(inquirySubject, inbox, text)
	}
	if err != nil {
		cs.board.Logger.Warn("other instances were not asked what is being answered", "error", err)
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
				return out, false // no other has it
			}
		case <-ctx.Done():
			for name := range waiting {
				silent = silent || bus.Lives(name)
			}
			return out, silent
		}
	}
	return out, false
}

// ask asks the instance that has a turn.
func (cs *courses) ask(ctx context.Context, instance string, in inquiry) (*progress, error) {
	bus := cs.board.Bus
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
		case errors.Is(err, nats.ErrNoResponders) || err != nil && !bus.Lives(instance):
			return nil, ErrNotOngoing
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
			return nil, ErrNotOngoing
		}
		return r.Progress, nil
	}
}

func (cs *courses) request(ctx context.Context, instance string, text []byte) (*nats.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, reportWait)
	defer cancel()
	return cs.board.Bus.Request(ctx, inquirySubjectOf(instance), text)
}

// followElsewhere follows a turn that another instance answers.
func (cs *courses) followElsewhere(ctx context.Context, t Talk, turn string, see func([]talk.Event) error) error {
	instance := ""
	reports, _ := cs.inquire(ctx, inquiry{Talk: t, Turn: turn}, reportWait)
	for _, r := range reports {
		if r.Progress != nil {
			instance = r.Instance
		}
	}
	if instance == "" {
		return ErrNotOngoing
	}
	var from seen
	for first := true; ; first = false {
		p, err := cs.ask(ctx, instance, inquiry{Talk: t, Turn: turn, From: from})
		if err != nil {
			return err
		}
		from = p.Seen
		if first || len(p.Events) > 0 {
			if err := see(p.Events); err != nil {
				return err
			}
		}
		switch {
		case p.More:
			continue
		case p.Over:
			return p.end()
		}
		if err := pause(ctx, followFarEvery); err != nil {
			return err
		}
	}
}

// endsElsewhere waits until a turn has ended that another instance was told to stop. It is
// false if ctx ended before.
func (cs *courses) endsElsewhere(ctx context.Context, instance string, t Talk, turn string) bool {
	for {
		p, err := cs.ask(ctx, instance, inquiry{Talk: t, Turn: turn})
		switch {
		case errors.Is(err, ErrNotOngoing) || err == nil && p.Over:
			return true
		case err != nil, pause(ctx, endsFarEvery) != nil:
			return false
		}
	}
}
