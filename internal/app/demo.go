package app

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/config"
	"patchbay/internal/hub"
	"patchbay/internal/i18n"
	"patchbay/internal/plug/xiaozhi"
	"patchbay/internal/store"
)

// Accounts, keys and devices of serve --demo. The manual's examples use them.
const (
	DemoPerson = "demo"
	// DemoPassword is the console password of the demo's person.
	DemoPassword = "patchbay"
	DemoKey      = "test_token"
	DemoBoard    = "desk"
	// The demo's voice board has these ids, whichever program simulates it.
	DemoBoardMAC  = "02:00:00:00:de:30"
	DemoBoardUUID = "5ca1ab1e-0000-4000-8000-00000000de30"
)

// demoConfig keeps the demo's data apart from real data, because its key is public.
func demoConfig(c *config.Config) *config.Config {
	demo := *c
	demo.Data = filepath.Join(c.Data, "demo")
	for _, port := range []*string{&demo.XiaoZhi.MQTT, &demo.XiaoZhi.Audio} {
		if *port == "" {
			*port = "127.0.0.1:0" // for the demo's board
		}
	}
	return &demo
}

const (
	msgDemoBot      = i18n.Message("Lobster")
	msgDemoRoom     = i18n.Message("Study")
	msgDemoBotDoes  = i18n.Message("An assistant that says back what it is told")
	msgDemoLoopback = i18n.Message("--demo listens on loopback only, since everybody knows its key; use --listen 127.0.0.1:3000, or leave --demo out")
	msgDemoFolder   = i18n.Message("--demo keeps its data in a folder of its own; leave the database URL out")
)

// demoAllowed returns an error unless the demo listens on loopback and uses its own database.
func demoAllowed(c *config.Config, addr net.Addr) error {
	if a, ok := addr.(*net.TCPAddr); !ok || !a.IP.IsLoopback() {
		return msgDemoLoopback.Errorf()
	}
	if c.Database.URL != "" {
		return msgDemoFolder.Errorf()
	}
	return nil
}

// seedDemo creates the demo's person, bot and key if they are missing. The bot and the room of the
// board are named in lang, and keep these names.
func seedDemo(ctx context.Context, b *Base, lang i18n.Lang) error {
	p, err := b.Store.People.ByName(ctx, DemoPerson)
	if errors.Is(err, store.ErrNotFound) {
		// With an empty language the console uses that of the browser.
		p, err = b.Accounts.AddPerson(ctx, DemoPerson, account.RoleAdmin, "", DemoPassword)
	}
	if err != nil {
		return err
	}
	if _, err = b.Store.Bots.ByNumber(ctx, 1); errors.Is(err, store.ErrNotFound) {
		_, _, err = b.Registry.Add(ctx, hub.NewBot{
			Owner: p.ID, Name: msgDemoBot.In(lang), Kind: "echo", Description: msgDemoBotDoes.In(lang),
			Set: map[string]string{"mcp_open": "true", "learn": "true"},
		})
	}
	if err != nil {
		return err
	}
	_, _, err = b.Accounts.AddKey(ctx, account.NewKey{
		Person: p.ID, Name: "demo", Secret: DemoKey,
		Scopes: []string{account.ScopeLingzhu, account.ScopeLearn, account.ScopeMCP},
	})
	if err != nil && !errors.Is(err, store.ErrExists) {
		return err
	}
	return seedBoard(ctx, b, p, msgDemoRoom.In(lang))
}

// seedBoard makes the demo person the owner of a voice board before its first call. The board uses
// MQTT, so that it can be reached at any time.
func seedBoard(ctx context.Context, b *Base, p store.Person, room string) error {
	d, code, err := b.Accounts.DeviceSeen(ctx, store.DeviceCall{
		Kind: xiaozhi.Kind, Hardware: DemoBoardMAC, Client: DemoBoardUUID, Article: "simulated", At: time.Now(),
	})
	if err != nil || code == "" {
		return err
	}
	if d, err = b.Accounts.ApproveByCode(ctx, account.NewDevice{Person: p.ID, Code: code, Name: DemoBoard,
		Room: room, Bot: 1}); err != nil {
		return err
	}
	return b.Store.Devices.SetTransport(ctx, d.Number, store.TransportMQTT)
}
