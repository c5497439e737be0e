package main

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	"patchbay/internal/app"
	"patchbay/internal/i18n"
	"patchbay/internal/store"
	"patchbay/internal/tool"
)

type deviceShowCmd struct {
	deviceFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (deviceShowCmd) Help() string {
	return `While a server runs, the device is asked how it is (its tool status).

Examples:

    patchbay device show kitchen
    patchbay device show aa:bb:cc:dd:ee:ff --json`
}

// deviceView is the output about a device.
type deviceView struct {
	deviceRow
	// Status is the result of the tool status, if it could be called.
	Status json.RawMessage `json:"status,omitempty"`
	// Problem is why it could not be called, if the device is awake.
	Problem string `json:"problem,omitempty"`
}

// Tools that every device has besides its own.
const (
	toolStatus = "status"
	toolShow   = "show"
	toolAlert  = "alert"
	toolPlay   = "play"
	toolStop   = "stop"
	toolRecord = "record"
	toolReboot = "reboot"
)

// Run shows the device.
func (c *deviceShowCmd) Run(ctx context.Context, sh *shell) error {
	var v deviceView
	err := c.resolve(ctx, sh, func(r *remote) (err error) {
		v, err = r.viewDevice(ctx, sh, c.Device)
		return err
	}, func(b *app.Base, d store.Device) error {
		r, err := findRunning(ctx, sh, b.Config)
		if err != nil {
			return err
		}
		if r != nil {
			v, err = r.viewDevice(ctx, sh, c.Device)
			return err
		}
		rows, err := deviceRows(ctx, b, []store.Device{d})
		if err == nil {
			v.deviceRow = rows[0]
		}
		return err
	})
	if err != nil {
		return err
	}
	return sh.result(v, func() { sh.showDevice(v) })
}

// viewDevice reads a device from the server, and its status from the device itself.
func (r *remote) viewDevice(ctx context.Context, sh *shell, ref string) (v deviceView, err error) {
	d, err := r.device(ctx, ref)
	if err != nil {
		return v, err
	}
	v.deviceRow = liveDevice(d)
	limited, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	end, err := r.callDevice(limited, sh, deviceCall{device: ref, tool: toolStatus})
	switch {
	case ctx.Err() != nil:
		return v, ctx.Err()
	case err != nil:
		v.Problem = i18n.Localize(err, sh.lang)
	case end.Code == tool.Offline: // Online says so
	case end.Error != "":
		v.Problem = toolError(end).Error()
	case end.Result != nil && end.Result.IsError:
		v.Problem = end.Result.PlainText()
	case end.Result != nil:
		v.Status = end.Result.Structured
		if len(v.Status) == 0 {
			v.Status, err = json.Marshal(end.Result.PlainText())
		}
		return v, err
	}
	return v, nil
}

const (
	msgHeadDevice  = i18n.Message("Device %d: %s (%s, %s)")
	msgItsOwner    = i18n.Message("owner")
	msgItsBot      = i18n.Message("bot")
	msgItsHardware = i18n.Message("hardware")
	msgItsArticle  = i18n.Message("what")
	msgItsFamily   = i18n.Message("family")
	msgItsFirmware = i18n.Message("firmware")
	msgItsLanguage = i18n.Message("language")
	msgItsWay      = i18n.Message("transport")
	msgItsAddress  = i18n.Message("address")
	msgItsApproval = i18n.Message("time\x04approved")
	msgItsLast     = i18n.Message("last seen")
	msgHeadStatus  = i18n.Message("\nStatus")
	msgClaimed     = i18n.Message("Something with its hardware address shows a code: it was erased, or something pretends to be it. If it was you: patchbay device approve CODE")
)

func (sh *shell) showDevice(v deviceView) {
	sh.say(msgHeadDevice, v.Number, v.Name, v.Kind, sh.deviceState(v.deviceRow))
	if v.Waiting {
		sh.say(msgClaimed)
	}
	var rows [][]string
	for _, line := range []struct {
		name  i18n.Message
		value string
	}{
		{msgItsOwner, v.OwnerName}, {msgItsBot, v.BotName}, {msgItsHardware, v.Hardware}, {msgItsArticle, v.Article},
		{msgItsFamily, v.Family},
		{msgItsFirmware, v.Version}, {msgItsLanguage, v.Language}, {msgItsWay, v.Uses}, {msgItsAddress, v.Address},
		{msgItsApproval, sh.when(v.Approved)}, {msgItsLast, sh.when(v.Seen)},
	} {
		if line.value != "" {
			rows = append(rows, []string{line.name.In(sh.lang), plain(line.value)})
		}
	}
	sh.grid("  ", rows)
	sh.showStatus(v)
}

// showStatus prints the status of a device, one line per value.
func (sh *shell) showStatus(v deviceView) {
	if v.Problem != "" {
		sh.printf("%s\n", plain(singleLine(v.Problem)))
	}
	if len(v.Status) == 0 {
		return
	}
	sh.say(msgHeadStatus)
	sh.fields("", v.Status, 0)
}

// maxDepth is how many levels of the status are split into lines; deeper levels stay JSON.
const maxDepth = 3

// fields prints JSON as lines such as "name.inner = value".
func (sh *shell) fields(name string, value json.RawMessage, depth int) {
	var inner map[string]json.RawMessage
	switch {
	case depth < maxDepth && json.Unmarshal(value, &inner) == nil && len(inner) > 0:
		for _, key := range slices.Sorted(maps.Keys(inner)) {
			path := key
			if name != "" {
				path = name + "." + key
			}
			sh.fields(path, inner[key], depth+1)
		}
	case name == "":
		sh.printf("  %s\n", plain(plainJSON(value)))
	default:
		sh.printf("  %s = %s\n", plain(name), plain(plainJSON(value)))
	}
}
