package app

import (
	"log/slog"

	"patchbay/internal/account"
	"patchbay/internal/board"
	"patchbay/internal/plug/learn"
	"patchbay/internal/plug/learn/quiz"
	"patchbay/internal/store"
)

// quizOn lets people review by talking to their bots.
func quizOn(hub *board.Board, s *learn.Service, db *store.DB, log *slog.Logger) {
	q := quiz.New(quiz.Options{Service: s, Store: db, Logger: log, Shared: func(bot store.Bot) bool {
		var o account.Openness
		err := hub.Registry.Settings(bot, &o)
		return err != nil || o.Shared
	}})
	hub.Interpose("learn", q.Interpose)
}
