package hub

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/nats-io/nats.go"

	"patchbay/internal/tool"
)

const (
	// fetchTimeout limits the reading of one list.
	fetchTimeout = 10 * time.Second
	// maxFetches limits the concurrent requests for lists, so that a new instance does not overload
	// the others.
	maxFetches = 8
)

func listSubject(instance string) string { return "tools." + instance }

// toolList is a list of tools, identified by its hash, that remote providers share.
type toolList struct {
	fingerprint uint64
	tools       []tool.Tool
	known       bool
	requested   bool // requested, or in the queue
	refs        int  // number of providers
	waiting     []*remoteProvider
}

// listFetch is a request for a list at an instance that has it.
type listFetch struct {
	list               *toolList
	instance, provider string
}

type listRequest struct {
	Provider string `json:"provider"`
	From     int    `json:"from"`
}

type listPage struct {
	Tools       []json.RawMessage `json:"tools"`
	Fingerprint uint64            `json:"print,omitempty"` // of the list of which this is a page
	More        bool              `json:"more,omitempty"`
	Gone        bool              `json:"gone,omitempty"`
}

// acquireList returns the list of a remote provider. It may be known from the same provider here,
// which is asleep. Requires catalog.mu.
func (x *catalogSync) acquireList(h heldProvider) *toolList {
	l := x.lists[h.Fingerprint]
	if l == nil {
		l = &toolList{fingerprint: h.Fingerprint, known: h.Fingerprint == emptyFingerprint}
		x.lists[h.Fingerprint] = l
	}
	l.refs++
	if s := x.hub.catalog.local[h.ID]; !l.known && s != nil && s.offer.fingerprint() == h.Fingerprint {
		l.tools, l.known = s.offer.list, true
		x.listArrived(l)
	}
	return l
}

// emptyFingerprint is the hash of an empty list, which need not be requested.
var emptyFingerprint = fingerprintOf(nil)

// releaseList records that a remote provider does not use its list any more. Requires catalog.mu.
func (x *catalogSync) releaseList(a *remoteProvider) {
	l := a.list
	if l == nil {
		return
	}
	a.list, a.awaitsList = nil, false
	if l.refs--; l.refs == 0 {
		delete(x.lists, l.fingerprint)
	}
}

// requestList requests the list of a remote provider. Requires catalog.mu.
func (x *catalogSync) requestList(a *remoteProvider) {
	l := a.list
	if !a.awaitsList {
		a.awaitsList = true
		l.waiting = append(l.waiting, a)
	}
	if !l.requested {
		l.requested = true
		x.queue = append(x.queue, listFetch{l, a.instance, a.ID})
	}
}

// listArrived updates the providers that waited for a list, if it is known; otherwise they request
// it again with the next full state. Requires catalog.mu.
func (x *catalogSync) listArrived(l *toolList) {
	l.requested = false
	for _, a := range l.waiting {
		if a.list != l {
			continue // it has changed again, or is gone
		}
		a.awaitsList = false
		if l.known {
			x.updateOffer(a)
		} else if f := x.peers[a.instance]; f != nil {
			f.stale = true
		}
	}
	l.waiting = nil
	x.hub.catalog.notifyWatchers()
}

// fetchMore starts as many requests for lists as are allowed at a time. Requires catalog.mu.
func (x *catalogSync) fetchMore() {
	for x.fetching < maxFetches && len(x.queue) > 0 && x.hub.ctx.Err() == nil {
		f := x.queue[0]
		x.queue = x.queue[1:]
		if f.list.refs == 0 || f.list.known {
			f.list.requested = false
			continue
		}
		x.fetching++
		x.jobs.Go(func() { x.fetch(f) })
	}
}

// fetch reads a list of tools from another instance.
func (x *catalogSync) fetch(f listFetch) {
	ctx, cancel := context.WithTimeout(x.hub.ctx, fetchTimeout)
	defer cancel()
	tools, err := x.fetchPages(ctx, f)
	c := x.hub.catalog
	c.mu.Lock()
	defer c.mu.Unlock()
	x.fetching--
	switch {
	case f.list.known: // from elsewhere
	case err == nil:
		f.list.tools, f.list.known = tools, true
	case !errors.Is(err, errUnregistered):
		x.hub.Logger.Warn("the tools that another instance holds could not be read", "provider", f.provider, "error", err)
	}
	x.listArrived(f.list)
	x.fetchMore()
}

var errUnregistered = errors.New("it is not plugged in there any more")

// fetchPages reads a list. It returns errUnregistered if it is not offered there any more.
func (x *catalogSync) fetchPages(ctx context.Context, f listFetch) ([]tool.Tool, error) {
	var tools []tool.Tool
	for {
		text, err := json.Marshal(listRequest{f.provider, len(tools)})
		if err != nil {
			return nil, err
		}
		m, err := x.hub.Bus.Request(ctx, listSubject(f.instance), text)
		if err != nil {
			return nil, err
		}
		var p listPage
		switch err := json.Unmarshal(m.Data, &p); {
		case err != nil:
			return nil, err
		case p.Gone, p.Fingerprint != 0 && p.Fingerprint != f.list.fingerprint:
			return nil, errUnregistered
		}
		for _, text := range p.Tools {
			var t tool.Tool
			if err := json.Unmarshal(text, &t); err != nil {
				return nil, err
			}
			tools = append(tools, t)
		}
		if !p.More || len(p.Tools) == 0 {
			return tools, nil
		}
	}
}

// onListRequest replies with a page of a list.
func (x *catalogSync) onListRequest(m *nats.Msg) {
	var o listRequest
	if json.Unmarshal(m.Data, &o) != nil || m.Reply == "" {
		return
	}
	c := x.hub.catalog
	p := listPage{Tools: []json.RawMessage{}}
	var tools []tool.Tool
	c.mu.Lock()
	if s := c.local[o.Provider]; s != nil {
		tools, p.Fingerprint = s.offer.list, s.offer.fingerprint()
	} else {
		p.Gone = true
	}
	c.mu.Unlock()
	size := 0
	for i := max(o.From, 0); i < len(tools); i++ {
		text, err := json.Marshal(&tools[i])
		if err != nil {
			x.hub.Logger.Warn("another instance was not told about tools", "provider", o.Provider, "tool", tools[i].Name,
				"error", err)
			return
		}
		if size += len(text) + 1; size > maxFrameBytes && len(p.Tools) > 0 {
			p.More = true
			break
		}
		p.Tools = append(p.Tools, text)
	}
	x.publish(m.Reply, p)
}
