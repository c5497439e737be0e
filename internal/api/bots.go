package api

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"patchbay/internal/control"
	"patchbay/internal/hub"
	"patchbay/internal/i18n"
	"patchbay/internal/talk"
)

// botOperations adds the operations on bots.
func (s *Server) botOperations() {
	operate(s, "GET /api/v1/bots", "List the bots, and how they are", s.Bots)
	operate(s, "POST /api/v1/bots", "Add a bot", s.AddBot)
	operate(s, "GET /api/v1/bots/{bot}", "Tell all about a bot but its secrets", s.Bot)
	operate(s, "PATCH /api/v1/bots/{bot}", "Change the name, the description and the settings of a bot", s.ChangeBot)
	operate(s, "DELETE /api/v1/bots/{bot}", "Remove a bot, with its bindings, conversations and keys", s.RemoveBot)
	operate(s, "GET /api/v1/bot-kinds", "List the kinds of bots, and what can be set about them", s.BotKinds)
	operate(s, "POST /api/v1/bots/{bot}/rotate", "Give a bot that connects another token", s.RotateBot)
	operate(s, "POST /api/v1/bots/{bot}/test", "Put a question to a bot, and tell how it went", s.TestBot)
	operate(s, "POST /api/v1/bots/{bot}/invite", "Make an invitation to bind glasses to a bot", s.InviteWearer)
	operate(s, "GET /api/v1/bots/{bot}/invite/{invitation}", "Tell whether an invitation was used", s.Invitation)
	operate(s, "GET /api/v1/bots/{bot}/wearers", "List the wearers of a bot", s.Wearers)
	operate(s, "DELETE /api/v1/bots/{bot}/wearers/{user}", "Unbind a wearer from a bot", s.Unbind)
	operate(s, "GET /api/v1/bots/{bot}/keys", "List the keys that open a bot alone", s.BotKeys)
	operate(s, "POST /api/v1/bots/{bot}/keys", "Make a key for the platform of glasses", s.AddGlassesKey)
	operate(s, "DELETE /api/v1/bots/{bot}/keys/{key}", "Revoke a key that opens a bot alone", s.RevokeBotKey)
	operate(s, "GET /api/v1/bots/{bot}/turns", "List the turns of a bot, newest first", s.BotTurns)
	s.document("POST /api/v1/bots/{bot}/disconnect", "End the connections of a bot", "", nil, control.DisconnectedBot{},
		s.disconnect)
	s.document("POST /api/v1/ask", "Put a question to a bot", "application/x-ndjson", Question{}, Line{}, s.ask)
}

// disconnect closes a bot's connections. The bot may be removed already, and its owner unknown, so
// it is for admins.
func (s *Server) disconnect(w http.ResponseWriter, r *http.Request, c control.Caller) {
	bot, err := strconv.ParseInt(r.PathValue("bot"), 10, 64)
	switch {
	case err != nil:
		fail(w, http.StatusNotFound, "a bot is named by its number here")
	case !c.Admin:
		fail(w, http.StatusForbidden, "a key with scope admin is needed")
	default:
		s.Disconnect(bot)
		s.RecordAdminEvent(r.Context(), c, control.EventBotDisconnected, "#"+strconv.FormatInt(bot, 10))
		reply(w, control.DisconnectedBot{ID: bot, Disconnected: true})
	}
}

const msgStopped = i18n.Message("The answer was stopped.")

// Question is the body of /api/v1/ask.
type Question = control.Question

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
	var q Question
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxQuestion)).Decode(&q); err != nil {
		fail(w, http.StatusBadRequest, "the body is not a question in JSON, or is too large")
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
	err = s.Hub.Answer(r.Context(), turn, func(e talk.Event) error {
		control.SetWriteDeadline(time.Now().Add(10 * time.Second)) //nolint:errcheck // not every connection supports deadlines
		if err := lines.Encode(Line{Event: &e}); err != nil {
			return err
		}
		return control.Flush()
	})
	last := Line{End: true, Turn: turn.ID}
	if errors.Is(err, hub.ErrStopped) {
		last.Error, last.Failure = msgStopped.In(turn.Lang), err.Error()
	} else if f := talk.AsFailure(err); f != nil {
		last.Error, last.Failure = f.Sentence(turn.Lang), f.Error()
	}
	lines.Encode(last) //nolint:errcheck // the caller has disconnected
}
