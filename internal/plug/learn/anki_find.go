package learn

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"patchbay/internal/i18n"
	"patchbay/internal/plug/learn/ankisearch"
	"patchbay/internal/store"
)

const (
	msgSearchForm = i18n.Message("the search cannot be read: %s")
	msgSearchWord = i18n.Message("the search has %s, which means nothing here")
)

// Limits of lists in a query.
const (
	inlineList = 50   // of one condition among others
	aloneList  = 2000 // of a condition that is alone in its query
)

// FindAnki returns the numbers of the points that a search in the language of Anki's browser
// selects, in ascending order. What has no meaning here is an error that says so.
func (s *Service) FindAnki(ctx context.Context, l *Learner, query string) ([]int64, error) {
	t, err := ankisearch.Parse(query)
	if err != nil {
		return nil, invalid(msgSearchForm, err)
	}
	f := &ankiFinder{s: s, l: l}
	if f.texts, err = f.readTexts(ctx, t); err != nil {
		return nil, err
	}
	return f.find(ctx, t)
}

// ankiFinder finds what a search selects: conditions that the database knows are one query, others
// are sets of points that are combined.
type ankiFinder struct {
	s     *Service
	l     *Learner
	texts *textSearch
	all   []int64      // all points; nil: not read yet
	types []StoredType // nil: not read yet
	tags  []string
	read  bool // tags are read
}

func (f *ankiFinder) selected(ctx context.Context, where ...store.Condition) ([]int64, error) {
	out, err := f.s.Store.Learn.SelectNumbers(ctx, f.l.Person, store.Selection{Today: f.l.Today, Now: f.l.Now,
		Where: where}, 0, maxBulkPoints+1)
	if err != nil {
		return nil, fmt.Errorf("search: %w", err)
	}
	if len(out) > maxBulkPoints {
		return nil, invalid(msgManyAtOne, maxBulkPoints)
	}
	return out, nil
}

func (f *ankiFinder) everything(ctx context.Context) (_ []int64, err error) {
	if f.all == nil {
		f.all, err = f.selected(ctx)
	}
	return f.all, err
}

// find returns the points of a term.
func (f *ankiFinder) find(ctx context.Context, t *ankisearch.Term) ([]int64, error) {
	switch t.Op {
	case ankisearch.And:
		return f.findAll(ctx, t.Of)
	case ankisearch.Or:
		var out []int64
		for _, of := range t.Of {
			points, err := f.find(ctx, of)
			if err != nil {
				return nil, err
			}
			out = union(out, points)
		}
		return out, nil
	}
	return f.findAll(ctx, []*ankisearch.Term{t})
}

// sortedSet returns numbers in ascending order, each once.
func sortedSet(numbers []int64) []int64 {
	slices.Sort(numbers)
	return slices.Compact(numbers)
}

// findAll returns the points for which all terms hold.
func (f *ankiFinder) findAll(ctx context.Context, terms []*ankisearch.Term) ([]int64, error) {
	var where []store.Condition
	type part struct {
		*ankisearch.Term
		not bool
	}
	var parts []part // what is no condition of one query
	for _, t := range terms {
		not := false
		for t.Op == ankisearch.Not {
			not, t = !not, t.Of[0]
		}
		if t.Op == ankisearch.Leaf && !isText(t) {
			c, err := f.condition(ctx, t)
			if err != nil {
				return nil, err
			}
			if len(c.Words)+len(c.Numbers) <= inlineList {
				c.Not = not
				where = append(where, c)
				continue
			}
		}
		parts = append(parts, part{t, not})
	}
	slices.SortStableFunc(parts, func(a, b part) int { return cmp.Compare(boolInt(a.not), boolInt(b.not)) })
	var out []int64
	var err error
	switch {
	case len(where) > 0:
		out, err = f.selected(ctx, where...)
	case len(parts) == 0 || parts[0].not:
		out, err = f.everything(ctx)
	default:
		out, err = f.points(ctx, parts[0].Term)
		parts = parts[1:]
	}
	for i := 0; i < len(parts) && err == nil; i++ {
		var points []int64
		if points, err = f.points(ctx, parts[i].Term); err == nil {
			out = combine(out, points, parts[i].not)
		}
	}
	return out, err
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// union returns the numbers of both. They are in ascending order, each once.
func union(a, b []int64) []int64 {
	out := make([]int64, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		n := min(a[0], b[0])
		out = append(out, n)
		if a[0] == n {
			a = a[1:]
		}
		if b[0] == n {
			b = b[1:]
		}
	}
	return append(append(out, a...), b...)
}

// combine returns the numbers of a that b has, or has not. Both are in ascending order.
func combine(a, b []int64, not bool) []int64 {
	var out []int64
	for _, n := range a {
		for len(b) > 0 && b[0] < n {
			b = b[1:]
		}
		if (len(b) > 0 && b[0] == n) != not {
			out = append(out, n)
		}
	}
	return out
}

// points returns the points of a term that is no condition of a query with others.
func (f *ankiFinder) points(ctx context.Context, t *ankisearch.Term) ([]int64, error) {
	switch {
	case t.Op != ankisearch.Leaf:
		return f.find(ctx, t)
	case isText(t):
		return f.texts.points(t), nil
	}
	c, err := f.condition(ctx, t)
	if err != nil {
		return nil, err
	}
	if c.Field == store.FieldPoints {
		return sortedSet(c.Numbers), nil
	}
	var out []int64
	add := func(c store.Condition) {
		var more []int64
		if err == nil {
			more, err = f.selected(ctx, c)
			out = append(out, more...)
		}
	}
	for words := range slices.Chunk(c.Words, aloneList) {
		add(store.Condition{Field: c.Field, Words: words})
	}
	for numbers := range slices.Chunk(c.Numbers, aloneList) {
		add(store.Condition{Field: c.Field, Numbers: numbers})
	}
	return sortedSet(out), err
}

func quotedWord(t *ankisearch.Term) string {
	word := t.Value
	if t.Key != "" {
		word = t.Key + ":" + t.Value
	}
	return "“" + truncateBytes(word, 60) + "”"
}

func (f *ankiFinder) noteTypes(ctx context.Context) (_ []StoredType, err error) {
	if f.types == nil {
		f.types, err = f.s.AnkiTypes(ctx, f.l.Person)
	}
	return f.types, err
}

// allTags returns the person's tags.
func (f *ankiFinder) allTags(ctx context.Context) ([]string, error) {
	if f.read {
		return f.tags, nil
	}
	for after := ""; ; {
		list, err := f.s.Store.Learn.Tags(ctx, f.l.Person, after, 1000)
		if err != nil {
			return nil, fmt.Errorf("search: %w", err)
		}
		for _, t := range list {
			f.tags = append(f.tags, t.Tag)
			after = t.Tag
		}
		if len(list) < 1000 {
			f.read = true
			return f.tags, nil
		}
	}
}
