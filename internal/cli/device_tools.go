package cli

import (
	"context"

	"patchbay/internal/api"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

type deviceToolsCmd struct {
	Schemas     bool `help:"Also show the input schemas as JSON Schema."`
	deviceFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (deviceToolsCmd) Help() string {
	return `Lists the device's own tools, such as self.audio_speaker.set_volume, and those that every device has. Programs call them by the longer names in the last column, which are also used in the rules of patchbay tool allow and patchbay tool deny.

Examples:

    patchbay device tools kitchen
    patchbay device tools kitchen --schemas
    patchbay device tools kitchen --json`
}

const (
	msgFullName      = i18n.Message("FOR PROGRAMS")
	msgNoDeviceTools = i18n.Message("Its tools are not known: it has not connected yet.")
)

// Run lists the device's tools.
func (c *deviceToolsCmd) Run(ctx context.Context, sh *shell) error {
	return c.reach(ctx, sh, func(at *conn) error {
		list, err := c.tools(ctx, at, c.Schemas)
		if err != nil {
			return err
		}
		return sh.result(list, func() { sh.deviceTools(list, c.Schemas) })
	})
}

// tools lists the device's tools, with their schemas on request.
func (f *deviceFlags) tools(ctx context.Context, at *conn, schemas bool) ([]control.DeviceTool, error) {
	list, err := api.DeviceTools.Call(ctx, at.Client,
		control.DeviceToolsQuery{DeviceRef: control.DeviceRef{Device: f.Device}, Schemas: schemas})
	return list.Tools, missingDevice(err, f.Device)
}

// deviceTools prints tools.
func (sh *shell) deviceTools(list []control.DeviceTool, schemas bool) {
	switch {
	case len(list) == 0:
		sh.say(msgNoDeviceTools)
	case schemas:
		for i, t := range list {
			if i > 0 {
				sh.printf("\n")
			}
			sh.say(msgHeadTool, plain(t.Own), sh.toolState(t.Tool), provider(t.Tool))
			sh.aboutTool(&t.Tool)
		}
	default:
		sh.deviceToolTable(list)
	}
}

func (sh *shell) deviceToolTable(list []control.DeviceTool) {
	var rows [][]string
	for _, t := range list {
		what := t.Title
		if what == "" {
			what = t.Description
		}
		rows = append(rows, []string{plain(t.Own), sh.toolState(t.Tool), short(what, whatWidth), t.Name})
	}
	sh.table([]i18n.Message{msgTool, msgState, msgWhat, msgFullName}, rows)
}
