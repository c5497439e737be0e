package cli

import (
	"context"

	"patchbay/internal/api"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
	"patchbay/internal/settings"
)

type deviceVoiceCmd struct {
	deviceFlags `embed:""`
	Set         []string `sep:"none" help:"A setting as name=value; name= removes it. Repeat the option for more." placeholder:"name=value"`
}

// Help returns the command's detailed help with examples.
func (deviceVoiceCmd) Help() string {
	return `Without --set it shows the settings. A change applies to the next question; the
conversation goes on. What a device lacks is set by its bot.

Examples:

    patchbay device voice kitchen
    patchbay device voice kitchen --set language=ja --set speed=0.9
    patchbay device voice kitchen --set "greeting=Hi, what's up?" --set "exit_phrases=that will do"
    patchbay device voice kitchen --set voice=`
}

const (
	msgHeadVoice    = i18n.Message("Device %d: %s")
	msgVoiceSetting = i18n.Message("SETTING")
	msgVoiceValue   = i18n.Message("VALUE")
	msgVoiceFrom    = i18n.Message("FROM")
	msgVoiceOwn     = i18n.Message("the device's settings")
	msgVoiceBot     = i18n.Message("its bot, or the device itself")
)

// Run changes or shows the settings.
func (c *deviceVoiceCmd) Run(ctx context.Context, sh *shell) error {
	set, err := sh.pairs(c.Set)
	if err != nil {
		return err
	}
	return c.connect(ctx, sh, func(at *conn) error {
		var v control.DeviceVoice
		if len(set) > 0 {
			v, err = api.ChangeDeviceVoice.Call(ctx, at.Client, control.DeviceVoiceChange{Device: c.Device,
				Settings: set})
		} else {
			v, err = api.DeviceVoice.Call(ctx, at.Client, control.DeviceRef{Device: c.Device})
		}
		if err != nil {
			return missingDevice(err, c.Device)
		}
		return sh.result(v, func() { sh.showVoice(v) })
	})
}

func (sh *shell) showVoice(v control.DeviceVoice) {
	sh.say(msgHeadVoice, v.Device, v.Name)
	var rows [][]string
	for _, k := range v.Kinds {
		value, from := v.Settings[k.Name], msgVoiceOwn.In(sh.lang)
		if value == nil {
			value, from = v.Effective[k.Name], msgVoiceBot.In(sh.lang)
		}
		text := settings.Text(value)
		if value == nil {
			text, from = "–", ""
		}
		rows = append(rows, []string{k.Name, text, from})
	}
	sh.table([]i18n.Message{msgVoiceSetting, msgVoiceValue, msgVoiceFrom}, rows)
}
