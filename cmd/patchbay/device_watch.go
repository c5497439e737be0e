package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"patchbay/internal/api"
	"patchbay/internal/i18n"
)

type deviceWatchCmd struct {
	Device      string `arg:"" optional:"" help:"Name, number or MAC address; without it, all devices."`
	serverFlags `embed:""`
	dataFlags   `embed:""`
}

// Help returns the command's detailed help with examples.
func (deviceWatchCmd) Help() string {
	return `It prints what devices tell by themselves, a line each, until Ctrl-C: that they are awake (patchbay/awake) or asleep, that a conversation begins (patchbay/conversation_started) or ends (patchbay/conversation_ended), that a photo came, and whatever their firmware tells.

Examples:

    patchbay device watch
    patchbay device watch kitchen --json`
}

const msgWatches = i18n.Message("Waiting for what devices tell; Ctrl-C ends it.")

// Run prints notices until ctx ends, which is not an error.
func (c *deviceWatchCmd) Run(ctx context.Context, sh *shell) error {
	r, err := findDeviceServer(ctx, sh, c.dataFlags, c.serverFlags)
	if err != nil {
		return err
	}
	path := "/api/v1/notices"
	if c.Device != "" {
		path += "?device=" + url.QueryEscape(c.Device)
	}
	resp, err := r.send(ctx, http.MethodGet, path, nil)
	if err != nil {
		return listenEnd(ctx, err)
	}
	defer resp.Body.Close()
	if !sh.json {
		fmt.Fprintln(sh.stderr, msgWatches.In(sh.lang))
	}
	for lines := json.NewDecoder(resp.Body); ; {
		var l api.NoticeLine
		if err := lines.Decode(&l); err != nil {
			return listenEnd(ctx, i18n.Message("the connection broke").Errorf())
		}
		switch n := l.Notice; {
		case n == nil: // a heartbeat
		case sh.json:
			if err := sh.writeJSON(n, ""); err != nil {
				return err
			}
		default:
			sh.printf("%s  %s  %s  %s\n", n.At.Local().Format("15:04:05"), plain(n.Title), plain(n.Method),
				plain(string(n.Params)))
		}
	}
}
