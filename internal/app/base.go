// Package app wires the server together and starts, drains and stops it in order.
package app

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	_ "time/tzdata" // people choose time zones, and not every machine has them

	"patchbay/internal/account"
	"patchbay/internal/bus"
	"patchbay/internal/check"
	"patchbay/internal/config"
	"patchbay/internal/hub"
	_ "patchbay/internal/i18n/translations"
	"patchbay/internal/plug/approve"
	"patchbay/internal/plug/bots"
	"patchbay/internal/plug/echo"
	"patchbay/internal/plug/eyeclaw"
	"patchbay/internal/plug/learn/quiz"
	"patchbay/internal/plug/openai"
	agents "patchbay/internal/plug/openclaw/bot"
	"patchbay/internal/plug/rokid"
	"patchbay/internal/plug/xiaozhi"
	"patchbay/internal/seal"
	"patchbay/internal/store"
	"patchbay/internal/talk"
	"patchbay/internal/tracing"
)

// Base is what both the server and the command line need: the configuration, the database, and the
// services that read it.
type Base struct {
	Config  *config.Config
	Store   *store.DB
	Box     *seal.Box
	Secrets *Secrets
	// Installation is the id of this installation. It is not secret.
	Installation string
	Accounts     *account.Service
	Registry     *hub.Registry
	Version      string // of the program

	// Agents are the bots that agents of an OpenClaw gateway answer.
	Agents *agents.Bots

	// tracer traces what this process does; nil: nothing is traced.
	tracer *tracing.Tracer
	tools  *botTools
	models *models
	// realtime has what bots of realtime models share.
	realtime *realtimeBots
	// dial connects to addresses that untrusted people chose, and refuses internal ones. It is nil
	// on the command line, whose user may reach everything the machine can.
	dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// OpenBase opens the configured data folder or database. The error is a [DataGoneError] if the
// folder has been used and the database is empty.
func OpenBase(ctx context.Context, c *config.Config, version string, log *slog.Logger) (*Base, error) {
	if err := refuseLoss(ctx, c, storeOptions(c, version)); err != nil {
		return nil, err
	}
	return openBase(ctx, c, version, log)
}

func storeOptions(c *config.Config, version string) store.Options {
	return store.Options{URL: c.Database.URL, Folder: c.Data, MaxConns: c.Database.MaxConns, Version: version}
}

func openBase(ctx context.Context, c *config.Config, version string, log *slog.Logger) (*Base, error) {
	closeFolder(c.Data, log)
	own, err := ownSecret(c)
	if err != nil {
		return nil, err
	}
	options := storeOptions(c, version)
	options.BeforeMigrate = func(ctx context.Context, p store.Pending) error { return backUpFirst(ctx, c, own, p, log) }
	db, err := store.Open(ctx, options)
	if err != nil {
		return nil, Explain(err)
	}
	secrets, err := openSecrets(ctx, c, db, own, log)
	if err != nil {
		return nil, errors.Join(Explain(err), db.Close())
	}
	box := secrets.Box
	b := &Base{Config: c, Version: version, Store: db, Box: box, Secrets: secrets, tools: &botTools{},
		Accounts: account.New(db, box, nil)}
	if b.Installation, err = db.Secrets.Installation(ctx); err != nil {
		return nil, errors.Join(Explain(err), db.Close())
	}
	markFolder(c.Data, b.Installation, log)
	b.models = newModels(b, log)
	b.realtime = newRealtimeBots(log)
	b.Agents = agents.New(b.agentOptions(log))
	b.Registry = hub.NewRegistry(db, box, kinds(b), func() any { return new(rokid.Settings) },
		func() any { return new(bots.Settings) }, func() any { return new(quiz.Settings) },
		func() any { return new(approve.Settings) },
		func() any { return new(xiaozhi.BotVoice) })
	return b, nil
}

// closeFolder removes the rights of other users of the machine on the data folder, even if it was
// created with wider rights.
func closeFolder(folder string, log *slog.Logger) {
	info, err := os.Stat(folder)
	if err != nil || info.Mode().Perm()&0o077 == 0 {
		return // a missing folder is created later, without those rights
	}
	if err := os.Chmod(folder, 0o700); err != nil { //nolint:gosec // a folder needs the execute permission
		log.Warn("others on this machine can look into the data folder; make it yours alone: chmod 700",
			"folder", folder, "error", err)
	}
}

// Close closes the connections of bots and the database.
func (b *Base) Close() error {
	b.Agents.Close()
	return b.Store.Close()
}

// modelKind is the kind of bots that a chat API answers.
const modelKind = "openai"

// kinds returns all kinds of bots.
func kinds(base *Base) []hub.Kind {
	return []hub.Kind{
		echo.Kind(),
		{
			Name:     modelKind,
			Settings: func() any { return new(openai.Settings) },
			Build: func(b store.Bot, settings any) (talk.Bot, error) {
				return base.models.build(b, *settings.(*openai.Settings), botToolbox{base.tools, b})
			},
			Check: func(ctx context.Context, r *check.Report, b store.Bot, settings any, state hub.BotState) {
				openai.CheckBot(ctx, r, hub.CheckName(b), b.Number, *settings.(*openai.Settings), state.Problem)
			},
			Speculative: true,
			Model:       func(settings any) string { return settings.(*openai.Settings).Model },
			Sees:        func(settings any) bool { return settings.(*openai.Settings).Sees() },
			// The wearers of one bot must not flood a paid service.
			Limits: hub.Limits{Concurrent: 16, Waiting: 64},
		},
		{
			Name:    "eyeclaw",
			Inbound: true, // its plug sets the limits of each connection
		},
		{
			Name:    eyeclaw.ConnectorKind,
			Inbound: true, // likewise
			Resumes: true,
		},
		base.Agents.Kind(),
		base.realtime.kind(base),
	}
}

// busOptions returns the configured options of the bus.
func busOptions(b *Base, log *slog.Logger) bus.Options {
	c := b.Config.Bus
	return bus.Options{Installation: b.Installation, Signer: b.Box, URL: c.URL, Name: c.Name, Cert: c.Cert, Key: c.Key,
		CA: c.CA, Logger: log}
}
