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
	ListUpstreams    = define("GET /api/v1/upstreams", "List tool servers, services and gateways, with how their connections are", (*control.Service).ListUpstreams)
	AddUpstream      = define("POST /api/v1/upstreams", "Add a tool server, a service or a gateway", (*control.Service).AddUpstream).lasting(checkLimit)
	CheckNewUpstream = define("POST /api/v1/upstreams/check", "Look at a tool server before it is added", (*control.Service).CheckNewUpstream).lasting(checkLimit)
	ShowUpstream     = define("GET /api/v1/upstreams/{upstream}", "Show one with its settings, secrets masked", (*control.Service).ShowUpstream)
	ChangeUpstream   = define("PATCH /api/v1/upstreams/{upstream}", "Change settings of one; null, or an empty text, takes a setting away", (*control.Service).ChangeUpstream)
	CheckUpstream    = define("POST /api/v1/upstreams/{upstream}/check", "Look at a tool server, with changed settings if some are given", (*control.Service).CheckUpstream).lasting(checkLimit)
	RotateUpstream   = define("POST /api/v1/upstreams/{upstream}/rotate", "Give one that connects to us a new token", (*control.Service).RotateUpstream)
	RemoveUpstream   = define("DELETE /api/v1/upstreams/{upstream}", "Remove one", (*control.Service).RemoveUpstream)
)

// upstreamOperations adds the operations on upstreams: MCP servers, services that call tools, and
// gateways that devices join.
func (s *Server) upstreamOperations() {
	s.operate(ListUpstreams, AddUpstream, CheckNewUpstream, ShowUpstream, ChangeUpstream, CheckUpstream,
		RotateUpstream, RemoveUpstream)
}
