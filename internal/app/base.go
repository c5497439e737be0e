// Package app wires everything together, starts it, drains it, and stops it, in
// order.
package app

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	_ "time/tzdata" // people choose time zones, and not every machine has them

	"patchbay/internal/account"
	"patchbay/internal/board"
	"patchbay/internal/config"
	"patchbay/internal/plug/bots"
	"patchbay/internal/plug/echo"
	"patchbay/internal/plug/learn/quiz"
	"patchbay/internal/plug/openai"
	agents "patchbay/internal/plug/openclaw/bot"
	"patchbay/internal/plug/rokid"
	"patchbay/internal/seal"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// Base is what both the server and the command line stand on: the database and
// those who know how to read it.
type Base struct {
	Config  *config.Config
	Store   *store.DB
	Box     *seal.Box
	Secrets *Secrets
	// Installation tells this installation from others; it gives nothing away.
	Installation string
	Accounts     *account.Service
	Registry     *board.Registry
	Version      string // of the program

	// Agents are the bots for which agents of somebody's OpenClaw gateway answer.
	Agents *agents.Bots

	tools  *botTools
	models *models
	// dial reaches the outside for people who may not reach what we can reach. Nil: the
	// command line, whose user can.
	dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// OpenBase opens the data folder or the database that is configured. The error is a
// [DataGoneError] if it was used and is empty.
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
	db, err := store.Open(ctx, storeOptions(c, version))
	if err != nil {
		return nil, Explain(err)
	}
	secrets, err := openSecrets(ctx, c, db, own, log)
	if err != nil {
		return nil, errors.Join(Explain(err), db.Close())
	}
	box := secrets.Box
	b := &Base{Config: c, Version: version, Store: db, Box: box, Secrets: secrets, tools: &botTools{}, Accounts: account.New(db, box, nil)}
	if b.Installation, err = db.Secrets.Installation(ctx); err != nil {
		return nil, errors.Join(Explain(err), db.Close())
	}
	nameFolder(c.Data, b.Installation, log)
	b.models = newModels(b, log)
	b.Agents = agents.New(b.agentOptions(log))
	b.Registry = board.NewRegistry(db, box, kinds(log, b), func() any { return new(rokid.Settings) }, func() any { return new(bots.Settings) }, func() any { return new(quiz.Settings) })
	return b, nil
}

// closeFolder keeps others on the machine out of the data folder, also if it was made by
// somebody else with wider rights.
func closeFolder(folder string, log *slog.Logger) {
	info, err := os.Stat(folder)
	if err != nil || info.Mode().Perm()&0o077 == 0 {
		return // it is made later, and then it is closed
	}
	if err := os.Chmod(folder, 0o700); err != nil { //nolint:gosec // a folder has to be entered
		log.Warn("others on this machine can look into the data folder; make it yours alone: chmod 700", "folder", folder, "error", err)
	}
}

// Close ends what bots have connected to, and closes the database.
func (b *Base) Close() error {
	b.Agents.Close()
	return b.Store.Close()
}

// modelKind is the kind of bots that a chat API answers.
const modelKind = "openai"

// kinds are all kinds of bots there are.
func kinds(log *slog.Logger, base *Base) []board.Kind {
	return []board.Kind{
		echo.Kind(),
		{
			Name:     modelKind,
			Settings: func() any { return new(openai.Settings) },
			Build: func(b store.Bot, settings any) (talk.Bot, error) {
				return base.models.build(b, *settings.(*openai.Settings), toolbox{base.tools, b})
			},
			// A paid service is not to be flooded by one bot's wearers.
			Limits: board.Limits{Concurrent: 16, Waiting: 64},
		},
		{
			Name:     "eyeclaw",
			Connects: true, // its plug says how much a connection can take
		},
		base.Agents.Kind(),
	}
}
