package activity

import (
	"context"
	"hash/maphash"
	"io"
	"strings"
	"time"

	"github.com/a-h/templ"

	"patchbay/internal/console/page"
	"patchbay/internal/control"
	"patchbay/internal/netx"
)

const (
	// refreshPause is the shortest time between two updates of a live page: a busy server has
	// thousands of records a second, more than anybody can read.
	refreshPause = 500 * time.Millisecond
	// remotePollInterval is how often records of other instances are read, whose changes are not
	// announced to this one.
	remotePollInterval = 5 * time.Second
	// maxNewRows is how many rows a live page may have before it starts again with the newest ones.
	maxNewRows = 200
)

// liveTail sends a list, and then its new and changed records while the page is open. Records
// change: a turn whose client disconnects is recorded then, and again when it has ended.
type liveTail[T any] struct {
	records *control.Service
	read    func(limit int) ([]T, error) // newest first
	id      func(T) string
	row     func(T) templ.Component
	list    func([]templ.Component) templ.Component
}

func (l *liveTail[T]) run(ctx context.Context, send page.Send) error {
	shown := map[string]uint64{} // versions of the rows on the page
	seed := maphash.MakeSeed()
	tick := time.NewTicker(remotePollInterval)
	defer tick.Stop()
	for {
		change := l.records.RecordChanges()
		// Every row on the page may have changed, and up to a page of new ones may have come.
		list, err := l.read(min(len(shown)+pageSize, maxNewRows))
		if err != nil {
			return err
		}
		var fresh, parts []templ.Component
		marks := make(map[string]uint64, len(list))
		for _, record := range list {
			id := rowID(l.id(record))
			var b strings.Builder
			if err := l.row(record).Render(ctx, &b); err != nil {
				return err
			}
			row := templ.Raw(b.String())
			marks[id] = maphash.String(seed, b.String())
			switch mark, known := shown[id]; {
			case !known:
				fresh = append(fresh, row)
			case mark != marks[id]:
				parts = append(parts, nested(page.Patch("#"+id, "outerMorph"), row))
			}
		}
		if len(fresh) > 0 {
			parts = append(parts, nested(page.Patch("#rows", "afterbegin"), templ.Join(fresh...)))
		}
		switch {
		case len(shown) == 0 || len(shown)+len(fresh) > maxNewRows:
			list = list[:min(len(list), pageSize)]
			clear(shown)
			err = send(nested(page.Patch("#records", "innerHTML"), l.list(each(list, l.row))))
		case len(parts) > 0:
			err = send(templ.Join(parts...))
		}
		if err != nil {
			return err
		}
		for _, record := range list {
			id := rowID(l.id(record))
			shown[id] = marks[id]
		}
		if err := waitForChange(ctx, change, tick.C, l.records.IsAlone()); err != nil {
			return err
		}
	}
}

// nested renders inside as the children of around.
func nested(around, inside templ.Component) templ.Component {
	return templ.ComponentFunc(func(ctx context.Context, w io.Writer) error {
		return around.Render(templ.WithChildren(ctx, inside), w)
	})
}

// waitForChange returns when there may be something new, or when ctx ends.
func waitForChange(ctx context.Context, change <-chan struct{}, tick <-chan time.Time, alone bool) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick:
			if alone {
				continue
			}
			return nil
		case <-change:
		}
		break
	}
	return netx.Wait(ctx, refreshPause)
}

func turnsLive(v *page.Visit) {
	f := readFilter(v)
	f.After = ""
	l := liveTail[control.TurnRow]{
		records: v.Instance.Control,
		read: func(limit int) ([]control.TurnRow, error) {
			list, err := f.turns(v, limit)
			return list.Turns, err
		},
		id:   func(t control.TurnRow) string { return t.Turn },
		row:  turnRow(v, f),
		list: func(drawn []templ.Component) templ.Component { return rows(v, f, turnRecords, drawn) },
	}
	v.Live(l.run)
}

func callsLive(v *page.Visit) {
	f := readFilter(v)
	f.After = ""
	l := liveTail[control.Call]{
		records: v.Instance.Control,
		read: func(limit int) ([]control.Call, error) {
			list, err := f.calls(v, limit)
			return list.Calls, err
		},
		id:   func(c control.Call) string { return c.ID },
		row:  callRow(v, f),
		list: func(drawn []templ.Component) templ.Component { return rows(v, f, callRecords, drawn) },
	}
	v.Live(l.run)
}
