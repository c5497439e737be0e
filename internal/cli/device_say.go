package cli

import "context"

type deviceSayCmd struct {
	Voice       string `help:"Name of one of the speech engine's voices." placeholder:"NAME"`
	Priority    string `help:"notice, or alarm, which interrupts what is being said." default:"notice" enum:"notice,alarm"`
	NotLater    bool   `help:"Report an error if the device cannot be heard now, instead of waiting until somebody wakes it."`
	Until       string `help:"How long the text may wait, as a time such as 2026-11-30T18:00:00Z; default: a day." placeholder:"TIME"`
	deviceFlags `embed:""`
	Text        string `arg:"" help:"Text to say."`
}

// Help returns the command's detailed help with examples.
func (deviceSayCmd) Help() string {
	return `In a conversation the text comes after the current sentence. Otherwise a board on MQTT with firmware 2.5 or later says it by itself, and other boards when somebody wakes them.

Examples:

    patchbay device say kitchen "Dinner is ready"
    patchbay device say kitchen "The water is running" --priority alarm --not-later`
}

// Run says the text.
func (c *deviceSayCmd) Run(ctx context.Context, sh *shell) error {
	args := map[string]any{"text": c.Text, "priority": c.Priority}
	if c.Voice != "" {
		args["voice"] = c.Voice
	}
	if c.NotLater {
		args["later"] = false
	}
	if c.Until != "" {
		args["until"] = c.Until
	}
	return c.callTool(ctx, sh, toolSay, args)
}
