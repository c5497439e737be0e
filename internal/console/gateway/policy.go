package gateway

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"patchbay/internal/console/page"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
	"patchbay/internal/problem"
)

// runCommands are the commands of a node that runs programs and has a policy for them.
var runCommands = []string{"system.run", "system.execApprovals.get"}

// runMode is a mode of a policy for running programs, as it is offered.
type runMode struct {
	name        string
	label, told i18n.Message
}

var runModes = []runMode{
	{control.RunAsk, msgRunAsk, msgRunAskTold},
	{control.RunAlwaysAsk, msgRunAlways, msgRunAlwaysTold},
	{control.RunListed, msgRunListed, msgRunListedTold},
	{control.RunNothing, msgRunNothing, msgRunNothingTold},
	{control.RunEverything, msgRunEverything, msgRunEverythingTold},
}

// runModeText returns the label of a mode.
func runModeText(v *page.Visit, mode string) string {
	for _, m := range runModes {
		if m.name == mode {
			return v.Text(m.label)
		}
	}
	return mode
}

func policyURL(id string) string { return nodeURL(id) + "/policy" }

// hasPolicy reports whether a node with these commands runs programs by a policy.
func hasPolicy(commands []string) bool {
	return !slices.ContainsFunc(runCommands, func(name string) bool { return !slices.Contains(commands, name) })
}

func policyPage(v *page.Visit) { showPolicy(v, "") }

// showPolicy shows the policy of a node, which the node is asked for. wrong is why a change has
// failed.
func showPolicy(v *page.Visit, wrong string) {
	id := v.PathValue("node")
	n, err := v.Instance.Control.NodeDetail(v.Context(), v.Caller(), id)
	if err != nil {
		v.Fail(err)
		return
	}
	status := http.StatusOK
	p, err := v.Instance.Control.RunPolicy(v.Context(), v.Caller(), control.RunPolicyRef{Node: id, Exact: true})
	if err != nil {
		if wrong, status = v.Wrong(err); wrong == "" {
			return
		}
	} else if wrong != "" {
		status = http.StatusUnprocessableEntity
	}
	v.Render(status, policyView(v, &n, &p, wrong))
}

// changePolicy changes the mode of a policy, adds a program, or removes a rule.
func changePolicy(v *page.Visit) {
	id := v.PathValue("node")
	change := control.RunPolicyChange{Node: id, Exact: true, Mode: v.FormValue("mode")}
	if text := strings.TrimSpace(v.FormValue("allow")); text != "" {
		change.Allow = []string{text}
	}
	if text := v.FormValue("remove"); text != "" {
		change.Remove = []string{text}
	}
	if _, err := v.Instance.Control.ChangeRunPolicy(v.Context(), v.Caller(), change); err != nil {
		if text, _ := v.Wrong(err); text != "" {
			showPolicy(v, text)
		}
		return
	}
	v.Redirect(policyURL(id) + "?saved=yes")
}

// invite makes a setup code and shows it once.
func invite(v *page.Visit) {
	i, err := v.Instance.Control.InviteNode(v.Context(), v.Caller(), v.BaseURL())
	if err != nil {
		v.Fail(err)
		return
	}
	made, err := v.Instance.Control.SetupCodes(v.Context(), v.Caller(), control.Empty{})
	if err != nil {
		v.Fail(err)
		return
	}
	var code *control.SetupCode
	if len(made.Codes) > 0 {
		code = &made.Codes[0] // the newest is the one that was just made
	}
	v.Render(http.StatusOK, inviteView(v, &i, code))
}

// inviteLive says when a node has used a setup code.
func inviteLive(v *page.Visit) {
	known := false
	v.LiveRefresh(refreshInterval, func(ctx context.Context, send page.SendPart) error {
		found, err := v.Instance.Control.SetupCodes(ctx, v.Caller(), control.Empty{})
		if err != nil {
			return err
		}
		i := slices.IndexFunc(found.Codes, func(c control.SetupCode) bool { return c.ID == v.PathValue("code") })
		switch {
		case i < 0 && known: // it was cancelled, or its time is over
			return send("#invited", inviteState(v, nil, nil))
		case i < 0:
			return problem.New(problem.NotFound, msgInviteOver)
		}
		known = true
		code := &found.Codes[i]
		var node *control.Node
		if code.Used() {
			s, err := v.Instance.Control.Gateway(ctx, v.Caller())
			if err != nil {
				return err
			}
			if at := slices.IndexFunc(s.Nodes, func(n control.Node) bool { return n.ID == code.Node }); at >= 0 {
				node = &s.Nodes[at]
			}
		}
		return send("#invited", inviteState(v, code, node))
	})
}

// cancelInvite cancels a setup code.
func cancelInvite(v *page.Visit) {
	if _, err := v.Instance.Control.CancelSetupCode(v.Context(), v.Caller(),
		control.SetupCodeRef{Code: v.PathValue("code")}); err != nil {
		v.Fail(err)
		return
	}
	v.Redirect("/gateway")
}

// pairCommand returns the command by which a node uses a setup code.
func pairCommand(i *control.NodeInvitation) string {
	return "openclaw node run --pair oc-pair://" + i.Code
}

// joinCommand returns the command by which a node uses a join URL; empty: OpenClaw would not accept
// the URL, as it is not encrypted.
func joinCommand(i *control.NodeInvitation) string {
	if u, err := url.Parse(i.URL); err != nil || u.Scheme != "https" {
		return ""
	}
	return "npx openclaw connect " + i.URL
}
