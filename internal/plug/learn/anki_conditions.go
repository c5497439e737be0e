package learn

import (
	"context"
	"regexp"
	"strconv"
	"strings"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/plug/learn/ankisearch"
	"patchbay/internal/store"
)

const msgSearchValue = i18n.Message("the search has %s, and needs %s there")

// ankiKeys are what stands before a colon and has a meaning of its own. Anything else is the name
// of a field (rslib/src/search/parser.rs, search_node_for_text_with_argument).
var ankiKeys = map[string]func(*ankiFinder, context.Context, *ankisearch.Term) (store.Condition, error){
	"deck": (*ankiFinder).deck, "did": (*ankiFinder).deckID, "note": (*ankiFinder).noteType,
	"mid": (*ankiFinder).noteTypeID, "tag": (*ankiFinder).tag, "is": (*ankiFinder).is, "flag": (*ankiFinder).flag,
	"card": (*ankiFinder).card, "nid": (*ankiFinder).nid, "cid": (*ankiFinder).cid, "rated": (*ankiFinder).rated,
	"added": (*ankiFinder).days, "edited": (*ankiFinder).days, "introduced": (*ankiFinder).days,
	"prop": (*ankiFinder).prop,
}

// ankiUnknown are keys with a meaning in Anki for which there is nothing here.
var ankiUnknown = map[string]bool{"dupe": true, "preset": true, "resched": true, "has": true, "has-cd": true,
	"custom-data": true, "nc": true}

// isText reports whether a condition is one on the text of notes.
func isText(t *ankisearch.Term) bool {
	key := strings.ToLower(t.Key)
	return ankiKeys[key] == nil && !ankiUnknown[key] && !isEverything(t)
}

// isEverything reports whether every point fulfils a condition.
func isEverything(t *ankisearch.Term) bool {
	return t.Key == "" && (t.Value == "" || ankisearch.NewPattern(t.Value).IsAny())
}

// condition returns a condition that is not on the text of notes as one for the database.
func (f *ankiFinder) condition(ctx context.Context, t *ankisearch.Term) (c store.Condition, err error) {
	key := strings.ToLower(t.Key)
	switch {
	case isEverything(t):
		return phases(store.New, store.Learning, store.Review, store.Relearning, store.Done), nil
	case ankiUnknown[key] || ankiKeys[key] == nil:
		return c, invalid(msgSearchWord, quotedWord(t))
	}
	return ankiKeys[key](f, ctx, t)
}

// needs returns the error of a value that cannot be read.
func needs(t *ankisearch.Term, what string) error {
	return invalid(msgSearchValue, quotedWord(t), what)
}

// names returns what names have to fit: re: and a regular expression, or what fits returns of a
// pattern.
func names(t *ankisearch.Term, fits func(ankisearch.Pattern) (*regexp.Regexp, error)) (*regexp.Regexp, error) {
	var re *regexp.Regexp
	var err error
	if strings.HasPrefix(strings.ToLower(t.Value), "re:") {
		re, err = ankisearch.Regexp(t.Value[3:])
	} else {
		re, err = fits(ankisearch.NewPattern(t.Value))
	}
	if err != nil {
		return nil, invalid(msgSearchForm, err)
	}
	return re, nil
}

func (f *ankiFinder) deck(_ context.Context, t *ankisearch.Term) (c store.Condition, err error) {
	c.Field = store.FieldDecks
	switch strings.ToLower(t.Value) {
	case "filtered":
		return c, nil // there are none
	case "current":
		return c, invalid(msgSearchWord, quotedWord(t))
	}
	re, err := names(t, ankisearch.Pattern.Below)
	if err != nil {
		return c, err
	}
	for _, d := range f.l.AnkiDecks() {
		if re.MatchString(d.Name) {
			c.Words = append(c.Words, d.ID)
		}
	}
	return c, nil
}

func (f *ankiFinder) deckID(_ context.Context, t *ankisearch.Term) (c store.Condition, err error) {
	ids, err := numbersOf(t)
	c.Field = store.FieldDecks
	for _, d := range f.l.AnkiDecks() {
		for _, id := range ids {
			if AnkiDeckID(&d) == id {
				c.Words = append(c.Words, d.ID) // without those below it, as in Anki
			}
		}
	}
	return c, err
}

func (f *ankiFinder) typesWith(ctx context.Context, fits func(*StoredType) bool) (c store.Condition, err error) {
	types, err := f.noteTypes(ctx)
	c.Field = store.FieldTypes
	for i := range types {
		if t := &types[i]; fits(t) && (t.Number != 0 || t.IsPlain()) {
			c.Numbers = append(c.Numbers, t.Number)
		}
	}
	return c, err
}

func (f *ankiFinder) noteType(ctx context.Context, t *ankisearch.Term) (store.Condition, error) {
	re, err := names(t, ankisearch.Pattern.Whole)
	if err != nil {
		return store.Condition{}, err
	}
	return f.typesWith(ctx, func(t *StoredType) bool { return re.MatchString(t.Name) })
}

func (f *ankiFinder) noteTypeID(ctx context.Context, t *ankisearch.Term) (store.Condition, error) {
	ids, err := numbersOf(t)
	if err != nil {
		return store.Condition{}, err
	}
	return f.typesWith(ctx, func(t *StoredType) bool { return t.ID == ids[0] })
}

func (f *ankiFinder) tag(ctx context.Context, t *ankisearch.Term) (c store.Condition, err error) {
	if strings.EqualFold(t.Value, "none") {
		return store.Condition{Field: store.FieldNoTag}, nil
	}
	re, err := names(t, ankisearch.Pattern.Below)
	if err != nil {
		return c, err
	}
	tags, err := f.allTags(ctx)
	c.Field = store.FieldTags
	for _, tag := range tags {
		if re.MatchString(tag) {
			c.Words = append(c.Words, tag)
		}
	}
	return c, err
}

// phases returns the condition that a point is in one of some phases.
func phases(p ...store.Phase) store.Condition {
	c := store.Condition{Field: store.FieldPhase}
	for _, phase := range p {
		c.Numbers = append(c.Numbers, int64(phase))
	}
	return c
}

// is reads a state. As in Anki, whether a card is suspended does not matter to whether it is new.
func (f *ankiFinder) is(_ context.Context, t *ankisearch.Term) (c store.Condition, err error) {
	switch strings.ToLower(t.Value) {
	case "new":
		return phases(store.New), nil
	case "learn":
		return phases(store.Learning, store.Relearning), nil
	case "review":
		return phases(store.Review, store.Relearning, store.Done), nil
	case "due":
		return store.Condition{Field: store.FieldDue}, nil
	case "suspended":
		return store.Condition{Field: store.FieldSuspended}, nil
	case "buried", "buried-manually", "buried-sibling":
		if !strings.EqualFold(t.Value, "buried") {
			return c, invalid(msgSearchWord, quotedWord(t))
		}
		return store.Condition{Field: store.FieldBuried}, nil
	}
	return c, needs(t, "new, learn, review, due, suspended, buried")
}

func (f *ankiFinder) flag(_ context.Context, t *ankisearch.Term) (store.Condition, error) {
	n, err := strconv.Atoi(t.Value)
	if err != nil || n < 0 || n > MaxFlag {
		return store.Condition{}, needs(t, "0–7")
	}
	return store.Condition{Field: store.FieldFlag, N: n}, nil
}

// card reads which card of its note it is: a number from 1 on, or the name of a template. Templates
// of one name have to have one place in all types, since a condition cannot tell them apart.
func (f *ankiFinder) card(ctx context.Context, t *ankisearch.Term) (c store.Condition, err error) {
	c.Field = store.FieldOrds
	if n, err := strconv.Atoi(t.Value); err == nil {
		if n < 1 || n > 1000 {
			return c, needs(t, "1–1000")
		}
		c.Numbers = []int64{int64(n - 1)}
		return c, nil
	}
	re, err := names(t, ankisearch.Pattern.Whole)
	if err != nil {
		return c, err
	}
	types, err := f.noteTypes(ctx)
	if err != nil {
		return c, err
	}
	at := map[int64]bool{}
	for i := range types {
		for ord, m := range types[i].Templates {
			if re.MatchString(m.Name) && (types[i].Number != 0 || types[i].IsPlain()) {
				at[int64(ord)] = true
			}
		}
	}
	for i := range types {
		for ord, m := range types[i].Templates {
			if at[int64(ord)] && !re.MatchString(m.Name) && types[i].Number != 0 {
				return c, invalid(msgSearchWord, quotedWord(t))
			}
		}
	}
	for ord := range at {
		c.Numbers = append(c.Numbers, ord)
	}
	return c, nil
}

// numbersOf reads numbers with commas between them.
func numbersOf(t *ankisearch.Term) ([]int64, error) {
	var out []int64
	for _, text := range strings.Split(t.Value, ",") {
		n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
		if err != nil {
			return nil, needs(t, "1,2,3")
		}
		out = append(out, n)
	}
	return out, nil
}

func (f *ankiFinder) nid(ctx context.Context, t *ankisearch.Term) (c store.Condition, err error) {
	ids, err := numbersOf(t)
	if err != nil {
		return c, err
	}
	c.Field = store.FieldPoints
	c.Numbers, err = f.s.pointsOfIDs(ctx, f.l.Person, ids)
	return c, err
}

func (f *ankiFinder) cid(ctx context.Context, t *ankisearch.Term) (c store.Condition, err error) {
	ids, err := numbersOf(t)
	if err != nil {
		return c, err
	}
	cards, err := f.s.CardsByID(ctx, f.l.Person, ids)
	c.Field = store.FieldPoints
	for _, p := range cards {
		c.Numbers = append(c.Numbers, p.Number)
	}
	return c, err
}

// since returns when the last n days began, today included.
func (f *ankiFinder) since(t *ankisearch.Term, text string) (time.Time, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > 36500 {
		return time.Time{}, needs(t, "1, 2, 3 …")
	}
	return f.l.Calendar.StartOf(f.l.Today - store.Day(max(n, 1)-1)), nil
}

func (f *ankiFinder) days(_ context.Context, t *ankisearch.Term) (c store.Condition, err error) {
	c.Field = map[string]store.Field{"added": store.FieldAdded, "edited": store.FieldEdited,
		"introduced": store.FieldBegun}[strings.ToLower(t.Key)]
	c.At, err = f.since(t, t.Value)
	return c, err
}

func (f *ankiFinder) rated(_ context.Context, t *ankisearch.Term) (c store.Condition, err error) {
	days, grade, graded := strings.Cut(t.Value, ":")
	c.Field = store.FieldGraded
	if c.At, err = f.since(t, days); err != nil || !graded {
		return c, err
	}
	if c.N, err = strconv.Atoi(grade); err != nil || c.N < int(store.Again) || c.N > int(store.Easy) {
		return c, needs(t, "1–4")
	}
	return c, nil
}

// property matches prop:ivl>=10 and the like.
var property = regexp.MustCompile(`^([a-z]+)(<=|>=|!=|=|<|>)(-?[0-9]+(?:\.[0-9]+)?)$`)

// prop reads a comparison. Ease, position and what follows from the present moment alone have no
// counterpart.
func (f *ankiFinder) prop(_ context.Context, t *ankisearch.Term) (c store.Condition, err error) {
	m := property.FindStringSubmatch(strings.ToLower(strings.TrimSpace(t.Value)))
	if m == nil {
		return c, needs(t, "ivl>=10")
	}
	if c.Value, err = strconv.ParseFloat(m[3], 64); err != nil {
		return c, needs(t, "ivl>=10")
	}
	c.Field, c.Compare = store.FieldNumber, strings.Replace(m[2], "!=", "<>", 1)
	switch m[1] {
	case "ivl":
		c.Text = store.PropInterval
	case "due":
		c.Text = store.PropDue
	case "reps":
		c.Text = store.PropReps
	case "lapses":
		c.Text = store.PropLapses
	case "s":
		c.Text = store.PropStability
	case "d": // from 0 to 1 in Anki, from 1 to 10 here
		c.Text, c.Value = store.PropDifficulty, c.Value*9+1
	default:
		return c, invalid(msgSearchWord, quotedWord(t))
	}
	return c, nil
}
