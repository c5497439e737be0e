package ankiconnect

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"patchbay/internal/control"
	"patchbay/internal/plug/learn"
)

func noteActions() map[string]*action {
	return map[string]*action{
		"addNote":  doing(toolAdd, (*exchange).addNote),
		"addNotes": doing(toolAdd, (*exchange).addNotes),
		"canAddNote": doing(toolList, func(x *exchange, ctx context.Context, in noteParams) (any, error) {
			why, err := x.cannotAdd(ctx, []noteIn{in.Note})
			return err == nil && why[0] == nil, err
		}),
		"canAddNotes":                doing(toolList, (*exchange).canAddNotes),
		"canAddNotesWithErrorDetail": doing(toolList, (*exchange).canAddNotesDetail),
		"updateNoteFields":           doing(toolUpdate, (*exchange).updateNoteFields),
		"updateNote":                 doing(toolUpdate, (*exchange).updateNote),
		"updateNoteTags":             doing(toolUpdate, (*exchange).updateNoteTags).and(toolEdit),
		"findNotes":                  doing(toolList, (*exchange).findNotes),
		"notesInfo":                  doing(toolGet, (*exchange).notesInfo),
		"notesModTime":               doing(toolGet, (*exchange).notesModTime),
		"deleteNotes":                doing(toolDelete, (*exchange).deleteNotes).and(toolEdit),
		"removeEmptyNotes":           doing(toolDelete, func(*exchange, context.Context, none) (any, error) { return nil, nil }),
	}
}

// noteIn is a note as clients send it.
type noteIn struct {
	ID      int64             `json:"id"`
	Deck    string            `json:"deckName"`
	Model   string            `json:"modelName"`
	Fields  map[string]string `json:"fields"`
	Tags    *tagList          `json:"tags"`
	Options struct {
		AllowDuplicate json.RawMessage `json:"allowDuplicate"`
		Scope          string          `json:"duplicateScope"`
		ScopeOptions   struct {
			Deck     *string `json:"deckName"`
			Children bool    `json:"checkChildren"`
			Models   bool    `json:"checkAllModels"`
		} `json:"duplicateScopeOptions"`
	} `json:"options"`
	Audio   mediaList `json:"audio"`
	Video   mediaList `json:"video"`
	Picture mediaList `json:"picture"`
}

// tagList are tags, as a list or as a text with spaces between them.
type tagList []string

// UnmarshalJSON implements [json.Unmarshaler].
func (t *tagList) UnmarshalJSON(text []byte) error {
	var one string
	if json.Unmarshal(text, &one) == nil && len(text) > 0 && text[0] == '"' {
		*t = strings.Fields(one)
		return nil
	}
	return json.Unmarshal(text, (*[]string)(t))
}

type noteParams struct {
	Note noteIn `json:"note"`
}

type notesInParams struct {
	Notes []noteIn `json:"notes"`
}

type noteIDsParams struct {
	Notes []int64 `json:"notes"`
}

type queryParams struct {
	Query *string `json:"query"`
}

// maxNotes limits the notes of an action.
const maxNotes = 10_000

// Texts that clients know (plugin/__init__.py, createNote and addNote).
const (
	textDuplicate = clientError("cannot create note because it is a duplicate")
	textEmpty     = clientError("cannot create note because it is empty")
	textNoCards   = clientError("The field values you have provided would make an empty question on all cards.")
)

// note returns a note by its number.
func (x *exchange) note(ctx context.Context, id int64) (*learn.AnkiNote, error) {
	l, err := x.learner(ctx)
	if err != nil {
		return nil, err
	}
	notes, err := x.points.AnkiNotes(ctx, l, []int64{id})
	if err != nil {
		return nil, err
	}
	if notes[id] == nil {
		return nil, refusal("Note was not found: %d", id)
	}
	return notes[id], nil
}

func atMostNotes(n int) error {
	if n > maxNotes {
		return refusal("there are %d notes at most", maxNotes)
	}
	return nil
}

// notes returns notes by their numbers; missing ones are left out.
func (x *exchange) notes(ctx context.Context, ids []int64) (map[int64]*learn.AnkiNote, error) {
	if err := atMostNotes(len(ids)); err != nil {
		return nil, err
	}
	l, err := x.learner(ctx)
	if err != nil {
		return nil, err
	}
	return x.points.AnkiNotes(ctx, l, ids)
}

func (x *exchange) updateNoteFields(ctx context.Context, in noteParams) (any, error) {
	return nil, x.setFields(ctx, &in.Note)
}

// setFields changes fields of a note. Names that it does not have are ignored, as in AnkiConnect.
func (x *exchange) setFields(ctx context.Context, in *noteIn) error {
	n, err := x.note(ctx, in.ID)
	if err != nil {
		return err
	}
	names := fieldNames(n.Type.Type)
	fields := append([]string{}, n.Fields...)
	for i, name := range names {
		if value, ok := in.Fields[name]; ok {
			fields[i] = value
		}
	}
	if err := in.checkMedia(); err != nil {
		return err
	}
	if in.media() > 0 {
		if err := x.need(toolAdd); err != nil {
			return err
		}
	}
	x.addMedia(ctx, names, fields, in)
	changes := map[string]string{}
	for i, name := range names {
		if fields[i] != n.Fields[i] {
			changes[name] = fields[i]
		}
	}
	if len(changes) == 0 {
		return nil
	}
	change := control.LearnPointChange{LearnPointRef: control.LearnPointRef{Point: n.Points[0].ID}}
	if n.Type.IsPlain() {
		edit, err := learn.PlainEdit(fields)
		if err != nil {
			return err
		}
		change.Question, change.Answer = edit.Question, edit.Answer
	} else {
		change.Fields = &changes
	}
	_, err = x.learning.ChangePoint(ctx, x.caller, change)
	return err
}

func (x *exchange) updateNote(ctx context.Context, in noteParams) (any, error) {
	if in.Note.Fields == nil && in.Note.Tags == nil {
		return nil, clientError(`Must provide a "fields" or "tags" property.`)
	}
	if in.Note.Tags != nil {
		if err := x.need(toolEdit); err != nil {
			return nil, err
		}
	}
	if in.Note.Fields != nil {
		if err := x.setFields(ctx, &in.Note); err != nil {
			return nil, err
		}
	}
	if in.Note.Tags != nil {
		return nil, x.setTags(ctx, in.Note.ID, *in.Note.Tags)
	}
	return nil, nil
}

func (x *exchange) findNotes(ctx context.Context, in queryParams) (any, error) {
	points, err := x.search(ctx, in)
	if err != nil || len(points) == 0 {
		return []int64{}, err
	}
	ids, err := x.points.NoteIDs(ctx, x.person, points)
	return append([]int64{}, ids...), err
}

// search returns the numbers of the points that a search selects; none without one.
func (x *exchange) search(ctx context.Context, in queryParams) ([]int64, error) {
	if in.Query == nil {
		return nil, nil
	}
	l, err := x.learner(ctx)
	if err != nil {
		return nil, err
	}
	return x.points.FindAnki(ctx, l, *in.Query)
}

// notesInfo describes notes; an empty object stands for one that is missing.
func (x *exchange) notesInfo(ctx context.Context, in struct {
	noteIDsParams
	queryParams
}) (any, error) {
	if in.Notes == nil && in.Query != nil {
		found, err := x.findNotes(ctx, in.queryParams)
		if err != nil {
			return nil, err
		}
		in.Notes, _ = found.([]int64)
	}
	if err := atMostNotes(len(in.Notes)); err != nil {
		return nil, err
	}
	out, size := make([]map[string]any, 0, len(in.Notes)), 0
	for ids := range slices.Chunk(in.Notes, infoPage) {
		list, n, err := x.noteInfos(ctx, ids)
		size += n
		if err := cmp.Or(err, x.room(size)); err != nil {
			return nil, err
		}
		out = append(out, list...)
	}
	return out, nil
}

// infoPage is how many notes are described in one step.
const infoPage = 500

// noteInfos describes notes, and returns how many bytes of fields they have.
func (x *exchange) noteInfos(ctx context.Context, of []int64) (out []map[string]any, size int, err error) {
	notes, err := x.notes(ctx, of)
	if err != nil {
		return nil, 0, err
	}
	var points []int64
	for _, n := range notes {
		for i := range n.Points {
			points = append(points, n.Points[i].Number)
		}
	}
	cards, err := x.points.CardIDs(ctx, x.person, points)
	if err != nil {
		return nil, 0, err
	}
	out = make([]map[string]any, len(of))
	for i, id := range of {
		out[i] = map[string]any{}
		if n := notes[id]; n != nil {
			ids := []int64{}
			for j := range n.Points {
				ids = append(ids, cards[n.Points[j].Number])
			}
			out[i] = map[string]any{"noteId": id, "profile": x.profile, "tags": n.Tags(), "fields": fieldsOf(n),
				"modelName": n.Type.Name, "mod": n.Updated.Unix(), "cards": ids}
			size += fieldsSize(n)
		}
	}
	return out, size, nil
}

// fieldsSize returns how many bytes the fields of a note have.
func fieldsSize(n *learn.AnkiNote) int {
	size := 0
	for _, f := range n.Fields {
		size += len(f)
	}
	return size
}

// fieldsOf returns the fields of a note as the API has them.
func fieldsOf(n *learn.AnkiNote) map[string]any {
	out := map[string]any{}
	for i, f := range n.Type.Fields {
		out[f.Name] = map[string]any{"value": n.Fields[i], "order": i}
	}
	return out
}

func (x *exchange) notesModTime(ctx context.Context, in noteIDsParams) (any, error) {
	notes, err := x.notes(ctx, in.Notes)
	out := make([]map[string]any, len(in.Notes))
	for i, id := range in.Notes {
		out[i] = map[string]any{}
		if n := notes[id]; n != nil {
			out[i] = map[string]any{"noteId": id, "mod": n.Updated.Unix()}
		}
	}
	return out, err
}

// pointsOf returns the IDs of all points of some notes.
func (x *exchange) pointsOf(ctx context.Context, ids []int64) ([]string, error) {
	notes, err := x.notes(ctx, ids)
	var out []string
	for _, n := range notes {
		out = append(out, n.PointIDs()...)
	}
	return out, err
}

// deleteNotes puts notes into the trash.
func (x *exchange) deleteNotes(ctx context.Context, in noteIDsParams) (any, error) {
	points, err := x.pointsOf(ctx, in.Notes)
	if err != nil {
		return nil, err
	}
	yes := true
	return nil, x.edit(ctx, points, control.LearnEdit{Deleted: &yes})
}

// editMost is how many points an edit may name.
const editMost = 10_000

// edit changes points by their IDs.
func (x *exchange) edit(ctx context.Context, points []string, change control.LearnEdit) error {
	for len(points) > 0 {
		n := min(len(points), editMost)
		change.IDs, points = points[:n], points[n:]
		if _, err := x.learning.Edit(ctx, x.caller, change); err != nil {
			return err
		}
	}
	return nil
}
