// Package app wires everything together, starts it, drains it, and stops it, in
// order.
package app

import (
	"context"
	"log/slog"

	"patchbay/internal/account"
	"patchbay/internal/board"
	"patchbay/internal/config"
	"patchbay/internal/plug/bots"
	"patchbay/internal/plug/echo"
	"patchbay/internal/plug/learn/quiz"
	"patchbay/internal/plug/openai"
	"patchbay/internal/plug/rokid"
	"patchbay/internal/seal"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// Base is what both the server and the command line stand on: the database and
// those who know how to read it.
type Base struct {
	Config   *config.Config
	Store    *store.DB
	Box      *seal.Box
	Accounts *account.Service
	Registry *board.Registry

	tools *botTools
}

// OpenBase opens the data folder or the database that is configured.
func OpenBase(ctx context.Context, c *config.Config, log *slog.Logger) (*Base, error) {
	box, err := openBox(c)
	if err != nil {
		return nil, err
	}
	db, err := store.Open(ctx, store.Options{URL: c.Database.URL, Folder: c.Data, MaxConns: c.Database.MaxConns})
	if err != nil {
		return nil, err
	}
	tools := &botTools{}
	return &Base{
		Config: c, Store: db, Box: box, tools: tools,
		Accounts: account.New(db, box, nil),
		Registry: board.NewRegistry(db, box, kinds(log, tools), func() any { return new(rokid.Settings) }, func() any { return new(bots.Settings) }, func() any { return new(quiz.Settings) }),
	}, nil
}

func openBox(c *config.Config) (*seal.Box, error) {
	if c.Secret != "" {
		return seal.New(c.Secret)
	}
	return seal.Open(c.Data)
}

// Close closes the database.
func (b *Base) Close() error { return b.Store.Close() }

// kinds are all kinds of bots there are.
func kinds(log *slog.Logger, tools *botTools) []board.Kind {
	client := openai.NewClient()
	return []board.Kind{
		echo.Kind(),
		{
			Name:     "openai",
			Settings: func() any { return new(openai.Settings) },
			Build: func(b store.Bot, settings any) (talk.Bot, error) {
				return openai.New(*settings.(*openai.Settings), openai.Options{Client: client, Logger: log.With("bot", b.Number), Toolbox: toolbox{tools, b}})
			},
			// A paid service is not to be flooded by one bot's wearers.
			Limits: board.Limits{Concurrent: 16, Waiting: 64},
		},
		{
			Name:     "eyeclaw",
			Connects: true, // its plug says how much a connection can take
		},
	}
}
