// Package gateway is the pages about OpenClaw: nodes that connect here and who waits to
// be let in, and the gateways of others that one's boards have joined.
package gateway

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"patchbay/internal/console/page"
	"patchbay/internal/control"
)

// Routes are the pages below /gateway.
func Routes() []page.Route {
	return []page.Route{
		{Pattern: "GET /gateway", Serve: overview},
		{Pattern: "GET /gateway/live", Serve: overviewLive},
		{Pattern: "POST /gateway/pairs/{request}/approve", Access: page.Fresh, Serve: func(v *page.Visit) { decide(v, true) }},
		{Pattern: "POST /gateway/pairs/{request}/reject", Serve: func(v *page.Visit) { decide(v, false) }},
		{Pattern: "GET /gateway/nodes/{node}", Serve: nodePage},
		{Pattern: "GET /gateway/nodes/{node}/live", Serve: nodeLive},
		{Pattern: "POST /gateway/nodes/{node}/rename", Access: page.Fresh, Serve: rename},
		{Pattern: "POST /gateway/nodes/{node}/remove", Serve: remove},
		{Pattern: "POST /gateway/nodes/{node}/invoke", Serve: invoke},
		{Pattern: "GET /gateway/shims/new", Access: page.Fresh, Serve: newShim},
		{Pattern: "POST /gateway/shims", Access: page.Fresh, Serve: addShim},
		{Pattern: "GET /gateway/shims/{shim}", Serve: shimPage},
		{Pattern: "GET /gateway/shims/{shim}/live", Serve: shimLive},
		{Pattern: "GET /gateway/shims/{shim}/edit", Access: page.Fresh, Serve: editShim},
		{Pattern: "POST /gateway/shims/{shim}/change", Access: page.Fresh, Serve: changeShim},
		{Pattern: "POST /gateway/shims/{shim}/remove", Serve: removeShim},
	}
}

const (
	// lookEvery is how often an open page looks at what tells nobody that it changes.
	lookEvery = 2 * time.Second
	// pageSize is how many nodes, or gateways, are on a page.
	pageSize = 50
)

// seen is what the first page shows.
type seen struct {
	control.GatewayState
	From  int // the first node of the page
	Shims []control.Upstream
	More  bool // there are more gateways than are shown
}

// Page are the nodes on the page.
func (s *seen) Page() []control.Node {
	from := min(s.From, len(s.Nodes))
	return s.Nodes[from:min(from+pageSize, len(s.Nodes))]
}

// Waiting are the nodes that are to be shown with what they ask for.
func (s *seen) waits() bool { return len(s.Devices)+len(s.Wishes) > 0 }

func look(ctx context.Context, v *page.Visit) (s seen, err error) {
	c := v.House.Control
	if n, err := strconv.Atoi(v.URL.Query().Get("after")); err == nil && n > 0 {
		s.From = n
	}
	if s.GatewayState, err = c.Gateway(ctx, v.Caller()); err != nil {
		return s, err
	}
	s.Shims, s.More, err = c.UpstreamsOf(ctx, v.Caller(), 0, pageSize, control.KindShim)
	return s, err
}

func overview(v *page.Visit) {
	s, err := look(v.Context(), v)
	if err != nil {
		v.Fail(err)
		return
	}
	v.Show(http.StatusOK, overviewPage(v, &s))
}

func overviewLive(v *page.Visit) {
	v.Keep(lookEvery, func(ctx context.Context, send page.Parts) error {
		s, err := look(ctx, v)
		if err == nil {
			err = send("#pairs", pairs(v, &s))
		}
		if err == nil {
			err = send("#nodes", nodes(v, &s))
		}
		if err == nil {
			err = send("#shims", shims(v, &s))
		}
		return err
	})
}

func decide(v *page.Visit, approve bool) {
	if err := v.House.Control.DecidePair(v.Context(), v.Caller(), v.PathValue("request"), approve); err != nil {
		v.Fail(err)
		return
	}
	if node := v.FormValue("node"); node != "" {
		v.To(nodeURL(node))
		return
	}
	v.To("/gateway")
}

func nodeURL(id string) string { return "/gateway/nodes/" + id }

// address is where OpenClaw's programs connect to.
func address(v *page.Visit) string { return "ws" + strings.TrimPrefix(v.Origin(), "http") }

// hostCommand is what runs OpenClaw's node host.
func hostCommand(v *page.Visit) string {
	scheme, rest, _ := strings.Cut(v.Origin(), "://")
	host, port, ok := strings.Cut(rest, ":")
	tls := ""
	if scheme == "https" {
		tls = " --tls"
	}
	if strings.HasPrefix(rest, "[") || !ok {
		host, port = rest, map[string]string{"http": "80", "https": "443"}[scheme]
		if i := strings.LastIndex(rest, "]:"); i > 0 {
			host, port = rest[:i+1], rest[i+2:]
		}
	}
	return "OPENCLAW_GATEWAY_TOKEN=" + v.Say(sayKeyHere) + " openclaw node run --host " + strings.Trim(host, "[]") + " --port " + port + tls + " --display-name study"
}

// nodeState is whether a node is there, and whether it waits for somebody.
func nodeState(v *page.Visit, n *control.Node) (page.State, string) {
	switch {
	case n.Request != "":
		return page.Wait, v.Say(sayAsks)
	case n.Approval == control.NodeRejected:
		return "away", v.Say(sayNotAllowed)
	case n.Connected:
		return page.On, v.Say(sayConnected)
	}
	return "away", v.Say(sayAway)
}

// system is what a node runs on.
func system(platform, family string) string {
	if family != "" && !strings.EqualFold(family, platform) {
		return strings.TrimSpace(platform + " (" + family + ")")
	}
	return platform
}

// dangerous says whether a command reaches deep into a machine.
func dangerous(v *page.Visit, command string) bool {
	f := v.House.Control.NodePolicy.Dangerous
	return f != nil && f(command)
}

// policyNames are the commands that a setting names, as they are shown.
func policyNames(v *page.Visit, names []string) string {
	if len(names) == 0 {
		return v.Say(sayNone)
	}
	return strings.Join(slices.Sorted(slices.Values(names)), ", ")
}

// deep says whether one of some commands is dangerous.
func deep(v *page.Visit, commands []string) bool {
	return slices.ContainsFunc(commands, func(c string) bool { return dangerous(v, c) })
}
