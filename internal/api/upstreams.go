package api

import (
	"time"

	"patchbay/internal/control"
)

// checkLimit is how long a client waits until a server has been checked, which may start a program
// and list thousands of tools.
const checkLimit = 3 * time.Minute

// maxUpstreamBody limits the settings of an upstream, among which may be the text of an OpenAPI
// document.
const maxUpstreamBody = 5 << 20

// Operations.
var (
	ListUpstreams    = define("GET /api/v1/upstreams", "List upstreams with their connection status", (*control.Service).ListUpstreams)
	AddUpstream      = define("POST /api/v1/upstreams", "Add an upstream: a tool server, a service or a gateway", (*control.Service).AddUpstream).lasting(checkLimit).taking(maxUpstreamBody)
	CheckNewUpstream = define("POST /api/v1/upstreams/check", "Check a tool server before adding it", (*control.Service).CheckNewUpstream).lasting(checkLimit).taking(maxUpstreamBody)
	ShowUpstream     = define("GET /api/v1/upstreams/{upstream}", "Return an upstream with its settings, secrets masked", (*control.Service).ShowUpstream)
	ChangeUpstream   = define("PATCH /api/v1/upstreams/{upstream}", "Update the settings of an upstream; null or an empty string removes a setting", (*control.Service).ChangeUpstream).taking(maxUpstreamBody)
	CheckUpstream    = define("POST /api/v1/upstreams/{upstream}/check", "Check a tool server, optionally with changed settings", (*control.Service).CheckUpstream).lasting(checkLimit).taking(maxUpstreamBody)
	RotateUpstream   = define("POST /api/v1/upstreams/{upstream}/rotate", "Create a new token for an upstream that connects to this server", (*control.Service).RotateUpstream)
	DiffUpstream     = define("GET /api/v1/upstreams/{upstream}/diff", "Compare what a tool server offers with what its owner has approved", (*control.Service).UpstreamPins)
	ApproveUpstream  = define("POST /api/v1/upstreams/{upstream}/approve", "Approve changes of a tool server, by the fingerprints of the forms that were seen", (*control.Service).ApproveUpstream)
	StartSignIn      = define("POST /api/v1/upstreams/{upstream}/signin", "Begin a sign-in to a tool server, and return where its owner signs in", (*control.Service).StartSignIn).lasting(checkLimit)
	FinishSignIn     = define("POST /api/v1/upstreams/{upstream}/signin/answer", "Finish a sign-in to a tool server with the address to which it has led", (*control.Service).FinishSignIn).lasting(checkLimit)
	ForgetSignIn     = define("DELETE /api/v1/upstreams/{upstream}/signin", "Forget the tokens of a sign-in to a tool server", (*control.Service).ForgetSignIn)
	ShareUpstream    = define("PUT /api/v1/upstreams/{upstream}/sharing", "Share a tool server with everybody, some people or nobody; each signs in alone", (*control.Service).ShareUpstream)
	SearchRegistry   = define("GET /api/v1/registry", "Search the registry for tool servers", (*control.Service).SearchRegistry).lasting(checkLimit)
	ShowRegistry     = define("GET /api/v1/registry/server", "Return a tool server of the registry, and the ways in which it can be added", (*control.Service).ShowRegistryServer)
	RemoveUpstream   = define("DELETE /api/v1/upstreams/{upstream}", "Delete an upstream", (*control.Service).RemoveUpstream)
)

// upstreamOperations adds the operations on upstreams: MCP servers, services that call tools, and
// gateways that devices join.
func (s *Server) upstreamOperations() {
	s.operate(ListUpstreams, AddUpstream, CheckNewUpstream, ShowUpstream, ChangeUpstream, CheckUpstream,
		RotateUpstream, DiffUpstream, ApproveUpstream, StartSignIn, FinishSignIn, ForgetSignIn, ShareUpstream,
		RemoveUpstream, SearchRegistry, ShowRegistry)
}
