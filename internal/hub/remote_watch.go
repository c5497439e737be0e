package hub

import (
	"context"
	"encoding/json"
	"time"

	"github.com/nats-io/nats.go"

	"patchbay/internal/netx"
	"patchbay/internal/tool"
)

const (
	// updateDelay is how long updates of resources are collected before other instances are told:
	// a resource may change thousands of times in a second.
	updateDelay = 50 * time.Millisecond
	// maxUpdates limits the resources in one message. A URI has at most 4 KiB.
	maxUpdates = 100
)

func updatedSubject(instance string) string { return "updated." + instance }
func unwatchSubject(instance string) string { return "unwatch." + instance }

// resourceRef identifies a resource of a provider, by its URI for callers.
type resourceRef struct {
	Provider string `json:"provider"`
	URI      string `json:"uri"`
}

// unwatchRequest ends what a query began to watch.
type unwatchRequest struct {
	resourceRef
	ID string `json:"id"`
}

// remoteWatch is a resource that a provider here watches for another instance, until end is called.
type remoteWatch struct {
	asker string
	end   func()
}

// watch has a provider watch a resource for another instance. A provider limits how many.
func (x *catalogSync) watch(ctx context.Context, p tool.Provider, o *callRequest) error {
	s, ok := p.(tool.Subscriber)
	if !ok {
		return tool.ErrNotFound
	}
	end, err := s.Subscribe(ctx, o.Call.Caller, o.Content.URI)
	if err != nil {
		return err
	}
	r := resourceRef{o.Provider, o.Content.URI}
	x.mu.Lock()
	if x.watched[r] == nil {
		x.watched[r] = map[string]remoteWatch{}
	}
	x.watched[r][o.Call.ID] = remoteWatch{o.Asker, end}
	x.mu.Unlock()
	if ctx.Err() != nil { // the asker gave up, or is lost
		x.unwatch(r, o.Call.ID)
	}
	return nil
}

// unwatch ends what a query of another instance began.
func (x *catalogSync) unwatch(r resourceRef, id string) {
	x.mu.Lock()
	w, there := x.watched[r][id]
	if delete(x.watched[r], id); len(x.watched[r]) == 0 {
		delete(x.watched, r)
	}
	x.mu.Unlock()
	if there {
		w.end()
	}
}

// unwatch implements [holder]. If the holder does not hear of it, it goes on reporting updates
// until one of the two instances ends.
func (f *remoteBackend) unwatch(uri, id string) {
	f.catalogSync.publish(unwatchSubject(f.instance), unwatchRequest{resourceRef{f.provider, uri}, id})
}

func (x *catalogSync) onUnwatch(m *nats.Msg) {
	var q unwatchRequest
	if json.Unmarshal(m.Data, &q) == nil {
		x.unwatch(q.resourceRef, q.ID)
	}
}

// endWatches ends what is watched for a lost instance.
func (x *catalogSync) endWatches(instance string) {
	var ends []func()
	x.mu.Lock()
	for r, all := range x.watched {
		for id, w := range all {
			if w.asker == instance {
				ends = append(ends, w.end)
				delete(all, id)
			}
		}
		if len(all) == 0 {
			delete(x.watched, r)
		}
	}
	delete(x.updated, instance)
	x.mu.Unlock()
	for _, end := range ends {
		end()
	}
}

// tellWatchers tells the instances that watch a resource that it has changed.
func (x *catalogSync) tellWatchers(r resourceRef) {
	x.mu.Lock()
	defer x.mu.Unlock()
	due := len(x.updated) > 0
	for _, w := range x.watched[r] {
		if x.updated[w.asker] == nil {
			x.updated[w.asker] = map[resourceRef]bool{}
		}
		x.updated[w.asker][r] = true
	}
	if !due && len(x.updated) > 0 && x.hub.ctx.Err() == nil {
		x.jobs.Go(func() {
			_ = netx.Wait(x.hub.ctx, updateDelay)
			x.sendUpdates()
		})
	}
}

func (x *catalogSync) sendUpdates() {
	x.mu.Lock()
	all := x.updated
	x.updated = map[string]map[resourceRef]bool{}
	x.mu.Unlock()
	for instance, updated := range all {
		var list []resourceRef
		for r := range updated {
			if list = append(list, r); len(list) == maxUpdates {
				x.publish(updatedSubject(instance), list)
				list = nil
			}
		}
		if len(list) > 0 {
			x.publish(updatedSubject(instance), list)
		}
	}
}

// onUpdated handles the updates of resources that this instance watches.
func (x *catalogSync) onUpdated(m *nats.Msg) {
	var list []resourceRef
	if json.Unmarshal(m.Data, &list) != nil {
		return
	}
	c := x.hub.catalog
	for _, r := range list {
		c.mu.Lock()
		o, tell := c.find(r.Provider), c.onUpdated
		c.mu.Unlock()
		if o == nil {
			continue
		}
		for _, f := range tell {
			f(o.ProviderRef, r.URI)
		}
	}
}
