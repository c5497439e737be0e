package learn

import (
	"context"
	"errors"
	"fmt"
	"html"
	"regexp"
	"slices"
	"strings"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/plug/learn/card"
	"patchbay/internal/plug/learn/note"
	"patchbay/internal/plug/learn/transfer/apkg"
	"patchbay/internal/store"
)

// Texts about notes.
const (
	msgNoteFields = i18n.Message("this point is a card of a note of the type “%s”, whose question and answer come from fields; change those instead (fields: %s)")
	msgNoField    = i18n.Message("the note has no field “%s”; it has: %s")
	msgNoteBare   = i18n.Message("with these fields the note would have no card left")
	msgNotANote   = i18n.Message("this point is no card of a note, so it has no fields; change question and answer")
	msgNoteLarge  = i18n.Message("the fields of a note have %d KiB at most together")
)

// maxNote limits the fields of a note together when they are edited, in bytes.
const maxNote = 1 << 20

// Note is the note of a point, to be edited.
type Note struct {
	Type   *note.Type
	Fields []string      // HTML
	Points []store.Point // without those in the trash
	trash  []store.Point
	row    *store.Note
	// had are the cards that the note had before, if only its type has changed; nil: those of its
	// fields.
	had []int
}

// Note returns the note of a point; nil if it has none.
func (s *Service) Note(ctx context.Context, p *store.Point) (*Note, error) {
	if p.Note == 0 {
		return nil, nil
	}
	return s.noteNumbered(ctx, p.Person, p.Note)
}

// noteNumbered returns a note by the number of its row; nil if there is none.
func (s *Service) noteNumbered(ctx context.Context, person string, number int64) (*Note, error) {
	row, t, err := s.note(ctx, person, number)
	if err != nil || row == nil {
		return nil, err
	}
	points, err := s.Store.Learn.NotePoints(ctx, person, number)
	if err != nil {
		return nil, fmt.Errorf("look up the cards of a note: %w", err)
	}
	fields := make([]string, len(t.Fields))
	copy(fields, row.Fields)
	live := slices.IndexFunc(points, func(p store.Point) bool { return !p.Deleted.IsZero() })
	if live < 0 {
		live = len(points)
	}
	return &Note{Type: t, Fields: fields, Points: points[:live:live], trash: points[live:], row: row}, nil
}

// Names returns the names of the note's fields.
func (n *Note) Names() []string {
	out := make([]string, len(n.Type.Fields))
	for i, f := range n.Type.Fields {
		out[i] = f.Name
	}
	return out
}

// With returns the fields with some of them changed, by name.
func (n *Note) With(changes map[string]string) ([]string, error) {
	out := slices.Clone(n.Fields)
	size := 0
	for name, value := range changes {
		i := slices.Index(n.Names(), name)
		if i < 0 {
			return nil, invalid(msgNoField, truncateBytes(name, 100), strings.Join(n.Names(), ", "))
		}
		out[i] = strings.ReplaceAll(strings.ReplaceAll(value, "\x1f", ""), "\r\n", "\n")
	}
	for _, f := range out {
		size += len(f)
	}
	if size > maxNote {
		return nil, invalid(msgNoteLarge, maxNote>>10)
	}
	return out, nil
}

// simple returns which fields of a note are question and answer, if its type is that plain: the
// front is one field, and the back another.
func simple(t *note.Type) (question, answer string, ok bool) {
	if t.Cloze || len(t.Templates) != 1 {
		return "", "", false
	}
	front := onlyField.FindStringSubmatch(t.Templates[0].Front)
	back := onlyField.FindStringSubmatch(answerLine.ReplaceAllString(t.Templates[0].Back, ""))
	if front == nil || back == nil {
		return "", "", false
	}
	return front[1], back[1], true
}

var (
	onlyField  = regexp.MustCompile(`^\s*\{\{\s*([^{}#/^!:]+?)\s*\}\}\s*$`)
	answerLine = regexp.MustCompile(`(?i)\{\{\s*FrontSide\s*\}\}|<hr[^>]*>|<br\s*/?>`)
)

// noteChanges returns which fields an edit of a point changes; nil if none. Question and answer
// are fields of a note of a simple type; of another they cannot be changed.
func (n *Note) noteChanges(p *store.Point, e *Edit) (map[string]string, error) {
	changes := map[string]string{}
	if e.Fields != nil {
		changes = *e.Fields
	}
	differs := func(text *string, now string) bool { return text != nil && strings.TrimSpace(*text) != now }
	if differs(e.Question, p.Question) || differs(e.Answer, p.Answer) {
		question, answer, ok := simple(n.Type)
		if !ok {
			return nil, invalid(msgNoteFields, n.Type.Name, strings.Join(n.Names(), ", "))
		}
		if differs(e.Question, p.Question) {
			changes[question] = fieldOf(*e.Question)
		}
		if differs(e.Answer, p.Answer) {
			changes[answer] = fieldOf(*e.Answer)
		}
	}
	if len(changes) == 0 {
		return nil, nil
	}
	return changes, nil
}

// updateNote does what an edit of a point changes in its note, and takes it out of the edit. It
// returns the ID of the point to go on with: another card of the note if this one is gone with its
// text.
func (s *Service) updateNote(ctx context.Context, l *Learner, id string, e *Edit) (string, error) {
	if e.Question == nil && e.Answer == nil && e.Fields == nil {
		return id, nil
	}
	entry, err := s.Get(ctx, l.Person, id)
	if err != nil {
		return id, err
	}
	n, err := s.Note(ctx, &entry.Point)
	if err != nil {
		return id, err
	}
	if n == nil {
		if e.Fields != nil && len(*e.Fields) > 0 {
			return id, invalid(msgNotANote)
		}
		return id, nil
	}
	changes, err := n.noteChanges(&entry.Point, e)
	if err != nil {
		return id, err
	}
	e.Question, e.Answer, e.Fields = nil, nil, nil
	if changes == nil {
		return id, nil
	}
	fields, err := n.With(changes)
	if err != nil {
		return id, err
	}
	left, err := s.saveNote(ctx, l, n, fields)
	if err == nil && !slices.Contains(left, id) {
		id = left[0]
	}
	return id, err
}

// saveNote gives a note other fields, and its cards what they show then, and returns the IDs of
// its cards. Those that it has now are added, or come back from the trash if they had gone with
// their text; those that it has no more go to the trash. A card that its person deleted stays
// there.
func (s *Service) saveNote(ctx context.Context, l *Learner, n *Note, fields []string) (left []string, err error) {
	ords, before := card.Ords(n.Type, fields), card.Ords(n.Type, n.Fields)
	if n.had != nil {
		before = n.had
	}
	if len(ords) == 0 {
		return nil, invalid(msgNoteBare)
	}
	var edits []store.PointEdit
	for i, p := range slices.Concat(n.Points, n.trash) {
		inTrash := i >= len(n.Points)
		at := slices.Index(ords, p.Ord)
		if at < 0 && inTrash {
			continue
		}
		edit, same, err := noteEdit(l, n.Type, fields, p, at >= 0)
		if err != nil {
			return nil, err
		}
		if at >= 0 {
			ords = slices.Delete(ords, at, at+1)
		}
		if inTrash && slices.Contains(before, p.Ord) {
			continue
		}
		if !same || n.had == nil {
			edits = append(edits, edit)
		}
		if at >= 0 {
			left = append(left, p.ID)
		}
	}
	row := *n.row
	row.Fields, row.Updated = fields, l.Now
	base := Draft{}
	if len(n.Points) > 0 {
		first := &n.Points[0]
		base = Draft{Deck: first.Deck, Tags: first.Tags, Unplanned: !first.InPlan, Unconfirmed: first.Draft}
	}
	added, err := newCards(l, n.Type, &row, ords, base)
	if err != nil {
		return nil, err
	}
	for i := range added {
		left = append(left, added[i].Point.ID)
	}
	if len(left) == 0 { // all that would be left was deleted before
		return nil, invalid(msgNoteBare)
	}
	if n.had != nil && len(added)+len(edits) == 0 { // they show this already
		return left, nil
	}
	in := s.Store.Learn.NewImport(l.Person, "note-"+newID())
	return left, s.finishNote(ctx, in, added, edits, []store.Note{row})
}

// noteEdit returns the edit that lets a point show its card, or puts it into the trash. same means
// that the point shows its card already.
func noteEdit(l *Learner, t *note.Type, fields []string, p store.Point, stays bool) (edit store.PointEdit, same bool,
	err error) {
	edit = store.PointEdit{ID: p.ID, Change: func(c *store.PointChange) { c.Point.Deleted = l.Now }}
	if !stays {
		return edit, false, nil
	}
	q, a, err := cardTexts(t, fields, p.Ord, l.DeckName(p.Deck), p.Tags)
	edit.Change = func(c *store.PointChange) {
		c.Point.Question, c.Point.Answer, c.Point.Updated, c.Point.Deleted = q, a, l.Now, time.Time{}
		c.Point.Words = IndexWords(q, a, c.Point.Tags...)
	}
	return edit, p.Question == q && p.Answer == a && p.Deleted.IsZero(), err
}

// finishNote writes new cards and changes of others, all or nothing.
func (s *Service) finishNote(ctx context.Context, in *store.Import, added []store.NewPoint, edits []store.PointEdit,
	notes []store.Note) (err error) {
	if len(added) > 0 {
		err = in.Stage(ctx, added)
	}
	if err == nil {
		err = in.Finish(ctx, store.ImportEdits{Points: edits, Notes: notes})
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write a note: %w", err), in.Abort(context.WithoutCancel(ctx)))
	}
	return nil
}

// newCards returns new points for cards of a note. Deck in the draft is an ID.
func newCards(l *Learner, t *note.Type, row *store.Note, ords []int, d Draft) ([]store.NewPoint, error) {
	var out []store.NewPoint
	kin := ""
	if len(ords) > 1 || row.Number != 0 {
		kin = row.GUID
	}
	for _, ord := range ords {
		q, a, err := cardTexts(t, row.Fields, ord, l.DeckName(d.Deck), d.Tags)
		if err != nil {
			return nil, err
		}
		p := store.Point{ID: newID(), Question: q, Answer: a, Deck: d.Deck, Tags: d.Tags, InPlan: !d.Unplanned,
			Draft: d.Unconfirmed, Kin: kin, Created: l.Now, Updated: l.Now, Note: row.Number, Ord: ord}
		p.Words = IndexWords(q, a, p.Tags...)
		n := store.NewPoint{Point: p}
		startPlan(&n.Point, &n.Sittings, l)
		out = append(out, n)
	}
	return out, nil
}

// cardTexts returns what a card asks and answers as text. A side without words has a dot, as points
// have no empty texts.
func cardTexts(t *note.Type, fields []string, ord int, deck string, tags []string) (question, answer string,
	err error) {
	question, answer, err = apkg.CardText(t, fields, ord, deck, tags)
	if question == "" {
		question = "…"
	}
	if answer == "" {
		answer = "…"
	}
	if err == nil && len(question) > MaxText {
		err = invalid(msgLongQuestion, MaxText>>10)
	}
	if err == nil && len(answer) > MaxText {
		err = invalid(msgLongAnswer, MaxText>>10)
	}
	return question, answer, err
}

// ClozeType is the note type of own points with {{c1::…}} in their question. It is that of Anki's
// cloze notes, under an ID of its own (milliseconds since 1970).
func ClozeType() *note.Type {
	const css = ".card {\n  font-family: arial;\n  font-size: 20px;\n  text-align: center;\n}\n" +
		".cloze {\n  font-weight: bold;\n  color: #06c;\n}\n.nightMode .cloze {\n  color: lightblue;\n}\n"
	return &note.Type{ID: 1764288000000, Name: "Cloze (Patchbay)", Cloze: true, CSS: css, Modified: 1764288000,
		Fields: []note.Field{{Name: clozeText, Font: "Arial", Size: 20}, {Name: clozeExtra, Font: "Arial", Size: 20}},
		Templates: []note.Template{{Name: "Cloze", Front: "{{cloze:Text}}",
			Back: "{{cloze:Text}}<br>\n{{Back Extra}}"}}}
}

// isCloze reports whether a draft is a note with clozes.
func isCloze(d *Draft) bool { return len(card.ClozeNumbers(d.Question)) > 0 }

// createCloze adds a note with clozes: a point for each number. The question is the text with the
// clozes, the answer what the back has besides; it may be empty.
func (s *Service) createCloze(ctx context.Context, l *Learner, d Draft) ([]Entry, error) {
	if len(d.Question) > MaxText || len(d.Answer) > MaxText {
		return nil, checkTexts(d.Question, d.Answer+".")
	}
	var err error
	if d.Tags, err = cleanTags(d.Tags); err != nil {
		return nil, err
	}
	if d.Deck, err = s.findOrAddDeck(ctx, l, d.Deck); err != nil {
		return nil, err
	}
	t, err := s.clozeType(ctx, l.Person)
	if err != nil {
		return nil, err
	}
	fields := make([]string, len(t.Fields))
	for name, text := range map[string]string{clozeText: d.Question, clozeExtra: d.Answer} {
		fields[slices.IndexFunc(t.Fields, func(f note.Field) bool { return f.Name == name })] = fieldOf(text)
	}
	_, made, err := s.addNote(ctx, l, t, fields, d)
	return made, err
}

// clozeType returns a person's [ClozeType], as they have changed it. It is stored if they have
// none, or changed it into one for other texts.
func (s *Service) clozeType(ctx context.Context, person string) (StoredType, error) {
	row, err := s.Store.Learn.NoteTypeByOrigin(ctx, person, ClozeType().Origin())
	if errors.Is(err, store.ErrNotFound) {
		return s.storeType(ctx, person, ClozeType())
	}
	if err != nil {
		return StoredType{}, fmt.Errorf("look up a note type: %w", err)
	}
	t, err := note.Parse(row.Model)
	if err != nil {
		return StoredType{}, err
	}
	has := func(name string) bool {
		return slices.ContainsFunc(t.Fields, func(f note.Field) bool { return f.Name == name })
	}
	if !t.Cloze || !has(clozeText) || !has(clozeExtra) {
		return s.storeType(ctx, person, ClozeType())
	}
	return StoredType{t, row.Number}, nil
}

// Fields of [ClozeType].
const clozeText, clozeExtra = "Text", "Back Extra"

// addNote adds a note with its cards. Deck in the draft is an ID, and the tags are clean.
func (s *Service) addNote(ctx context.Context, l *Learner, t StoredType, fields []string,
	d Draft) (number int64, made []Entry, err error) {
	ords := card.Ords(t.Type, fields)
	if len(ords) == 0 {
		return 0, nil, invalid(msgNoteBare)
	}
	row := store.Note{Number: store.NewNoteNumber(), Person: l.Person, Type: t.Number, GUID: newID(), Fields: fields,
		Updated: l.Now}
	added, err := newCards(l, t.Type, &row, ords, d)
	if err != nil {
		return 0, nil, err
	}
	if err := s.Store.Learn.AddNote(ctx, &row, added); err != nil {
		return 0, nil, fmt.Errorf("add a note: %w", err)
	}
	made = make([]Entry, len(added))
	for i := range added {
		made[i] = Entry{added[i].Point, added[i].Sittings}
	}
	return row.Number, made, nil
}

// Markdown of own points that fields of notes have as HTML.
var fieldMarkup = []struct {
	of *regexp.Regexp
	is string
}{
	{regexp.MustCompile(`!\[([^\]]*)\]\(([^()\s]+)\)`), `<img src="$2" alt="$1">`},
	{regexp.MustCompile(`(?s)\$\$(.+?)\$\$`), `\[$1\]`},
	{regexp.MustCompile(`\$([^\s$](?:[^$\n]*[^\s$])?)\$([^0-9]|$)`), `\($1\)$2`},
	{regexp.MustCompile(`\*\*([^*\n]+)\*\*`), `<b>$1</b>`},
	{regexp.MustCompile("`([^`\n]+)`"), `<code>$1</code>`},
}

// fieldOf returns a text of Markdown as a field of a note: line breaks, bold words, code, pictures
// and formulas as notes have them.
func fieldOf(text string) string {
	out := html.EscapeString(strings.TrimSpace(strings.ReplaceAll(text, "\r\n", "\n")))
	for _, m := range fieldMarkup {
		out = m.of.ReplaceAllString(out, m.is)
	}
	out = strings.NewReplacer("&#34;", `"`, "&#39;", "'").Replace(out)
	return strings.ReplaceAll(out, "\n", "<br>")
}
