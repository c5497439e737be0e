package cli

import (
	"context"
	"fmt"
	"strconv"

	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

type upstreamListCmd struct {
	targetFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (upstreamListCmd) Help() string {
	return `The connection status is known only while a server runs. What others share with you is listed too, with the state of your own sign-in.

Examples:

    patchbay upstream list
    patchbay upstream list --json
    patchbay upstream list --server https://board.example.org --key $KEY`
}

// Run lists the upstreams.
func (c *upstreamListCmd) Run(ctx context.Context, sh *shell) error {
	return c.connect(ctx, sh, func(at *conn) error {
		rows, err := at.upstreams(ctx, "")
		if err != nil {
			return err
		}
		return sh.upstreamTable(rows)
	})
}

const (
	msgWhere       = i18n.Message("WHERE")
	msgToolCount   = i18n.Message("TOOLS")
	msgNoUpstreams = i18n.Message("There are no upstreams yet. To add a tool server: patchbay upstream add --help")
	msgConnecting  = i18n.Message("connecting")
	msgWaits       = i18n.Message("waiting")
	msgElsewhere   = i18n.Message("by another instance")
	msgIdleState   = i18n.Message("idle")
	msgFailedState = i18n.Message("failed")
)

func (sh *shell) upstreamTable(rows []control.Upstream) error {
	return sh.result(rows, func() {
		if len(rows) == 0 {
			sh.say(msgNoUpstreams)
			return
		}
		var cells [][]string
		for _, u := range rows {
			cells = append(cells, []string{u.Slug, u.Kind, u.OwnerName, u.Where, sh.upstreamState(u.State),
				toolCount(u), u.Problem})
		}
		sh.table([]i18n.Message{msgName, msgKind, msgOwner, msgWhere, msgState, msgToolCount, i18n.Message("")}, cells)
	})
}

// upstreamState returns the name of a connection state.
func (sh *shell) upstreamState(state string) string {
	switch state {
	case "":
		return "–"
	case control.UpstreamConnecting:
		return msgConnecting.In(sh.lang)
	case control.UpstreamReady:
		return msgReady.In(sh.lang)
	case control.UpstreamWaiting:
		return msgWaits.In(sh.lang)
	case control.UpstreamElsewhere:
		return msgElsewhere.In(sh.lang)
	case control.UpstreamIdle:
		return msgIdleState.In(sh.lang)
	case control.UpstreamFailed:
		return msgFailedState.In(sh.lang)
	case control.UpstreamUnapproved:
		return msgShimApproval.In(sh.lang)
	}
	return state
}

// toolCount returns the number of tools as far as known, with + if there are more.
func toolCount(u control.Upstream) string {
	switch {
	case u.State == "" || u.Kind == control.KindCloud:
		return "–"
	case u.Cut:
		return fmt.Sprintf("%d+", u.Tools)
	}
	return strconv.Itoa(u.Tools)
}
