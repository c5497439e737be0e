package cli

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"patchbay/internal/api"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

type deviceTimersCmd struct {
	In          time.Duration `help:"Set a timer that rings after this time." placeholder:"TIME"`
	At          string        `help:"Set a timer that rings at a local time: 07:00, \"tomorrow 07:00\" or \"2026-11-30 07:00\"." placeholder:"TIME"`
	Text        string        `help:"What the new timer reminds of." placeholder:"TEXT"`
	Repeat      string        `help:"Repeat the new timer: daily or weekdays." placeholder:"DAYS"`
	Cancel      int64         `help:"Cancel the timer with this number." placeholder:"NUMBER"`
	deviceFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (deviceTimersCmd) Help() string {
	return `Without flags, the timers are listed, the next one first.

Examples:

    patchbay device timers kitchen
    patchbay device timers kitchen --in 10m --text "Take the cake out"
    patchbay device timers kitchen --at 07:00 --repeat weekdays --text "Get up"
    patchbay device timers kitchen --cancel 3`
}

const (
	msgTimerNumber    = i18n.Message("NUMBER")
	msgTimerDue       = i18n.Message("RINGS")
	msgTimerRepeat    = i18n.Message("REPEAT")
	msgTimerText      = i18n.Message("TEXT")
	msgTimerSet       = i18n.Message("Timer %d rings on %s.")
	msgTimerCancelled = i18n.Message("Timer %d is cancelled.")
	msgNoTimers       = i18n.Message("No timer is set.")
)

// Run lists, sets or cancels timers.
func (c *deviceTimersCmd) Run(ctx context.Context, sh *shell) error {
	set := c.In != 0 || c.At != ""
	if set && c.Cancel != 0 || !set && (c.Text != "" || c.Repeat != "") || c.In < 0 {
		return usage(i18n.Message("use --in or --at to set a timer, or --cancel to cancel one"))
	}
	return c.reach(ctx, sh, func(at *conn) error {
		switch {
		case set:
			return c.set(ctx, sh, at)
		case c.Cancel != 0:
			return c.cancel(ctx, sh, at)
		}
		list, err := api.DeviceTimers.Call(ctx, at.Client, control.DeviceRef{Device: c.Device})
		if err != nil {
			return missingDevice(err, c.Device)
		}
		return sh.result(list, func() { sh.timerTable(list.Timers) })
	})
}

func (c *deviceTimersCmd) set(ctx context.Context, sh *shell, at *conn) error {
	r, err := api.SetDeviceTimer.Call(ctx, at.Client, control.NewDeviceTimer{Device: c.Device, Text: c.Text,
		Seconds: int(c.In.Seconds()), At: c.At, Repeat: c.Repeat})
	if err != nil {
		return missingDevice(err, c.Device)
	}
	return sh.result(r, func() { sh.printf("%s\n", msgTimerSet.In(sh.lang, r.ID, r.Local)) })
}

func (c *deviceTimersCmd) cancel(ctx context.Context, sh *shell, at *conn) error {
	out, err := api.CancelDeviceTimer.Call(ctx, at.Client,
		control.DeviceTimerRef{DeviceRef: control.DeviceRef{Device: c.Device}, Timer: c.Cancel})
	if err != nil {
		return missingDevice(err, c.Device)
	}
	return sh.result(out, func() { sh.printf("%s\n", msgTimerCancelled.In(sh.lang, c.Cancel)) })
}

// timerTable prints timers.
func (sh *shell) timerTable(list []control.DeviceTimer) {
	if len(list) == 0 {
		sh.printf("%s\n", msgNoTimers.In(sh.lang))
		return
	}
	var rows [][]string
	for _, r := range list {
		rows = append(rows, []string{fmt.Sprint(r.ID), r.Local, cmp.Or(r.Repeat, "–"), cmp.Or(plain(r.Text), "–")})
	}
	sh.table([]i18n.Message{msgTimerNumber, msgTimerDue, msgTimerRepeat, msgTimerText}, rows)
}
