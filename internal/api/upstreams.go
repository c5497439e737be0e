package api

// upstreamOperations adds the operations on upstreams: MCP servers, services that call tools, and
// gateways that devices join.
func (s *Server) upstreamOperations() {
	operate(s, "GET /api/v1/upstreams", "List tool servers, services and gateways, with how their connections are",
		s.ListUpstreams)
	operate(s, "POST /api/v1/upstreams", "Add a tool server, a service or a gateway", s.AddUpstream)
	operate(s, "POST /api/v1/upstreams/check", "Look at a tool server before it is added", s.CheckNewUpstream)
	operate(s, "GET /api/v1/upstreams/{upstream}", "Show one with its settings, secrets masked", s.ShowUpstream)
	operate(s, "PATCH /api/v1/upstreams/{upstream}", "Change settings of one; null takes a setting away",
		s.ChangeUpstream)
	operate(s, "POST /api/v1/upstreams/{upstream}/check",
		"Look at a tool server, with changed settings if some are given", s.CheckUpstream)
	operate(s, "POST /api/v1/upstreams/{upstream}/rotate", "Give one that connects to us a new token", s.RotateUpstream)
	operate(s, "DELETE /api/v1/upstreams/{upstream}", "Remove one", s.RemoveUpstream)
}
