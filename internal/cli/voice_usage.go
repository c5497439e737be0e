package cli

import (
	"context"
	"strconv"

	"patchbay/internal/api"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

type voiceUsageCmd struct {
	Days        int `default:"30" help:"Number of days up to today."`
	targetFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (voiceUsageCmd) Help() string {
	return `Speech that was understood and characters that were spoken are summed up by day, person, device and engine, with their cost if the engines have prices.

Examples:

    patchbay voice usage
    patchbay voice usage --days 1
    patchbay voice usage --json`
}

const (
	msgUsageSince      = i18n.Message("Since %s: %s minutes heard, %d characters spoken")
	msgUsageCost       = i18n.Message("Cost: %s")
	msgUsageDay        = i18n.Message("DAY")
	msgUsagePerson     = i18n.Message("PERSON")
	msgUsageDevice     = i18n.Message("DEVICE")
	msgUsageEngine     = i18n.Message("ENGINE")
	msgUsageUses       = i18n.Message("USES")
	msgUsageMinutes    = i18n.Message("MINUTES HEARD")
	msgUsageCharacters = i18n.Message("CHARACTERS SPOKEN")
	msgUsagePrice      = i18n.Message("COST")
	msgUsageRemoved    = i18n.Message("%s (removed)")
)

// Run shows the usage.
func (c *voiceUsageCmd) Run(ctx context.Context, sh *shell) error {
	return c.connect(ctx, sh, func(at *conn) error {
		u, err := api.VoiceUsage.Call(ctx, at.Client, control.VoiceUsageQuery{Days: c.Days})
		if err != nil {
			return err
		}
		return sh.result(u, func() {
			sh.say(msgUsageSince, u.Since, u.Total.Minutes(), u.Total.Characters)
			if price := u.Total.Price(u.Currency); price != "" {
				sh.say(msgUsageCost, price)
			}
			sh.usageTable(&u, msgUsageDay, u.Days)
			sh.usageTable(&u, msgUsagePerson, u.People)
			sh.usageTable(&u, msgUsageDevice, u.Devices)
			sh.usageTable(&u, msgUsageEngine, u.Engines)
		})
	})
}

// usageTable prints sums, if there are any.
func (sh *shell) usageTable(u *control.VoiceUsage, of i18n.Message, list []control.Usage) {
	if len(list) == 0 {
		return
	}
	var cells [][]string
	for _, one := range list {
		name := one.Name
		if name == "" {
			name = msgUsageRemoved.In(sh.lang, one.ID)
		}
		cells = append(cells, []string{plain(name), strconv.FormatInt(one.Uses, 10), one.Minutes(),
			strconv.FormatInt(one.Characters, 10), one.Price(u.Currency)})
	}
	sh.printf("\n")
	sh.table([]i18n.Message{of, msgUsageUses, msgUsageMinutes, msgUsageCharacters, msgUsagePrice}, cells)
}
