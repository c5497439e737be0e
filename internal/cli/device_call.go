package cli

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

// checkWait validates a waiting time.
func checkWait(wait time.Duration) error {
	if wait < 0 {
		return usage(i18n.Message("--wait is %s; it must be a duration such as 2m"), wait)
	}
	return nil
}

type deviceCallCmd struct {
	Args        string        `help:"The arguments as a JSON object, or @FILE to read it from a file (@- from standard input)." placeholder:"JSON"`
	Out         string        `help:"File to which a returned picture, sound or file is written." placeholder:"FILE"`
	Wait        time.Duration `help:"How long to wait for the device to wake, if it is asleep." placeholder:"TIME"`
	deviceFlags `embed:""`
	Tool        string   `arg:"" help:"Name of the tool, as listed by device tools."`
	Set         []string `arg:"" optional:"" name:"k=v" help:"Arguments as name=value: strings without quotes, other types as JSON. name=@FILE reads the value from a file."`
}

// Help returns the command's detailed help with examples.
func (deviceCallCmd) Help() string {
	return `Progress is written to standard error, the result to standard output. The exit code is 1 if the tool reports an error. Ctrl-C cancels the call.

Examples:

    patchbay device call kitchen self.audio_speaker.set_volume volume=40
    patchbay device call kitchen self.get_device_status --wait 2m
    patchbay device call kitchen self.screen.set_theme --args '{"theme":"dark"}'
    patchbay device call kitchen self.camera.take_photo question="What is there?" --out photo.jpg`
}

// Run calls the tool.
func (c *deviceCallCmd) Run(ctx context.Context, sh *shell) error {
	if err := checkWait(c.Wait); err != nil {
		return err
	}
	given, err := sh.readArguments(c.Set, c.Args)
	if err != nil {
		return err
	}
	return c.reach(ctx, sh, func(at *conn) error {
		var schema json.RawMessage
		if len(given.set) > 0 {
			if schema, err = c.schema(ctx, at); err != nil {
				return err
			}
		}
		args, err := toolArguments(schema, given.object, given.set)
		if err != nil {
			return err
		}
		end, err := at.callDevice(ctx, sh, deviceCall{device: c.Device, tool: c.Tool, args: args, wait: c.Wait})
		if err != nil {
			return err
		}
		return sh.showCall(end, c.Tool, c.Out)
	})
}

// schema returns the schema of the tool's arguments; nil for unknown tools, which the response to
// the call reports.
func (c *deviceCallCmd) schema(ctx context.Context, at *conn) (json.RawMessage, error) {
	list, err := c.tools(ctx, at, true)
	i := slices.IndexFunc(list, func(t control.DeviceTool) bool { return t.Own == c.Tool })
	if i < 0 {
		i = slices.IndexFunc(list, func(t control.DeviceTool) bool { return t.Name == c.Tool })
	}
	if i < 0 {
		return nil, err
	}
	return list[i].Input, nil
}
