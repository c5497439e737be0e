package api

import (
	"net/http"
	"strconv"
	"time"

	"patchbay/internal/control"
)

// recordOperations adds the operations on records.
func (s *Server) recordOperations() {
	s.document("GET /api/v1/calls", "List the calls of tools, newest first", "", callsQuery{}, control.CallPage{},
		s.calls)
	operate(s, "GET /api/v1/turns", "List the records of turns, newest first", s.Turns)
	operate(s, "GET /api/v1/turns/{turn}", "Show the record of a turn, with the calls that were made in it",
		s.TurnRecord)
	operate(s, "GET /api/v1/stats", "Count turns, failures and connected devices of the last day", s.Stats)
	operate(s, "DELETE /api/v1/records", "Delete what was said, records of turns, or arguments of calls, for good",
		s.Forget)
}

// keyOperations adds the operations on keys of programs.
func (s *Server) keyOperations() {
	operate(s, "GET /api/v1/keys", "List keys, newest first", s.Keys)
	operate(s, "POST /api/v1/keys", "Make a key, whose secret is told this once", s.AddKey)
	operate(s, "GET /api/v1/keys/{key}", "Show a key", s.Service.Key)
	operate(s, "PATCH /api/v1/keys/{key}", "Give a key other rules", s.ChangeKey)
	operate(s, "DELETE /api/v1/keys/{key}", "Revoke a key", s.RevokeKey)
}

// callsQuery is the query of the list of calls.
type callsQuery struct {
	Tool    string    `query:"tool"` // * stands for any text
	Key     string    `query:"key"`
	Bot     int64     `query:"bot"`
	Outcome string    `query:"outcome"`
	Failed  bool      `query:"failed"`
	From    time.Time `query:"from"`
	Before  time.Time `query:"before"`
	After   string    `query:"after"`
	Limit   int       `query:"limit"`
	User    string    `query:"user"`
}

// defaultCalls is the default length of a list of calls.
const defaultCalls = 50

func (s *Server) calls(w http.ResponseWriter, r *http.Request, c control.Caller) {
	query := r.URL.Query()
	q := control.CallQuery{
		Limit: defaultCalls, Failed: query.Get("failed") == "true",
		Tool: query.Get("tool"), Key: query.Get("key"), Outcome: query.Get("outcome"), After: query.Get("after"),
	}
	var err error
	if text := query.Get("limit"); text != "" {
		if q.Limit, err = strconv.Atoi(text); err != nil || q.Limit < 1 || q.Limit > control.CallsMost {
			fail(w, http.StatusBadRequest, "limit is a number from 1 to "+strconv.Itoa(control.CallsMost))
			return
		}
	}
	if text := query.Get("bot"); text != "" {
		if q.Bot, err = strconv.ParseInt(text, 10, 64); err != nil {
			fail(w, http.StatusBadRequest, "bot is a number")
			return
		}
	}
	for _, at := range []struct {
		name string
		into *time.Time
	}{{"before", &q.Before}, {"from", &q.From}} {
		if text := query.Get(at.name); text != "" {
			if *at.into, err = time.Parse(time.RFC3339, text); err != nil {
				fail(w, http.StatusBadRequest, at.name+" is a time such as 2026-09-30T12:00:00Z")
				return
			}
		}
	}
	page, err := s.Service.Calls(r.Context(), c, q, query.Get("user"))
	if err != nil {
		s.fails(w, r, err)
		return
	}
	reply(w, page)
}
