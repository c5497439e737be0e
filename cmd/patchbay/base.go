package main

import (
	"context"
	"errors"
	"log/slog"

	"patchbay/internal/app"
	"patchbay/internal/check"
	"patchbay/internal/config"
	"patchbay/internal/i18n"
	"patchbay/internal/observe"
	"patchbay/internal/store"
)

// dataFlags say where the data is. The environment and the configuration file apply as they do for
// the server.
type dataFlags struct {
	Data        string `help:"Folder that holds everything the server keeps." placeholder:"DIR"`
	Config      string `help:"Configuration file; without it, patchbay.yaml in the data folder." placeholder:"FILE"`
	DatabaseURL string `name:"database-url" help:"PostgreSQL instead of SQLite in the data folder; better given as PATCHBAY_DATABASE_URL." placeholder:"URL"`
}

// retryFlags returns the flags to append to a suggested command, so that it uses the same data.
func (d dataFlags) retryFlags() string {
	suffix := ""
	if d.Data != "" {
		suffix += " --data " + quoteWord(d.Data)
	}
	if d.Config != "" {
		suffix += " --config " + quoteWord(d.Config)
	}
	return suffix
}

// quoteWord quotes a word for a shell if necessary.
func quoteWord(word string) string { return check.Quote(word) }

// load loads the configuration.
func (d dataFlags) load(sh *shell) (*config.Config, error) {
	flags := map[string]string{}
	for path, text := range map[string]string{"data": d.Data, "database.url": d.DatabaseURL} {
		if text != "" {
			flags[path] = text
		}
	}
	c, _, err := config.Load(config.Sources{File: d.Config, Env: sh.env, Flags: flags})
	return c, err
}

// withData opens existing data, calls f with it, and closes it.
func (d dataFlags) withData(ctx context.Context, sh *shell, f func(*app.Base) error) error {
	c, err := d.load(sh)
	if err != nil {
		return err
	}
	if !hasData(c) {
		return d.noData(c)
	}
	return withBase(ctx, sh, c, f)
}

// withBase opens the data, creating it if necessary, calls f with it, and closes it.
func withBase(ctx context.Context, sh *shell, c *config.Config, f func(*app.Base) error) (err error) {
	b, err := app.OpenBase(ctx, c, thisBuild().Version, sh.logger())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	return f(b)
}

// hasData reports whether there is data to open.
func hasData(c *config.Config) bool { return app.HasData(c) }

func (d dataFlags) noData(c *config.Config) error {
	return msgNoData.Errorf(c.Data, d.retryFlags())
}

const msgNoData = i18n.Message("there is nothing in %[1]s yet; begin with: patchbay serve%[2]s (and open the address it prints in a browser), or: patchbay user add NAME%[2]s")

// logger logs errors to standard error. Errors of bots are returned instead.
func (sh *shell) logger() *slog.Logger { return observe.NewLogger(sh.stderr, "error", "text") }

// person finds a person by name. Without a name it returns the only person there is.
func person(ctx context.Context, b *app.Base, name string) (store.Person, error) {
	if name != "" {
		p, err := b.Store.People.ByName(ctx, name)
		if errors.Is(err, store.ErrNotFound) {
			return p, i18n.Message("there is nobody named %q; patchbay user list shows who there is").Errorf(name)
		}
		return p, err
	}
	people, err := b.Store.People.All(ctx)
	switch {
	case err != nil:
		return store.Person{}, err
	case len(people) == 0:
		return store.Person{}, i18n.Message("there is nobody yet; begin with: patchbay user add NAME").Errorf()
	case len(people) > 1:
		return store.Person{}, usage(i18n.Message("there are %d people; say for whom with --user NAME"), len(people))
	}
	return people[0], nil
}

// names returns the names of all people by ID.
func names(ctx context.Context, b *app.Base) (map[string]string, error) {
	people, err := b.Store.People.All(ctx)
	byID := make(map[string]string, len(people))
	for _, p := range people {
		byID[p.ID] = p.Name
	}
	return byID, err
}

// outsideURL returns the URL by which others reach the server, as far as known.
func outsideURL(c *config.Config) string {
	if c.PublicURL != "" {
		return c.PublicURL
	}
	if r, err := app.FindRunning(c.Data); err == nil {
		return r.URL
	}
	return "http://" + c.Listen
}
