package api

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"patchbay/internal/control"
	"patchbay/internal/store"
)

// recordOperations are about what has happened.
func (s *Server) recordOperations() {
	s.mux.HandleFunc("GET /api/v1/calls", s.guarded(s.calls))
}

// Call is a row of the audit trail as /api/v1/calls lists it, with the names of
// whom its ids stand for, as far as they are still there.
type Call struct {
	store.Call
	PersonName string `json:"person_name,omitempty"`
	// KeyName is of the key, or of the upstream that called.
	KeyName string `json:"key_name,omitempty"`
	BotName string `json:"bot_name,omitempty"`
}

// Failed says that the call did not bring what it was made for.
func (c *Call) Failed() bool { return c.Outcome != "done" && c.Outcome != "asked" }

const (
	// callsShown is how many calls are listed if nothing else is asked for.
	callsShown = 50
	// CallsMost is how many calls a page can have.
	CallsMost = 1000
	// failuresSearched bounds the look for calls that failed among the newest.
	failuresSearched = 5000
	// maxCallsPage bounds the arguments on a page, which are kept as they came: a
	// page that is full ends early.
	maxCallsPage = 8 << 20
)

// CallQuery says which calls are wanted: the newest of a person (everybody's for
// an empty one) that began before a time.
type CallQuery struct {
	Person string
	Before time.Time
	Limit  int
	Failed bool // those alone; among the newest 5,000
}

// Calls reads the audit trail, newest first.
func Calls(ctx context.Context, db *store.DB, q CallQuery) ([]Call, error) {
	searched := q.Limit
	if q.Failed {
		searched = failuresSearched
	}
	rows, err := db.Calls.Newest(ctx, q.Person, q.Before, searched)
	if err != nil {
		return nil, err
	}
	out := []Call{}
	size := 0
	for _, row := range rows {
		c := Call{Call: row}
		if q.Failed && !c.Failed() {
			continue
		}
		if size += len(row.Args); len(out) == q.Limit || size > maxCallsPage && len(out) > 0 {
			break
		}
		out = append(out, c)
	}
	return out, nameCalls(ctx, db, q.Person, out)
}

// nameCalls fills in names.
func nameCalls(ctx context.Context, db *store.DB, person string, calls []Call) error {
	people, err := db.People.All(ctx)
	if err != nil {
		return err
	}
	keys, err := db.Keys.ByPerson(ctx, person)
	if err != nil {
		return err
	}
	upstreams, err := db.Upstreams.ByOwner(ctx, person)
	if err != nil {
		return err
	}
	bots, err := db.Bots.ByOwner(ctx, person)
	if err != nil {
		return err
	}
	names, botNames := map[string]string{}, map[int64]string{}
	for _, p := range people {
		names[p.ID] = p.Name
	}
	for _, k := range keys {
		names[k.ID] = k.Name
	}
	for _, u := range upstreams {
		names["upstream:"+strconv.FormatInt(u.Number, 10)] = u.Slug
	}
	for _, b := range bots {
		botNames[b.Number] = b.Name
	}
	for i := range calls {
		c := &calls[i]
		c.PersonName, c.KeyName, c.BotName = names[c.Person], names[c.Key], botNames[c.Bot]
	}
	return nil
}

func (s *Server) calls(w http.ResponseWriter, r *http.Request, c control.Caller) {
	query := r.URL.Query()
	q := CallQuery{Limit: callsShown, Before: time.Now().Add(time.Minute), Failed: query.Get("failed") == "true"}
	var err error
	if text := query.Get("limit"); text != "" {
		if q.Limit, err = strconv.Atoi(text); err != nil || q.Limit < 1 || q.Limit > CallsMost {
			fail(w, http.StatusBadRequest, "limit is a number from 1 to "+strconv.Itoa(CallsMost))
			return
		}
	}
	if text := query.Get("before"); text != "" {
		if q.Before, err = time.Parse(time.RFC3339, text); err != nil {
			fail(w, http.StatusBadRequest, "before is a time such as 2026-09-30T12:00:00Z")
			return
		}
	}
	q.Person = c.Owner()
	if name := query.Get("user"); name != "" {
		p, ok := s.person(w, r, c, name)
		if !ok {
			return
		}
		q.Person = p.ID
	}
	s.Board.Settle(r.Context())
	rows, err := Calls(r.Context(), s.Board.Store, q)
	if err != nil {
		s.broken(w, r, err)
		return
	}
	reply(w, map[string]any{"calls": rows})
}
