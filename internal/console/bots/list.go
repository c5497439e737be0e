package bots

import (
	"context"
	"fmt"
	"hash/fnv"
	"net/http"
	"strconv"
	"time"

	"patchbay/internal/console/page"
	"patchbay/internal/control"
)

const (
	// listed is how many bots are on a page.
	listed = 50
	// lookEvery is how often it is looked how bots are, beside when one comes or goes:
	// what goes wrong with one that is there is not told by itself.
	lookEvery = 2 * time.Second
)

// row is a bot in the list.
type row struct {
	control.BotStatus
	Wearers int
	Light   page.State
	State   string
	Heard   string
}

// print is different for rows that look different.
func (r row) print() string {
	return fmt.Sprint(r.Name, "\x00", r.Kind, r.Wearers, r.Light, r.State, r.Heard, r.Trouble, r.TroubleSince.Unix(), r.Command)
}

// rows are a page of the list.
type rows struct {
	Rows []row
	Next int64 // the last one, if there are more
}

// print is different for lists that look different.
func (l rows) print() string {
	h := fnv.New64a()
	for _, r := range l.Rows {
		fmt.Fprint(h, r.Number, r.print(), "\x01")
	}
	return strconv.FormatUint(h.Sum64(), 36)
}

// look finds the bots of a visitor behind a number.
func look(ctx context.Context, v *page.Visit, after int64) (rows, error) {
	var out rows
	bots, more, err := v.House.Control.BotsAfter(ctx, v.Caller(), after, listed)
	if err != nil {
		return out, err
	}
	wearers, err := v.House.Control.WearerCounts(ctx, v.Caller())
	if err != nil {
		return out, err
	}
	if more {
		out.Next = bots[len(bots)-1].Number
	}
	for _, b := range bots {
		r := row{BotStatus: b, Wearers: wearers[b.Number]}
		r.Light, r.State = page.BotState(v, b)
		if !b.Online && !b.Heard().IsZero() {
			r.Heard = v.Say(sayHeard, v.When(b.Heard()))
		}
		out.Rows = append(out.Rows, r)
	}
	return out, nil
}

// list shows which bots there are.
func list(v *page.Visit) {
	after, _ := strconv.ParseInt(v.FormValue("after"), 10, 64) //nolint:errcheck // what is no number is the beginning
	l, err := look(v.Context(), v, after)
	if err != nil {
		v.Fail(err)
		return
	}
	v.Show(http.StatusOK, listPage(v, l, after))
}

// listLive keeps the list up to date.
func listLive(v *page.Visit) {
	after, _ := strconv.ParseInt(v.FormValue("after"), 10, 64) //nolint:errcheck // what is no number is the beginning
	v.Live(func(ctx context.Context, send page.Send) error {
		var shown map[int64]string // what the browser shows; nil: that is not known yet
		return each(ctx, v, func() error {
			l, err := look(ctx, v, after)
			if err != nil {
				return err
			}
			fresh := make(map[int64]string, len(l.Rows))
			for _, r := range l.Rows {
				fresh[r.Number] = r.print()
			}
			switch {
			case shown == nil && l.print() == v.FormValue("is"):
			case shown == nil || !sameKeys(fresh, shown):
				shown = fresh
				return send(listPatch(v, l, after))
			}
			for _, r := range l.Rows {
				if shown == nil || shown[r.Number] == fresh[r.Number] {
					continue
				}
				if err := send(rowPatch(v, r)); err != nil {
					return err
				}
			}
			shown = fresh
			return nil
		})
	})
}

func sameKeys(a, b map[int64]string) bool {
	for n := range a {
		if _, ok := b[n]; !ok {
			return false
		}
	}
	return len(a) == len(b)
}

// each looks at once, whenever a bot comes or goes, and every few seconds, until the
// context ends.
func each(ctx context.Context, v *page.Visit, look func() error) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		change := v.House.Control.Board.Plugs()
		if err := look(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-change:
		case <-tick.C:
		}
	}
}
