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
	// pageSize is the number of bots on a page.
	pageSize = 50
	// saidLength is how many characters of a bot's last answer the list shows.
	saidLength = 120
	// refreshInterval is how often the state of bots is read, besides when one connects or
	// disconnects: errors of a connected bot are not announced.
	refreshInterval = 2 * time.Second
)

// row is a bot in the list.
type row struct {
	control.BotStatus
	Wearers      int
	Light        page.State
	State        string
	LastSeenText string
	FailureText  string // what failed last, if nothing was answered since
}

// fingerprint returns a value that differs between rows that look different.
func (r row) fingerprint() string {
	return fmt.Sprint(r.Name, "\x00", r.Kind, r.Wearers, r.Light, r.State, r.LastSeenText, r.Problem,
		r.FailingSince.Unix(), r.Command, r.Model, r.OwnerName, r.recentFingerprint())
}

// recentFingerprint is fingerprint of the last turns, without how long ago they were.
func (r row) recentFingerprint() string {
	if r.Recent == nil {
		return ""
	}
	text := fmt.Sprint(r.Recent.Turns, r.Recent.Failed, r.Recent.FirstMS, r.FailureText)
	if a := r.Recent.Answer; a != nil {
		text += a.Turn
	}
	if f := r.Recent.Failure; f != nil {
		text += f.Turn
	}
	return text
}

// rows is one page of the list.
type rows struct {
	Rows []row
	Next int64 // last number on this page; 0 means no more pages
}

// fingerprint returns a value that differs between lists that look different.
func (l rows) fingerprint() string {
	h := fnv.New64a()
	for _, r := range l.Rows {
		fmt.Fprint(h, r.Number, r.fingerprint(), "\x01")
	}
	return strconv.FormatUint(h.Sum64(), 36)
}

// loadRows returns the visitor's bots with numbers greater than after.
func loadRows(ctx context.Context, v *page.Visit, after int64) (rows, error) {
	var out rows
	bots, more, err := v.Instance.Control.BotsAfter(ctx, v.Caller(), after, pageSize)
	if err != nil {
		return out, err
	}
	wearers, err := v.Instance.Control.WearerCounts(ctx, v.Caller())
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
			r.LastSeenText = v.Text(msgHeard, v.FormatTime(b.Heard()))
		}
		if b.Recent != nil && b.Recent.IsFailing() {
			_, r.FailureText = outcome(v, b, "failed", b.Recent.Failure.Code)
		}
		out.Rows = append(out.Rows, r)
	}
	return out, nil
}

// list shows the list of bots.
func list(v *page.Visit) {
	after, _ := strconv.ParseInt(v.FormValue("after"), 10, 64) //nolint:errcheck // invalid means the first page
	l, err := loadRows(v.Context(), v, after)
	if err != nil {
		v.Fail(err)
		return
	}
	v.Render(http.StatusOK, listPage(v, l, after))
}

// listLive keeps the list up to date.
func listLive(v *page.Visit) {
	after, _ := strconv.ParseInt(v.FormValue("after"), 10, 64) //nolint:errcheck // invalid means the first page
	v.Live(func(ctx context.Context, send page.Send) error {
		var shown map[int64]string // rows the browser shows; nil until known
		return each(ctx, v, func() error {
			l, err := loadRows(ctx, v, after)
			if err != nil {
				return err
			}
			fresh := make(map[int64]string, len(l.Rows))
			for _, r := range l.Rows {
				fresh[r.Number] = r.fingerprint()
			}
			switch {
			case shown == nil && l.fingerprint() == v.FormValue("is"):
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

// each calls refresh at once, whenever a bot connects or disconnects, and every refreshInterval,
// until ctx ends.
func each(ctx context.Context, v *page.Visit, refresh func() error) error {
	tick := time.NewTicker(refreshInterval)
	defer tick.Stop()
	for {
		change := v.Instance.Control.BotChanges()
		if err := refresh(); err != nil {
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
