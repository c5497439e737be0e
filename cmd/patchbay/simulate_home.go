package main

import (
	"context"

	"patchbay/internal/plug/mcp/sim"
	"patchbay/internal/talk"
)

type simulateHomeCmd struct {
	Listen string `help:"Where it is reached." placeholder:"ADDR" default:"127.0.0.1:8123"`
	Dial   string `help:"Instead of being reached, connect to this address (ws://… or wss://…), as upstream add --endpoint prints it; @FILE reads it from a file." placeholder:"URL"`
}

// Help returns the command's detailed help with examples.
func (simulateHomeCmd) Help() string {
	return `It is an MCP server with the tools get_temperature, set_lamp and reset, the last of which calls itself destructive. Ctrl-C ends it.

Examples:

    patchbay simulate home
    patchbay upstream add home --url http://127.0.0.1:8123/mcp
    patchbay simulate home --dial @address.txt`
}

var (
	sayHomeAt   = talk.Say{Zh: "工具服务器在 %s", En: "The tool server is at %s"}
	sayHomeDone = talk.Say{Zh: "已连接；按 Ctrl-C 结束。", En: "Connected; Ctrl-C ends it."}
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
	if err := sh.result(map[string]string{"url": home.URL}, func() { sh.say(sayHomeAt, home.URL) }); err != nil {
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
		return talk.Say{Zh: "这个地址无法连接，或者拒绝了令牌", En: "the address cannot be connected to, or refuses the token"}.Wrong()
	}
	defer home.Close()
	if err := sh.result(map[string]bool{"connected": true}, func() { sh.say(sayHomeDone) }); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return nil
	case <-home.Done():
		return talk.Say{Zh: "连接已结束", En: "the connection has ended"}.Wrong()
	}
}
