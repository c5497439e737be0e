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
	// fetchTimeout bounds the reading of one list.
	fetchTimeout = 10 * time.Second
	// maxFetches bounds how many lists are read at a time, so that an instance
	// which has just come does not stop the others with questions.
	maxFetches = 8
)

func listSubject(instance string) string { return "tools." + instance }

// toolList is a list of tools with one print, for all providers elsewhere that offer it.
type toolList struct {
	fingerprint uint64
	tools       []tool.Tool
	known       bool
	requested   bool // is being fetched, or in the queue
	refs        int  // by how many providers
	waiting     []*remoteProvider
}

// listFetch asks for a list where it is offered.
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

// acquireList finds the list that a provider elsewhere offers. It may be known from the
// same provider here, which is asleep. With catalog.mu held.
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

// emptyFingerprint is that of a list without tools, which nobody has to ask for.
var emptyFingerprint = fingerprintOf(nil)

// releaseList says that a provider elsewhere does not offer its list any more. With
// catalog.mu held.
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

// requestList has the list fetched that a provider elsewhere offers. With catalog.mu held.
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

// listArrived gives a list that has become known to those that waited for it, if it
// is known, and otherwise has them ask again when the next census is heard. With
// catalog.mu held.
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

// fetchMore begins to read lists, as many as may be read at a time. With
// catalog.mu held.
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

// fetch reads a list of tools that is offered elsewhere.
func (x *catalogSync) fetch(f listFetch) {
	ctx, cancel := context.WithTimeout(x.hub.ctx, fetchTimeout)
	defer cancel()
	tools, err := x.fetchPages(ctx, f)
	c := x.hub.catalog
	c.mu.Lock()
	defer c.mu.Unlock()
	x.fetching--
	switch {
	case f.list.known: // by another way
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

// onListRequest answers with a page of a list.
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
