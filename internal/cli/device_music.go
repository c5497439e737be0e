package cli

import "context"

type deviceMusicCmd struct {
	Title       string `help:"Title that the device shows." placeholder:"TEXT"`
	Pause       bool   `help:"Pause the music." xor:"action"`
	Resume      bool   `help:"Let the music go on where it was." xor:"action"`
	Stop        bool   `help:"End the music." xor:"action"`
	deviceFlags `embed:""`
	Source      string `arg:"" optional:"" name:"file|url" help:"An Ogg Opus, WAV or MP3 file of up to 2 MiB, or the http or https URL of a file or stream."`
}

// Help returns the command's detailed help with examples.
func (deviceMusicCmd) Help() string {
	return `Music plays in a conversation. It pauses while anybody speaks, and "stop" ends it.

Examples:

    patchbay device music kitchen https://example.org/moonlight.mp3 --title "Moonlight Sonata"
    patchbay device music kitchen --pause
    patchbay device music kitchen --stop`
}

// Run plays or controls the music.
func (c *deviceMusicCmd) Run(ctx context.Context, sh *shell) error {
	switch {
	case c.Pause:
		return c.callTool(ctx, sh, toolControlMusic, map[string]any{"action": "pause"})
	case c.Stop:
		return c.callTool(ctx, sh, toolControlMusic, map[string]any{"action": "stop"})
	case c.Resume:
		return c.callTool(ctx, sh, toolControlMusic, map[string]any{"action": "resume"})
	}
	args := map[string]any{}
	if c.Title != "" {
		args["title"] = c.Title
	}
	if err := addSound(args, c.Source); err != nil {
		return err
	}
	return c.callTool(ctx, sh, toolPlayMusic, args)
}
