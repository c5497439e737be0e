package api

import (
	"time"

	"patchbay/internal/control"
)

// checkLimit is how long a client waits until a server has been checked, which may start a program
// and list thousands of tools.
const checkLimit = 3 * time.Minute

// Operations.
var (
	ListUpstreams    = define("GET /api/v1/upstreams", "List upstreams with their connection status", (*control.Service).ListUpstreams)
	AddUpstream      = define("POST /api/v1/upstreams", "Add an upstream: a tool server, a service or a gateway", (*control.Service).AddUpstream).lasting(checkLimit)
	CheckNewUpstream = define("POST /api/v1/upstreams/check", "Check a tool server before adding it", (*control.Service).CheckNewUpstream).lasting(checkLimit)
	ShowUpstream     = define("GET /api/v1/upstreams/{upstream}", "Return an upstream with its settings, secrets masked", (*control.Service).ShowUpstream)
	ChangeUpstream   = define("PATCH /api/v1/upstreams/{upstream}", "Update the settings of an upstream; null or an empty string removes a setting", (*control.Service).ChangeUpstream)
	CheckUpstream    = define("POST /api/v1/upstreams/{upstream}/check", "Check a tool server, optionally with changed settings", (*control.Service).CheckUpstream).lasting(checkLimit)
	RotateUpstream   = define("POST /api/v1/upstreams/{upstream}/rotate", "Create a new token for an upstream that connects to this server", (*control.Service).RotateUpstream)
	RemoveUpstream   = define("DELETE /api/v1/upstreams/{upstream}", "Delete an upstream", (*control.Service).RemoveUpstream)
)

// upstreamOperations adds the operations on upstreams: MCP servers, services that call tools, and
// gateways that devices join.
func (s *Server) upstreamOperations() {
	s.operate(ListUpstreams, AddUpstream, CheckNewUpstream, ShowUpstream, ChangeUpstream, CheckUpstream,
		RotateUpstream, RemoveUpstream)
}
