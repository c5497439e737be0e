package hub

import (
	"encoding/json"
	"slices"

	"github.com/nats-io/nats.go"

	"patchbay/internal/tool"
)

const logsSubject = "logs"

// providerLog is a log message of a provider that another instance holds.
type providerLog struct {
	Instance string   `json:"i"`
	Provider string   `json:"provider"`
	Log      tool.Log `json:"log"`
}

// OnProviderLog adds a function that is called with the log messages of providers that belong to no
// call. They are for the provider's owner only.
func (h *Hub) OnProviderLog(f func(ProviderRef, tool.Log)) {
	h.catalog.mu.Lock()
	defer h.catalog.mu.Unlock()
	h.catalog.onLog = append(slices.Clone(h.catalog.onLog), f)
}

// NotifyLog passes on a log message of the provider that belongs to no call. The provider limits
// how many there are.
func (s *Registration) NotifyLog(l tool.Log) {
	s.catalog.mu.Lock()
	tell, tellOthers, o := s.catalog.onLog, s.catalog.tellLog, s.offer.ProviderRef
	s.catalog.mu.Unlock()
	for _, f := range tell {
		f(o, l)
	}
	if o.Held && tellOthers != nil {
		tellOthers(o.ID, l)
	}
}

// tellLog passes a log message on to the other instances, where the owner's programs may be.
func (x *catalogSync) tellLog(provider string, l tool.Log) {
	x.publish(logsSubject, providerLog{x.hub.Bus.Instance, provider, l})
}

func (x *catalogSync) onProviderLog(m *nats.Msg) {
	var p providerLog
	if json.Unmarshal(m.Data, &p) != nil || p.Instance == x.hub.Bus.Instance {
		return
	}
	c := x.hub.catalog
	c.mu.Lock()
	o, tell := c.find(p.Provider), c.onLog
	c.mu.Unlock()
	if o == nil {
		return
	}
	for _, f := range tell {
		f(o.ProviderRef, p.Log)
	}
}
