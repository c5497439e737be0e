package cli

import (
	"context"

	"patchbay/internal/i18n"
	"patchbay/internal/plug/mcp/sim"
)

type simulateHomeCmd struct {
	Listen string `help:"Address to listen on." placeholder:"ADDR" default:"127.0.0.1:8123"`
	Dial   string `help:"Instead of listening, connect to this URL (ws://… or wss://…), as printed by upstream add --endpoint; @FILE reads it from a file." placeholder:"URL"`
}

// Help returns the command's detailed help with examples.
func (simulateHomeCmd) Help() string {
	return `Runs an MCP server with the tools get_temperature, set_lamp and reset; reset is declared destructive. Ctrl-C ends it.

Examples:

    patchbay simulate home
    patchbay upstream add home --url http://127.0.0.1:8123/mcp
    patchbay simulate home --dial @address.txt`
}

const (
	msgHomeAt   = i18n.Message("The tool server is at %s")
	msgHomeDone = i18n.Message("Connected; press Ctrl-C to stop.")
)

// Run serves until it is interrupted or the connection ends.
func (c *simulateHomeCmd) Run(ctx context.Context, sh *shell) error {
	if c.Dial != "" {
		return c.dial(ctx, sh)
	}
	home, err := sim.Listen(c.Listen)
	if err != nil {
		return err
	}
	defer home.Close()
	if err := sh.result(map[string]string{"url": home.URL}, func() { sh.say(msgHomeAt, home.URL) }); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

func (c *simulateHomeCmd) dial(ctx context.Context, sh *shell) error {
	address, err := sh.value(c.Dial)
	if err != nil {
		return err
	}
	home, err := sim.Dial(ctx, address)
	if err != nil {
		// err contains the URL, which holds a secret
		return i18n.Message("the address cannot be reached, or rejects the token").Errorf()
	}
	defer home.Close()
	if err := sh.result(map[string]bool{"connected": true}, func() { sh.say(msgHomeDone) }); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return nil
	case <-home.Done():
		return i18n.Message("the connection has ended").Errorf()
	}
}
