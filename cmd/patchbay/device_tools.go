package main

import (
	"context"

	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

type deviceToolsCmd struct {
	Schemas     bool `help:"Also what arguments they take, as JSON Schemas."`
	deviceFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (deviceToolsCmd) Help() string {
	return `These are the device's own tools, such as self.audio_speaker.set_volume, and those that every device has. Programs call them by the longer names in the last column; so do the rules of: patchbay tool allow, patchbay tool deny.

Examples:

    patchbay device tools kitchen
    patchbay device tools kitchen --schemas
    patchbay device tools kitchen --json`
}

const (
	msgFullName      = i18n.Message("FOR PROGRAMS")
	msgNoDeviceTools = i18n.Message("No tools of it are known: it has not connected yet.")
)

// Run lists the device's tools.
func (c *deviceToolsCmd) Run(ctx context.Context, sh *shell) error {
	r, err := findDeviceServer(ctx, sh, c.dataFlags, c.serverFlags)
	if err != nil {
		return err
	}
	list, err := r.deviceTools(ctx, c.Device, c.Schemas)
	if err != nil {
		return err
	}
	if list == nil {
		list = []control.DeviceTool{}
	}
	return sh.result(list, func() {
		switch {
		case len(list) == 0:
			sh.say(msgNoDeviceTools)
		case c.Schemas:
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
	})
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
