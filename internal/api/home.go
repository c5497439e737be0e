package api

import "patchbay/internal/control"

// Operations.
var (
	Overview     = define("GET /api/v1/overview", "Get an overview of your bots, devices and records", (*control.Service).Overview)
	LastActivity = define("GET /api/v1/guide/{path}", "Get the last activity of your glasses, boards or agents", (*control.Service).LastActivity)
	Chat         = define("GET /api/v1/bots/{bot}/chat", "Show a conversation with a bot, the last one if none is named", (*control.Service).Chat)
	StopChat     = define("POST /api/v1/bots/{bot}/chat/stop", "Stop what a bot is saying to you", (*control.Service).StopChat)
)

// homeOperations adds the overview and the conversations of a person.
func (s *Server) homeOperations() {
	s.operate(Overview, LastActivity, Chat, StopChat)
}
