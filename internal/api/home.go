package api

import "patchbay/internal/control"

// Operations.
var (
	Overview     = define("GET /api/v1/overview", "Return an overview of the caller's bots, devices and records", (*control.Service).Overview)
	LastActivity = define("GET /api/v1/guide/{path}", "Return the last activity of the caller's glasses, boards, agents or programs", (*control.Service).LastActivity)
	Chat         = define("GET /api/v1/bots/{bot}/chat", "Return a conversation with a bot; default: the last one", (*control.Service).Chat)
	StopChat     = define("POST /api/v1/bots/{bot}/chat/stop", "Stop the caller's active answers of a bot", (*control.Service).StopChat)
)

// homeOperations adds the overview and the conversations of a person.
func (s *Server) homeOperations() {
	s.operate(Overview, LastActivity, Chat, StopChat)
}
