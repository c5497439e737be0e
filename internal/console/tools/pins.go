package tools

import (
	"encoding/json"
	"net/http"

	"patchbay/internal/console/page"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
	"patchbay/internal/pin"
)

const (
	msgHeldN          = i18n.Message("Changed, and refused until you approve it: %d")
	msgPinChanges     = i18n.Message("Changes to approve")
	msgPinChangesTold = i18n.Message("The server offers something else than what you have approved. What is held back is refused to everybody until you approve it.")
	msgApprove        = i18n.Message("Approve")
	msgApproveAll     = i18n.Message("Approve all")
	msgPinNew         = i18n.Message("new")
	msgPinChanged     = i18n.Message("changed")
	msgPinRemoved     = i18n.Message("no longer offered")
	msgPinHeld        = i18n.Message("held back")
	msgPinOffered     = i18n.Message("offered")
	msgInstructions   = i18n.Message("Instructions of the server")
	msgSuspicious     = i18n.Message("Suspicious texts")
	msgSuspectTold    = i18n.Message("These texts of approved tools reach models. Look whether they belong there.")
	msgUnpinned       = i18n.Message("Changes of this server need no approval (pin=off).")
	msgPinInstruct    = i18n.Message("It speaks to the model: %s")
	msgPinHidden      = i18n.Message("It has hidden characters: %s")
	msgPinOther       = i18n.Message("It names a tool of another server: %s")
)

// showUpstream shows the page of a server.
func showUpstream(v *page.Visit, d *control.UpstreamDetail, token string) {
	var pins *control.UpstreamPins
	if !d.Member && (d.Kind == control.KindServer || d.Kind == control.KindDialsIn) {
		p, err := v.Instance.Control.UpstreamPins(v.Context(), v.Caller(), control.UpstreamRef{Upstream: d.Number})
		if err != nil {
			v.Fail(err)
			return
		}
		pins = &p
	}
	v.Render(http.StatusOK, upstreamView(v, d, pins, token))
}

// approveUpstream approves the changes that the page has shown.
func approveUpstream(v *page.Visit) {
	d, err := findUpstream(v.Context(), v)
	in := control.PinApproval{Upstream: d.Number}
	if err == nil && json.Unmarshal([]byte(v.FormValue("changes")), &in.Changes) != nil {
		in.Changes = nil
	}
	if err == nil {
		_, err = v.Instance.Control.ApproveUpstream(v.Context(), v.Caller(), in)
	}
	if err != nil {
		v.Fail(err)
		return
	}
	v.Redirect(upstreamURL(d.Number))
}

// approval returns the value of the form that approves changes.
func approval(list ...control.PinChange) string {
	var out []control.ApprovedPin
	for _, c := range list {
		out = append(out, control.ApprovedPin{Kind: c.Kind, Name: c.Name, Fingerprint: c.Fingerprint})
	}
	text, err := json.Marshal(out)
	if err != nil {
		return "[]"
	}
	return string(text)
}

func pinTitle(v *page.Visit, kind, name string) string {
	if kind == pin.Server {
		return v.Text(msgInstructions)
	}
	return pin.Visible(control.PinName(kind, name))
}

// changeWords says what has become of something.
func changeWords(v *page.Visit, c *control.PinChange) string {
	what := map[string]i18n.Message{control.PinNew: msgPinNew, control.PinChanged: msgPinChanged,
		control.PinRemoved: msgPinRemoved}[c.Change]
	if c.Change == control.PinRemoved {
		return v.Text(what)
	}
	if c.Held {
		return v.Text(what) + " · " + v.Text(msgPinHeld)
	}
	return v.Text(what) + " · " + v.Text(msgPinOffered)
}

// warningText describes something suspicious.
func warningText(v *page.Visit, w pin.Warning) string {
	switch w.Found {
	case pin.Hidden:
		return v.Text(msgPinHidden, w.Text)
	case pin.OtherTool:
		return v.Text(msgPinOther, w.Text)
	}
	return v.Text(msgPinInstruct, w.Text)
}
