package cli

import (
	"context"
	"errors"
	"log/slog"

	"patchbay/internal/app"
	"patchbay/internal/check"
	"patchbay/internal/config"
	"patchbay/internal/i18n"
	"patchbay/internal/observe"
)

// dataFlags say where the data is. The environment and the configuration file apply as they do for
// the server.
type dataFlags struct {
	Data        string `help:"Data folder of the server." placeholder:"DIR"`
	Config      string `help:"Configuration file; default: patchbay.yaml in the data folder." placeholder:"FILE"`
	DatabaseURL string `name:"database-url" help:"URL of a PostgreSQL database, instead of SQLite in the data folder; preferably set as PATCHBAY_DATABASE_URL." placeholder:"URL"`
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

const msgNoData = i18n.Message("%[1]s contains no data yet; start with: patchbay serve%[2]s (and open the address it prints in a browser), or: patchbay user add NAME%[2]s")

// logger logs errors to standard error. Errors of bots are returned instead.
func (sh *shell) logger() *slog.Logger { return observe.NewLogger(sh.stderr, "error", "text") }
