package board

import (
	"encoding/json"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
)

// Notice is something that a provider told by itself: a device that a button was
// pressed, or that it is awake.
type Notice struct {
	Outlet string          `json:"outlet"`
	Owner  string          `json:"owner,omitempty"` // person id
	Kind   string          `json:"kind,omitempty"`  // of the outlet
	Title  string          `json:"title,omitempty"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params,omitempty"`
	At     time.Time       `json:"at"`
}

const (
	noticeSubject = "notice"
	// noticesWait is how many notices wait for one who listens. When it is full, new
	// ones are dropped for that one, and counted.
	noticesWait = 64
	// maxNotice bounds the params of a notice, in bytes, as they go to everybody who
	// listens. Longer ones are dropped, and counted.
	maxNotice = 16 << 10
)

// notices hands notices to those who listen, on all instances.
type notices struct {
	board   *Board
	sub     *nats.Subscription // nil if there are no others
	counted *prometheus.CounterVec

	mu    sync.Mutex
	ears  map[chan Notice]string // → person; empty: everybody's
	ended bool
}

func newNotices(b *Board) (*notices, error) {
	n := &notices{board: b, ears: map[chan Notice]string{}, counted: prometheus.NewCounterVec(
		prometheus.CounterOpts{Name: "patchbay_notices_total", Help: "What devices and other providers told by themselves, by what became of it here."}, []string{"outcome"})}
	b.Registerer.MustRegister(n.counted)
	b.catalog.noticed = n.heard
	if b.Bus.Alone() {
		return n, nil
	}
	var err error
	n.sub, err = b.Bus.Subscribe(noticeSubject+".*", func(m *nats.Msg) {
		var told Notice
		if !b.Bus.Is(m, noticeSubject+"."+b.Bus.Instance) && json.Unmarshal(m.Data, &told) == nil {
			n.tell(told)
		}
	})
	return n, err
}

// tell hands a notice to those who listen on this instance.
func (n *notices) tell(told Notice) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for ear, person := range n.ears {
		if person != "" && person != told.Owner {
			continue
		}
		select {
		case ear <- told:
			n.counted.WithLabelValues("told").Inc()
		default:
			n.counted.WithLabelValues("dropped").Inc()
		}
	}
}

func (n *notices) close() {
	if n.sub != nil {
		n.sub.Unsubscribe() //nolint:errcheck // the connection is closed next
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ended = true
	for ear := range n.ears {
		delete(n.ears, ear)
		close(ear)
	}
}

// Notices returns what the providers of a person tell by themselves from now on, on
// all instances; those of everybody for an empty person. The channel is closed by
// forget, and when the board stops. Who does not read misses some.
func (b *Board) Notices(person string) (told <-chan Notice, forget func()) {
	n := b.notices
	ear := make(chan Notice, noticesWait)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ended {
		close(ear)
		return ear, func() {}
	}
	n.ears[ear] = person
	return ear, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		if _, ok := n.ears[ear]; ok {
			delete(n.ears, ear)
			close(ear)
		}
	}
}

// Notify tells whoever listens what the provider has told by itself. Params are JSON,
// or nil. It does not wait.
func (s *Socket) Notify(method string, params json.RawMessage) {
	o := s.outlet()
	s.catalog.noticed(Notice{Outlet: o.ID, Owner: o.Owner, Kind: o.Kind, Title: o.Title, Method: method, Params: params, At: time.Now().UTC()})
}

// heard takes a notice of a provider on this instance.
func (n *notices) heard(told Notice) {
	if len(told.Params) > maxNotice {
		n.counted.WithLabelValues("too_large").Inc()
		return
	}
	n.tell(told)
	if n.board.Bus.Alone() {
		return
	}
	text, err := json.Marshal(told)
	if err == nil {
		err = n.board.Bus.Publish(noticeSubject+"."+n.board.Bus.Instance, text)
	}
	if err != nil {
		n.board.Logger.Warn("other instances were not told of a notice", "outlet", told.Outlet, "error", err)
	}
}
