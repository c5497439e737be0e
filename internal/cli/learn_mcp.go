package cli

import (
	"cmp"
	"context"
	"errors"

	"patchbay/internal/app"
	"patchbay/internal/config"
	"patchbay/internal/i18n"
	"patchbay/internal/observe"
	"patchbay/internal/plug/mcp/stdio"
)

type learnMcpCmd struct {
	Server    string `help:"URL of the server to forward messages to; or PATCHBAY_SERVER. Default: the server on the data folder." placeholder:"URL"`
	Key       string `help:"Key with scope learn for that server; preferably set as PATCHBAY_KEY or LEARN_ASSISTANT_API_KEY." placeholder:"KEY"`
	dataFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (learnMcpCmd) Help() string {
	return `An MCP server on standard input and output, for programs that start MCP servers themselves, such as Claude Desktop and Cursor. It forwards their messages to Learn on a server and stores nothing. Create a key with: patchbay key add --name desktop --scope learn

Add this to claude_desktop_config.json, or to Cursor's mcp.json:

    {
      "mcpServers": {
        "learn": {
          "command": "patchbay",
          "args": ["learn", "mcp"],
          "env": {
            "PATCHBAY_SERVER": "https://board.example.org",
            "PATCHBAY_KEY": "sk_..."
          }
        }
      }
    }

If the program does not find patchbay, use its full path as the command.

Examples:

    patchbay learn mcp
    patchbay learn mcp --server https://board.example.org`
}

// Run forwards messages until the client closes standard input.
func (c *learnMcpCmd) Run(ctx context.Context, sh *shell) error {
	flags := learnFlags{Server: c.Server, Key: c.Key, dataFlags: c.dataFlags}
	key := flags.key(sh)
	if key == "" {
		return usage(i18n.Message("a key is missing; create one with: patchbay key add --name desktop --scope learn%s and give it as PATCHBAY_KEY"), c.retryFlags())
	}
	return c.relay(ctx, sh, c.Server, stdio.Options{Key: key, Program: "patchbay learn mcp"})
}

// relay forwards messages between standard input and output and a server, or the one on the data
// folder if server is empty, until the client closes standard input.
func (f *dataFlags) relay(ctx context.Context, sh *shell, server string, o stdio.Options) (err error) {
	if o.URL, err = f.relayTarget(ctx, sh, server); err != nil {
		return err
	}
	o.In, o.Out, o.Logger = sh.stdin, sh.stdout, observe.NewLogger(sh.stderr, "warn", "text")
	err = stdio.Serve(ctx, o)
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil // the usual way to end a stdio server
	}
	return err
}

// relayTarget returns the URL of the server.
func (f *dataFlags) relayTarget(ctx context.Context, sh *shell, server string) (string, error) {
	if address := cmp.Or(server, sh.getenv(config.EnvServer)); address != "" {
		return address, nil
	}
	settings, err := f.load(sh)
	if err != nil {
		return "", err
	}
	if !hasData(settings) {
		return "", f.noData(settings)
	}
	r, err := app.ConnectRunning(ctx, settings, sh.lang)
	if err != nil {
		return "", err
	}
	if r == nil {
		return "", i18n.Message("no server runs on the data folder; start one with: patchbay serve%s, or name one with --server or PATCHBAY_SERVER").Errorf(f.retryFlags())
	}
	return r.URL, nil
}
