package cli

import (
	"context"

	"patchbay/internal/api"
	"patchbay/internal/control"
)

type voiceEngineMoveCmd struct {
	Name        string `arg:"" help:"Number or name of the engine."`
	Place       int    `arg:"" help:"Its place, 1 for the first."`
	targetFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (voiceEngineMoveCmd) Help() string {
	return `Boards use the first engine that works. Those of the configuration come before all others.

Examples:

    patchbay voice engine move kokoro 1`
}

// Run moves the engine.
func (c *voiceEngineMoveCmd) Run(ctx context.Context, sh *shell) error {
	return c.connect(ctx, sh, func(at *conn) error {
		list, err := api.MoveEngine.Call(ctx, at.Client, control.EngineMove{Engine: c.Name, Place: c.Place})
		if err != nil {
			return explainNoEngine(err, c.Name)
		}
		return sh.engineTable(list.Engines)
	})
}
