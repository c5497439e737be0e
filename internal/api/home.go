package api

// homeOperations are about all that is somebody's, and what they talk about with bots.
func (s *Server) homeOperations() {
	operate(s, "GET /api/v1/glance", "Tell at a glance how everything of yours is", s.Glance)
	operate(s, "GET /api/v1/guide/{road}", "Tell of the last sign of life from your glasses, your boards or your agents", s.Sign)
	operate(s, "GET /api/v1/bots/{bot}/chat", "Show a conversation with a bot, the last one if none is named", s.Chat)
	operate(s, "POST /api/v1/bots/{bot}/chat/stop", "Stop what a bot is saying to you", s.StopChat)
}
