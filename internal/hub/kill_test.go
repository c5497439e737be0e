package hub_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"patchbay/internal/account"
	"patchbay/internal/bus"
	"patchbay/internal/hub"
	"patchbay/internal/hub/hubtest"
	"patchbay/internal/seal"
	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
	"patchbay/internal/tool"
)

// TestKillLosesNoCall checks that each call that was carried out is recorded once after kill -9,
// although it did not wait for the disk: with its result if it was answered, and as lost if its end
// is unknown.
func TestKillLosesNoCall(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		began, answered, stuck := map[string]bool{}, map[string]bool{}, map[string]bool{}
		said := map[string]map[string]bool{"began": began, "answered": answered, "stuck": stuck}
		for range 3 {
			caller, out := hub.StartChild(t, "caller", o.Folder, o.URL)
			seen, killed := map[string]int{}, false
			for in := bufio.NewScanner(out); in.Scan(); {
				what, id, _ := strings.Cut(in.Text(), " ")
				said[what][id] = true
				seen[what]++
				if what != "began" && seen["answered"] >= 3000 && seen["stuck"] == stuckCalls && !killed {
					killed = true
					must(t, caller.Process.Kill()) // the rest of its output is read
				}
			}
		}
		r := hubtest.New(t, hubtest.Options{DB: o, Hub: hub.Options{Folder: o.Folder}})
		list, err := r.Store.Calls.Newest(ctx, "", time.Now().Add(time.Minute), 1_000_000)
		must(t, err)
		rows := map[string]store.Call{}
		for _, c := range list {
			rows[c.ID] = c
		}
		missing, lost := 0, 0
		for id := range began {
			c, there := rows[id]
			switch {
			case !there:
				missing++
			case stuck[id] || c.Outcome != "done" && !answered[id]:
				lost++
				if c.Outcome != "failed" || c.Code != "lost" || c.Tool != "acts" && c.Tool != "stuck" ||
					c.Provider != "a" || c.Key != "k" {
					t.Errorf("a call that did not end is %+v", c)
				}
			case c.Outcome != "done":
				t.Errorf("a call that was answered is %+v", c)
			}
		}
		if missing > 0 || len(answered) < 9000 || len(rows) != len(list) {
			t.Errorf("%d calls were carried out, %d answered; the trail has %d rows and misses %d", len(began),
				len(answered), len(list), missing)
		}
		if len(stuck) != 3*stuckCalls || lost < len(stuck) {
			t.Errorf("of %d calls that did not end %d are lost", len(stuck), lost)
		}
		t.Logf("%d calls were carried out, %d answered, %d are lost", len(began), len(answered), lost)
	})
}

// stuckCalls is the number of calls of a caller that never end.
const stuckCalls = 5

// callUntilKilled is a server for [TestKillLosesNoCall]. It prints the ids of calls that have
// begun, never end, or were answered.
func callUntilKilled(folder, url string) {
	check := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	db, err := store.Open(ctx, store.Options{Folder: folder, URL: url})
	check(err)
	// Calls without an account are not recorded. The second and the third child find it.
	if err := db.People.Add(ctx, store.Person{ID: "p", Name: "p", Role: account.RoleMember,
		Created: time.Now()}); !errors.Is(err, store.ErrExists) {
		check(err)
	}
	box, err := seal.New(hubtest.Secret)
	check(err)
	alone, err := bus.Open(ctx, bus.Options{})
	check(err)
	h, err := hub.New(hub.Options{
		Store: db, Registry: hub.NewRegistry(db, box, nil), Bus: alone, Registerer: prometheus.NewRegistry(),
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})), Folder: folder,
	})
	check(err)
	tell := func(what, id string) {
		_, err := os.Stdout.WriteString(what + " " + id + "\n") // unbuffered, in one write
		check(err)
	}
	s, err := h.Register(hub.ProviderRef{ID: "a", Kind: "k", Timeout: time.Hour},
		providerFunc(func(ctx context.Context, c *tool.Call) (*tool.Result, error) {
			tell("began", c.ID)
			if c.Tool == "stuck" {
				tell("stuck", c.ID)
				<-ctx.Done()
			}
			return tool.Text(c.Tool), nil
		}))
	check(err)
	s.SetTools([]tool.Tool{{Name: "acts"}, {Name: "stuck"}})
	call := func(name string) string {
		c := tool.Call{}
		_, err := h.Call(context.Background(), hub.Access{Caller: tool.Caller{Person: "p", Key: "k", Channel: "test"}},
			name, &c)
		check(err)
		return c.ID
	}
	for range stuckCalls {
		go call("stuck")
	}
	for range 8 {
		go func() {
			for {
				tell("answered", call("acts"))
			}
		}()
	}
	io.Copy(io.Discard, os.Stdin) // until the test ends
}
