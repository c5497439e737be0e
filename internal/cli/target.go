package cli

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"patchbay/internal/api"
	"patchbay/internal/app"
	"patchbay/internal/config"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

// targetFlags say which server a command uses: the named one, the one that runs on the data folder,
// or, without any, this process on the data folder.
type targetFlags struct {
	dataFlags   `embed:""`
	serverFlags `embed:""`
}

// retryFlags returns the flags to append to a suggested command, so that it uses the same target.
// The key is left out.
func (f targetFlags) retryFlags() string {
	suffix := f.dataFlags.retryFlags()
	if f.Server != "" {
		suffix += " --server " + quoteWord(f.Server)
	}
	return suffix
}

// serverFlags name a server other than the one of the data directory.
type serverFlags struct {
	Server string `help:"URL of the server; or PATCHBAY_SERVER." placeholder:"URL"`
	Key    string `help:"Key with scope operator or admin for that server; preferably set as PATCHBAY_KEY." placeholder:"KEY"`
}

// conn is a connection to a server.
type conn struct {
	*api.Client
	// settings are those of the data folder; nil with a named server.
	settings *config.Config
	// local reports whether this process does the operations, because no server runs.
	local bool
}

// connect calls use with a client for the target. The data folder has to have data.
func (f targetFlags) connect(ctx context.Context, sh *shell, use func(*conn) error) error {
	return f.open(ctx, sh, false, use)
}

// connectNew is connect for commands that may create the data folder.
func (f targetFlags) connectNew(ctx context.Context, sh *shell, use func(*conn) error) error {
	return f.open(ctx, sh, true, use)
}

func (f targetFlags) open(ctx context.Context, sh *shell, create bool, use func(*conn) error) error {
	named, err := f.named(sh)
	if err != nil {
		return err
	}
	if named != nil {
		return use(&conn{Client: named})
	}
	settings, err := f.load(sh)
	if err != nil {
		return err
	}
	if !create && !hasData(settings) {
		return f.noData(settings)
	}
	var running *api.Client
	if f.DatabaseURL == "" { // the server may use another database
		if running, err = app.ConnectRunning(ctx, settings, sh.lang); err != nil {
			return err
		}
	}
	if running != nil {
		return use(&conn{Client: running, settings: settings})
	}
	return withBase(ctx, sh, settings, func(b *app.Base) error {
		l, err := app.NewLocal(ctx, b, sh.logger())
		if err != nil {
			return err
		}
		defer l.Close()
		return use(&conn{Client: l.Client(sh.lang), settings: settings, local: true})
	})
}

// named returns a client for the named server, or nil if none was named.
func (f serverFlags) named(sh *shell) (*api.Client, error) {
	address, key := f.Server, f.Key
	if address == "" {
		address = sh.getenv(config.EnvServer)
	}
	if key == "" {
		key = sh.getenv(config.EnvKey)
	}
	if address == "" {
		if f.Key != "" {
			return nil, usage(i18n.Message("--key requires --server"))
		}
		return nil, nil
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return nil, usage(i18n.Message("the server's address must have the form https://board.example.org"))
	}
	if key == "" {
		return nil, usage(i18n.Message("a key for the server is missing; give --key or PATCHBAY_KEY (patchbay key add --scope operator creates one)"))
	}
	named := api.NewClient(address, key, sh.lang)
	named.HTTP.Transport = explainedTransport{http.DefaultTransport}
	return named, nil
}

// explainedTransport is a transport whose errors have advice for people.
type explainedTransport struct{ http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (t explainedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.RoundTripper.RoundTrip(r)
	return resp, app.Explain(err)
}

// isMissing reports whether a server says that something does not exist.
func isMissing(err error) bool {
	e, ok := errors.AsType[*api.ServerError](err)
	return ok && e.Status == http.StatusNotFound
}

// publicURL returns the URL by which others reach the server, as far as known.
func (c *conn) publicURL(ctx context.Context) string {
	url, _ := c.address(ctx)
	return url
}

// address is publicURL, and reports whether it is a configured one.
func (c *conn) address(ctx context.Context) (url string, public bool) {
	s, err := api.Status.Call(ctx, c.Client, control.Empty{})
	switch {
	case err == nil && s.PublicURL != "":
		return s.PublicURL, true
	case c.local:
		return "http://" + c.settings.Listen, false
	}
	return c.URL, false
}

// findBot returns a bot by number or name.
func (c *conn) findBot(ctx context.Context, ref string) (control.BotView, error) {
	bot, err := api.Bot.Call(ctx, c.Client, control.BotRef{Bot: ref})
	return bot, explainNoBot(err, ref)
}

// explainNoBot replaces the error about a bot that does not exist by one with a hint.
func explainNoBot(err error, ref string) error {
	if isMissing(err) {
		return i18n.Message("there is no bot %q; patchbay bot list lists the bots").Errorf(ref)
	}
	return err
}
