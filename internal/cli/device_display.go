package cli

import "context"

type deviceDisplayCmd struct {
	laterFlag   `embed:""`
	deviceFlags `embed:""`
	Text        string `arg:"" help:"Text to show."`
}

// Help returns the command's detailed help with examples.
func (deviceDisplayCmd) Help() string {
	return `Examples:

    patchbay device display kitchen "Dinner is at seven"
    patchbay device display kitchen "Call your mother" --later`
}

// Run shows the text.
func (c *deviceDisplayCmd) Run(ctx context.Context, sh *shell) error {
	args := map[string]any{"text": c.Text}
	if c.Later {
		args["later"] = true
	}
	return c.callTool(ctx, sh, toolShow, args)
}
