package cli

import (
	"cmp"
	"context"

	"patchbay/internal/config"
	"patchbay/internal/i18n"
	"patchbay/internal/plug/mcp/stdio"
)

type mcpRelayCmd struct {
	Server    string `help:"URL of the server to forward messages to; or PATCHBAY_SERVER. Default: the server on the data folder." placeholder:"URL"`
	Key       string `help:"Key with scope mcp for that server; preferably set as PATCHBAY_KEY." placeholder:"KEY"`
	Find      bool   `help:"Offer two tools that find and call all others, for programs that cannot see hundreds of tools."`
	dataFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (mcpRelayCmd) Help() string {
	return `For programs that start MCP servers themselves and know nothing of addresses, such as Claude Desktop. It forwards their messages to /mcp of a server, and those of the server back, and stores nothing. Create a key with: patchbay key add --name desktop --scope mcp

Add this to claude_desktop_config.json, or let patchbay mcp bundle write a bundle that asks for both values:

    {
      "mcpServers": {
        "patchbay": {
          "command": "patchbay",
          "args": ["mcp", "relay"],
          "env": {
            "PATCHBAY_SERVER": "https://board.example.org",
            "PATCHBAY_KEY": "pb_..."
          }
        }
      }
    }

If the program does not find patchbay, use its full path as the command.

Examples:

    patchbay mcp relay
    patchbay mcp relay --server https://board.example.org`
}

// mcpEndpoint is the path of the endpoint for tools.
const mcpEndpoint = "/mcp"

// Run forwards messages until the client closes standard input.
func (c *mcpRelayCmd) Run(ctx context.Context, sh *shell) error {
	key := cmp.Or(c.Key, sh.getenv(config.EnvKey))
	if key == "" {
		return usage(i18n.Message("a key is missing; create one with: patchbay key add --name desktop --scope mcp%s and give it as PATCHBAY_KEY"), c.retryFlags())
	}
	o := stdio.Options{Path: mcpEndpoint, Key: key, Scope: "mcp", Program: "patchbay mcp relay"}
	if c.Find {
		o.Query = "tools=find"
	}
	return c.relay(ctx, sh, c.Server, o)
}
