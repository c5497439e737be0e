// Package boardtest gives tests a board with bots that do what the test says.
package hubtest

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"patchbay/internal/account"
	"patchbay/internal/bus"
	"patchbay/internal/hub"
	"patchbay/internal/seal"
	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
	"patchbay/internal/talk"
)

// Rig is a hub on a database, with everything a channel needs.
type Rig struct {
	Store    *store.DB
	Box      *seal.Box
	Accounts *account.Service
	Registry *hub.Registry
	Hub      *hub.Hub
	Person   store.Person

	mu   sync.Mutex
	bots map[int64]talk.Bot
}

// Func is a bot made of a function.
type Func func(ctx context.Context, turn *talk.Turn, emit talk.Emit) error

// Answer calls the function.
func (f Func) Answer(ctx context.Context, turn *talk.Turn, emit talk.Emit) error {
	return f(ctx, turn, emit)
}

// Options of a rig; the zero value is a board alone on SQLite.
type Options struct {
	DB     store.Options // the zero value: a fresh SQLite database
	BusURL string
	Hub    hub.Options // Store, Registry, Bus, Logger and Registerer are filled in
	Shared []func() any
	Kinds  []hub.Kind // beside "script" and "plugin"
	// Keep an existing person of that name instead of making one.
	Name string
	// NoPerson leaves the installation without anybody; the rig has no Person then.
	NoPerson bool
}

// Secret seals the secrets of all rigs, so that several can share a database.
var Secret = strings.Repeat("5e", 32)

// New makes a rig, which ends with the test. Bots of kind "script" are set by
// [Rig.Script]; bots of kind "plugin" connect, by Board.Attach.
func New(t testing.TB, o Options) *Rig {
	t.Helper()
	ctx := context.Background()
	if o.DB.URL == "" && o.DB.Folder == "" {
		o.DB.Folder = t.TempDir()
	}
	r := &Rig{Store: storetest.Open(t, o.DB), bots: map[int64]talk.Bot{}}
	var err error
	if r.Box, err = seal.New(Secret); err != nil {
		t.Fatal(err)
	}
	r.Accounts = account.New(r.Store, r.Box, nil)
	kinds := append([]hub.Kind{
		{Name: "script", Build: r.build, Resumes: true},
		{Name: "plugin", Inbound: true},
	}, o.Kinds...)
	r.Registry = hub.NewRegistry(r.Store, r.Box, kinds, o.Shared...)
	if o.NoPerson {
		// It is for the test to add somebody.
	} else if r.Person, err = r.Store.People.ByName(ctx, "ada"); err != nil {
		if r.Person, err = r.Accounts.AddPerson(ctx, "ada", account.RoleAdmin, "zh", ""); err != nil {
			t.Fatal(err)
		}
	}
	b, err := bus.Open(ctx, bus.Options{URL: o.BusURL, Name: o.Name, Installation: "rig", Signer: r.Box})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	p := o.Hub
	p.Store, p.Registry, p.Bus, p.Registerer = r.Store, r.Registry, b, prometheus.NewRegistry()
	p.Logger = slog.New(slog.NewTextHandler(logWriter{t}, &slog.HandlerOptions{Level: slog.LevelDebug}))
	if r.Hub, err = hub.New(p); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Hub.Close)
	return r
}

func (r *Rig) build(b store.Bot, _ any) (talk.Bot, error) {
	return Func(func(ctx context.Context, turn *talk.Turn, emit talk.Emit) error {
		r.mu.Lock()
		bot := r.bots[b.Number]
		r.mu.Unlock()
		if bot == nil {
			return fmt.Errorf("bot %d has no script", b.Number)
		}
		return bot.Answer(ctx, turn, emit)
	}), nil
}

// Add makes a bot of a kind, with settings.
func (r *Rig) Add(t testing.TB, kind string, set map[string]string) store.Bot {
	t.Helper()
	b, _, err := r.Registry.Add(context.Background(), hub.NewBot{Owner: r.Person.ID,
		Name: fmt.Sprintf("bot-%d", time.Now().UnixNano()), Kind: kind, Set: set})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// AddScript makes a bot that answers by a function.
func (r *Rig) AddScript(t testing.TB, set map[string]string, f Func) store.Bot {
	t.Helper()
	b := r.Add(t, "script", set)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bots[b.Number] = f
	return b
}

// Key makes a key and returns its secret.
func (r *Rig) Key(t testing.TB, n account.NewKey) string {
	t.Helper()
	if n.Person == "" {
		n.Person = r.Person.ID
	}
	if n.Name == "" {
		n.Name = "test"
	}
	_, secret, err := r.Accounts.AddKey(context.Background(), n)
	if err != nil {
		t.Fatal(err)
	}
	return secret
}

// logWriter writes log lines to the test's log.
type logWriter struct{ t testing.TB }

func (w logWriter) Write(b []byte) (int, error) {
	defer func() { recover() }() // a line after the test has ended is of no use
	w.t.Log(strings.TrimRight(string(b), "\n"))
	return len(b), nil
}

var _ io.Writer = logWriter{}
