package board_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"patchbay/internal/account"
	"patchbay/internal/board"
	"patchbay/internal/board/boardtest"
	"patchbay/internal/bus"
	"patchbay/internal/seal"
	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
	"patchbay/internal/tool"
)

// Each call that was answered is in the trail after kill -9, once, though it did not
// wait for the disk.
func TestKillLosesNoAnsweredCall(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		answered := map[string]bool{}
		for range 3 {
			caller, out := board.Child(t, "caller", o.Folder, o.URL)
			in := bufio.NewScanner(out)
			for n := 0; in.Scan(); n++ {
				answered[in.Text()] = true
				if n == 3000 {
					if err := caller.Process.Kill(); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		r := boardtest.New(t, boardtest.Options{DB: o, Board: board.Options{Folder: o.Folder}})
		rows, err := r.Store.Calls.Newest(ctx, "", time.Now().Add(time.Minute), 1_000_000)
		must(t, err)
		found := 0
		for _, c := range rows {
			if answered[c.ID] {
				found++
			}
		}
		if found != len(answered) || len(answered) < 9000 {
			t.Errorf("%d calls were answered, and the trail has %d of them", len(answered), found)
		}
		t.Logf("%d calls were answered, %d are in the trail", len(answered), len(rows))
	})
}

// callUntilKilled is a server for [TestKillLosesNoAnsweredCall]. It says the ids of
// calls that were answered.
func callUntilKilled(folder, url string) {
	check := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	db, err := store.Open(ctx, store.Options{Folder: folder, URL: url})
	check(err)
	// Of who has no account nothing is recorded. The second and the third child find it.
	if err := db.People.Add(ctx, store.Person{ID: "p", Name: "p", Role: account.RoleMember, Created: time.Now()}); !errors.Is(err, store.ErrExists) {
		check(err)
	}
	box, err := seal.New(boardtest.Secret)
	check(err)
	alone, err := bus.Open(ctx, bus.Options{})
	check(err)
	b, err := board.New(board.Options{
		Store: db, Registry: board.NewRegistry(db, box, nil), Bus: alone, Registerer: prometheus.NewRegistry(),
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})), Folder: folder,
	})
	check(err)
	s, err := b.Plug(board.Outlet{ID: "a", Kind: "k"}, says)
	check(err)
	s.Offer([]tool.Tool{{Name: "acts"}})
	for range 8 {
		go func() {
			for {
				c := tool.Call{}
				_, err := b.Call(context.Background(), board.Access{Caller: tool.Caller{Person: "p", Key: "k", Door: "test"}}, "acts", &c)
				check(err)
				_, err = os.Stdout.WriteString(c.ID + "\n") // at once, and whole
				check(err)
			}
		}()
	}
	io.Copy(io.Discard, os.Stdin) // until the test ends
}
