package api

// homeOperations adds the overview and the conversations of a person.
func (s *Server) homeOperations() {
	operate(s, "GET /api/v1/overview", "Get an overview of your bots, devices and records", s.Overview)
	operate(s, "GET /api/v1/guide/{path}", "Get the last activity of your glasses, boards or agents", s.LastActivity)
	operate(s, "GET /api/v1/bots/{bot}/chat", "Show a conversation with a bot, the last one if none is named", s.Chat)
	operate(s, "POST /api/v1/bots/{bot}/chat/stop", "Stop what a bot is saying to you", s.StopChat)
}
