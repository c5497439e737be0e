package shim

import (
	"cmp"
	"context"
	"errors"

	"patchbay/internal/check"
	"patchbay/internal/i18n"
	"patchbay/internal/plug/openclaw/client"
)

const (
	msgCheckGateway = i18n.Message("gateway %s")
	msgCheckNode    = i18n.Message("node %[2]s at gateway %[1]s")
	msgGatewayGood  = i18n.Message("OpenClaw %s, nodes: %d, tools: %d")
	msgGatewayEmpty = i18n.Message("no device joins it")
	msgGatewayUnset = i18n.Message("the server does not know it yet")
	msgGreets       = i18n.Message("a gateway answers; whether devices join it is known only while the server runs")
	msgConnecting   = i18n.Message("connecting")
	msgNodeCommands = i18n.Message("the gateway's owner has not approved what it can do")
	msgNodeNoTools  = i18n.Message("the gateway has taken none of its %d tools: something has to be approved, or its settings deny mcp.tools.call.v1")
	msgNodeSome     = i18n.Message("the gateway has taken %d of its %d tools")
	msgNodeCut      = i18n.Message("tools that are too many for the gateway: %d")

	adviceState     = i18n.Message("When that is solved, see: patchbay shim status %s%s")
	adviceURL       = i18n.Message("Start that gateway, or correct its address: patchbay shim set %s url=ws://HOST:18789%s")
	advicePin       = i18n.Message("If it is the gateway's, accept it: patchbay shim set %s tls_fingerprint=%s%s")
	adviceEmpty     = i18n.Message("Approve a device, or choose others: patchbay shim set %s devices=%s")
	adviceEach      = i18n.Message("Let each device be a node of its own: patchbay shim set %s mode=each%s")
	adviceLookAgain = i18n.Message("Look again in a moment; if that stays so, see the server's log.")
)

// checker checks one gateway.
type checker struct {
	*check.Report
	gateway string // its name
}

// CheckAlone checks, without a server, whether a gateway responds. To test more, it would have to
// connect in the name of the devices. Pin is as in [client.Options]. Err is why its address is not
// known; nil: it is.
func CheckAlone(ctx context.Context, r *check.Report, gateway, url, pin string, err error) {
	name := msgCheckGateway.With(gateway)
	if err == nil {
		err = client.Probe(ctx, url, pin, nil)
	}
	if e, ok := errors.AsType[*client.ConnectionError](err); ok && e.Certificate != nil {
		r.Fail(name, check.Because(e.Message.In(r.Lang), e.Cause),
			advicePin.With(gateway, e.Certificate.Shown, r.Flags))
		return
	}
	if err != nil {
		r.Error(name, err, adviceURL.With(gateway, r.Flags))
		return
	}
	r.Warn(name, msgGreets.With(), check.AdviceServe.With(r.Flags))
}

// CheckNodes checks the nodes at a gateway, in the states that the running server reports. Version
// is the gateway's.
func CheckNodes(r *check.Report, gateway, version string, nodes []Status) {
	c, ready, tools := &checker{r, gateway}, 0, 0
	for _, n := range nodes {
		if c.checkNode(n) {
			ready++
			tools += n.Accepted
		}
	}
	name := msgCheckGateway.With(gateway)
	switch {
	case len(nodes) == 0:
		r.Warn(name, msgGatewayEmpty.With(), adviceEmpty.With(gateway, r.Flags))
	case ready > 0:
		r.OK(name, msgGatewayGood.With(check.Foreign(version), ready, tools))
	}
}

// CheckElsewhere reports a gateway that another instance has joined, or, if known is false, that
// the running server does not know.
func CheckElsewhere(r *check.Report, gateway string, known bool) {
	name := msgCheckGateway.With(gateway)
	if known {
		r.OK(name, check.Connected.With())
	} else {
		r.Warn(name, msgGatewayUnset.With(), adviceLookAgain.With())
	}
}

// checkNode reports a node, unless it is fine.
func (c *checker) checkNode(n Status) (good bool) {
	name, advice := msgCheckNode.With(c.gateway, check.Foreign(n.Name)), adviceState.With(c.gateway, c.Flags)
	switch n.State {
	case Pairing:
		c.Fail(name, client.MsgUnapproved.With(), client.AdviceRunThere.With(n.Command))
	case Approval:
		c.Fail(name, msgNodeCommands.With(), client.AdviceRunThere.With(n.Command))
	case Untrusted, Changed:
		if n.Certificate != nil {
			advice = advicePin.With(c.gateway, n.Certificate.Shown, c.Flags)
		}
		c.Fail(name, n.Message, advice)
	case Failed:
		c.Fail(name, n.Message, advice)
	case Ready:
		c.checkTools(name, n)
		return true
	default:
		found := n.Message
		if found.IsZero() {
			found = msgConnecting.With()
		}
		c.Warn(name, found, advice)
	}
	return false
}

// checkTools reports whether the gateway has accepted a node's tools.
func (c *checker) checkTools(name i18n.Text, n Status) {
	advice := client.AdviceRunThere.With(cmp.Or(n.Command, "openclaw nodes pending"))
	switch {
	case n.Tools > 0 && n.Accepted == 0:
		c.Warn(name, msgNodeNoTools.With(n.Tools), advice)
	case n.Accepted < n.Tools:
		c.Warn(name, msgNodeSome.With(n.Accepted, n.Tools), advice)
	}
	if n.Omitted > 0 {
		c.Warn(name, msgNodeCut.With(n.Omitted), adviceEach.With(c.gateway, c.Flags))
	}
}
