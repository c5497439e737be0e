package cli

import (
	"context"
	"strconv"

	"patchbay/internal/api"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

type deviceListCmd struct {
	Waiting     bool `help:"List devices that wait for approval."`
	targetFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (deviceListCmd) Help() string {
	return `The status of devices is known only while a server runs. Pairing codes are never listed: they are shown on the device's display. With --server, only a key with scope admin can list waiting devices; other keys get their number.

Examples:

    patchbay device list
    patchbay device list --waiting
    patchbay device list --json
    patchbay device list --server https://board.example.org --key $KEY`
}

// Run lists the devices.
func (c *deviceListCmd) Run(ctx context.Context, sh *shell) error {
	return c.connect(ctx, sh, func(at *conn) error {
		if c.Waiting {
			w, err := api.WaitingDevices.Call(ctx, at.Client, control.Empty{})
			if err != nil {
				return err
			}
			return sh.waitingTable(w)
		}
		rows, err := at.devices(ctx)
		if err != nil {
			return err
		}
		return sh.deviceTable(rows)
	})
}

// devices lists all devices that the key may see.
func (c *conn) devices(ctx context.Context) ([]deviceRow, error) {
	rows := []deviceRow{}
	for after := int64(0); ; {
		page, err := api.Devices.Call(ctx, c.Client, control.DeviceQuery{After: after})
		if err != nil {
			return nil, err
		}
		for _, d := range page.Devices {
			rows = append(rows, c.deviceRow(d))
		}
		if page.Next <= after {
			return rows, nil
		}
		after = page.Next
	}
}

const (
	msgRoom        = i18n.Message("ROOM")
	msgTransport   = i18n.Message("TRANSPORT")
	msgFirmware    = i18n.Message("FIRMWARE")
	msgHeard       = i18n.Message("LAST SEEN")
	msgHardware    = i18n.Message("HARDWARE")
	msgArticle     = i18n.Message("WHAT")
	msgAddress     = i18n.Message("ADDRESS")
	msgCodeUntil   = i18n.Message("CODE UNTIL")
	msgShowsCode   = i18n.Message("shows a pairing code")
	msgNoDevices   = i18n.Message("There are no devices yet. Turn one on; it shows a pairing code. Then: patchbay device approve CODE")
	msgNoneWaits   = i18n.Message("No device shows a pairing code.")
	msgManyWait    = i18n.Message("Devices that show a pairing code: %d.")
	msgApproveThem = i18n.Message("Approve one: patchbay device approve CODE")
)

func (sh *shell) deviceTable(rows []deviceRow) error {
	return sh.result(rows, func() {
		if len(rows) == 0 {
			sh.say(msgNoDevices)
			return
		}
		var cells [][]string
		for _, r := range rows {
			note := ""
			if r.Waiting {
				note = msgShowsCode.In(sh.lang)
			}
			cells = append(cells, []string{
				strconv.FormatInt(r.Number, 10), r.Name, r.Room, r.OwnerName, r.BotName, r.Uses, sh.deviceState(r),
				plain(r.Version), sh.when(r.Seen), note,
			})
		}
		sh.table([]i18n.Message{msgID, msgName, msgRoom, msgOwner, msgBot, msgTransport, msgState, msgFirmware,
			msgHeard, i18n.Message("")}, cells)
	})
}

func (sh *shell) waitingTable(w control.Waiting) error {
	return sh.result(w, func() {
		switch {
		case w.Count == 0:
			sh.say(msgNoneWaits)
			return
		case len(w.Devices) == 0: // the key may not list them
			sh.say(msgManyWait, w.Count)
		default:
			var cells [][]string
			for _, d := range w.Devices {
				cells = append(cells, []string{
					strconv.FormatInt(d.Number, 10), plain(d.Hardware), plain(d.Article), d.OwnerName, d.Name,
					d.Address, d.CodeExpires.Local().Format("15:04"),
				})
			}
			sh.table([]i18n.Message{msgID, msgHardware, msgArticle, msgOwner, msgName, msgAddress, msgCodeUntil}, cells)
		}
		sh.say(msgApproveThem)
	})
}
