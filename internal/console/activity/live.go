package activity

import (
	"context"
	"hash/maphash"
	"io"
	"strings"
	"time"

	"github.com/a-h/templ"

	"patchbay/internal/board"
	"patchbay/internal/console/page"
	"patchbay/internal/control"
)

const (
	// calm is how long a page that follows is left alone after each change: a busy
	// server has thousands of records a second, which nobody can read.
	calm = 500 * time.Millisecond
	// elsewhere is how often it is looked for records of other instances, of which
	// this one is not told.
	elsewhere = 5 * time.Second
	// grownMost is how many rows a page that follows may have before it is begun anew
	// with the newest ones.
	grownMost = 200
)

// tail sends a list, and then what is new or has changed of it, while a page is open:
// a turn whose asker went away is written down then, and again when it is over.
type tail[T any] struct {
	board *board.Board
	read  func(limit int) ([]T, error) // newest first
	id    func(T) string
	row   func(T) templ.Component
	list  func([]templ.Component) templ.Component
}

func (l *tail[T]) run(ctx context.Context, send page.Send) error {
	shown := map[string]uint64{} // what the rows on the page are like
	seed := maphash.MakeSeed()
	tick := time.NewTicker(elsewhere)
	defer tick.Stop()
	for {
		change := l.board.Records()
		// All that are shown can change, and as many as fit may have come.
		list, err := l.read(min(len(shown)+rowsShown, grownMost))
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
				parts = append(parts, within(page.Patch("#"+id, "outerMorph"), row))
			}
		}
		if len(fresh) > 0 {
			parts = append(parts, within(page.Patch("#rows", "afterbegin"), templ.Join(fresh...)))
		}
		switch {
		case len(shown) == 0 || len(shown)+len(fresh) > grownMost:
			list = list[:min(len(list), rowsShown)]
			clear(shown)
			err = send(within(page.Patch("#records", "innerHTML"), l.list(each(list, l.row))))
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
		if err := wait(ctx, change, tick.C, l.board.Bus.Alone()); err != nil {
			return err
		}
	}
}

// within puts something into what has a place for it.
func within(around, inside templ.Component) templ.Component {
	return templ.ComponentFunc(func(ctx context.Context, w io.Writer) error {
		return around.Render(templ.WithChildren(ctx, inside), w)
	})
}

// wait returns when there may be something new.
func wait(ctx context.Context, change <-chan struct{}, tick <-chan time.Time, alone bool) error {
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
	rest := time.NewTimer(calm)
	defer rest.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-rest.C:
		return nil
	}
}

func turnsLive(v *page.Visit) {
	f := readFilter(v)
	f.After = ""
	l := tail[control.TurnRow]{
		board: v.House.Control.Board,
		read: func(limit int) ([]control.TurnRow, error) {
			list, err := f.turns(v, limit)
			return list.Turns, err
		},
		id:   func(t control.TurnRow) string { return t.Turn },
		row:  turnRow(v, f),
		list: func(drawn []templ.Component) templ.Component { return rows(v, f, turnsPlace, drawn) },
	}
	v.Live(l.run)
}

func callsLive(v *page.Visit) {
	f := readFilter(v)
	f.After = ""
	l := tail[control.Call]{
		board: v.House.Control.Board,
		read: func(limit int) ([]control.Call, error) {
			list, err := f.calls(v, limit)
			return list.Calls, err
		},
		id:   func(c control.Call) string { return c.ID },
		row:  callRow(v, f),
		list: func(drawn []templ.Component) templ.Component { return rows(v, f, callsPlace, drawn) },
	}
	v.Live(l.run)
}
