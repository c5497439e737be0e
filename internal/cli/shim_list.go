package cli

import (
	"context"
	"fmt"
	"strconv"

	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

type shimListCmd struct {
	targetFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (shimListCmd) Help() string {
	return `The status of the nodes is known only while a server runs; NODES is the number of nodes that are ready.

Examples:

    patchbay shim list
    patchbay shim list --json
    patchbay shim list --server https://board.example.org --key $KEY`
}

// Run lists the gateways.
func (c *shimListCmd) Run(ctx context.Context, sh *shell) error {
	return c.connect(ctx, sh, func(at *conn) error {
		all, err := at.upstreams(ctx, "")
		if err != nil {
			return err
		}
		rows := onlyShims(all)
		return sh.result(rows, func() { sh.shimTable(rows) })
	})
}

const (
	msgNodeCount = i18n.Message("NODES")
	msgNoShims   = i18n.Message("There are no gateways yet. To join one: patchbay shim add --help")
)

func (sh *shell) shimTable(rows []control.Upstream) {
	if len(rows) == 0 {
		sh.say(msgNoShims)
		return
	}
	var cells [][]string
	for _, u := range rows {
		nodes, tools := "–", toolCount(u)
		if u.State != "" && u.State != control.UpstreamElsewhere {
			nodes = fmt.Sprintf("%d/%d", readyNodes(u), len(u.Nodes))
		}
		cells = append(cells, []string{u.Slug, u.OwnerName, u.Where, sh.upstreamState(u.State), nodes, tools,
			u.Problem})
	}
	sh.table([]i18n.Message{msgName, msgOwner, msgWhere, msgState, msgNodeCount, msgToolCount, i18n.Message("")}, cells)
}

// readyNodes returns the number of nodes at a gateway that are ready.
func readyNodes(u control.Upstream) int {
	n := 0
	for _, node := range u.Nodes {
		if node.State == control.UpstreamReady {
			n++
		}
	}
	return n
}

// shimTitle prints the owner and the state of a gateway.
func (sh *shell) shimTitle(u control.Upstream) {
	server := "" // unknown until the first connection
	if u.ServerVersion != "" {
		server = u.Server + " " + u.ServerVersion
	}
	sh.say(msgHeadShim, u.Slug, u.OwnerName, sh.upstreamState(u.State))
	rows := [][]string{{msgItsAddressThere.In(sh.lang), plain(u.Where)}}
	if server != "" {
		rows = append(rows, []string{msgItsServerThere.In(sh.lang), plain(server)})
	}
	if len(u.Nodes) > 0 {
		rows = append(rows, []string{msgItsNodes.In(sh.lang),
			strconv.Itoa(readyNodes(u)) + "/" + strconv.Itoa(len(u.Nodes))})
	}
	sh.grid("  ", rows)
}

const (
	msgHeadShim        = i18n.Message("Gateway %s (of %s): %s")
	msgItsAddressThere = i18n.Message("address")
	msgItsServerThere  = i18n.Message("program")
	msgItsNodes        = i18n.Message("nodes ready")
)
