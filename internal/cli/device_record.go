package cli

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"slices"
	"time"

	"patchbay/internal/api"
	"patchbay/internal/i18n"
	"patchbay/internal/netx"
	"patchbay/internal/tool"
)

type deviceRecordCmd struct {
	Out         string        `help:"File to which the audio is written." placeholder:"FILE" required:""`
	Seconds     int           `help:"Length of the recording in seconds, from the start of a conversation; default: 10." default:"10" placeholder:"N"`
	Wait        time.Duration `help:"How long to wait for a conversation; default: one minute." placeholder:"TIME"`
	deviceFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (deviceRecordCmd) Help() string {
	return `A board sends audio only during a conversation, so the command waits for one. The audio is written as an Ogg Opus file, which media players and browsers support.

Examples:

    patchbay device record kitchen --out kitchen.ogg
    patchbay device record kitchen --out kitchen.ogg --seconds 30 --wait 2m`
}

// recording is the output about a recorded file.
type recording struct {
	File  string `json:"file"`
	MIME  string `json:"mimeType,omitempty"`
	Bytes int64  `json:"bytes"`
}

const msgRecorded = i18n.Message("%s: %s, %d bytes")

// Run records the sound.
func (c *deviceRecordCmd) Run(ctx context.Context, sh *shell) error {
	if c.Seconds < 1 {
		return usage(i18n.Message("--seconds is %d; it must be at least 1"), c.Seconds)
	}
	if err := checkWait(c.Wait); err != nil {
		return err
	}
	return c.reach(ctx, sh, func(at *conn) error {
		end, err := c.record(ctx, sh, at)
		if err != nil {
			return err
		}
		return c.save(sh, end)
	})
}

// save writes the sound of a call's result to the file.
func (c *deviceRecordCmd) save(sh *shell, end api.ToolLine) error {
	blocks, err := callContent(end)
	if err != nil {
		return err
	}
	if end.Result.IsError {
		return i18n.Message("%s reported a failure: %s").Errorf(toolRecord,
			plain(end.Result.PlainText()))
	}
	i := slices.IndexFunc(blocks, func(b content) bool { return b.Type == "audio" && len(b.Data) > 0 })
	if i < 0 {
		return i18n.Message("the device recorded no sound: %s").Errorf(plain(end.Result.PlainText()))
	}
	if err := os.WriteFile(c.Out, blocks[i].Data, 0o600); err != nil {
		return err
	}
	got := recording{c.Out, blocks[i].MIME, int64(len(blocks[i].Data))}
	return sh.result(got, func() { sh.say(msgRecorded, got.File, label("audio", got.MIME), got.Bytes) })
}

// recordWait is how long one call of the tool waits for somebody to talk.
const recordWait = 4 * time.Minute

// record calls the tool until somebody talks with the device, or the time is over.
func (c *deviceRecordCmd) record(ctx context.Context, sh *shell, at *conn) (end api.ToolLine, err error) {
	call := deviceCall{device: c.Device, tool: toolRecord, wait: c.Wait}
	if c.Wait > 0 {
		d, err := c.find(ctx, at)
		if err != nil {
			return end, err
		}
		if !d.Online {
			sh.showAsleep(call)
		}
	}
	until := time.Now().Add(c.Wait)
	for {
		args := map[string]any{"seconds": c.Seconds}
		if c.Wait > 0 {
			args["wait"] = int(math.Ceil(max(0, min(time.Until(until), recordWait)).Seconds()))
		}
		if call.args, err = json.Marshal(args); err != nil {
			return end, err
		}
		if end, err = at.callDeviceOnce(ctx, sh, call); err != nil || end.Code != tool.Offline ||
			time.Until(until) < wakeEvery {
			return end, err
		}
		// The call may return at once if the server does not know the device yet.
		if err := netx.Wait(ctx, wakeEvery); err != nil {
			return end, err
		}
	}
}
