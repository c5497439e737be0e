package cli

import (
	"context"

	"patchbay/internal/api"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

type voiceEngineSetCmd struct {
	Engine      string   `arg:"" help:"Number or name of the engine."`
	Set         []string `arg:"" optional:"" name:"k=v" help:"Settings as name=value; name= removes a setting, name=@FILE reads the value from a file."`
	Name        *string  `help:"A new name." placeholder:"NAME"`
	Use         *string  `help:"Use: listen (understand speech), speak, or both." placeholder:"USE"`
	On          bool     `help:"Use the engine again." xor:"state"`
	Off         bool     `help:"Do not use the engine." xor:"state"`
	NoCheck     bool     `help:"Skip the check of changed settings."`
	targetFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (voiceEngineSetCmd) Help() string {
	return `Boards use a changed engine from their next question on, on every instance within a second.

Examples:

    patchbay voice engine set openai voice=nova speed=1.1
    patchbay voice engine set openai api_key=@new-key.txt
    patchbay voice engine set kokoro --use speak
    patchbay voice engine set kokoro --off`
}

const msgEngineChanged = i18n.Message("The speech engine %s is changed.")

// Run changes the engine.
func (c *voiceEngineSetCmd) Run(ctx context.Context, sh *shell) error {
	if len(c.Set) == 0 && c.Name == nil && c.Use == nil && !c.On && !c.Off {
		return usage(i18n.Message("no changes are given; write name=value, --name, --use, --on or --off"))
	}
	set, err := sh.pairs(c.Set)
	if err != nil {
		return err
	}
	in := control.EngineChange{Engine: c.Engine, Name: c.Name, Settings: set, Unchecked: c.NoCheck}
	if c.Use != nil {
		use := engineUse(*c.Use)
		in.Use = &use
	}
	if c.On || c.Off {
		in.Enabled = &c.On
	}
	return c.connect(ctx, sh, func(at *conn) error {
		d, err := api.ChangeEngine.Call(ctx, at.Client, in)
		if err != nil {
			return explainNoEngine(err, c.Engine)
		}
		return sh.result(d, func() {
			sh.say(msgEngineChanged, d.Name)
			sh.showDropped(d.Dropped)
			sh.showEngineFound(d.Found)
		})
	})
}
