package page

import (
	"strings"

	"patchbay/internal/hub"
	"patchbay/internal/i18n"
)

const msgApprovals = i18n.Message("A program wants to call a tool, and waits for you.")

// isAskedToApprove reports whether a call waits for the visitor, on a page that does not say so
// already.
func (v *Visit) isAskedToApprove() bool {
	if isOfApprovals(v.URL.Path) || v.URL.Path == "/" {
		return false
	}
	n, err := v.Instance.Control.WaitingCalls(v.Context(), v.Caller())
	if err != nil {
		v.Instance.Logger.WarnContext(v.Context(), "the calls that wait for an approval cannot be read", "error", err)
	}
	return n > 0
}

// isOfApprovals reports whether a path is one of the pages about approvals.
func isOfApprovals(path string) bool {
	return path == hub.ApprovalsPath || strings.HasPrefix(path, hub.ApprovalsPath+"/")
}
