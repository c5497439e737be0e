package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"patchbay/internal/api"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
	"patchbay/internal/tool"
)

// deviceFlags name a device.
type deviceFlags struct {
	Device      string `arg:"" help:"Name, number or MAC address of the device."`
	targetFlags `embed:""`
}

// find returns the device.
func (f *deviceFlags) find(ctx context.Context, at *conn) (control.Device, error) {
	d, err := api.Device.Call(ctx, at.Client, control.DeviceRef{Device: f.Device})
	return d, missingDevice(err, f.Device)
}

// missingDevice returns the error of an operation on a device, with a hint if there is no such
// device.
func missingDevice(err error, ref string) error {
	if isMissing(err) {
		return i18n.Message("there is no device %q; patchbay device list lists the devices").Errorf(ref)
	}
	return err
}

// change changes the device and prints that it did.
func (f *deviceFlags) change(ctx context.Context, sh *shell, c control.DeviceChange, told func(deviceRow)) error {
	return f.connect(ctx, sh, func(at *conn) error {
		d, err := f.find(ctx, at)
		if err != nil {
			return err
		}
		c.Device = strconv.FormatInt(d.Number, 10)
		d, err = api.ChangeDevice.Call(ctx, at.Client, c)
		if isMissing(err) && c.Bot != nil {
			err = i18n.Message("the owner of the device has no bot %q; patchbay bot list lists the bots").
				Errorf(*c.Bot)
		}
		if err != nil {
			return err
		}
		return sh.result(at.deviceRow(d), func() { told(at.deviceRow(d)) })
	})
}

// reach is connect for actions on devices, which only a server can reach.
func (f targetFlags) reach(ctx context.Context, sh *shell, use func(*conn) error) error {
	return f.connect(ctx, sh, func(at *conn) error {
		if at.local {
			return i18n.Message("devices can be reached only while a server runs; start one with: patchbay serve%s").
				Errorf(f.retryFlags())
		}
		return use(at)
	})
}

// deviceRow is a device in the list.
type deviceRow struct {
	control.Device
	// Online is nil if unknown.
	Online *bool `json:"online,omitempty"`
}

// deviceRow returns the row of a device. Only a server knows whether it is online.
func (c *conn) deviceRow(d control.Device) deviceRow {
	if c.local {
		return deviceRow{Device: d}
	}
	return deviceRow{d, &d.Online}
}

const (
	msgAwake  = i18n.Message("online")
	msgAsleep = i18n.Message("asleep")
)

// deviceState returns a text about whether a device is connected, as far as known.
func (sh *shell) deviceState(r deviceRow) string {
	switch {
	case r.Online == nil:
		return "–"
	case *r.Online:
		return msgAwake.In(sh.lang)
	}
	return msgAsleep.In(sh.lang)
}

// callTool calls one of the tools that every device has, and prints the result.
func (f *deviceFlags) callTool(ctx context.Context, sh *shell, name string, args map[string]any) error {
	text, err := json.Marshal(args)
	if err != nil {
		return err
	}
	return f.reach(ctx, sh, func(at *conn) error {
		end, err := at.callDevice(ctx, sh, deviceCall{device: f.Device, tool: name, args: text})
		if err != nil {
			return err
		}
		return sh.showCall(end, name, "")
	})
}

// deviceCall is a call of a device's tool.
type deviceCall struct {
	device, tool string
	args         []byte        // a JSON object
	wait         time.Duration // how long to wait for the device to wake; 0 means not at all
}

const (
	// wakeEvery is how often the server is asked whether a device has woken.
	wakeEvery = time.Second
	// callEvery is the longest interval between calls of a device that is awake but not ready, so
	// that the audit trail is not flooded.
	callEvery = 10 * time.Second
)

const msgWaitsAsleep = i18n.Message("%s is asleep; waiting up to %s for it to wake…")

// callDevice calls a tool of a device. If the device is asleep and the call is to wait, it retries
// when the device is awake.
func (c *conn) callDevice(ctx context.Context, sh *shell, q deviceCall) (end api.ToolLine, err error) {
	until := time.Now().Add(q.wait)
	told := false
	for pause := wakeEvery; ; pause = min(2*pause, callEvery) {
		if end, err = c.callDeviceOnce(ctx, sh, q); err != nil || end.Code != tool.Offline || q.wait == 0 {
			return end, err
		}
		if !told {
			sh.showAsleep(q)
			told = true
		}
		if awake, err := c.awaitDevice(ctx, q.device, pause, until); err != nil || !awake {
			return end, err
		}
	}
}

func (sh *shell) showAsleep(c deviceCall) {
	fmt.Fprintln(sh.stderr, msgWaitsAsleep.In(sh.lang, plain(c.device), c.wait))
}

func (c *conn) callDeviceOnce(ctx context.Context, sh *shell, q deviceCall) (end api.ToolLine, err error) {
	err = c.CallDeviceTool(ctx, q.device, api.ToolCall{Name: q.tool, Arguments: q.args}, sh.callLine(&end))
	sh.clearProgress()
	return end, missingDevice(err, q.device)
}

// awaitDevice waits for pause, and then until the device is awake. It returns false if that did not
// happen before until.
func (c *conn) awaitDevice(ctx context.Context, ref string, pause time.Duration, until time.Time) (bool, error) {
	over := time.NewTimer(time.Until(until))
	defer over.Stop()
	next := time.NewTimer(pause)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-over.C:
			return false, nil
		case <-next.C:
		}
		d, err := api.Device.Call(ctx, c.Client, control.DeviceRef{Device: ref})
		if err != nil || d.Online {
			return d.Online, err
		}
		next.Reset(wakeEvery)
	}
}
