package cli

import "context"

type deviceAlertCmd struct {
	Emotion     string `help:"Facial expression to show, such as happy or sad." placeholder:"NAME"`
	laterFlag   `embed:""`
	deviceFlags `embed:""`
	Title       string `arg:"" help:"Title of the alert."`
	Text        string `arg:"" help:"Text of the alert."`
}

// Help returns the command's detailed help with examples.
func (deviceAlertCmd) Help() string {
	return `Examples:

    patchbay device alert kitchen Oven "The cake is done"
    patchbay device alert kitchen Post "A parcel has come" --emotion happy --later`
}

// Run alerts the people near the device.
func (c *deviceAlertCmd) Run(ctx context.Context, sh *shell) error {
	args := map[string]any{"title": c.Title, "text": c.Text}
	if c.Emotion != "" {
		args["emotion"] = c.Emotion
	}
	if c.Later {
		args["later"] = true
	}
	return c.callTool(ctx, sh, toolAlert, args)
}
