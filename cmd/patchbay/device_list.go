package main

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"patchbay/internal/app"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
	"patchbay/internal/store"
)

type deviceListCmd struct {
	Waiting     bool `help:"Those that show a code and wait for their owner to approve them."`
	dataFlags   `embed:""`
	serverFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (deviceListCmd) Help() string {
	return `Whether devices are awake is known only while a server runs. Codes are never listed: they stand on the device's display. Of a server, only a key with scope admin sees which devices wait; others see how many.

Examples:

    patchbay device list
    patchbay device list --waiting
    patchbay device list --json
    patchbay device list --server https://board.example.org --key $KEY`
}

// Run lists the devices.
func (c *deviceListCmd) Run(ctx context.Context, sh *shell) error {
	r, err := c.remote(sh)
	if err != nil {
		return err
	}
	if c.Waiting {
		return c.showWaiting(ctx, sh, r)
	}
	if r != nil {
		list, err := r.devices(ctx)
		if err != nil {
			return err
		}
		return sh.deviceTable(liveDevices(list))
	}
	return c.withData(ctx, sh, func(b *app.Base) error {
		rows, err := localDevices(ctx, sh, b)
		if err != nil {
			return err
		}
		return sh.deviceTable(rows)
	})
}

func liveDevices(list []control.Device) []deviceRow {
	rows := make([]deviceRow, len(list))
	for i, d := range list {
		rows[i] = liveDevice(d)
	}
	return rows
}

// devicesPage is how many devices are read from the database at a time.
const devicesPage = 1000

// localDevices lists the devices of a data directory, with the state from its running server, if
// there is one.
func localDevices(ctx context.Context, sh *shell, b *app.Base) ([]deviceRow, error) {
	r, err := findRunning(ctx, sh, b.Config)
	if err != nil {
		return nil, err
	}
	if r != nil {
		list, err := r.devices(ctx)
		return liveDevices(list), err
	}
	var all []store.Device
	for after := int64(0); ; after = all[len(all)-1].Number {
		page, err := b.Store.Devices.Page(ctx, after, devicesPage)
		if err != nil {
			return nil, err
		}
		all = append(all, page...)
		if len(page) < devicesPage {
			return deviceRows(ctx, b, all)
		}
	}
}

const (
	msgTransport   = i18n.Message("TRANSPORT")
	msgFirmware    = i18n.Message("FIRMWARE")
	msgHeard       = i18n.Message("LAST SEEN")
	msgHardware    = i18n.Message("HARDWARE")
	msgArticle     = i18n.Message("WHAT")
	msgAddress     = i18n.Message("ADDRESS")
	msgCodeUntil   = i18n.Message("CODE UNTIL")
	msgShowsCode   = i18n.Message("shows a code")
	msgNoDevices   = i18n.Message("There are no devices yet. Turn one on; it shows a code. Then: patchbay device approve CODE")
	msgNoneWaits   = i18n.Message("No device shows a code.")
	msgManyWait    = i18n.Message("Devices that show a code: %d.")
	msgApproveThem = i18n.Message("Approve one: patchbay device approve CODE")
)

func (sh *shell) deviceTable(rows []deviceRow) error {
	if rows == nil {
		rows = []deviceRow{}
	}
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
				strconv.FormatInt(r.Number, 10), r.Name, r.OwnerName, r.BotName, r.Uses, sh.deviceState(r),
				plain(r.Version), sh.when(r.Seen), note,
			})
		}
		sh.table([]i18n.Message{msgID, msgName, msgOwner, msgBot, msgTransport, msgState, msgFirmware, msgHeard,
			i18n.Message("")}, cells)
	})
}

// showWaiting lists the devices that show a pairing code, from a server if there is one.
func (c *deviceListCmd) showWaiting(ctx context.Context, sh *shell, r *remote) error {
	if r != nil {
		var w control.Waiting
		if err := r.do(ctx, http.MethodGet, "/api/v1/devices/waiting", nil, &w); err != nil {
			return err
		}
		return sh.waitingTable(w)
	}
	return c.withData(ctx, sh, func(b *app.Base) error {
		list, err := b.Store.Devices.Waiting(ctx, time.Now())
		if err != nil {
			return err
		}
		rows, err := deviceRows(ctx, b, list)
		if err != nil {
			return err
		}
		w := control.Waiting{Count: len(rows)}
		for _, row := range rows {
			w.Devices = append(w.Devices, row.Device)
		}
		return sh.waitingTable(w)
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
