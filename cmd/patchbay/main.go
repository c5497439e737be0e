// Command patchbay is a self-hosted hub that connects wearables and home devices with the agents
// that answer them.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"patchbay/internal/cli"
)

func main() {
	// The first signal shuts the program down gracefully. Then the handler is removed, so that a
	// second signal kills it.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	os.Exit(cli.Run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Environ()))
}
