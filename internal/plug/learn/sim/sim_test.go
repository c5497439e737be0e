package sim

import (
	"bytes"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/plug/learn/transfer"
	"patchbay/internal/store"
)

// The package has what it says, in each language, and is small.
func TestWrite(t *testing.T) {
	zone := time.FixedZone("Asia/Shanghai", 8*60*60)
	now := time.Date(2026, 11, 28, 3, 0, 0, 0, zone) // before the day begins
	for _, lang := range []i18n.Lang{i18n.English, i18n.Chinese, "ja"} {
		var file bytes.Buffer
		c, err := Write(&file, Options{Lang: lang, Now: now, Zone: zone, DayStart: 4 * time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		got := Contents{Poem: c.Poem, Words: c.Words, Flags: c.Flags, Ear: c.Ear, Formulas: c.Formulas,
			Readings: c.Readings}
		media, decks := map[string]int{}, map[string]bool{}
		again, today := 0, store.DateOf(now)-1
		_, err = transfer.Read(t.Context(), "", bytes.NewReader(file.Bytes()), int64(file.Len()), transfer.ReadOptions{
			Zone: zone, DayStart: 4 * time.Hour, Temp: t.TempDir(), Media: func(m transfer.Media) error {
				r, err := m.Open()
				if err != nil {
					return err
				}
				defer r.Close()
				content, err := io.ReadAll(r)
				media[m.Name] = len(content)
				return err
			}}, func(it transfer.Item) error {
			got.Cards++
			got.Reviews += len(it.History)
			decks[it.Deck] = true
			for _, e := range it.History {
				if e.Day >= today {
					t.Errorf("%q was reviewed on %s", it.Question, e.Day)
				}
				if y, m, d := e.At.In(zone).Date(); e.At.Sub(time.Date(y, m, d, 7, 40, 0, 0, zone)).Abs() > time.Hour {
					t.Errorf("%q was reviewed at %s, not in the morning", it.Question, e.At.In(zone))
				}
				if e.Grade == store.Again {
					again++
				}
			}
			switch {
			case it.Note == nil:
				t.Errorf("%q is no card of a note", it.Question)
			case it.Card == nil:
				got.Fresh++
			case it.Card.Due == today:
				got.Due++
			case it.Card.Due < today:
				t.Errorf("%q is due on %s", it.Question, it.Card.Due)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if got.Media = len(media); !reflect.DeepEqual(got, c) {
			t.Errorf("the package has %+v, and says %+v", got, c)
		}
		if len(decks) != 5 || !decks[c.Poem] || file.Len() > 100<<10 {
			t.Errorf("it has the decks %v and %d bytes", decks, file.Len())
		}
		for name, size := range media {
			if size == 0 || !strings.HasSuffix(name, ".png") && !strings.HasSuffix(name, ".wav") {
				t.Errorf("%s has %d bytes", name, size)
			}
		}
		if again == 0 || again > got.Reviews/5 {
			t.Errorf("of %d reviews %d were forgotten", got.Reviews, again)
		}
		t.Logf("%+v, %d bytes, %d forgotten", c, file.Len(), again)
	}
}
