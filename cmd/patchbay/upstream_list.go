package main

import (
	"context"
	"fmt"
	"strconv"

	"patchbay/internal/app"
	"patchbay/internal/control"
	"patchbay/internal/talk"
)

type upstreamListCmd struct {
	dataFlags   `embed:""`
	serverFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (upstreamListCmd) Help() string {
	return `How their connections are is known only while a server runs.

Examples:

    patchbay upstream list
    patchbay upstream list --json
    patchbay upstream list --server https://board.example.org --key $KEY`
}

// Run lists the upstreams.
func (c *upstreamListCmd) Run(ctx context.Context, sh *shell) error {
	r, err := c.remote(sh)
	if err != nil {
		return err
	}
	if r != nil {
		rows, err := r.upstreams(ctx)
		if err != nil {
			return err
		}
		return sh.upstreamTable(rows)
	}
	return c.withData(ctx, sh, func(b *app.Base) error {
		rows, _, err := localUpstreams(ctx, sh, b)
		if err != nil {
			return err
		}
		return sh.upstreamTable(rows)
	})
}

var (
	sayWhere       = talk.Say{Zh: "位置", En: "WHERE"}
	sayToolCount   = talk.Say{Zh: "工具", En: "TOOLS"}
	sayNoUpstreams = talk.Say{Zh: "还没有上游。接入一个工具服务器：patchbay upstream add --help",
		En: "There are no upstreams yet. Plug a server of tools in: patchbay upstream add --help"}
	sayConnecting  = talk.Say{Zh: "连接中", En: "connecting"}
	sayWaits       = talk.Say{Zh: "等待中", En: "waiting"}
	sayElsewhere   = talk.Say{Zh: "由另一实例连接", En: "by another instance"}
	sayFailedState = talk.Say{Zh: "失败", En: "failed"}
)

func (sh *shell) upstreamTable(rows []control.Upstream) error {
	if rows == nil {
		rows = []control.Upstream{}
	}
	return sh.result(rows, func() {
		if len(rows) == 0 {
			sh.say(sayNoUpstreams)
			return
		}
		var cells [][]string
		for _, u := range rows {
			cells = append(cells, []string{u.Slug, u.Kind, u.OwnerName, u.Where, sh.upstreamState(u.State),
				toolCount(u), u.Problem})
		}
		sh.table([]talk.Say{sayName, sayKind, sayOwner, sayWhere, sayState, sayToolCount, {}}, cells)
	})
}

// upstreamState returns the name of a connection state.
func (sh *shell) upstreamState(state string) string {
	switch state {
	case "":
		return "–"
	case control.UpstreamConnecting:
		return sayConnecting.In(sh.lang)
	case control.UpstreamReady:
		return sayReady.In(sh.lang)
	case control.UpstreamWaiting:
		return sayWaits.In(sh.lang)
	case control.UpstreamElsewhere:
		return sayElsewhere.In(sh.lang)
	case control.UpstreamFailed:
		return sayFailedState.In(sh.lang)
	}
	return state
}

// toolCount returns the number of tools as far as known, with + if there are more.
func toolCount(u control.Upstream) string {
	switch {
	case u.State == "" || u.Kind == app.UpstreamCloud:
		return "–"
	case u.Cut:
		return fmt.Sprintf("%d+", u.Tools)
	}
	return strconv.Itoa(u.Tools)
}
