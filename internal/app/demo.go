package app

import (
	"context"
	"errors"
	"net"
	"path/filepath"

	"patchbay/internal/account"
	"patchbay/internal/board"
	"patchbay/internal/config"
	"patchbay/internal/store"
)

// What serve --demo plugs in. The manual's examples use these.
const (
	DemoPerson = "demo"
	DemoBot    = "小龙虾"
	DemoKey    = "test_token"
)

// demoConfig keeps the demo's data apart from real data, since its key is known
// to everybody, and refuses to show it to anybody but this machine.
func demoConfig(c *config.Config, addr net.Addr) (*config.Config, error) {
	if a, ok := addr.(*net.TCPAddr); !ok || !a.IP.IsLoopback() {
		return nil, errors.New("--demo listens on loopback only, since everybody knows its key; use --listen 127.0.0.1:3000, or leave --demo out")
	}
	if c.Database.URL != "" {
		return nil, errors.New("--demo keeps its data in a folder of its own; leave the database URL out")
	}
	demo := *c
	demo.Data = filepath.Join(c.Data, "demo")
	return &demo, nil
}

// seedDemo makes the demo's person, bot and key, those that are not there yet.
func seedDemo(ctx context.Context, b *Base) error {
	p, err := b.Store.People.ByName(ctx, DemoPerson)
	if errors.Is(err, store.ErrNotFound) {
		p, err = b.Accounts.AddPerson(ctx, DemoPerson, account.RoleAdmin, "zh", "")
	}
	if err != nil {
		return err
	}
	if _, err = b.Store.Bots.ByNumber(ctx, 1); errors.Is(err, store.ErrNotFound) {
		_, _, err = b.Registry.Add(ctx, board.NewBot{Owner: p.ID, Name: DemoBot, Kind: "echo", Description: "一个智能助手", Set: map[string]string{"mcp_open": "true", "learn": "true"}})
	}
	if err != nil {
		return err
	}
	_, _, err = b.Accounts.AddKey(ctx, account.NewKey{
		Person: p.ID, Name: "demo", Secret: DemoKey,
		Scopes: []string{account.ScopeLingzhu, account.ScopeLearn, account.ScopeMCP},
	})
	if errors.Is(err, store.ErrExists) {
		return nil
	}
	return err
}
