package api

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"patchbay/internal/control"
	"patchbay/internal/fetch"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// botOperations are about bots.
func (s *Server) botOperations() {
	s.mux.HandleFunc("GET /api/v1/bots", s.guarded(s.bots))
	s.mux.HandleFunc("POST /api/v1/bots/{bot}/disconnect", s.guarded(s.disconnect))
	s.mux.HandleFunc("POST /api/v1/ask", s.guarded(s.ask))
}

func (s *Server) bots(w http.ResponseWriter, r *http.Request, c control.Caller) {
	list, err := s.Board.Store.Bots.ByOwner(r.Context(), c.Owner())
	if err != nil {
		s.broken(w, r, err)
		return
	}
	out := make([]control.BotStatus, len(list))
	for i, b := range list {
		h := s.Health(b)
		out[i] = control.BotStatus{Bot: b, Online: s.Board.Reachable(b), Health: h, Trouble: h.Trouble.In(lang(r))}
	}
	reply(w, map[string]any{"bots": out})
}

// disconnect ends a bot's connections. The bot may be gone already, and with it
// whose it was: so this is for those who run the installation.
func (s *Server) disconnect(w http.ResponseWriter, r *http.Request, c control.Caller) {
	bot, err := strconv.ParseInt(r.PathValue("bot"), 10, 64)
	switch {
	case err != nil:
		fail(w, http.StatusNotFound, "a bot is named by its number here")
	case !c.Admin:
		fail(w, http.StatusForbidden, "a key with scope admin is needed")
	default:
		s.Disconnect(bot)
		reply(w, map[string]any{"id": bot, "disconnected": true})
	}
}

// Question is the body of /api/v1/ask.
type Question struct {
	Bot          string `json:"bot"` // number or name
	Text         string `json:"text"`
	Image        []byte `json:"image,omitempty"` // base64
	Conversation string `json:"conversation,omitempty"`
	Lang         string `json:"lang,omitempty"`
}

// Line is one line of the answer of /api/v1/ask: an event, or the end.
type Line struct {
	Event   *talk.Event `json:"event,omitempty"`
	End     bool        `json:"end,omitempty"`
	Turn    string      `json:"turn,omitempty"`
	Error   string      `json:"error,omitempty"` // what a person is told
	Failure string      `json:"cause,omitempty"` // what the owner is told
}

// maxQuestion is a picture of 8 MiB in base64, and the text.
const maxQuestion = 12 << 20

// ask puts a question to a bot and streams the answer, a JSON object a line.
func (s *Server) ask(w http.ResponseWriter, r *http.Request, c control.Caller) {
	var q Question
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxQuestion)).Decode(&q); err != nil {
		fail(w, http.StatusBadRequest, "the body is not a question in JSON, or is too large")
		return
	}
	bot, err := s.Board.Registry.Find(r.Context(), c.Owner(), q.Bot)
	if err != nil {
		fail(w, http.StatusNotFound, "there is no bot "+q.Bot)
		return
	}
	person := c.Person
	if person == "" {
		person = bot.Owner // the operator of this machine asks in the owner's place
	}
	turn, err := Turn(bot, q, person)
	if err != nil {
		fail(w, http.StatusBadRequest, err.Error())
		return
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("X-Accel-Buffering", "no")
	lines := json.NewEncoder(w)
	control := http.NewResponseController(w)
	err = s.Board.Answer(r.Context(), turn, func(e talk.Event) error {
		control.SetWriteDeadline(time.Now().Add(10 * time.Second)) //nolint:errcheck // not every connection has one
		if err := lines.Encode(Line{Event: &e}); err != nil {
			return err
		}
		return control.Flush()
	})
	last := Line{End: true, Turn: turn.ID}
	if f := talk.AsFailure(err); f != nil {
		last.Error, last.Failure = f.Sentence(turn.Lang), f.Error()
	}
	lines.Encode(last) //nolint:errcheck // the caller has gone
}

// Turn makes a turn of a question from the command line.
func Turn(bot store.Bot, q Question, person string) (*talk.Turn, error) {
	turn := &talk.Turn{
		Bot: bot.Number, Door: "cli", Lang: talk.ParseLang(q.Lang, talk.English), Conversation: q.Conversation,
		Commands: []string{talk.CommandTakePhoto, talk.CommandNavigate, talk.CommandCalendar, talk.CommandLeave},
	}
	if q.Conversation != "" {
		turn.Person = "cli:" + person
	}
	if q.Text != "" {
		turn.Parts = append(turn.Parts, talk.Part{Text: q.Text})
	}
	if len(q.Image) > 0 {
		im, err := fetch.NewImage(q.Image)
		if err != nil {
			return nil, errors.New("the picture cannot be read; WebP, JPEG, PNG and GIF can")
		}
		turn.Parts = append(turn.Parts, talk.Part{Image: &talk.Image{MIME: im.MIME, Data: im.Data}})
	}
	if len(turn.Parts) == 0 {
		return nil, errors.New("say something, or show a picture")
	}
	return turn, nil
}
