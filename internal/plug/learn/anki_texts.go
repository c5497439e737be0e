package learn

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"patchbay/internal/plug/learn/ankisearch"
	"patchbay/internal/store"
)

// textSearch is what the conditions of a search on the text of notes select. They are read once for
// all of them.
type textSearch struct {
	matchers map[*ankisearch.Term]*matcher
	of       [][]int64 // the points of each note, or point without one, that fits one of them
}

// bits is a set of small numbers.
type bits []uint64

func (b *bits) add(i int) {
	for len(*b) <= i/64 {
		*b = append(*b, 0)
	}
	(*b)[i/64] |= 1 << (i % 64)
}

func (b bits) has(i int) bool { return i/64 < len(b) && b[i/64]&(1<<(i%64)) != 0 }

// points returns the points of a condition, in ascending order.
func (s *textSearch) points(t *ankisearch.Term) []int64 {
	var out []int64
	for i, points := range s.of {
		if s.matchers[t].fits.has(i) {
			out = append(out, points...)
		}
	}
	return sortedSet(out)
}

// readTexts reads the notes, if there are conditions on their text.
func (f *ankiFinder) readTexts(ctx context.Context, t *ankisearch.Term) (*textSearch, error) {
	s := &textSearch{matchers: map[*ankisearch.Term]*matcher{}}
	if err := f.addMatchers(ctx, t, s.matchers); err != nil || len(s.matchers) == 0 {
		return s, err
	}
	var notes []int64 // the ones of s.of
	read := func(typ int64, fields []string) bool {
		fits := false
		for _, m := range s.matchers {
			if m.note(typ, fields) {
				m.fits.add(len(s.of))
				fits = true
			}
		}
		return fits
	}
	err := f.s.Store.Learn.ScanNotes(ctx, f.l.Person, store.NoteScan{Contains: s.hints()}, func(n *store.Note) error {
		if read(n.Type, n.Fields) {
			s.of, notes = append(s.of, nil), append(notes, n.Number)
		}
		return nil
	})
	if err == nil {
		err = f.s.Store.Learn.ScanBare(ctx, f.l.Person, func(b store.BareText) error {
			if read(0, []string{fieldOf(b.Question), fieldOf(b.Answer)}) {
				s.of = append(s.of, []int64{b.Number})
			}
			return nil
		})
	}
	if err != nil {
		return nil, fmt.Errorf("search: %w", err)
	}
	points, err := f.s.Store.Learn.PointsOfNotes(ctx, f.l.Person, notes)
	if err != nil {
		return nil, fmt.Errorf("search: %w", err)
	}
	at := make(map[int64]int, len(notes))
	for i, n := range notes {
		at[n] = i
	}
	for _, p := range points {
		s.of[at[p.Note]] = append(s.of[at[p.Note]], p.Number)
	}
	return s, nil
}

// addMatchers reads the conditions on the text of notes in a term.
func (f *ankiFinder) addMatchers(ctx context.Context, t *ankisearch.Term,
	to map[*ankisearch.Term]*matcher) (err error) {
	if t.Op == ankisearch.Leaf && isText(t) {
		to[t], err = f.matcher(ctx, t)
	}
	for _, of := range t.Of {
		if err == nil {
			err = f.addMatchers(ctx, of, to)
		}
	}
	return err
}

// hints returns texts of which a note must have one to fit; nil if it need not, or there are many.
func (s *textSearch) hints() []string {
	const most = 10
	var out []string
	for _, m := range s.matchers {
		if m.hint == "" || len(s.matchers) > most {
			return nil
		}
		out = append(out, jsonText(m.hint))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// jsonText returns a text as it stands in JSON, without quotes.
func jsonText(text string) string {
	b, err := json.Marshal(text)
	if err != nil || len(b) < 2 {
		return ""
	}
	return string(b[1 : len(b)-1])
}

// matcher tells which notes a condition on their fields selects.
type matcher struct {
	re   *regexp.Regexp
	hint string // a text that is in the fields of all of them
	fits bits   // which of the notes that were read
	// fields are where the fields are that are looked at, by the number of the type; nil: all.
	fields map[int64][]int
}

func (m *matcher) note(typ int64, fields []string) bool {
	if m.fields == nil {
		return slices.ContainsFunc(fields, m.re.MatchString)
	}
	return slices.ContainsFunc(m.fields[typ], func(i int) bool {
		return i < len(fields) && m.re.MatchString(fields[i]) || i >= len(fields) && m.re.MatchString("")
	})
}

// matcher reads a condition on the text of notes: text, a field, re: or w:.
func (f *ankiFinder) matcher(ctx context.Context, t *ankisearch.Term) (*matcher, error) {
	key, value, m := t.Key, t.Value, &matcher{}
	own := map[string]bool{"re": true, "w": true, "nc": true}
	if key != "" && !own[strings.ToLower(key)] {
		if err := f.fieldsNamed(ctx, key, m); err != nil {
			return nil, err
		}
		kind, rest, ok := strings.Cut(value, ":")
		key = ""
		if ok && own[strings.ToLower(kind)] {
			key, value = kind, rest
		}
	}
	p := ankisearch.NewPattern(value)
	var err error
	switch strings.ToLower(key) {
	case "re":
		m.re, err = ankisearch.Regexp(strings.ReplaceAll(value, `\:`, ":"))
	case "w":
		m.re, err = p.Word()
	case "":
		if m.fields != nil {
			m.re, err = p.Whole()
		} else {
			m.re, err = p.Inside()
		}
		m.hint = p.Hint()
	default:
		return nil, invalid(msgSearchWord, quotedWord(t))
	}
	if err != nil {
		return nil, invalid(msgSearchForm, err)
	}
	return m, nil
}

// fieldsNamed sets which fields have a name, in which there may be wildcards.
func (f *ankiFinder) fieldsNamed(ctx context.Context, name string, m *matcher) error {
	types, err := f.noteTypes(ctx)
	if err != nil {
		return err
	}
	re, err := ankisearch.NewPattern(name).Whole()
	if err != nil {
		return invalid(msgSearchForm, err)
	}
	m.fields = map[int64][]int{}
	for _, t := range types {
		if t.Number == 0 && !t.IsPlain() {
			continue // nothing is of it yet
		}
		for i, field := range t.Fields {
			if re.MatchString(field.Name) {
				m.fields[t.Number] = append(m.fields[t.Number], i)
			}
		}
	}
	return nil
}
