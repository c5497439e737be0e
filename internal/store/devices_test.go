package store_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

func call(mac, client string) store.DeviceCall {
	return store.DeviceCall{Kind: "xiaozhi", Hardware: mac, Client: client,
		Family: "bread", Article: "bread-one", Version: "2.4.2", Language: "zh-CN",
		Features: json.RawMessage(`{"a":1}`), Address: "192.0.2.7", At: now}
}

// twoPeople opens a database with p1, who has two bots, and p2.
func twoPeople(t *testing.T, o store.Options) *store.DB {
	db := seeded(t, o)
	must(t, db.People.Add(ctx, store.Person{ID: "p2", Name: "bob", Role: "member", Lang: "en", Created: now}))
	return db
}

// approve sets a pairing code for a device and approves it.
func approve(t *testing.T, db *store.DB, c store.DeviceCall, a store.DeviceApproval) store.Device {
	t.Helper()
	d, err := db.Devices.Seen(ctx, c)
	must(t, err)
	a.CodeHash, a.At = "code of "+c.Hardware+c.Client, c.At
	must(t, db.Devices.SetCode(ctx, d, a.CodeHash, c.At.Add(time.Minute), c.At))
	d, err = db.Devices.Approve(ctx, a)
	must(t, err)
	return d
}

func TestDeviceComesHome(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := twoPeople(t, o)
		d, err := db.Devices.Seen(ctx, call("aa", "c1"))
		must(t, err)
		if d.Number != 1 || d.Owner != "" || d.Claim != "c1" || d.Client != "" || d.IsApprovedClient("c1") ||
			d.Family != "bread" || !d.Seen.Equal(now) {
			t.Fatalf("the first call: %+v", d)
		}
		must(t, db.Devices.SetCode(ctx, d, "h1", now.Add(time.Minute), now))
		// it has a code by now
		wantErr(t, db.Devices.SetCode(ctx, d, "h2", now.Add(time.Minute), now), store.ErrNotFound)
		later := call("aa", "c1")
		later.Version, later.At, later.Article = "2.5.0\x00\xff", now.Add(time.Second), "n\x00ul"
		d, err = db.Devices.Seen(ctx, later)
		must(t, err)
		kept, err := db.Devices.ByHardware(ctx, "xiaozhi", "aa")
		must(t, err)
		if d.CodeHash != "h1" || kept.Version != d.Version || kept.Article != "n\ufffdul" || kept.CodeHash != "h1" ||
			!kept.CodeExpires.Equal(now.Add(time.Minute)) ||
			string(kept.Features) != `{"a":1}` || kept.Address != "192.0.2.7" {
			t.Fatalf("the second call: %+v, kept %+v", d, kept)
		}
		if w, err := db.Devices.Waiting(ctx, now); err != nil || len(w) != 1 {
			t.Errorf("waiting: %v %v", w, err)
		}
		if w, err := db.Devices.Waiting(ctx, now.Add(time.Minute)); err != nil || len(w) != 0 {
			t.Errorf("waiting with a code that expired: %v %v", w, err)
		}
		_, err = db.Devices.Approve(ctx, store.DeviceApproval{CodeHash: "h9", Owner: "p1", At: now})
		wantErr(t, err, store.ErrNotFound)
		_, err = db.Devices.Approve(ctx, store.DeviceApproval{CodeHash: "h1", Owner: "p1", At: now.Add(time.Minute)})
		wantErr(t, err, store.ErrNotFound)
		_, err = db.Devices.Approve(ctx, store.DeviceApproval{CodeHash: "h1", Owner: "nobody", At: now})
		wantErr(t, err, store.ErrNotFound)
		d, err = db.Devices.Approve(ctx, store.DeviceApproval{CodeHash: "h1", Owner: "p1", Name: "kitchen", Bot: 2,
			At: now})
		must(t, err)
		kept, err = db.Devices.ByNumber(ctx, 1)
		must(t, err)
		if !d.IsApprovedClient("c1") || !kept.IsApprovedClient("c1") || kept.Name != "kitchen" || kept.Bot != 2 ||
			kept.Claim != "" || kept.CodeHash != "" || kept.SecretVersion != 1 || !kept.Approved.Equal(now) {
			t.Fatalf("approved %+v, kept %+v", d, kept)
		}
		_, err = db.Devices.Approve(ctx, store.DeviceApproval{CodeHash: "h1", Owner: "p1", At: now})
		wantErr(t, err, store.ErrNotFound) // a code works once
		wantErr(t, db.Devices.SetCode(ctx, kept, "h3", now.Add(time.Minute), now), store.ErrNotFound)
	})
}

// A connection with the hardware address of an approved device changes only the claim.
func TestDeviceClaim(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := twoPeople(t, o)
		d := approve(t, db, call("aa", "c1"), store.DeviceApproval{Owner: "p1", Name: "kitchen", Bot: 1})
		stranger := call("aa", "c2")
		stranger.Version, stranger.Address, stranger.At, stranger.Features = "6.6.6", "203.0.113.1", now.Add(time.Hour),
			json.RawMessage(`{}`)
		got, err := db.Devices.Seen(ctx, stranger)
		must(t, err)
		if got.Claim != "c2" || !got.IsApprovedClient("c1") || got.IsApprovedClient("c2") || got.Owner != "p1" {
			t.Fatalf("after the stranger: %+v", got)
		}
		got.Claim = ""
		if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", d) {
			t.Fatalf("the stranger changed\n%+v to\n%+v", d, got)
		}
		got, err = db.Devices.Seen(ctx, stranger)
		must(t, err)
		must(t, db.Devices.SetCode(ctx, got, "h2", now.Add(2*time.Hour), now))
		if got, err = db.Devices.Seen(ctx, call("aa", "c1")); err != nil || got.CodeHash != "h2" {
			t.Fatalf("the approved one calls: %+v %v", got, err)
		}
		_, err = db.Devices.Approve(ctx, store.DeviceApproval{CodeHash: "h2", Owner: "p2", Name: "mine", At: now})
		wantErr(t, err, store.ErrOccupied)
		third := stranger
		third.Client = "c3"
		_, err = db.Devices.Seen(ctx, third)
		must(t, err)
		_, err = db.Devices.Approve(ctx, store.DeviceApproval{CodeHash: "h2", Owner: "p1", At: now})
		wantErr(t, err, store.ErrNotFound) // the code was shown by c2
		must(t, db.Devices.SetRoom(ctx, d.Number, "cellar"))
		got = approve(t, db, stranger, store.DeviceApproval{Owner: "p1"})
		if !got.IsApprovedClient("c2") || got.Name != "kitchen" || got.Room != "cellar" || got.Bot != 1 || got.SecretVersion != 2 ||
			got.Number != d.Number {
			t.Fatalf("approved again: %+v", got)
		}
		must(t, db.Devices.Remove(ctx, d.Number))
		got = approve(t, db, stranger, store.DeviceApproval{Owner: "p2", Name: "mine"})
		if got.Number == d.Number || got.Owner != "p2" || got.Bot != 0 {
			t.Fatalf("after it was removed: %+v", got)
		}
	})
}

func TestDeviceChanges(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := twoPeople(t, o)
		one := approve(t, db, call("aa", "c1"), store.DeviceApproval{Owner: "p1", Name: "one"})
		two := approve(t, db, call("bb", "c2"), store.DeviceApproval{Owner: "p1", Name: "two"})
		his := approve(t, db, call("cc", "c3"), store.DeviceApproval{Owner: "p2", Name: "one"})
		d := db.Devices
		wantErr(t, d.Rename(ctx, two.Number, "one"), store.ErrExists)
		must(t, d.Rename(ctx, two.Number, "three"))
		wantErr(t, d.Bind(ctx, one.Number, 99), store.ErrNotFound)
		must(t, d.Bind(ctx, one.Number, 2))
		must(t, d.SetRoom(ctx, one.Number, "living\x00room"))
		must(t, d.SetTransport(ctx, one.Number, store.TransportMQTT))
		if err := d.SetTransport(ctx, one.Number, "pigeon"); err == nil {
			t.Error("a pigeon was taken")
		}
		must(t, d.SetSettings(ctx, one.Number, json.RawMessage(`{"frame":60}`)))
		_, err := d.ChangeVoice(ctx, one.Number, voice(`{"voice":"x"}`))
		must(t, err)
		refused := errors.New("refused")
		_, err = d.ChangeVoice(ctx, one.Number, func(store.Device) (json.RawMessage, error) { return nil, refused })
		wantErr(t, err, refused)
		must(t, d.Revoke(ctx, one.Number))
		must(t, d.Touch(ctx, one.Number, "198.51.100.9", now.Add(time.Hour)))
		got, err := d.ByNumber(ctx, one.Number)
		must(t, err)
		if got.Bot != 2 || got.Room != "living\ufffdroom" || got.Transport != "mqtt" || string(got.Settings) != `{"frame":60}` ||
			string(got.Voice) != `{"voice":"x"}` ||
			got.SecretVersion != 2 || got.Address != "198.51.100.9" || !got.Seen.Equal(now.Add(time.Hour)) {
			t.Fatalf("changed: %+v", got)
		}
		must(t, db.Bots.Remove(ctx, 2))
		if got, err = d.ByNumber(ctx, one.Number); err != nil || got.Bot != 0 {
			t.Fatalf("its bot is gone: %+v %v", got, err)
		}
		if n, err := d.Count(ctx, "p1"); err != nil || n != 2 {
			t.Errorf("p1 has %d devices: %v", n, err)
		}
		if latest, err := d.Latest(ctx, "p1"); err != nil || latest.Number != one.Number {
			t.Errorf("p1's device that was seen last is %+v: %v", latest, err)
		}
		_, err = d.Latest(ctx, "p3")
		wantErr(t, err, store.ErrNotFound)
		must(t, d.Remove(ctx, his.Number))
		for _, err := range []error{
			d.Remove(ctx, his.Number), d.Rename(ctx, his.Number, "x"),
			d.SetRoom(ctx, his.Number, "x"), d.Bind(ctx, his.Number, 0),
			d.Revoke(ctx, his.Number), d.Touch(ctx, his.Number, "", now),
			d.SetTransport(ctx, his.Number, ""), d.SetSettings(ctx, his.Number, json.RawMessage(`{}`)),
			second(d.ChangeVoice(ctx, his.Number, voice(`{}`))),
		} {
			wantErr(t, err, store.ErrNotFound)
		}
		_, err = d.ByNumber(ctx, his.Number)
		wantErr(t, err, store.ErrNotFound)

		// An expired code may be issued again, a valid one may not.
		a, err := d.Seen(ctx, call("dd", "c4"))
		must(t, err)
		b, err := d.Seen(ctx, call("ee", "c5"))
		must(t, err)
		must(t, d.SetCode(ctx, a, "same", now.Add(time.Minute), now))
		wantErr(t, d.SetCode(ctx, b, "same", now.Add(time.Minute), now), store.ErrExists)
		must(t, d.SetCode(ctx, b, "same", now.Add(2*time.Minute), now.Add(time.Minute)))
		if got, err := d.ByCode(ctx, "same", now.Add(time.Minute)); err != nil || got.Number != b.Number {
			t.Errorf("by code: %+v %v", got, err)
		}
	})
}

// Only unowned devices are deleted when there are too many.
func TestDeviceStrangers(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := twoPeople(t, o)
		mine := approve(t, db, call("mine", "c"), store.DeviceApproval{Owner: "p1", Name: "mine"})
		for i := range store.MaxUnownedDevices + 3 {
			c := call(fmt.Sprint("m", i), "c")
			c.At = now.Add(time.Duration(i) * time.Second)
			_, err := db.Devices.Seen(ctx, c)
			must(t, err)
		}
		for mac, want := range map[string]bool{"mine": true, "m0": false, "m2": false, "m3": true,
			fmt.Sprint("m", store.MaxUnownedDevices+2): true} {
			if _, err := db.Devices.ByHardware(ctx, mine.Kind, mac); (err == nil) != want {
				t.Errorf("%s: %v", mac, err)
			}
		}
	})
}

// Concurrent contacts of one device create one device.
func TestDeviceCallsAtOnce(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := twoPeople(t, o)
		ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
		defer cancel()
		var wg sync.WaitGroup
		for i := range 40 {
			wg.Go(func() {
				if _, err := db.Devices.Seen(ctx, call(fmt.Sprint("m", i%4), "c")); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		for i := range 4 {
			if d, err := db.Devices.ByHardware(ctx, "xiaozhi", fmt.Sprint("m", i)); err != nil || d.Claim != "c" {
				t.Errorf("%+v %v", d, err)
			}
		}
	})
}

// Catalogs of many devices are read together; devices without one are left out.
func TestDeviceCatalogs(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := twoPeople(t, o)
		var numbers []int64
		want := map[int64]string{}
		for i := range 6 {
			n := approve(t, db, call(fmt.Sprint("a", i), "c1"),
				store.DeviceApproval{Owner: "p1", Name: fmt.Sprint("n", i)}).Number
			if i%2 == 0 {
				want[n] = fmt.Sprintf(`[{"name":"self.%d"}]`, i)
				must(t, db.Devices.SetCatalog(ctx, n, json.RawMessage(want[n])))
			}
			numbers = append(numbers, n)
			for range 60 { // more than fit into one statement
				numbers = append(numbers, 1000+int64(len(numbers)))
			}
		}
		got, err := db.Devices.Catalogs(ctx, numbers)
		must(t, err)
		if len(got) != len(want) {
			t.Errorf("%d catalogs, want %d", len(got), len(want))
		}
		for n, text := range want {
			if string(got[n]) != text {
				t.Errorf("device %d: %q, want %q", n, got[n], text)
			}
		}
		if got, err := db.Devices.Catalogs(ctx, nil); err != nil || len(got) != 0 {
			t.Errorf("of no device: %v, %v", got, err)
		}
	})
}

func TestDeviceCatalog(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := twoPeople(t, o)
		one := approve(t, db, call("aa", "c1"), store.DeviceApproval{Owner: "p1", Name: "one"}).Number
		d := db.Devices
		none := func() {
			t.Helper()
			_, err := d.Catalog(ctx, one)
			wantErr(t, err, store.ErrNotFound)
		}
		none()
		largest := `"` + strings.Repeat("x", store.MaxCatalog-2) + `"`
		for _, want := range []string{`[{"name":"self.a"}]`, `[]`, largest} {
			must(t, d.SetCatalog(ctx, one, json.RawMessage(want)))
			if got, err := d.Catalog(ctx, one); err != nil || string(got) != want {
				t.Fatalf("kept %.80q, want %.80q: %v", got, want, err)
			}
		}
		wantErr(t, d.SetCatalog(ctx, one, json.RawMessage(largest+" ")), store.ErrTooLarge)
		wantErr(t, d.SetCatalog(ctx, 99, json.RawMessage(`[]`)), store.ErrNotFound)
		must(t, d.SetCatalog(ctx, one, nil))
		must(t, d.SetCatalog(ctx, one, nil))
		none()
		must(t, d.SetCatalog(ctx, one, json.RawMessage(`[]`)))
		must(t, d.Remove(ctx, one))
		none()
	})
}

// Decisions about a device increment the devices version, and nothing else does.
func TestDevicesVersion(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := twoPeople(t, o)
		d := db.Devices
		n := approve(t, db, call("aa", "c1"), store.DeviceApproval{Owner: "p1", Name: "one"}).Number
		other := approve(t, db, call("bb", "c2"), store.DeviceApproval{Owner: "p1", Name: "two"}).Number
		var waits store.Device
		for _, c := range []struct {
			what  string
			grows bool
			do    func() error
		}{
			{"Seen", false, func() (err error) { waits, err = d.Seen(ctx, call("aa", "c3")); return err }},
			{"SetCode", false, func() error { return d.SetCode(ctx, waits, "h", now.Add(time.Minute), now) }},
			{"Approve", true, func() error {
				_, err := d.Approve(ctx, store.DeviceApproval{CodeHash: "h", Owner: "p1", At: now})
				return err
			}},
			{"Seen of a new one", false, func() error { _, err := d.Seen(ctx, call("cc", "c9")); return err }},
			{"Touch", false, func() error { return d.Touch(ctx, n, "192.0.2.1", now) }},
			{"SetCatalog", false, func() error { return d.SetCatalog(ctx, n, json.RawMessage(`[]`)) }},
			{"Bind", true, func() error { return d.Bind(ctx, n, 2) }},
			{"Bots.Remove", true, func() error { return db.Bots.Remove(ctx, 2) }},
			{"Rename", true, func() error { return d.Rename(ctx, n, "hall") }},
			{"SetRoom", true, func() error { return d.SetRoom(ctx, n, "hall") }},
			{"SetTransport", true, func() error { return d.SetTransport(ctx, n, store.TransportMQTT) }},
			{"SetSettings", true, func() error { return d.SetSettings(ctx, n, json.RawMessage(`{}`)) }},
			{"ChangeVoice", true, func() error { return second(d.ChangeVoice(ctx, n, voice(`{}`))) }},
			{"Revoke", true, func() error { return d.Revoke(ctx, n) }},
			{"Remove", true, func() error { return d.Remove(ctx, n) }},
		} {
			before, err := db.DevicesVersion(ctx)
			must(t, err)
			must(t, c.do())
			after, err := db.DevicesVersion(ctx)
			must(t, err)
			if (after > before) != c.grows {
				t.Errorf("%s: %d, then %d", c.what, before, after)
			}
		}
		before, err := db.DevicesVersion(ctx)
		must(t, err)
		for _, err := range []error{d.Remove(ctx, n), d.Bind(ctx, other, 99), db.Bots.Remove(ctx, 99)} {
			wantErr(t, err, store.ErrNotFound)
		}
		if after, err := db.DevicesVersion(ctx); err != nil || after != before {
			t.Errorf("what was refused counts: %d, then %d: %v", before, after, err)
		}
	})
}

func TestDevicePages(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := twoPeople(t, o)
		var want, got []int64
		for i := range 7 {
			c := call(fmt.Sprint("m", i), "c")
			if i%3 == 1 {
				_, err := db.Devices.Seen(ctx, c)
				must(t, err)
				continue
			}
			want = append(want, approve(t, db, c, store.DeviceApproval{Owner: fmt.Sprint("p", 1+i%2),
				Name: c.Hardware}).Number)
		}
		var after int64
		for {
			page, err := db.Devices.Page(ctx, after, 2)
			must(t, err)
			if len(page) == 0 {
				break
			}
			if len(page) > 2 || page[0].Owner == "" {
				t.Fatalf("a page: %+v", page)
			}
			for _, d := range page {
				got = append(got, d.Number)
			}
			after = got[len(got)-1]
		}
		if !slices.Equal(got, want) {
			t.Errorf("read %v, want %v", got, want)
		}
	})
}

// Search finds an owner's devices by part of their name, room or hardware address.
func TestLookForDevices(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := twoPeople(t, o)
		for i, name := range []string{"Kitchen", "厨房的灯", "100%", "kit_1", "hall"} {
			approve(t, db, call(fmt.Sprint("aa:0", i), "c"), store.DeviceApproval{Owner: "p1", Name: name,
				Room: []string{"Bath", "", "bath", "Cellar", "厨房"}[i]})
		}
		approve(t, db, call("aa:09", "c"), store.DeviceApproval{Owner: "p2", Name: "kitchen", Room: "bath 2"})
		_, err := db.Devices.Seen(ctx, call("aa:10", "c"))
		must(t, err)
		for _, c := range []struct {
			q    store.DeviceSearch
			want string
		}{
			{store.DeviceSearch{Owner: "p1", Limit: 9}, "[Kitchen 厨房的灯 100% kit_1 hall]"},
			{store.DeviceSearch{Owner: "p1", Limit: 2}, "[Kitchen 厨房的灯]"},
			{store.DeviceSearch{Owner: "p1", Limit: 2, After: 2}, "[100% kit_1]"},
			{store.DeviceSearch{Owner: "p1", Limit: 9, Text: "KIT"}, "[Kitchen kit_1]"},
			{store.DeviceSearch{Limit: 9, Text: "kitchen"}, "[Kitchen kitchen]"},
			{store.DeviceSearch{Owner: "p1", Limit: 9, Text: "%"}, "[100%]"},
			{store.DeviceSearch{Owner: "p1", Limit: 9, Text: "_"}, "[kit_1]"},
			{store.DeviceSearch{Owner: "p1", Limit: 9, Text: "房的"}, "[厨房的灯]"},
			{store.DeviceSearch{Owner: "p1", Limit: 9, Text: "AA:04"}, "[hall]"},
			{store.DeviceSearch{Owner: "p1", Limit: 9, Text: "BATH"}, "[Kitchen 100%]"},
			{store.DeviceSearch{Owner: "p1", Limit: 9, Text: "厨房"}, "[厨房的灯 hall]"},
			{store.DeviceSearch{Owner: "p2", Limit: 9, Text: "hall"}, "[]"},
			{store.DeviceSearch{Owner: "p1", Limit: 9, Text: "a\xffb\x00"}, "[]"},
		} {
			list, err := db.Devices.Search(ctx, c.q)
			must(t, err)
			var names []string
			for _, d := range list {
				names = append(names, d.Name)
			}
			if got := fmt.Sprint(names); got != c.want {
				t.Errorf("%+v finds %s, want %s", c.q, got, c.want)
			}
		}
		for _, c := range []struct {
			owner string
			limit int
			want  []string
		}{
			{"p1", 9, []string{"Bath", "Cellar", "bath", "厨房"}}, {"p2", 9, []string{"bath 2"}}, {"p3", 9, nil},
			{"", 9, []string{"Bath", "Cellar", "bath", "bath 2", "厨房"}},
		} {
			got, err := db.Devices.Rooms(ctx, c.owner, c.limit)
			must(t, err)
			slices.Sort(got)
			if !slices.Equal(got, c.want) {
				t.Errorf("the rooms of %q are %q, want %q", c.owner, got, c.want)
			}
		}
		if got, err := db.Devices.Rooms(ctx, "", 2); err != nil || len(got) != 2 {
			t.Errorf("two rooms are %q (%v)", got, err)
		}
	})
}

// voice returns a change of how a device speaks.
func voice(text string) func(store.Device) (json.RawMessage, error) {
	return func(store.Device) (json.RawMessage, error) { return json.RawMessage(text), nil }
}

func second[T any](_ T, err error) error { return err }
