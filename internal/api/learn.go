package api

import "patchbay/internal/account"

// learnOperations adds the operations on knowledge points. Keys of scope learn may call them, too.
// Files and the calendar are served elsewhere.
func (s *Server) learnOperations() {
	const learn = account.ScopeLearn
	do := s.Learning()
	operateFor(s, learn, "GET /api/v1/learn/points", "List knowledge points, newest first, or search them", do.Points)
	operateFor(s, learn, "POST /api/v1/learn/points", "Add a knowledge point", do.AddPoint)
	operateFor(s, learn, "GET /api/v1/learn/points/{point}", "Show a knowledge point with its plan", do.Point)
	operateFor(s, learn, "PATCH /api/v1/learn/points/{point}",
		"Change a knowledge point; its plan and history stay", do.ChangePoint)
	operateFor(s, learn, "DELETE /api/v1/learn/points/{point}", "Put a knowledge point into the trash", do.DeletePoint)
	operateFor(s, learn, "POST /api/v1/learn/points/{point}/restore",
		"Take a knowledge point out of the trash", do.RestorePoint)
	operateFor(s, learn, "POST /api/v1/learn/points/{point}/due",
		"Let a knowledge point come again on a date", do.Reschedule)
	operateFor(s, learn, "GET /api/v1/learn/points/{point}/history",
		"List the reviews of a knowledge point, oldest first", do.History)
	operateFor(s, learn, "GET /api/v1/learn/points/{point}/answer", "Show the answer of a question", do.Reveal)
	operateFor(s, learn, "POST /api/v1/learn/points/{point}/judge",
		"Compare what somebody recalled with the answer, which changes nothing", do.Judge)
	operateFor(s, learn, "GET /api/v1/learn/next", "Give the next question without its answer", do.Next)
	operateFor(s, learn, "GET /api/v1/learn/queue", "List what is to be reviewed now, in its order", do.Queue)
	operateFor(s, learn, "POST /api/v1/learn/reviews", "Take a review, and give the next question", do.Review)
	operateFor(s, learn, "POST /api/v1/learn/undo", "Take a review back, the last one if none is named", do.Undo)
	operateFor(s, learn, "GET /api/v1/learn/decks", "List decks with what waits in each, and their settings", do.Decks)
	operateFor(s, learn, "POST /api/v1/learn/decks", "Make a deck", do.AddDeck)
	operateFor(s, learn, "GET /api/v1/learn/decks/{deck}", "Show a deck", do.Deck)
	operateFor(s, learn, "PATCH /api/v1/learn/decks/{deck}", "Rename a deck or change its settings", do.ChangeDeck)
	operateFor(s, learn, "DELETE /api/v1/learn/decks/{deck}",
		"Delete a deck, whose points move to the default one", do.RemoveDeck)
	operateFor(s, learn, "GET /api/v1/learn/tags", "List tags, and how many points have each", do.Tags)
	operateFor(s, learn, "PATCH /api/v1/learn/tags/{tag}", "Rename a tag, or merge it into another", do.RenameTag)
	operateFor(s, learn, "GET /api/v1/learn/stats",
		"Tell how learning goes, what is due on coming days, and what was remembered", do.Stats)
	operateFor(s, learn, "GET /api/v1/learn/settings", "Show the settings of Learn", do.Settings)
	operateFor(s, learn, "PATCH /api/v1/learn/settings", "Change the settings of Learn", do.ChangeSettings)
}
