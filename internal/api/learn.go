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
	LearnPoint = learning("GET /api/v1/learn/points/{point}", "Return a knowledge point with its schedule",
		(*control.Learning).Point)
	ChangePoint = learning("PATCH /api/v1/learn/points/{point}", "Update a knowledge point; its schedule and history are kept",
		(*control.Learning).ChangePoint)
	DeletePoint = learning("DELETE /api/v1/learn/points/{point}", "Move a knowledge point to the trash",
		(*control.Learning).DeletePoint)
	RestorePoint = learning("POST /api/v1/learn/points/{point}/restore", "Restore a knowledge point from the trash",
		(*control.Learning).RestorePoint)
	ReschedulePoint = learning("POST /api/v1/learn/points/{point}/due", "Set the due date of a knowledge point",
		(*control.Learning).Reschedule)
	PointHistory = learning("GET /api/v1/learn/points/{point}/history", "List the reviews of a knowledge point, oldest first",
		(*control.Learning).History)
	RevealAnswer = learning("GET /api/v1/learn/points/{point}/answer", "Return the answer of a knowledge point",
		(*control.Learning).Reveal)
	JudgeAnswer = learning("POST /api/v1/learn/points/{point}/judge", "Compare a recalled answer with the correct one, without recording a review",
		(*control.Learning).Judge)
	NextQuestion = learning("GET /api/v1/learn/next", "Return the next question, without its answer",
		(*control.Learning).Next)
	ReviewQueue = learning("GET /api/v1/learn/queue", "List the knowledge points to review now, in review order",
		(*control.Learning).Queue)
	Review = learning("POST /api/v1/learn/reviews", "Record a review and return the next question",
		(*control.Learning).Review)
	UndoReview = learning("POST /api/v1/learn/undo", "Undo a review; default: the last one",
		(*control.Learning).Undo)
	OfflineQueue = learning("GET /api/v1/learn/offline", "Return what a device needs to review without the server for some days",
		(*control.Learning).Offline).replying(maxOffline)
	SyncReviews = learning("POST /api/v1/learn/sync", "Record reviews that were made without the server, up to 500, in any order",
		(*control.Learning).Sync)
	EditPoints = learning("POST /api/v1/learn/edits", "Edit many knowledge points, by ids or by a query",
		(*control.Learning).Edit)
	UndoEdit = learning("POST /api/v1/learn/edits/undo", "Undo the last edit of many knowledge points, for a day",
		(*control.Learning).UndoEdit)
	Decks = learning("GET /api/v1/learn/decks", "List decks with their due counts and settings",
		(*control.Learning).Decks)
	AddDeck = learning("POST /api/v1/learn/decks", "Create a deck",
		(*control.Learning).AddDeck)
	Deck = learning("GET /api/v1/learn/decks/{deck}", "Return a deck",
		(*control.Learning).Deck)
	ChangeDeck = learning("PATCH /api/v1/learn/decks/{deck}", "Update the name or settings of a deck",
		(*control.Learning).ChangeDeck)
	RemoveDeck = learning("DELETE /api/v1/learn/decks/{deck}", "Delete a deck; its knowledge points move to the default deck",
		(*control.Learning).RemoveDeck)
	Tags = learning("GET /api/v1/learn/tags", "List tags with their numbers of knowledge points",
		(*control.Learning).Tags)
	RenameTag = learning("PATCH /api/v1/learn/tags/{tag}", "Rename a tag, or merge it into another",
		(*control.Learning).RenameTag)
	LearnStats = learning("GET /api/v1/learn/stats", "Return learning statistics, due counts of the coming days, and retention",
		(*control.Learning).Stats)
	FitMemory = learning("POST /api/v1/learn/fit", "Fit the memory model to the reviews, and use the result where it predicts them better",
		(*control.Learning).Fit)
	SimulateRetention = learning("GET /api/v1/learn/simulation", "Simulate what other values of the setting retention would cost and bring",
		(*control.Learning).Simulate)
	LearnSettings = learning("GET /api/v1/learn/settings", "Return the settings of Learn",
		(*control.Learning).Settings)
	ChangeLearnSettings = learning("PATCH /api/v1/learn/settings", "Update the settings of Learn",
		(*control.Learning).ChangeSettings)
)

// maxOffline is the maximum size of what a device takes along, in bytes.
const maxOffline = 32 << 20

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
		PointHistory, RevealAnswer, JudgeAnswer, NextQuestion, ReviewQueue, Review, UndoReview,
		OfflineQueue, SyncReviews, EditPoints, UndoEdit,
		Decks, AddDeck, Deck, ChangeDeck, RemoveDeck, Tags, RenameTag, LearnStats, FitMemory, SimulateRetention,
		LearnSettings, ChangeLearnSettings)
	s.learnFileOperations()
	s.learnMediaOperations()
}
