package cli

import (
	"context"

	"patchbay/internal/api"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
	"patchbay/internal/plug/openclaw/wire"
)

type pairDevicesCmd struct {
	targetFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (pairDevicesCmd) Help() string {
	return `Lists the paired programs of OpenClaw's, which are nodes, operators, or both. Each connects with a token of its own for each of its roles, also after the key that it was paired with is revoked. To end a token: patchbay pair revoke. To remove a device: patchbay node rm.

Examples:

    patchbay pair devices
    patchbay pair devices --json`
}

const (
	msgNonePaired = i18n.Message("No device is paired.")
	msgTokens     = i18n.Message("TOKENS")
	msgTokenUsed  = i18n.Message("LAST USED")
	msgTokenEnded = i18n.Message("%s (revoked)")
	msgPairedVia  = i18n.Message("PAIRED")
	msgViaOwner   = i18n.Message("by its owner")
	msgViaSilent  = i18n.Message("on this machine, by a key")
	msgViaInvite  = i18n.Message("by a setup code")
)

// viaInvite is how devices were paired by a setup code.
const viaInvite = "invite"

// pairedVia says how devices were paired.
var pairedVia = map[string]i18n.Message{"owner": msgViaOwner, "silent": msgViaSilent, viaInvite: msgViaInvite}

// pairedDevices are the paired devices.
type pairedDevices struct {
	Devices []wire.PairedDevice `json:"devices"`
}

// Run lists the paired devices.
func (c *pairDevicesCmd) Run(ctx context.Context, sh *shell) error {
	return c.connect(ctx, sh, func(at *conn) error {
		p, err := callNodes[wire.DevicePairs](ctx, at, api.PairedDevices, control.Empty{})
		if err != nil {
			return err
		}
		return sh.result(pairedDevices{p.Paired}, func() { sh.pairedTable(p.Paired) })
	})
}

func (sh *shell) pairedTable(list []wire.PairedDevice) {
	if len(list) == 0 {
		sh.say(msgNonePaired)
		return
	}
	var cells [][]string
	for _, d := range list {
		var tokens []string
		used := int64(0)
		for _, t := range d.Tokens {
			name := plain(t.Role)
			if t.RevokedAtMS != 0 {
				name = msgTokenEnded.In(sh.lang, name)
			}
			tokens, used = append(tokens, name), max(used, t.LastUsedMS)
		}
		last, via := "–", "–"
		if used != 0 {
			last = sh.when(timeOf(used))
		}
		if text, ok := pairedVia[d.ApprovedVia]; ok {
			via = text.In(sh.lang)
		}
		cells = append(cells, []string{shortID(d.DeviceID, shortNode), called(d.DisplayName, d.DeviceID),
			short(d.Platform, maxCalled), join(tokens), last, via})
	}
	sh.table([]i18n.Message{msgID, msgName, msgPlatform, msgTokens, msgTokenUsed, msgPairedVia}, cells)
}
