package learn

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/problem"
	"patchbay/internal/store"
	"patchbay/internal/tool"
)

const (
	// defaultPageSize is the number of rows of a page when the caller gives none.
	defaultPageSize = 50
	// maxPageBytes limits the text of the points of one page, which keeps results within a model's
	// context.
	maxPageBytes = 256 << 10
)

// learnChannel is the channel of Learn's own MCP endpoint, which only keys with Learn's scope
// reach.
const learnChannel = "learn"

// Provider offers Learn as tools. It is safe for concurrent use.
type Provider struct{ Service *Service }

// arguments holds the arguments of all tools. A nil pointer means that the argument was not given.
type arguments struct {
	ID        string          `json:"id"`
	Point     string          `json:"knowledge_point_id"`
	Sitting   string          `json:"schedule_id"`
	Review    string          `json:"review_id"`
	Question  *string         `json:"question"`
	Answer    *string         `json:"answer"`
	Recall    string          `json:"recall_text"`
	Grade     string          `json:"grade"`
	Score     *int            `json:"score"`
	TookMS    int64           `json:"took_ms"`
	Early     bool            `json:"early"`
	Deck      *string         `json:"deck"`
	Tag       string          `json:"tag"`
	Tags      *[]string       `json:"tags"`
	InPlan    *bool           `json:"is_in_review_plan"`
	Suspended *bool           `json:"suspended"`
	Draft     *bool           `json:"draft"`
	Media     []mediaArg      `json:"media"`
	Drafts    bool            `json:"drafts"`
	DueOnly   bool            `json:"due_only"`
	Query     string          `json:"query"`
	Limit     int             `json:"limit"`
	Cursor    string          `json:"cursor"`
	Name      string          `json:"name"`
	NewName   string          `json:"new_name"`
	Settings  json.RawMessage `json:"settings"`
	IDs       looseTexts      `json:"ids"`
	Date      string          `json:"date"`
	InDays    *int            `json:"in_days"`
	Days      int             `json:"days"`
	Back      int             `json:"history_days"`
	Points    []draftArgs     `json:"points"`

	Fields     *map[string]string `json:"fields"`
	AddTags    []string           `json:"add_tags"`
	RemoveTags []string           `json:"remove_tags"`
	Flag       *int               `json:"flag"`
	Bury       *bool              `json:"bury"`
	Deleted    *bool              `json:"deleted"`
	DryRun     bool               `json:"dry_run"`
	Cram       bool               `json:"cram"`
	Undo       bool               `json:"undo"`
	NewPoints  *int               `json:"new_points"`
	Seed       uint64             `json:"seed"`
	// Retentions are those to simulate.
	Retentions []float64 `json:"retentions"`
}

// handlers maps each tool name to its handler.
var handlers = map[string]func(*Service, context.Context, *tool.Call, *arguments) (*tool.Result, error){
	toolListReviews: (*Service).callListReviews,
	toolListPoints:  (*Service).callListPoints,
	toolGet:         (*Service).callGet,
	toolCreate:      (*Service).callCreate,
	toolUpdate:      (*Service).callUpdate,
	toolDelete:      (*Service).callDelete,
	toolRecall:      (*Service).callRecall,
	toolMark:        (*Service).callMark,
	toolCreateMany:  (*Service).callCreateMany,
	toolRestore:     (*Service).callRestore,
	toolTrash:       (*Service).callTrash,
	toolSearch:      (*Service).callSearch,
	toolNext:        (*Service).callNext,
	toolReveal:      (*Service).callReveal,
	toolSubmit:      (*Service).callSubmit,
	toolUndo:        (*Service).callUndo,
	toolReschedule:  (*Service).callReschedule,
	toolDecks:       (*Service).callDecks,
	toolSaveDeck:    (*Service).callSaveDeck,
	toolDropDeck:    (*Service).callDropDeck,
	toolTags:        (*Service).callTags,
	toolStats:       (*Service).callStats,
	toolHistory:     (*Service).callHistory,
	toolSettings:    (*Service).callSettings,
	toolConfigure:   (*Service).callConfigure,
	toolJudge:       (*Service).callJudge,
	toolAsk:         (*Service).callAsk,
	toolEdit:        (*Service).callEdit,
	toolUndoEdit:    (*Service).callUndoEdit,
	toolFit:         (*Service).callFit,
	toolSimulate:    (*Service).callSimulate,
}

// databaseTimeout limits a call that needs nothing but the database. A person must get an answer
// within 10 s, and some statements in a row may take up to 5 s each.
const databaseTimeout = 8 * time.Second

// takesLong has the tools without that limit: they ask a model, which has its own timeout, fetch
// pictures, or go through all points of a deck or a person, and report their progress.
var takesLong = map[string]bool{
	toolJudge: true, toolAsk: true, toolCreate: true, toolUpdate: true, toolSaveDeck: true, toolDropDeck: true,
	toolConfigure: true, toolEdit: true, toolUndoEdit: true,
	toolFit: true, toolSimulate: true,
}

// EndsWithContext implements [hub.Cancellable].
func (*Provider) EndsWithContext() {}

// Call implements [tool.Provider].
func (p *Provider) Call(ctx context.Context, c *tool.Call) (*tool.Result, error) {
	handle := handlers[c.Tool]
	if handle == nil {
		return nil, tool.Fail(tool.Unknown, "Unknown tool: "+c.Tool, nil)
	}
	if !mayRead(c.Caller) {
		return nil, tool.Fail(tool.Denied,
			"Knowledge points belong to a person: they need a key of that person's, and not one for a single bot.", nil)
	}
	var a arguments
	if len(c.Args) > 0 {
		if err := json.Unmarshal(c.Args, &a); err != nil {
			return nil, tool.Fail(tool.BadArgs, "The arguments cannot be read.", err)
		}
	}
	limited := ctx
	if !takesLong[c.Tool] {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, p.Service.callTimeout)
		defer cancel()
	}
	res, err := handle(p.Service, limited, c, &a)
	if err == nil {
		return res, nil
	}
	res, err = errorResult(ctx, c, &a, err)
	if e := tool.AsError(err); e != nil && e.Code == tool.Failed && ctx.Err() == nil {
		p.Service.Logger.ErrorContext(ctx, "a tool of Learn failed", "tool", c.Tool, "call", c.ID, "error", e)
	}
	return res, err
}

// cliChannel is the channel of tool calls from the command line. There a person reads the errors;
// on all other channels a model does, in English.
const cliChannel = "cli"

// langOf returns the language of error messages for a call.
func langOf(c *tool.Call) i18n.Lang {
	if c.Caller.Channel == cliChannel {
		return i18n.ParseLang(c.Caller.Lang, i18n.English)
	}
	return i18n.English
}

// errorResult turns an error into the result that the caller gets.
func errorResult(ctx context.Context, c *tool.Call, a *arguments, err error) (*tool.Result, error) {
	if e, ok := errors.AsType[*problem.Error](err); ok {
		return nil, tool.Fail(tool.BadArgs, e.In(langOf(c)), nil)
	}
	if e, ok := errors.AsType[*AlreadyReviewedError](err); ok {
		now := map[string]any{"error": "already_reviewed", "reviewed_at": moment(e.At),
			"knowledge_point_id": e.Entry.ID, "due": DueText(&e.Entry.Point)}
		if open := e.Entry.OpenSitting(); open != nil {
			now["schedule_id"] = open.ID
		}
		res := tool.ErrorResult("This review was done already, perhaps on another device. The point is due again on " +
			DueText(&e.Entry.Point) + ".")
		res.Structured = compactJSON(now)
		return res, nil
	}
	if e, ok := errors.AsType[*NotDueError](err); ok {
		res := tool.ErrorResult("This point is not due yet; it comes again on " + DueText(&e.Entry.Point) +
			". submit_review with early=true reviews it now.")
		res.Structured = compactJSON(map[string]any{"error": "not_due", "knowledge_point_id": e.Entry.ID,
			"due": DueText(&e.Entry.Point)})
		return res, nil
	}
	switch {
	case errors.Is(err, ErrNotFound) && a.Sitting != "":
		return tool.ErrorResult("Review schedule not found: " + truncateBytes(a.Sitting, 100)), nil
	case errors.Is(err, ErrNotFound):
		id := a.ID
		if id == "" {
			id = a.Point
		}
		return tool.ErrorResult("Knowledge point not found: " + truncateBytes(id, 100)), nil
	case errors.Is(err, ErrNoPlan):
		return tool.ErrorResult("No incomplete review schedule found"), nil
	case ctx.Err() != nil: // a deadline inside the database is a failure
		return nil, err
	}
	if _, ok := errors.AsType[*tool.Error](err); ok {
		return nil, err
	}
	return nil, tool.Fail(tool.Failed, "The knowledge points could not be reached; try again in a moment.", err)
}

func pageLimit(n int) int {
	if n <= 0 {
		return defaultPageSize
	}
	return min(n, 500)
}

// deckFilter returns the ID of the deck that a filter names.
func deckFilter(l *Learner, name *string) (*string, error) {
	if name == nil || *name == "" {
		return nil, nil
	}
	id, ok := l.DeckID(*name)
	if !ok {
		return nil, l.DeckNotFound(*name)
	}
	return &id, nil
}

// limitPage shortens a page until the text of its entries fits in maxPageBytes.
func limitPage(entries []Entry) []Entry {
	size := 0
	for i := range entries {
		size += len(entries[i].Question) + len(entries[i].Answer) + 400 + 300*len(entries[i].Sittings)
		if size > maxPageBytes && i > 0 {
			return entries[:i]
		}
	}
	return entries
}

func (s *Service) callListReviews(ctx context.Context, c *tool.Call, a *arguments) (*tool.Result, error) {
	q, err := s.queueFor(ctx, c, a)
	if err != nil {
		return nil, err
	}
	rows := make([]sittingRow, 0, len(q.Entries))
	for i := range q.Entries {
		e := &q.Entries[i]
		open := e.OpenSitting()
		if open == nil {
			continue
		}
		row := newSittingRow(&e.Point, open)
		of := newPointRow(q.Learner, &e.Point)
		row.Of = &of
		rows = append(rows, row)
	}
	note := queueNote(q)
	return result(rows, map[string]any{"reviews": rows, "remaining": q.Left, "next_cursor": nilIfEmpty(q.Cursor),
		"note": nilIfEmpty(note)}, note), nil
}

func nilIfEmpty(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// queueFor reads the queue that a call asks for, limited to one page.
func (s *Service) queueFor(ctx context.Context, c *tool.Call, a *arguments) (*Queue, error) {
	l, err := s.Learner(ctx, c.Caller.Person)
	if err != nil {
		return nil, err
	}
	deck, err := deckFilter(l, a.Deck)
	if err != nil {
		return nil, err
	}
	f := QueueFilter{Deck: deck, Tag: a.Tag, Cursor: a.Cursor, Limit: pageLimit(a.Limit)}
	q, err := s.QueueOf(ctx, l, f)
	if err != nil {
		return nil, err
	}
	if n := len(limitPage(q.Entries)); n < len(q.Entries) {
		f.Limit = n
		return s.QueueOf(ctx, l, f)
	}
	return q, nil
}

// queueNote tells a model what the list does not show.
func queueNote(q *Queue) string {
	var parts []string
	if q.Cursor != "" {
		parts = append(parts, fmt.Sprintf("These are %d of %d; call again with cursor %q for more.", len(q.Entries),
			q.Left.Total(), q.Cursor))
	}
	if q.Left.HeldBack > 0 {
		parts = append(parts, fmt.Sprintf("%d more are held back by today's limits (new_per_day, reviews_per_day).",
			q.Left.HeldBack))
	}
	if len(q.Entries) == 0 && !q.NextStepDue.IsZero() {
		parts = append(parts, "Nothing is due this minute; the next question comes at "+
			q.NextStepDue.In(q.Learner.Calendar.Zone).Format("15:04")+".")
	}
	return strings.Join(parts, " ")
}

func (s *Service) callListPoints(ctx context.Context, c *tool.Call, a *arguments) (*tool.Result, error) {
	x, err := ParseExpression(a.Query)
	switch {
	case err != nil:
		return nil, err
	case x.IsText():
		return s.callSearch(ctx, c, a)
	case !x.IsEmpty():
		return s.listSelected(ctx, c, a)
	case a.DueOnly:
		q, err := s.queueFor(ctx, c, a)
		if err != nil {
			return nil, err
		}
		return pointsResult(q.Learner, q.Entries, q.Cursor, queueNote(q)), nil
	}
	return s.listPoints(ctx, c, a, store.PointFilter{Draft: a.Drafts})
}

func (s *Service) callTrash(ctx context.Context, c *tool.Call, a *arguments) (*tool.Result, error) {
	return s.listPoints(ctx, c, a, store.PointFilter{Trash: true})
}

func (s *Service) listPoints(ctx context.Context, c *tool.Call, a *arguments,
	f store.PointFilter) (*tool.Result, error) {
	l, err := s.Learner(ctx, c.Caller.Person)
	if err != nil {
		return nil, err
	}
	if f.Deck, err = deckFilter(l, a.Deck); err != nil {
		return nil, err
	}
	f.Tag = a.Tag
	var after store.PointKey
	if a.Cursor != "" {
		if after, err = decodeCursor(a.Cursor); err != nil {
			return nil, err
		}
	}
	entries, err := s.List(ctx, l.Person, f, after, pageLimit(a.Limit)+1)
	if err != nil {
		return nil, err
	}
	page := limitPage(entries[:min(len(entries), pageLimit(a.Limit))])
	next, note := "", ""
	if len(page) < len(entries) {
		last := &page[len(page)-1]
		next = encodeCursor(f.Key(&last.Point))
		note = fmt.Sprintf("There are more points; call again with cursor %q.", next)
	}
	return pointsResult(l, page, next, note), nil
}

func pointsResult(l *Learner, entries []Entry, next, note string) *tool.Result {
	rows := make([]pointRow, len(entries))
	for i := range entries {
		rows[i] = newFullPointRow(l, &entries[i])
	}
	return result(rows, map[string]any{"knowledge_points": rows, "next_cursor": nilIfEmpty(next)}, note)
}

func encodeCursor(k store.PointKey) string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d.%d", k.At.UnixMilli(), k.Number))
}

func decodeCursor(s string) (store.PointKey, error) {
	text, err := base64.RawURLEncoding.DecodeString(s)
	var ms, number int64
	if _, bad := fmt.Sscanf(string(text), "%d.%d", &ms, &number); err != nil || bad != nil || number == 0 {
		return store.PointKey{}, invalid(msgNoCursor)
	}
	return store.PointKey{At: time.UnixMilli(ms), Number: number}, nil
}

func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

func (s *Service) callSearch(ctx context.Context, c *tool.Call, a *arguments) (*tool.Result, error) {
	l, err := s.Learner(ctx, c.Caller.Person)
	if err != nil {
		return nil, err
	}
	deck, err := deckFilter(l, a.Deck)
	if err != nil {
		return nil, err
	}
	x, err := ParseExpression(a.Query)
	switch {
	case err != nil:
		return nil, err
	case !x.IsText():
		return s.listSelected(ctx, c, a)
	}
	most := a.Limit
	if most == 0 {
		most = 10
	}
	entries, err := s.Search(ctx, l.Person, x.Text, SearchFilter{Deck: deck, Tag: a.Tag, Limit: min(most, maxRanked)})
	if err != nil {
		return nil, err
	}
	entries = limitPage(entries)
	note := ""
	if len(entries) == 0 {
		note = "Nothing was found; try fewer or other words."
	}
	return pointsResult(l, entries, "", note), nil
}
