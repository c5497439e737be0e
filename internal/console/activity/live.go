package activity

import (
	"context"
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

// tail sends a list, and then what is new of it, while a page is open.
type tail[T any] struct {
	board *board.Board
	read  func(context.Context) ([]T, error) // newest first
	id    func(T) string
	whole func([]T) templ.Component
	added func([]T) templ.Component
}

func (l *tail[T]) run(ctx context.Context, send page.Send) error {
	shown := map[string]bool{}
	tick := time.NewTicker(elsewhere)
	defer tick.Stop()
	for {
		change := l.board.Records()
		list, err := l.read(ctx)
		if err != nil {
			return err
		}
		fresh := make([]T, 0, len(list))
		for _, row := range list {
			if !shown[l.id(row)] {
				fresh = append(fresh, row)
			}
		}
		switch {
		case len(shown) == 0 || len(shown)+len(fresh) > grownMost:
			clear(shown)
			err = send(l.whole(list))
			fresh = list
		case len(fresh) > 0:
			err = send(l.added(fresh))
		}
		if err != nil {
			return err
		}
		for _, row := range fresh {
			shown[l.id(row)] = true
		}
		if err := wait(ctx, change, tick.C, l.board.Bus.Alone()); err != nil {
			return err
		}
	}
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
		read: func(context.Context) ([]control.TurnRow, error) {
			list, err := f.turns(v)
			return list.Turns, err
		},
		id:    func(t control.TurnRow) string { return t.Turn },
		whole: func(list []control.TurnRow) templ.Component { return allTurns(v, f, list) },
		added: func(list []control.TurnRow) templ.Component { return moreTurns(v, f, list) },
	}
	v.Live(l.run)
}

func callsLive(v *page.Visit) {
	f := readFilter(v)
	f.After = ""
	l := tail[control.Call]{
		board: v.House.Control.Board,
		read: func(context.Context) ([]control.Call, error) {
			list, err := f.calls(v)
			return list.Calls, err
		},
		id:    func(c control.Call) string { return c.ID },
		whole: func(list []control.Call) templ.Component { return allCalls(v, f, list) },
		added: func(list []control.Call) templ.Component { return moreCalls(v, f, list) },
	}
	v.Live(l.run)
}
