package cli

import (
	"context"
	"errors"

	"patchbay/internal/api"
	"patchbay/internal/control"
)

type voiceEngineCheckCmd struct {
	voiceEngineFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (voiceEngineCheckCmd) Help() string {
	return `Has the engine speak a sentence and listen to it, or to a second of silence, which may cost a little. The exit code is 1 if that fails.

Examples:

    patchbay voice engine check openai
    patchbay voice engine check openai --json`
}

// Run checks the engine.
func (c *voiceEngineCheckCmd) Run(ctx context.Context, sh *shell) error {
	return c.connect(ctx, sh, func(at *conn) error {
		found, err := api.CheckEngine.Call(ctx, at.Client, control.EngineRef{Engine: c.Name})
		switch {
		case err != nil:
			return explainNoEngine(err, c.Name)
		case found.Problem != "":
			return errors.New(problemText(found.Problem, found.Cause))
		}
		return sh.result(found, func() { sh.showEngineFound(&found) })
	})
}
