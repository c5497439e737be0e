package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/alecthomas/kong"

	"patchbay/internal/app"
	"patchbay/internal/config"
	"patchbay/internal/i18n"
	"patchbay/internal/service"
)

type serveCmd struct {
	Demo     bool         `help:"Run a demo with an echo bot and a publicly known key, in a separate data folder, listening on this machine only."`
	New      bool         `help:"Start a new installation although the data folder belongs to one whose database is empty or missing."`
	Config   string       `help:"Configuration file; default: $$PATCHBAY_CONFIG or patchbay.yaml in the data folder." placeholder:"FILE"`
	Relay    []string     `help:"Short for --relay-servers: relays through which the server is reached from everywhere." placeholder:"LIST"`
	Settings kong.Plugins `embed:""`
}

// Help returns the command's detailed help with examples.
func (serveCmd) Help() string {
	return `Every setting is a flag, an environment variable (PATCHBAY_LISTEN for --listen) and a key of the configuration file; "patchbay config default" describes them all. Flags take precedence over the environment, and the environment over the file.

The first interrupt waits up to 20 seconds for active answers; the second terminates immediately.

Examples:

    patchbay serve
    patchbay serve --demo
    patchbay serve --listen :3000 --public-url https://board.example.org
    patchbay serve --relay relay.example.org --tls-cert cert.pem --tls-key key.pem
    patchbay serve --config /etc/patchbay.yaml`
}

// Run serves until ctx ends.
func (c *serveCmd) Run(ctx context.Context, sh *shell) error {
	flags := given(c.Settings)
	if len(c.Relay) > 0 {
		flags["relay.servers"] = strings.Join(c.Relay, ",")
	}
	settings, _, err := config.Load(config.Sources{File: c.Config, Env: sh.env, Flags: flags})
	if err != nil {
		return err
	}
	var demo demoBoard
	defer demo.close()
	_, watched := terminal(sh.stderr)
	systemd := service.NewNotifier(sh.getenv("NOTIFY_SOCKET"))
	options := app.Options{
		Version: thisBuild().Version, Demo: c.Demo, New: c.New, Lang: sh.lang, Logs: sh.stderr, Terminal: watched,
		Stopping: func() { systemd.Stopping() }, //nolint:errcheck // the server stops all the same
		Ready: func(url string, b *app.Base) {
			if watched && !c.Demo {
				fmt.Fprintln(sh.stderr, msgServes.In(sh.lang, url, b.Config.Data))
				if len(b.Config.Relay.Servers) > 0 && b.Config.PublicURL != "" {
					fmt.Fprintln(sh.stderr, msgReached.In(sh.lang, b.Config.PublicURL))
				}
			}
			c.printStartup(ctx, sh, url, b)
			systemd.Ready() //nolint:errcheck // the server serves all the same
			if c.Demo {
				demo.start(ctx, url)
			}
		},
	}
	err = app.Serve(ctx, settings, options)
	_, typed := terminal(sh.stdin)
	if _, gone := errors.AsType[app.DataGoneError](err); gone && typed && watched {
		fmt.Fprintln(sh.stderr, i18n.Localize(err, sh.lang))
		if !sh.confirm(ctx, msgBeginAnew) {
			return errReported
		}
		options.New = true
		err = app.Serve(ctx, settings, options)
	}
	return err
}

const msgBeginAnew = i18n.Message("Start over with an empty database?")

// printStartup prints that the server is ready, and what to do next.
func (c *serveCmd) printStartup(ctx context.Context, sh *shell, url string, b *app.Base) {
	begin := b.FirstSteps(ctx, url)
	if begin.SetupCode != "" {
		fmt.Fprintln(sh.stderr, msgNobody.In(sh.lang, url, begin.SetupCode, quoteWord(b.Config.Data)))
	}
	if len(begin.Network) > 0 {
		fmt.Fprintln(sh.stderr, msgNetwork.In(sh.lang, strings.Join(begin.Network, "\n  ")))
	}
	if begin.LockedOut != "" {
		fmt.Fprintln(sh.stderr, msgLockedOut.In(sh.lang, url, quoteWord(begin.LockedOut), quoteWord(b.Config.Data)))
	}
	switch {
	case sh.json:
		sh.writeJSON(map[string]any{"url": url, "pid": os.Getpid(), "data": b.Config.Data}, "") //nolint:errcheck // the reader may be gone
	case c.Demo:
		sh.say(msgDemoServer, url, begin.FirstBot, app.DemoKey, quoteWord(b.Config.Data), app.DemoBoard,
			"ws"+strings.TrimPrefix(url, "http"), app.DemoPerson, app.DemoPassword)
	}
}

const (
	msgDemoServer = i18n.Message(`The demo of Patchbay is at %[1]s (open it in a browser; name %[7]s, password %[8]s)
Bot 1 is called %[2]s and repeats what it gets; the key is %[3]s.
Ask as glasses do:

curl -N -X POST %[1]s/sse/rokid \
  -H "Authorization: Bearer %[3]s" \
  -H "Content-Type: application/json" \
  -d '{
    "message_id": "1021",
    "agent_id": "1",
    "message": [
      {"role": "user", "type": "text", "text": "你好"}
    ]
  }'

or: patchbay simulate glasses --url %[1]s --key %[3]s --agent-id 1
    patchbay ask 1 "hello" --data %[4]s

A simulated voice board is connected too, called %[5]s:

patchbay device call %[5]s self.audio_speaker.set_volume volume=30 --data %[4]s

OpenClaw's nodes and command line connect to %[6]s; a key for them: patchbay key add --name openclaw --scope node --scope operator --data %[4]s`)
	msgServes    = i18n.Message("\n  Patchbay is running at %s\n  Its data is in %s. Press Ctrl-C to stop it.\n")
	msgReached   = i18n.Message("  From everywhere it is at %s, through the relay.\n")
	msgLockedOut = i18n.Message("Nobody can sign in at %s: no account has a password. Set one in another terminal: patchbay user passwd %s --data %s")
	msgNobody    = i18n.Message(`There is no account yet. Open this address in a browser, and choose a name and a password:

  %[1]s/setup?code=%[2]s

Typed by hand, the address is %[1]s and the setup code is %[2]s
The pages find what runs on this machine, and lead to the first answer.
Or begin in another terminal: patchbay user add NAME --data %[3]s`)
	msgNetwork = i18n.Message("Other devices of your network reach it at\n  %s")
)
