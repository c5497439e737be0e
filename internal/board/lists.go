package board

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/nats-io/nats.go"

	"patchbay/internal/tool"
)

const (
	// fetchLimit bounds the reading of one list.
	fetchLimit = 10 * time.Second
	// fetchesAtOnce bounds how many lists are read at a time, so that an instance
	// which has just come does not stop the others with questions.
	fetchesAtOnce = 8
)

func listSubject(instance string) string { return "tools." + instance }

// list is a list of tools with one print, for all outlets elsewhere that offer it.
type list struct {
	print   uint64
	tools   []tool.Tool
	known   bool
	wanted  bool // is being fetched, or in the queue
	used    int  // by how many outlets
	waiting []*away
}

// listFetch asks for a list where it is offered.
type listFetch struct {
	list             *list
	instance, outlet string
}

type listOrder struct {
	Outlet string `json:"outlet"`
	From   int    `json:"from"`
}

type listPage struct {
	Tools []json.RawMessage `json:"tools"`
	Print uint64            `json:"print,omitempty"` // of the list of which this is a page
	More  bool              `json:"more,omitempty"`
	Gone  bool              `json:"gone,omitempty"`
}

// join finds the list that an outlet elsewhere offers. It may be known from the
// same outlet here, which is asleep. With catalog.mu held.
func (x *exchanger) join(h held) *list {
	l := x.lists[h.Print]
	if l == nil {
		l = &list{print: h.Print, known: h.Print == emptyPrint}
		x.lists[h.Print] = l
	}
	l.used++
	if s := x.board.catalog.here[h.ID]; !l.known && s != nil && s.offer.print() == h.Print {
		l.tools, l.known = s.offer.list, true
		x.arrived(l)
	}
	return l
}

// emptyPrint is that of a list without tools, which nobody has to ask for.
var emptyPrint = printOf(nil)

// leave says that an outlet elsewhere does not offer its list any more. With
// catalog.mu held.
func (x *exchanger) leave(a *away) {
	l := a.list
	if l == nil {
		return
	}
	a.list, a.waiting = nil, false
	if l.used--; l.used == 0 {
		delete(x.lists, l.print)
	}
}

// want has the list fetched that an outlet elsewhere offers. With catalog.mu held.
func (x *exchanger) want(a *away) {
	l := a.list
	if !a.waiting {
		a.waiting = true
		l.waiting = append(l.waiting, a)
	}
	if !l.wanted {
		l.wanted = true
		x.queue = append(x.queue, listFetch{l, a.instance, a.ID})
	}
}

// arrived gives a list that has become known to those that waited for it, if it
// is known, and otherwise has them ask again when the next census is heard. With
// catalog.mu held.
func (x *exchanger) arrived(l *list) {
	l.wanted = false
	for _, a := range l.waiting {
		if a.list != l {
			continue // it has changed again, or is gone
		}
		a.waiting = false
		if l.known {
			x.offered(a)
		} else if f := x.followed[a.instance]; f != nil {
			f.missed = true
		}
	}
	l.waiting = nil
	x.board.catalog.wake()
}

// fetchMore begins to read lists, as many as may be read at a time. With
// catalog.mu held.
func (x *exchanger) fetchMore() {
	for x.fetching < fetchesAtOnce && len(x.queue) > 0 && x.board.ctx.Err() == nil {
		f := x.queue[0]
		x.queue = x.queue[1:]
		if f.list.used == 0 || f.list.known {
			f.list.wanted = false
			continue
		}
		x.fetching++
		x.jobs.Go(func() { x.fetch(f) })
	}
}

// fetch reads a list of tools that is offered elsewhere.
func (x *exchanger) fetch(f listFetch) {
	ctx, cancel := context.WithTimeout(x.board.ctx, fetchLimit)
	defer cancel()
	tools, err := x.pages(ctx, f)
	c := x.board.catalog
	c.mu.Lock()
	defer c.mu.Unlock()
	x.fetching--
	switch {
	case f.list.known: // by another way
	case err == nil:
		f.list.tools, f.list.known = tools, true
	case !errors.Is(err, errGone):
		x.board.Logger.Warn("the tools that another instance holds could not be read", "outlet", f.outlet, "error", err)
	}
	x.arrived(f.list)
	x.fetchMore()
}

var errGone = errors.New("it is not plugged in there any more")

// pages reads a list. It returns errGone if it is not offered there any more.
func (x *exchanger) pages(ctx context.Context, f listFetch) ([]tool.Tool, error) {
	var tools []tool.Tool
	for {
		text, err := json.Marshal(listOrder{f.outlet, len(tools)})
		if err != nil {
			return nil, err
		}
		m, err := x.board.Bus.Request(ctx, listSubject(f.instance), text)
		if err != nil {
			return nil, err
		}
		var p listPage
		switch err := json.Unmarshal(m.Data, &p); {
		case err != nil:
			return nil, err
		case p.Gone, p.Print != 0 && p.Print != f.list.print:
			return nil, errGone
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

// tellList answers with a page of a list.
func (x *exchanger) tellList(m *nats.Msg) {
	var o listOrder
	if json.Unmarshal(m.Data, &o) != nil || m.Reply == "" {
		return
	}
	c := x.board.catalog
	p := listPage{Tools: []json.RawMessage{}}
	var tools []tool.Tool
	c.mu.Lock()
	if s := c.here[o.Outlet]; s != nil {
		tools, p.Print = s.offer.list, s.offer.print()
	} else {
		p.Gone = true
	}
	c.mu.Unlock()
	size := 0
	for i := max(o.From, 0); i < len(tools); i++ {
		text, err := json.Marshal(&tools[i])
		if err != nil {
			x.board.Logger.Warn("another instance was not told about tools", "outlet", o.Outlet, "tool", tools[i].Name, "error", err)
			return
		}
		if size += len(text) + 1; size > parcelBytes && len(p.Tools) > 0 {
			p.More = true
			break
		}
		p.Tools = append(p.Tools, text)
	}
	x.publish(m.Reply, p)
}
