package hub

import (
	"encoding/json"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
)

// Notice is a notification of a provider: a device reports that a button was pressed, or that it is
// awake.
type Notice struct {
	Provider string          `json:"provider"`
	Owner    string          `json:"owner,omitempty"` // person id
	Kind     string          `json:"kind,omitempty"`  // of the provider
	Title    string          `json:"title,omitempty"`
	Method   string          `json:"method"`
	Params   json.RawMessage `json:"params,omitempty"`
	At       time.Time       `json:"at"`
}

const (
	noticeSubject = "notice"
	// noticeBuffer limits the notices that wait for a subscriber. When it is full, new ones are
	// dropped for that subscriber, and counted.
	noticeBuffer = 64
	// maxNoticeBytes limits the params of a notice, in bytes, because they go to every subscriber.
	// Longer ones are dropped, and counted.
	maxNoticeBytes = 16 << 10
)

// notices distributes notices to subscribers on all instances.
type notices struct {
	hub     *Hub
	sub     *nats.Subscription // nil on a standalone instance
	counter *prometheus.CounterVec

	mu          sync.Mutex
	subscribers map[chan Notice]string // → person; empty: everybody's
	ended       bool
}

func newNotices(h *Hub) (*notices, error) {
	n := &notices{hub: h, subscribers: map[chan Notice]string{}, counter: prometheus.NewCounterVec(
		prometheus.CounterOpts{Name: "patchbay_notices_total",
			Help: "What devices and other providers told by themselves, by what became of it here."},
		[]string{"outcome"})}
	h.Registerer.MustRegister(n.counter)
	h.catalog.onNotice = n.publish
	if h.Bus.IsStandalone() {
		return n, nil
	}
	var err error
	n.sub, err = h.Bus.Subscribe(noticeSubject+".*", func(m *nats.Msg) {
		var told Notice
		if !h.Bus.HasSubject(m, noticeSubject+"."+h.Bus.Instance) && json.Unmarshal(m.Data, &told) == nil {
			n.deliver(told)
		}
	})
	return n, err
}

// deliver passes a notice to the subscribers on this instance.
func (n *notices) deliver(told Notice) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for subscriber, person := range n.subscribers {
		if person != "" && person != told.Owner {
			continue
		}
		select {
		case subscriber <- told:
			n.counter.WithLabelValues("told").Inc()
		default:
			n.counter.WithLabelValues("dropped").Inc()
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
	for subscriber := range n.subscribers {
		delete(n.subscribers, subscriber)
		close(subscriber)
	}
}

// SubscribeNotices returns the notices of a person's providers from now on, on all instances; of
// everybody's for an empty person. The channel is closed by unsubscribe, and when the hub stops. A
// subscriber that does not read misses some.
func (h *Hub) SubscribeNotices(person string) (told <-chan Notice, unsubscribe func()) {
	n := h.notices
	subscriber := make(chan Notice, noticeBuffer)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ended {
		close(subscriber)
		return subscriber, func() {}
	}
	n.subscribers[subscriber] = person
	return subscriber, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		if _, ok := n.subscribers[subscriber]; ok {
			delete(n.subscribers, subscriber)
			close(subscriber)
		}
	}
}

// Notify sends a notification of the provider to the subscribers. Params are JSON, or nil. It does
// not block.
func (s *Registration) Notify(method string, params json.RawMessage) {
	o := s.ref()
	s.catalog.onNotice(Notice{Provider: o.ID, Owner: o.Owner, Kind: o.Kind, Title: o.Title, Method: method,
		Params: params, At: time.Now().UTC()})
}

// publish handles a notice of a provider on this instance.
func (n *notices) publish(told Notice) {
	if len(told.Params) > maxNoticeBytes {
		n.counter.WithLabelValues("too_large").Inc()
		return
	}
	n.deliver(told)
	if n.hub.Bus.IsStandalone() {
		return
	}
	text, err := json.Marshal(told)
	if err == nil {
		err = n.hub.Bus.Publish(noticeSubject+"."+n.hub.Bus.Instance, text)
	}
	if err != nil {
		n.hub.Logger.Warn("other instances were not told of a notice", "provider", told.Provider, "error", err)
	}
}
