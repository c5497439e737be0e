package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"patchbay/internal/api"
	"patchbay/internal/app"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
	"patchbay/internal/store"
	"patchbay/internal/tool"
)

// deviceFlags name a device.
type deviceFlags struct {
	Device      string `arg:"" help:"Name, number or hardware address of the device."`
	dataFlags   `embed:""`
	serverFlags `embed:""`
}

// resolve calls there with the server if one was named, and here with the device in the data
// directory otherwise.
func (f *deviceFlags) resolve(ctx context.Context, sh *shell, there func(*remote) error,
	here func(*app.Base, store.Device) error) error {
	r, err := f.remote(sh)
	if err != nil {
		return err
	}
	if r != nil {
		return there(r)
	}
	return f.withData(ctx, sh, func(b *app.Base) error {
		d, err := b.Accounts.FindDevice(ctx, "", f.Device)
		if errors.Is(err, store.ErrNotFound) {
			return i18n.Message("there is no device %q; patchbay device list shows those there are").Errorf(f.Device)
		}
		if err != nil {
			return deviceError(err)
		}
		return here(b, d)
	})
}

// change changes the device on the server or locally, and prints that it did.
func (f *deviceFlags) change(ctx context.Context, sh *shell, c control.DeviceChange,
	here func(*app.Base, store.Device) error, told func(deviceRow)) error {
	var row deviceRow
	err := f.resolve(ctx, sh, func(r *remote) error {
		d, err := r.changeDevice(ctx, f.Device, c)
		row = liveDevice(d)
		return err
	}, func(b *app.Base, d store.Device) error {
		if err := here(b, d); err != nil {
			return deviceError(err)
		}
		d, err := b.Store.Devices.ByNumber(ctx, d.Number)
		if err != nil {
			return deviceError(err)
		}
		rows, err := deviceRows(ctx, b, []store.Device{d})
		if err == nil {
			row = rows[0]
		}
		return err
	})
	if err != nil {
		return err
	}
	return sh.result(row, func() { told(row) })
}

// deviceError returns an error of the accounts with a message that says what to do.
func deviceError(err error) error {
	if e := control.DeviceError(err); e != nil {
		return e
	}
	return err
}

// deviceRow is a device in the list.
type deviceRow struct {
	control.Device
	// Online is nil if unknown.
	Online *bool `json:"online,omitempty"`
}

func liveDevice(d control.Device) deviceRow { return deviceRow{Device: d, Online: &d.Online} }

// deviceRows adds what else is known to devices of a data directory.
func deviceRows(ctx context.Context, b *app.Base, list []store.Device) ([]deviceRow, error) {
	people, err := names(ctx, b)
	if err != nil {
		return nil, err
	}
	bots, err := b.Store.Bots.ByOwner(ctx, "")
	if err != nil {
		return nil, err
	}
	botNames := map[int64]string{}
	for _, bot := range bots {
		botNames[bot.Number] = bot.Name
	}
	rows := make([]deviceRow, len(list))
	for i, d := range list {
		rows[i] = deviceRow{Device: control.Device{Device: d, OwnerName: people[d.Owner], BotName: botNames[d.Bot],
			Uses: app.BoardTransport(b.Config, d.Transport), Waiting: control.ShowsCode(d)}}
	}
	return rows, nil
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
	r, err := findDeviceServer(ctx, sh, f.dataFlags, f.serverFlags)
	if err != nil {
		return err
	}
	text, err := json.Marshal(args)
	if err != nil {
		return err
	}
	end, err := r.callDevice(ctx, sh, deviceCall{device: f.Device, tool: name, args: text})
	if err != nil {
		return err
	}
	return sh.showCall(end, name, "")
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

const msgWaitsAsleep = i18n.Message("%s is asleep; waiting for it to wake, for %s at most…")

// callDevice calls a tool of a device. If the device is asleep and the call is to wait, it retries
// when the device is awake.
func (r *remote) callDevice(ctx context.Context, sh *shell, c deviceCall) (end api.ToolLine, err error) {
	until := time.Now().Add(c.wait)
	told := false
	for pause := wakeEvery; ; pause = min(2*pause, callEvery) {
		if end, err = r.callDeviceOnce(ctx, sh, c); err != nil || end.Code != tool.Offline || c.wait == 0 {
			return end, err
		}
		if !told {
			sh.showAsleep(c)
			told = true
		}
		if awake, err := r.awaitDevice(ctx, c.device, pause, until); err != nil || !awake {
			return end, err
		}
	}
}

func (sh *shell) showAsleep(c deviceCall) {
	fmt.Fprintln(sh.stderr, msgWaitsAsleep.In(sh.lang, plain(c.device), c.wait))
}

func (r *remote) callDeviceOnce(ctx context.Context, sh *shell, c deviceCall) (end api.ToolLine, err error) {
	line := sh.callLine(&end)
	err = stream(ctx, r, devicePath(c.device)+"/tools/"+url.PathEscape(c.tool)+"/call", api.ToolCall{Arguments: c.args},
		func(l api.ToolLine) (bool, error) { return l.End, line(l) })
	sh.clearProgress()
	return end, err
}

// awaitDevice waits for pause, and then until the device is awake. It returns false if that did not
// happen before until.
func (r *remote) awaitDevice(ctx context.Context, ref string, pause time.Duration, until time.Time) (bool, error) {
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
		d, err := r.device(ctx, ref)
		if err != nil || d.Online {
			return d.Online, err
		}
		next.Reset(wakeEvery)
	}
}

func devicePath(ref string) string { return "/api/v1/devices/" + url.PathEscape(ref) }

// devices lists the devices that the key may see.
func (r *remote) devices(ctx context.Context) (all []control.Device, err error) {
	var page control.Devices
	for after := int64(0); ; after = page.Next {
		page = control.Devices{}
		if err := r.do(ctx, http.MethodGet, "/api/v1/devices?after="+strconv.FormatInt(after, 10), nil,
			&page); err != nil {
			return nil, err
		}
		all = append(all, page.Devices...)
		if page.Next <= after {
			return all, nil
		}
	}
}

func (r *remote) device(ctx context.Context, ref string) (d control.Device, err error) {
	err = r.do(ctx, http.MethodGet, devicePath(ref), nil, &d)
	return d, err
}

func (r *remote) changeDevice(ctx context.Context, ref string, c control.DeviceChange) (d control.Device, err error) {
	err = r.do(ctx, http.MethodPatch, devicePath(ref), c, &d)
	return d, err
}

// deviceTools lists a device's tools, with their schemas on request.
func (r *remote) deviceTools(ctx context.Context, ref string, schemas bool) ([]control.DeviceTool, error) {
	var out struct {
		Tools []control.DeviceTool `json:"tools"`
	}
	err := r.do(ctx, http.MethodGet, devicePath(ref)+"/tools?schemas="+strconv.FormatBool(schemas), nil, &out)
	return out.Tools, err
}

// listen writes the device's audio to w until ctx or the device ends it. It calls begun when the
// server has accepted the request.
func (r *remote) listen(ctx context.Context, ref string, w io.Writer, begun func()) (n int64, err error) {
	resp, err := r.send(ctx, http.MethodGet, devicePath(ref)+"/listen", nil)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	begun()
	to := &sink{Writer: w}
	n, err = io.Copy(to, resp.Body)
	if err != nil && to.err == nil && ctx.Err() == nil {
		err = i18n.Message("the connection broke; the sound ends here").Errorf()
	}
	return n, err
}

// sink records whether writing failed.
type sink struct {
	io.Writer
	err error
}

func (s *sink) Write(b []byte) (int, error) {
	n, err := s.Writer.Write(b)
	s.err = err
	return n, err
}
