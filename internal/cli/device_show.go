package cli

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/tool"
)

type deviceShowCmd struct {
	deviceFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (deviceShowCmd) Help() string {
	return `While a server runs, the current status is requested from the device (its tool status).

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
	toolSay    = "say"
	toolPlay   = "play"
	toolStop   = "stop"
	toolRecord = "record"
	toolReboot = "reboot"

	toolPlayMusic    = "play_music"
	toolControlMusic = "control_music"
)

// Run shows the device.
func (c *deviceShowCmd) Run(ctx context.Context, sh *shell) error {
	return c.connect(ctx, sh, func(at *conn) error {
		d, err := c.find(ctx, at)
		if err != nil {
			return err
		}
		v := deviceView{deviceRow: at.deviceRow(d)}
		if !at.local {
			if err := v.ask(ctx, sh, at); err != nil {
				return err
			}
		}
		return sh.result(v, func() { sh.showDevice(v) })
	})
}

// statusLimit is how long a device may take to tell its status.
const statusLimit = 15 * time.Second

// ask reads the status from the device itself.
func (v *deviceView) ask(ctx context.Context, sh *shell, at *conn) error {
	limited, cancel := context.WithTimeout(ctx, statusLimit)
	defer cancel()
	end, err := at.callDevice(limited, sh, deviceCall{device: strconv.FormatInt(v.Number, 10), tool: toolStatus})
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
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
		return err
	}
	return nil
}

const (
	msgHeadDevice  = i18n.Message("Device %d: %s (%s, %s)")
	msgItsOwner    = i18n.Message("owner")
	msgItsRoom     = i18n.Message("room")
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
	msgClaimed     = i18n.Message("A device with its hardware address shows a pairing code: it was erased, or another device imitates it. If you erased it: patchbay device approve CODE")
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
		{msgItsOwner, v.OwnerName}, {msgItsRoom, v.Room}, {msgItsBot, v.BotName}, {msgItsHardware, v.Hardware},
		{msgItsArticle, v.Article}, {msgItsFamily, v.Family},
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
