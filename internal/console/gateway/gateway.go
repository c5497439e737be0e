// Package gateway serves the pages about OpenClaw: the nodes that connect here, pending pairing
// requests, and the gateways of others that one's boards have joined.
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

// Routes returns the pages below /gateway.
func Routes() []page.Route {
	return []page.Route{
		{Pattern: "GET /gateway", Serve: overview},
		{Pattern: "GET /gateway/live", Serve: overviewLive},
		{Pattern: "POST /gateway/pairs/{request}/approve", Access: page.Confirmed,
			Serve: func(v *page.Visit) { decide(v, true) }},
		{Pattern: "POST /gateway/pairs/{request}/reject", Serve: func(v *page.Visit) { decide(v, false) }},
		{Pattern: "GET /gateway/nodes/{node}", Serve: nodePage},
		{Pattern: "GET /gateway/nodes/{node}/live", Serve: nodeLive},
		{Pattern: "POST /gateway/nodes/{node}/rename", Access: page.Confirmed, Serve: rename},
		{Pattern: "POST /gateway/nodes/{node}/remove", Serve: remove},
		{Pattern: "POST /gateway/invite", Access: page.Confirmed, Serve: invite},
		{Pattern: "POST /gateway/invites/{code}/cancel", Serve: cancelInvite},
		{Pattern: "GET /gateway/invites/{code}/live", Serve: inviteLive},
		{Pattern: "GET /gateway/nodes/{node}/policy", Serve: policyPage},
		{Pattern: "POST /gateway/nodes/{node}/policy", Access: page.Confirmed, Serve: changePolicy},
		{Pattern: "POST /gateway/nodes/{node}/invoke", Serve: invoke},
		{Pattern: "GET /gateway/shims/new", Access: page.Confirmed, Serve: newShim},
		{Pattern: "POST /gateway/shims", Access: page.Confirmed, Serve: addShim},
		{Pattern: "GET /gateway/shims/{shim}", Serve: shimPage},
		{Pattern: "GET /gateway/shims/{shim}/live", Serve: shimLive},
		{Pattern: "GET /gateway/shims/{shim}/edit", Access: page.Confirmed, Serve: editShim},
		{Pattern: "POST /gateway/shims/{shim}/change", Access: page.Confirmed, Serve: changeShim},
		{Pattern: "POST /gateway/shims/{shim}/accept", Access: page.Confirmed, Serve: acceptCertificate},
		{Pattern: "POST /gateway/shims/{shim}/remove", Serve: removeShim},
	}
}

const (
	// refreshInterval is how often an open page reads state that changes without an event.
	refreshInterval = 2 * time.Second
	// pageSize is the number of nodes or gateways on a page.
	pageSize = 50
)

// overviewData is the data of the first page.
type overviewData struct {
	control.GatewayState
	From  int // index of the first node on the page
	Codes []control.SetupCode
	Shims []control.Upstream
}

// Page returns the nodes on the page.
func (s *overviewData) Page() []control.Node {
	from := min(s.From, len(s.Nodes))
	return s.Nodes[from:min(from+pageSize, len(s.Nodes))]
}

// hasPending reports whether there are pending requests.
func (s *overviewData) hasPending() bool { return len(s.Devices)+len(s.Wishes) > 0 }

func loadOverview(ctx context.Context, v *page.Visit) (s overviewData, err error) {
	c := v.Instance.Control
	if n, err := strconv.Atoi(v.URL.Query().Get("after")); err == nil && n > 0 {
		s.From = n
	}
	if s.GatewayState, err = c.Gateway(ctx, v.Caller()); err != nil {
		return s, err
	}
	codes, err := c.SetupCodes(ctx, v.Caller(), control.Empty{})
	if err != nil {
		return s, err
	}
	s.Codes = codes.Codes
	s.Shims, _, err = c.UpstreamsOf(ctx, v.Caller(), 0, pageSize, control.KindShim)
	return s, err
}

func overview(v *page.Visit) {
	s, err := loadOverview(v.Context(), v)
	if err != nil {
		v.Fail(err)
		return
	}
	v.Render(http.StatusOK, overviewPage(v, &s))
}

func overviewLive(v *page.Visit) {
	v.LiveRefresh(refreshInterval, func(ctx context.Context, send page.SendPart) error {
		s, err := loadOverview(ctx, v)
		if err == nil {
			err = send("#pairs", pairs(v, &s))
		}
		if err == nil {
			err = send("#nodes", nodes(v, &s))
		}
		if err == nil {
			err = send("#codes", codes(v, &s))
		}
		if err == nil {
			err = send("#shims", shims(v, &s))
		}
		return err
	})
}

func decide(v *page.Visit, approve bool) {
	runs := ""
	if approve {
		runs = runsAfter(v, v.PathValue("request"))
	}
	if err := v.Instance.Control.DecidePair(v.Context(), v.Caller(), v.PathValue("request"), approve); err != nil {
		v.Fail(err)
		return
	}
	switch node := v.FormValue("node"); {
	case runs != "":
		v.Redirect(policyURL(runs))
	case node != "":
		v.Redirect(nodeURL(node))
	default:
		v.Redirect("/gateway")
	}
}

// runsAfter returns the id of the node that will run programs when a request is approved; empty:
// none. Its policy is what its owner should see next.
func runsAfter(v *page.Visit, request string) string {
	s, err := v.Instance.Control.Gateway(v.Context(), v.Caller())
	if err != nil {
		return "" // the decision fails, too, and says why
	}
	for _, r := range s.Wishes {
		if r.ID == request && hasPolicy(r.Commands) {
			return r.Node
		}
	}
	return ""
}

func nodeURL(id string) string { return "/gateway/nodes/" + id }

// address returns the URL that OpenClaw's programs connect to.
func address(v *page.Visit) string { return "ws" + strings.TrimPrefix(v.BaseURL(), "http") }

// hostCommand returns the command that runs OpenClaw's node host.
func hostCommand(v *page.Visit) string {
	scheme, rest, _ := strings.Cut(v.BaseURL(), "://")
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
	return "OPENCLAW_GATEWAY_TOKEN=" + v.Text(msgKeyHere) + " openclaw node run --host " + strings.Trim(host, "[]") +
		" --port " + port + tls + " --display-name study"
}

// nodeState returns the status light of a node and its text, including pending requests.
func nodeState(v *page.Visit, n *control.Node) (page.State, string) {
	switch {
	case n.Request != "":
		return page.Wait, v.Text(msgAsks)
	case n.Approval == control.NodeRejected:
		return "away", v.Text(msgNotAllowed)
	case n.Connected:
		return page.On, v.Text(msgConnected)
	}
	return "away", v.Text(msgAway)
}

// systemName returns the operating system of a node.
func systemName(platform, family string) string {
	if family != "" && !strings.EqualFold(family, platform) {
		return strings.TrimSpace(platform + " (" + family + ")")
	}
	return platform
}

// isDangerous reports whether a command can do harm on its machine.
func isDangerous(v *page.Visit, command string) bool {
	f := v.Instance.Control.NodePolicy.Dangerous
	return f != nil && f(command)
}

// policyNames formats the commands that a setting lists.
func policyNames(v *page.Visit, names []string) string {
	if len(names) == 0 {
		return v.Text(msgNone)
	}
	return strings.Join(slices.Sorted(slices.Values(names)), ", ")
}

// hasDangerous reports whether any of the commands is dangerous.
func hasDangerous(v *page.Visit, commands []string) bool {
	return slices.ContainsFunc(commands, func(c string) bool { return isDangerous(v, c) })
}
