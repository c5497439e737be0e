package api

import "patchbay/internal/control"

// Operations on calls that wait for an approval.
var (
	Approvals      = define("GET /api/v1/approvals", "List calls that wait for an approval", (*control.Service).Approvals)
	Approval       = define("GET /api/v1/approvals/{approval}", "Return a call that waits for an approval, or was decided a short time ago", (*control.Service).Approval)
	DecideApproval = define("POST /api/v1/approvals/{approval}", "Allow a call that waits, once or always, or refuse it", (*control.Service).DecideApproval)
)

// approvalOperations adds the operations on calls that wait for an approval.
func (s *Server) approvalOperations() { s.operate(Approvals, Approval, DecideApproval) }
