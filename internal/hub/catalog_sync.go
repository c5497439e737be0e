package hub

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
)

// Providers that one instance holds are offered on the others too. The holder announces changes on
// the bus at once, and its full state on request; see catalog_state.go. A list of tools is
// announced by its hash. An instance that does not know a list requests it, a page at a time, and
// once for all providers that offer the same: ten thousand devices of a kind have one list.

const (
	toolsSubject = "tools"
	// maxFrameBytes limits a message, well below the limit of NATS.
	maxFrameBytes = 512 << 10
	// maxAnnounced limits the providers in one message, for the same reason: each takes a few
	// hundred bytes.
	maxAnnounced = 500
)

// remoteProvider is a provider that another instance holds.
type remoteProvider struct {
	heldProvider
	instance   string
	offer      *offer // the last known offer; nil: none yet
	list       *toolList
	awaitsList bool // for its list of tools
	current    bool // the offer was made from the current list
	// expiresAt is when the provider is forgotten, if no instance holds it any more; zero: it is
	// held.
	expiresAt time.Time
}

// heldProvider describes a provider of the announcing instance.
type heldProvider struct {
	ProviderRef
	Fingerprint uint64 `json:"print"`
	// Epoch numbers its newest connection, see [epochs].
	Epoch int64 `json:"since,omitempty"`
	// Content identifies the state of its prompts and resources; 0: it has none.
	Content int64 `json:"content,omitempty"`
}

// toolsAnnouncement is what an instance holds: everything between two ids, or changes.
type toolsAnnouncement struct {
	Instance string `json:"i"`
	// Sequence counts the announced changes of the instance, including those in this announcement.
	Sequence  uint64         `json:"n,omitempty"`
	Providers []heldProvider `json:"h"`
	// After and Until bound the ids of which Held is complete and sorted: after After, up to and
	// including Until. Empty: no bound.
	After string `json:"after,omitempty"`
	Until string `json:"until,omitempty"`
	// IsDelta means that Held and Gone are changes.
	IsDelta bool     `json:"part,omitempty"`
	Removed []string `json:"gone,omitempty"`
	// Absent are providers that may be back in a moment, on any instance. They stay listed, see
	// absent.go.
	Absent []string `json:"left,omitempty"`
}

// catalogSync synchronizes the catalog with other instances.
type catalogSync struct {
	hub           *Hub
	wake          chan struct{} // something held here has changed
	done          chan struct{}
	subs          []*nats.Subscription
	stopListening func() // unsubscribes from announcements
	jobs          sync.WaitGroup

	// Requires catalog.mu.
	dirty         map[string]bool       // providers here to announce
	sequence      uint64                // of announced changes
	announceDue   bool                  // the current number has to be announced
	stateRequests map[string]bool       // instances that requested the full state
	peers         map[string]*peerState // by instance
	lists         map[uint64]*toolList
	queue         []listFetch // waiting; each list at most once
	fetching      int

	mu      sync.Mutex
	running map[string]context.CancelCauseFunc     // calls executed for other instances
	askers  map[string]string                      // by call
	watched map[resourceRef]map[string]remoteWatch // for other instances, by the id of their request
	updated map[string]map[resourceRef]bool        // what is to be told to an instance

	draining atomic.Bool // this instance stops: its providers move elsewhere
}

func newCatalogSync(h *Hub) (*catalogSync, error) {
	x := &catalogSync{hub: h, wake: make(chan struct{}, 1), done: make(chan struct{}), dirty: map[string]bool{},
		stateRequests: map[string]bool{}, peers: map[string]*peerState{}, lists: map[uint64]*toolList{},
		running: map[string]context.CancelCauseFunc{}, askers: map[string]string{},
		watched: map[resourceRef]map[string]remoteWatch{}, updated: map[string]map[resourceRef]bool{}}
	if h.Bus.IsStandalone() {
		close(x.done)
		return x, nil
	}
	for subject, handle := range map[string]nats.MsgHandler{
		stateRequestSubject(h.Bus.Instance): x.onStateRequest,
		listSubject(h.Bus.Instance):         x.onListRequest,
		callSubject(h.Bus.Instance):         x.serve,
		callCancelSubject(h.Bus.Instance):   x.onCallCancel,
		refreshSubject(h.Bus.Instance):      x.onRefresh,
		updatedSubject(h.Bus.Instance):      x.onUpdated,
		unwatchSubject(h.Bus.Instance):      x.onUnwatch,
		logsSubject:                         x.onProviderLog,
	} {
		sub, err := h.Bus.Subscribe(subject, handle)
		if err != nil {
			return nil, err
		}
		x.subs = append(x.subs, sub)
	}
	// Changes are sent in order, a full state between them.
	var err error
	if x.stopListening, err = h.Bus.SubscribeInOrder(x.onAnnouncement, toolsSubject,
		stateSubject(h.Bus.Instance)); err != nil {
		return nil, err
	}
	h.Bus.OnPeerLost(x.instanceLost)
	h.Bus.OnPeerJoined(x.announceSequence)
	h.catalog.mu.Lock()
	defer h.catalog.mu.Unlock()
	h.catalog.announce = func(id string) {
		x.dirty[id] = true
		x.wakeUp()
	}
	h.catalog.forgetProvider, h.catalog.tellWatchers, h.catalog.tellLog = x.forgetProvider, x.tellWatchers, x.tellLog
	go x.run()
	return x, nil
}

func (x *catalogSync) run() {
	defer close(x.done)
	tick := time.NewTicker(sequenceInterval)
	defer tick.Stop()
	for {
		beat := false
		select {
		case <-x.wake:
		case <-tick.C:
			beat = true
			x.expire(time.Now())
		case <-x.hub.ctx.Done():
			return
		}
		news, census, askers := x.pendingChanges(beat)
		for _, a := range news {
			x.publish(toolsSubject, a)
		}
		for asker := range askers {
			for _, a := range census {
				x.publish(stateSubject(asker), a)
			}
		}
	}
}

func (x *catalogSync) close() {
	<-x.done
	if x.stopListening != nil {
		x.stopListening()
	}
	for _, s := range x.subs {
		s.Unsubscribe() //nolint:errcheck // the connection is closed next
	}
	x.jobs.Wait()
}

// pendingChanges returns the announcements that are due: changes, and the current number. Instances
// in askers get the full state.
func (x *catalogSync) pendingChanges(beat bool) (out, census []toolsAnnouncement, askers map[string]bool) {
	c := x.hub.catalog
	c.mu.Lock()
	defer c.mu.Unlock()
	dirty := x.dirty
	x.dirty = map[string]bool{}
	a := toolsAnnouncement{Instance: x.hub.Bus.Instance, Providers: []heldProvider{}, IsDelta: true}
	add := func() {
		x.sequence++
		a.Sequence = x.sequence
		out = append(out, a)
		a.Providers, a.Removed, a.Absent = []heldProvider{}, nil, nil
	}
	for id := range dirty {
		switch s := c.local[id]; {
		case s != nil && s.offer.Held:
			a.Providers = append(a.Providers, s.announcement())
		case s != nil || x.draining.Load():
			a.Absent = append(a.Absent, id)
		default:
			a.Removed = append(a.Removed, id)
		}
		if len(a.Providers)+len(a.Removed)+len(a.Absent) == maxAnnounced {
			add()
		}
	}
	if !a.empty() {
		add()
	}
	if beat || x.announceDue {
		x.announceDue = false
		a.Sequence = x.sequence
		out = append(out, a)
	}
	if len(x.stateRequests) > 0 {
		askers, x.stateRequests = x.stateRequests, map[string]bool{}
		census = x.fullState()
	}
	return out, census, askers
}

// announcement returns what is announced to other instances. Requires catalog.mu.
func (s *Registration) announcement() heldProvider {
	content := int64(0)
	if s.offer.promptProvider() != nil || s.offer.resourceProvider() != nil {
		content = s.offer.since + s.offer.changes
	}
	return heldProvider{s.offer.ProviderRef, s.offer.fingerprint(), s.epoch, content}
}

func (x *catalogSync) publish(subject string, v any) {
	text, err := json.Marshal(v)
	if err == nil {
		err = x.hub.Bus.Publish(subject, text)
	}
	if err != nil {
		x.hub.Logger.Warn("another instance was not told about tools", "error", err)
	}
}

// onAnnouncement handles the announcement of another instance.
func (x *catalogSync) onAnnouncement(m *nats.Msg) {
	var a toolsAnnouncement
	if json.Unmarshal(m.Data, &a) != nil || a.Instance == x.hub.Bus.Instance {
		return
	}
	gave, ask := x.applyAnnouncement(a)
	for _, m := range gave {
		m.provider.Moved(m.upTo)
	}
	if ask {
		x.hub.Bus.Publish(stateRequestSubject(a.Instance), []byte(x.hub.Bus.Instance)) //nolint:errcheck // it is requested again
	}
}

// movedProvider is a provider that has connected to another instance, and the number of its newest
// connection here.
type movedProvider struct {
	provider Movable
	upTo     int64
}

// applyAnnouncement applies the announcement of another instance. It returns the providers that
// this one has to release, and whether the full state is needed.
func (x *catalogSync) applyAnnouncement(a toolsAnnouncement) (gave []movedProvider, ask bool) {
	c := x.hub.catalog
	c.mu.Lock()
	defer c.mu.Unlock()
	ask = x.trackSequence(&a, time.Now())
	known := c.remote[a.Instance]
	if known == nil {
		known = map[string]*remoteProvider{}
		c.remote[a.Instance] = known
	}
	changed := false
	still := make(map[string]bool, len(a.Providers))
	for _, h := range a.Providers {
		still[h.ID] = true
		x.hub.epochs.observe(h.Epoch)
		changed = x.updateProvider(a.Instance, h) || changed
		gave = append(gave, x.releaseOlder(a.Instance, h)...)
	}
	gone := a.Removed
	if !a.IsDelta {
		for id, was := range known {
			if !still[id] && was.expiresAt.IsZero() && id > a.After && (a.Until == "" || id <= a.Until) {
				gone = append(gone, id)
			}
		}
	}
	for _, id := range gone {
		changed = x.forgetProvider(a.Instance, id) || changed
	}
	for _, id := range a.Absent {
		changed = x.markAbsent(a.Instance, id) || changed
	}
	if changed {
		c.notifyWatchers()
	}
	x.fetchMore()
	return gave, ask
}

// releaseOlder releases a provider of which another instance has a newer connection. The numbers of
// the connections decide, so both instances decide the same. Requires catalog.mu.
func (x *catalogSync) releaseOlder(instance string, h heldProvider) []movedProvider {
	s := x.hub.catalog.local[h.ID]
	if s == nil || !s.offer.Held || !newer(h.Epoch, instance, s.epoch, x.hub.Bus.Instance) {
		return nil
	}
	s.setHeld(false)
	if m, ok := s.provider.(Movable); ok {
		return []movedProvider{{m, s.epoch}}
	}
	return nil
}

// updateProvider applies what an instance announces about one provider, and reports whether its
// tools changed. Requires catalog.mu.
func (x *catalogSync) updateProvider(instance string, h heldProvider) bool {
	c := x.hub.catalog
	a := c.remote[instance][h.ID]
	if a == nil {
		a = &remoteProvider{instance: instance}
		c.remote[instance][h.ID] = a
	}
	if a.list == nil || a.list.fingerprint != h.Fingerprint {
		x.releaseList(a)
		a.list, a.current = x.acquireList(h), false
	}
	was := a.heldProvider
	a.heldProvider, a.expiresAt = h, time.Time{}
	switch {
	case a.current && was == h:
		return false
	case a.current && was.ProviderRef == h.ProviderRef && was.Content == h.Content:
		c.invalidate(h.Owner)
		return true
	case a.list.known:
		x.updateOffer(a)
		return true
	}
	x.requestList(a)
	return false
}

// forgetProvider forgets a provider that an instance does not hold any more. Requires catalog.mu.
func (x *catalogSync) forgetProvider(instance, id string) bool {
	c := x.hub.catalog
	a := c.remote[instance][id]
	if a == nil {
		return false
	}
	delete(c.remote[instance], id)
	x.releaseList(a)
	if a.offer == nil {
		return false
	}
	c.removeOwned(a.offer.Owner, id)
	c.invalidate(a.offer.Owner)
	return true
}

// updateOffer makes the offer of a remote provider whose list is known. Requires catalog.mu.
func (x *catalogSync) updateOffer(a *remoteProvider) {
	c, was := x.hub.catalog, a.offer
	a.offer, _ = c.offer(a.ProviderRef, withContent(&remoteBackend{x, a.instance, a.ID, a.Title}, a), a.list.tools)
	a.offer.since, a.current = a.Content, true
	if was != nil && was.Owner != a.Owner {
		c.removeOwned(was.Owner, a.ID)
		c.invalidate(was.Owner)
	}
	c.addOwned(a.Owner, a.ID)
	c.invalidate(a.Owner)
}

func (x *catalogSync) wakeUp() {
	select {
	case x.wake <- struct{}{}:
	default:
	}
}

// instanceLost marks the providers of a lost instance as absent, cancels its calls, and ends what
// is watched for it.
func (x *catalogSync) instanceLost(instance string) {
	c := x.hub.catalog
	c.mu.Lock()
	delete(x.peers, instance) // if it comes back, it is not known what was missed
	changed := false
	for id := range c.remote[instance] {
		changed = x.markAbsent(instance, id) || changed
	}
	if len(c.remote[instance]) == 0 {
		delete(c.remote, instance)
	}
	if changed {
		c.notifyWatchers()
	}
	c.mu.Unlock()
	x.mu.Lock()
	for id, asker := range x.askers {
		if asker == instance {
			x.running[id](errAskerLost)
		}
	}
	x.mu.Unlock()
	x.endWatches(instance) // after their contexts have ended, see watch
}
