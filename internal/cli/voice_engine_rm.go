package cli

import (
	"context"

	"patchbay/internal/api"
	"patchbay/internal/i18n"
)

type voiceEngineRmCmd struct {
	Yes              bool `short:"y" help:"Do not ask for confirmation."`
	voiceEngineFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (voiceEngineRmCmd) Help() string {
	return `Questions that are being answered go on with it. To keep its settings, turn it off: patchbay voice engine set NAME --off

Examples:

    patchbay voice engine rm openai
    patchbay voice engine rm openai --yes`
}

const (
	msgRemoveEngine  = i18n.Message("Remove the speech engine %s?")
	msgEngineRemoved = i18n.Message("The speech engine %s is removed.")
)

// Run removes the engine.
func (c *voiceEngineRmCmd) Run(ctx context.Context, sh *shell) error {
	return c.connect(ctx, sh, func(at *conn) error {
		d, err := api.ShowEngine.Call(ctx, at.Client, c.ref())
		if err != nil {
			return explainNoEngine(err, c.Name)
		}
		if !c.Yes && !sh.confirm(ctx, msgRemoveEngine, d.Name) {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return i18n.Message("nothing was removed; answer y, or give --yes").Errorf()
		}
		removed, err := api.RemoveEngine.Call(ctx, at.Client, c.ref())
		if err != nil {
			return err
		}
		return sh.result(removed, func() { sh.say(msgEngineRemoved, removed.Name) })
	})
}
