package cli

import (
	"context"
	"fmt"
	"strings"

	"patchbay/internal/api"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

type relayStatusCmd struct {
	targetFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (relayStatusCmd) Help() string {
	return `Shows, at home, the connections of the server to its relays.

Examples:

    patchbay relay status
    patchbay relay status --json`
}

const (
	msgLinkNone  = i18n.Message("The server uses no relay; patchbay serve --relay relay.example.org --relay-key CODE begins with one.")
	msgLinkRelay = i18n.Message("RELAY")
	msgLinkNames = i18n.Message("ADDRESS")
	msgLinkState = i18n.Message("CONNECTED SINCE")
	msgLinkTrip  = i18n.Message("ROUND TRIP")
	msgLinkOpen  = i18n.Message("OPEN CONNECTIONS")
	msgLinkDown  = i18n.Message("not connected: %s")
)

// Run prints the state of the links.
func (c *relayStatusCmd) Run(ctx context.Context, sh *shell) error {
	return c.connect(ctx, sh, func(at *conn) error {
		s, err := api.Status.Call(ctx, at.Client, control.Empty{})
		if err != nil {
			return err
		}
		return sh.result(append([]control.RelayLink{}, s.Links...), func() {
			if len(s.Links) == 0 {
				sh.say(msgLinkNone)
				return
			}
			var rows [][]string
			for _, l := range s.Links {
				state, trip := sh.when(l.Since), "-"
				if !l.Connected {
					state = msgLinkDown.In(sh.lang, l.Problem)
				} else if l.RoundTrip > 0 {
					trip = fmt.Sprintf("%.1f ms", l.RoundTrip)
				}
				rows = append(rows, []string{l.Relay, strings.Join(l.Names, ", "), fmt.Sprint(l.Streams), trip, state})
			}
			sh.table([]i18n.Message{msgLinkRelay, msgLinkNames, msgLinkOpen, msgLinkTrip, msgLinkState}, rows)
		})
	})
}
