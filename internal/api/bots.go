package api

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"patchbay/internal/control"
	"patchbay/internal/i18n"
	"patchbay/internal/problem"
	"patchbay/internal/talk"
)

// Operations.
var (
	Bots          = define("GET /api/v1/bots", "List bots with their status", (*control.Service).Bots)
	AddBot        = define("POST /api/v1/bots", "Add a bot", (*control.Service).AddBot)
	Bot           = define("GET /api/v1/bots/{bot}", "Return a bot, without its secrets", (*control.Service).Bot)
	ChangeBot     = define("PATCH /api/v1/bots/{bot}", "Update the name, description and settings of a bot", (*control.Service).ChangeBot)
	RemoveBot     = define("DELETE /api/v1/bots/{bot}", "Delete a bot with its bindings, conversations and keys", (*control.Service).RemoveBot)
	BotKinds      = define("GET /api/v1/bot-kinds", "List the kinds of bots with their settings", (*control.Service).BotKinds)
	Roles         = define("GET /api/v1/roles", "List the roles to start a bot from", (*control.Service).Roles)
	ShareBot      = define("PUT /api/v1/bots/{bot}/sharing", "Let everybody, some people or nobody ask a bot besides its owner", (*control.Service).ShareBot)
	RotateBot     = define("POST /api/v1/bots/{bot}/rotate", "Create a new token for a bot that connects to this server", (*control.Service).RotateBot)
	TestBot       = define("POST /api/v1/bots/{bot}/test", "Ask a bot a test question and return the answer with its timings", (*control.Service).TestBot)
	InviteWearer  = define("POST /api/v1/bots/{bot}/invite", "Create an invitation to bind glasses to a bot", (*control.Service).InviteWearer)
	Invitation    = define("GET /api/v1/bots/{bot}/invite/{invitation}", "Return whether an invitation was used", (*control.Service).Invitation)
	Wearers       = define("GET /api/v1/bots/{bot}/wearers", "List the wearers of a bot", (*control.Service).Wearers)
	Unbind        = define("DELETE /api/v1/bots/{bot}/wearers/{user}", "Unbind a wearer from a bot", (*control.Service).Unbind)
	BotKeys       = define("GET /api/v1/bots/{bot}/keys", "List the keys that are restricted to a bot", (*control.Service).BotKeys)
	AddGlassesKey = define("POST /api/v1/bots/{bot}/keys", "Create a key for the glasses platform", (*control.Service).AddGlassesKey)
	RevokeBotKey  = define("DELETE /api/v1/bots/{bot}/keys/{key}", "Revoke a key that is restricted to a bot", (*control.Service).RevokeBotKey)
	BotTurns      = define("GET /api/v1/bots/{bot}/turns", "List the turns of a bot, newest first", (*control.Service).BotTurns)
)

// botOperations adds the operations on bots.
func (s *Server) botOperations() {
	s.operate(Bots, AddBot, Bot, ChangeBot, RemoveBot, BotKinds, Roles, ShareBot, RotateBot, TestBot, InviteWearer,
		Invitation, Wearers, Unbind, BotKeys, AddGlassesKey, RevokeBotKey, BotTurns)
	s.document("POST /api/v1/ask", "Ask a bot a question and stream its answer as JSON lines", "application/x-ndjson", control.Question{}, Line{}, s.ask)
}

const msgStopped = i18n.Message("The answer was stopped.")

// Line is one line of the response of /api/v1/ask: an event, or the end.
type Line struct {
	Event   *talk.Event `json:"event,omitempty"`
	End     bool        `json:"end,omitempty"`
	Turn    string      `json:"turn,omitempty"`
	Error   string      `json:"error,omitempty"` // for the person who asks
	Failure string      `json:"cause,omitempty"` // for the bot's owner
}

// maxQuestion allows a picture of 8 MiB in base64, and the text.
const maxQuestion = 12 << 20

// ask asks a bot a question and streams the answer as JSON lines.
func (s *Server) ask(w http.ResponseWriter, r *http.Request, c control.Caller) {
	var q control.Question
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxQuestion)).Decode(&q); err != nil {
		fail(w, problem.Invalid, "the body is not a question in JSON, or is too large")
		return
	}
	turn, err := s.Turn(r.Context(), c, q)
	if err != nil {
		s.fails(w, r, err)
		return
	}
	turn.Request = talk.ParseTraceparent(r.Header.Get("Traceparent"))
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("X-Accel-Buffering", "no")
	lines := json.NewEncoder(w)
	control := http.NewResponseController(w)
	err = s.Answer(r.Context(), turn, func(e talk.Event) error {
		control.SetWriteDeadline(time.Now().Add(10 * time.Second)) //nolint:errcheck // not every connection supports deadlines
		if err := lines.Encode(Line{Event: &e}); err != nil {
			return err
		}
		return control.Flush()
	})
	last := Line{End: true, Turn: turn.ID}
	if errors.Is(err, talk.ErrStopped) {
		last.Error, last.Failure = msgStopped.In(turn.Lang), err.Error()
	} else if f := talk.AsFailure(err); f != nil {
		last.Error, last.Failure = f.Sentence(turn.Lang), f.Error()
	}
	lines.Encode(last) //nolint:errcheck // the caller has disconnected
}
