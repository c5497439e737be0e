package api

import (
	"context"

	"patchbay/internal/account"
	"patchbay/internal/control"
)

// Operations.
var (
	LearnPoints = learning("GET /api/v1/learn/points", "List knowledge points, newest first, or search them",
		(*control.Learning).Points)
	AddPoint = learning("POST /api/v1/learn/points", "Add a knowledge point",
		(*control.Learning).AddPoint)
	LearnPoint = learning("GET /api/v1/learn/points/{point}", "Show a knowledge point with its plan",
		(*control.Learning).Point)
	ChangePoint = learning("PATCH /api/v1/learn/points/{point}", "Change a knowledge point; its plan and history stay",
		(*control.Learning).ChangePoint)
	DeletePoint = learning("DELETE /api/v1/learn/points/{point}", "Put a knowledge point into the trash",
		(*control.Learning).DeletePoint)
	RestorePoint = learning("POST /api/v1/learn/points/{point}/restore", "Take a knowledge point out of the trash",
		(*control.Learning).RestorePoint)
	ReschedulePoint = learning("POST /api/v1/learn/points/{point}/due", "Let a knowledge point come again on a date",
		(*control.Learning).Reschedule)
	PointHistory = learning("GET /api/v1/learn/points/{point}/history", "List the reviews of a knowledge point, oldest first",
		(*control.Learning).History)
	RevealAnswer = learning("GET /api/v1/learn/points/{point}/answer", "Show the answer of a question",
		(*control.Learning).Reveal)
	JudgeAnswer = learning("POST /api/v1/learn/points/{point}/judge", "Compare what somebody recalled with the answer, which changes nothing",
		(*control.Learning).Judge)
	NextQuestion = learning("GET /api/v1/learn/next", "Give the next question without its answer",
		(*control.Learning).Next)
	ReviewQueue = learning("GET /api/v1/learn/queue", "List what is to be reviewed now, in its order",
		(*control.Learning).Queue)
	Review = learning("POST /api/v1/learn/reviews", "Take a review, and give the next question",
		(*control.Learning).Review)
	UndoReview = learning("POST /api/v1/learn/undo", "Take a review back, the last one if none is named",
		(*control.Learning).Undo)
	Decks = learning("GET /api/v1/learn/decks", "List decks with what waits in each, and their settings",
		(*control.Learning).Decks)
	AddDeck = learning("POST /api/v1/learn/decks", "Make a deck",
		(*control.Learning).AddDeck)
	Deck = learning("GET /api/v1/learn/decks/{deck}", "Show a deck",
		(*control.Learning).Deck)
	ChangeDeck = learning("PATCH /api/v1/learn/decks/{deck}", "Rename a deck or change its settings",
		(*control.Learning).ChangeDeck)
	RemoveDeck = learning("DELETE /api/v1/learn/decks/{deck}", "Delete a deck, whose points move to the default one",
		(*control.Learning).RemoveDeck)
	Tags = learning("GET /api/v1/learn/tags", "List tags, and how many points have each",
		(*control.Learning).Tags)
	RenameTag = learning("PATCH /api/v1/learn/tags/{tag}", "Rename a tag, or merge it into another",
		(*control.Learning).RenameTag)
	LearnStats = learning("GET /api/v1/learn/stats", "Tell how learning goes, what is due on coming days, and what was remembered",
		(*control.Learning).Stats)
	LearnSettings = learning("GET /api/v1/learn/settings", "Show the settings of Learn",
		(*control.Learning).Settings)
	ChangeLearnSettings = learning("PATCH /api/v1/learn/settings", "Change the settings of Learn",
		(*control.Learning).ChangeSettings)
)

// learning returns an operation on knowledge points, which keys of scope learn may call, too.
func learning[In, Out any](pattern, summary string,
	do func(*control.Learning, context.Context, control.Caller, In) (Out, error)) *Op[In, Out] {
	o := define(pattern, summary, func(s *control.Service, ctx context.Context, c control.Caller, in In) (Out, error) {
		return do(s.Learning(), ctx, c, in)
	})
	o.Scope = account.ScopeLearn
	return o
}

// learnOperations adds the operations on knowledge points. Keys of scope learn may call them, too.
func (s *Server) learnOperations() {
	s.operate(LearnPoints, AddPoint, LearnPoint, ChangePoint, DeletePoint, RestorePoint, ReschedulePoint,
		PointHistory, RevealAnswer, JudgeAnswer, NextQuestion, ReviewQueue, Review, UndoReview, Decks, AddDeck,
		Deck, ChangeDeck, RemoveDeck, Tags, RenameTag, LearnStats, LearnSettings, ChangeLearnSettings)
	s.learnFileOperations()
}
