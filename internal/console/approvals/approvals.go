// Package approvals serves the pages on which a person allows or refuses calls of tools that wait.
package approvals

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"patchbay/internal/console/page"
	"patchbay/internal/control"
	"patchbay/internal/hub"
	"patchbay/internal/i18n"
	"patchbay/internal/pin"
	"patchbay/internal/store"
)

// Routes returns the pages.
func Routes() []page.Route {
	return []page.Route{
		{Pattern: "GET " + hub.ApprovalsPath, Serve: list},
		{Pattern: "GET " + hub.ApprovalsPath + "/live", Serve: live},
		{Pattern: "GET " + hub.ApprovalsPath + "/{approval}", Serve: show},
		{Pattern: "POST " + hub.ApprovalsPath + "/{approval}", Serve: decide},
		{Pattern: "POST " + hub.ApprovalsPath + "/{approval}/always", Access: page.Confirmed, Serve: allowAlways},
	}
}

// refreshInterval is how often the list is read again: that a call waits changes no tools.
const refreshInterval = time.Second

const (
	msgTitle      = i18n.Message("Approvals")
	msgTold       = i18n.Message("These calls wait until you allow them. After ten minutes they are refused.")
	msgNone       = i18n.Message("No call waits for you.")
	msgNoneTold   = i18n.Message("Programs whose keys say “ask me before each call” ask here.")
	msgWants      = i18n.Message("%s wants to use %s")
	msgOf         = i18n.Message("of %s")
	msgSaysName   = i18n.Message("It calls itself “%s”.")
	msgServerSays = i18n.Message("What its server says of the tool: %s")
	msgArguments  = i18n.Message("With")
	msgNoArgs     = i18n.Message("Without arguments.")
	msgOnce       = i18n.Message("Allow once")
	msgAlways     = i18n.Message("Always allow")
	msgNo         = i18n.Message("No")
	msgAllowed    = i18n.Message("Allowed. The call goes on; if the program has given up meanwhile, it may try once more within ten minutes.")
	msgUsed       = i18n.Message("Allowed, and carried out.")
	msgDenied     = i18n.Message("Refused.")
	msgAllCalls   = i18n.Message("All that waits")
)

func list(v *page.Visit) {
	all, err := v.Instance.Control.Approvals(v.Context(), v.Caller(), struct{}{})
	if err != nil {
		v.Fail(err)
		return
	}
	v.Render(http.StatusOK, listPage(v, all.Approvals))
}

func live(v *page.Visit) {
	v.LiveRefresh(refreshInterval, func(ctx context.Context, send page.SendPart) error {
		all, err := v.Instance.Control.Approvals(ctx, v.Caller(), struct{}{})
		if err != nil {
			return err
		}
		return send("#approvals", waiting(v, all.Approvals))
	})
}

func show(v *page.Visit) {
	a, err := v.Instance.Control.Approval(v.Context(), v.Caller(),
		control.ApprovalRef{Approval: v.PathValue("approval")})
	if err != nil {
		v.Fail(err)
		return
	}
	v.Render(http.StatusOK, approvalPage(v, &a, description(v, a.Tool)))
}

// maxDescription limits the description that is shown, in bytes.
const maxDescription = 1000

// description is what its server says of a tool; empty if it is gone.
func description(v *page.Visit, name string) string {
	list, err := v.Instance.Control.ListTools(v.Context(), v.Caller(), control.ToolQuery{Name: name})
	if err != nil || len(list.Tools) == 0 {
		return ""
	}
	text := list.Tools[0].Description
	if len(text) > maxDescription {
		text = strings.ToValidUTF8(text[:maxDescription], "") + "…"
	}
	return pin.Visible(text)
}

func decide(v *page.Visit) {
	decision := control.DecideNo
	if v.FormValue("decision") == control.DecideOnce { // always has an address that asks for the password
		decision = control.DecideOnce
	}
	carryOut(v, decision)
}

func allowAlways(v *page.Visit) { carryOut(v, control.DecideAlways) }

func carryOut(v *page.Visit, decision string) {
	a, err := v.Instance.Control.DecideApproval(v.Context(), v.Caller(),
		control.ApprovalDecision{Approval: v.PathValue("approval"), Decision: decision})
	if err != nil {
		v.Fail(err)
		return
	}
	v.Redirect(path(&a))
}

func path(a *store.Approval) string { return hub.ApprovalsPath + "/" + a.ID }

// arguments returns all arguments for reading; empty if there are none.
func arguments(a *store.Approval) string {
	if a.Args == "" || a.Args == "{}" {
		return ""
	}
	var b bytes.Buffer
	if json.Indent(&b, []byte(a.Args), "", "  ") != nil {
		return pin.Visible(a.Args) // it cannot fail
	}
	return pin.Visible(b.String())
}
