package learn

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"patchbay/internal/i18n"
	"patchbay/internal/store"
)

// Expression is what selects points wherever people and programs say which ones they mean: a list,
// a review, an edit of many. All parts must hold:
//
//	tag:x deck:y         with this tag, in this deck; quotes for names with spaces
//	flag:2               with this flag, 0 to 7
//	is:new …             in this state, see states
//	forgotten:7d         forgotten within the last 7 days, today included; also 2w
//	reviewed:7d added:7d the same for reviews and new points
//	due:3d               due within the next 3 days
//	lapses:4             forgotten at least 4 times
//	-tag:x               not this
//	anything else        with these words
//
// A part in quotes is text, even if it looks like something else.
type Expression struct {
	parts []part
	// Text is the text to search for.
	Text string
}

// part is one condition, by the words of the expression.
type part struct {
	field store.Field
	not   bool
	text  string
	n     int // a flag, a number, or days
}

// maxExpression limits an expression, in bytes, and maxParts its conditions: each costs a query
// some time.
const (
	maxExpression = 1000
	maxParts      = 20
)

// expressionStates are the values of “is”.
var expressionStates = map[string]store.Field{
	"new": store.FieldNew, "learning": store.FieldLearning, "review": store.FieldReview, "due": store.FieldDue,
	"suspended": store.FieldSuspended, "buried": store.FieldBuried, "draft": store.FieldDraft,
	"unplanned": store.FieldUnplanned,
}

// expressionKeys are what stands before a colon; others are text.
var expressionKeys = map[string]string{"tag": "tag", "tags": "tag", "deck": "deck", "decks": "deck", "flag": "flag",
	"flags": "flag", "is": "is", "state": "is", "forgotten": "forgotten", "reviewed": "reviewed", "added": "added",
	"due": "due", "lapses": "lapses"}

const (
	msgLongExpression = i18n.Message("a search has %d bytes at most")
	msgManyParts      = i18n.Message("a search has %d conditions at most")
	msgNoValue        = i18n.Message("%s: needs a value, such as %s")
	msgBadFlag        = i18n.Message("a flag is a number from 0 (none) to 7, not %q")
	msgBadState       = i18n.Message("is: knows %s, not %q")
	msgBadDays        = i18n.Message("%s: needs a number of days, such as 7d or 2w, not %q")
	msgBadLapses      = i18n.Message("lapses: needs a number, such as 4, not %q")
)

// examples has a value for each key, for errors.
var examples = map[string]string{"tag": "tag:biology", "deck": "deck:German", "flag": "flag:1", "is": "is:new",
	"forgotten": "forgotten:7d", "reviewed": "reviewed:7d", "added": "added:7d", "due": "due:3d", "lapses": "lapses:4"}

// ParseExpression reads an expression. The error says what is wrong with it, see
// [problem.Invalid].
func ParseExpression(text string) (*Expression, error) {
	if len(text) > maxExpression {
		return nil, invalid(msgLongExpression, maxExpression)
	}
	x := &Expression{}
	var words []string
	for _, w := range splitExpression(text) {
		not := strings.HasPrefix(w.key, "-")
		key := expressionKeys[strings.ToLower(strings.TrimPrefix(w.key, "-"))]
		if key == "" {
			words = append(words, w.whole)
			continue
		}
		p, err := parsePart(key, strings.TrimSpace(w.value))
		if err != nil {
			return nil, err
		}
		p.not = not
		x.parts = append(x.parts, p)
	}
	if len(x.parts) > maxParts {
		return nil, invalid(msgManyParts, maxParts)
	}
	x.Text = strings.Join(words, " ")
	return x, nil
}

// Within returns the expression with a deck, by name or ID, and a tag as further conditions; an
// empty one is none.
func (x *Expression) Within(deck, tag string) *Expression {
	out := &Expression{parts: slices.Clone(x.parts), Text: x.Text}
	if deck != "" {
		out.parts = append(out.parts, part{field: store.FieldDeck, text: deck})
	}
	if tag != "" {
		out.parts = append(out.parts, part{field: store.FieldTag, text: tag})
	}
	return out
}

// IsText reports whether the expression is nothing but text, which is searched and ranked.
func (x *Expression) IsText() bool { return x.Text != "" && len(x.parts) == 0 }

// IsEmpty reports whether the expression selects all points.
func (x *Expression) IsEmpty() bool { return x.Text == "" && len(x.parts) == 0 }

func parsePart(key, value string) (p part, err error) {
	if value == "" {
		return p, invalid(msgNoValue, key, examples[key])
	}
	switch key {
	case "tag":
		p.field, p.text = store.FieldTag, strings.TrimPrefix(value, "#")
	case "deck":
		p.field, p.text = store.FieldDeck, value
	case "flag":
		p.field = store.FieldFlag
		if p.n, err = strconv.Atoi(value); err != nil || p.n < 0 || p.n > MaxFlag {
			return p, invalid(msgBadFlag, truncateBytes(value, 30))
		}
	case "is":
		if value = strings.ToLower(value); value == LeechTag {
			p.field, p.text = store.FieldTag, LeechTag
			return p, nil
		}
		var ok bool
		if p.field, ok = expressionStates[value]; !ok {
			return p, invalid(msgBadState, stateNames(), truncateBytes(value, 30))
		}
	case "lapses":
		p.field = store.FieldLapses
		if p.n, err = strconv.Atoi(value); err != nil || p.n < 0 {
			return p, invalid(msgBadLapses, truncateBytes(value, 30))
		}
	default:
		p.field = map[string]store.Field{"forgotten": store.FieldForgotten, "reviewed": store.FieldReviewed,
			"added": store.FieldAdded, "due": store.FieldDue}[key]
		if p.n, err = parseDays(value); err != nil {
			return p, invalid(msgBadDays, key, truncateBytes(value, 30))
		}
	}
	return p, nil
}

// MaxFlag is the highest flag of a point; 0 is none.
const MaxFlag = 7

func stateNames() string {
	names := []string{LeechTag}
	for name := range expressionStates {
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// parseDays reads a number of days such as 7, 7d, 2w, today or week.
func parseDays(text string) (int, error) {
	switch text = strings.ToLower(text); text {
	case "today":
		return 1, nil
	case "week":
		return 7, nil
	}
	factor := 1
	switch {
	case strings.HasSuffix(text, "w"):
		factor = 7
		fallthrough
	case strings.HasSuffix(text, "d"):
		text = text[:len(text)-1]
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > 36500/factor {
		return 0, fmt.Errorf("%q is not a number of days", text)
	}
	return n * factor, nil
}

// word is a part of an expression as it is written.
type word struct {
	whole      string // without quotes
	key, value string // before and after the first colon outside of quotes; key is empty without
}

// splitExpression splits an expression at spaces outside of quotes. A quote that is not closed ends
// with the text.
func splitExpression(text string) (out []word) {
	for rest := strings.TrimSpace(text); rest != ""; rest = strings.TrimSpace(rest) {
		var w word
		var b strings.Builder
		quoted, colon, i := false, -1, 0
		for i < len(rest) {
			r, size := utf8.DecodeRuneInString(rest[i:])
			switch {
			case r == '"' || r == '“' || r == '”':
				quoted = !quoted
			case !quoted && unicode.IsSpace(r):
				size = 0
			case !quoted && colon < 0 && (r == ':' || r == '：'):
				colon = b.Len()
				b.WriteRune(':')
			default:
				b.WriteString(rest[i : i+size])
			}
			if size == 0 {
				break
			}
			i += size
		}
		rest = rest[i:]
		w.whole = b.String()
		if colon > 0 {
			w.key, w.value = w.whole[:colon], w.whole[colon+1:]
		}
		out = append(out, w)
	}
	return out
}

// Selection returns what the expression selects now. It fails if it names a deck that does not
// exist.
func (x *Expression) Selection(l *Learner) (store.Selection, error) {
	out := store.Selection{Today: l.Today, Now: l.Now}
	for _, p := range x.parts {
		c := store.Condition{Field: p.field, Not: p.not, Text: p.text, N: p.n}
		switch p.field {
		case store.FieldDeck:
			id, ok := l.DeckID(p.text)
			if !ok {
				return out, l.DeckNotFound(p.text)
			}
			c.Text = id
		case store.FieldForgotten, store.FieldReviewed, store.FieldAdded:
			c.At = l.Calendar.StartOf(l.Today - store.Day(max(p.n-1, 0)))
		}
		out.Where = append(out.Where, c)
	}
	if x.Text != "" {
		words := parseQuery(x.Text).content()
		if len(words) > maxSelectWords {
			words = words[:maxSelectWords]
		}
		if len(words) == 0 { // nothing but signs, which no point is found by
			words = []string{"x"}
		}
		out.Where = append(out.Where, store.Condition{Field: store.FieldWords, Words: words})
	}
	return out, nil
}

// maxSelectWords is how many words of the text a point must have.
const maxSelectWords = 30

// mentions reports whether the expression says something about a field.
func (x *Expression) mentions(f store.Field) bool {
	return slices.ContainsFunc(x.parts, func(p part) bool { return p.field == f })
}

// Select lists the points that an expression selects, newest first, after a cursor.
func (s *Service) Select(ctx context.Context, l *Learner, x *Expression, after store.PointKey,
	limit int) ([]store.Point, error) {
	f, err := x.Selection(l)
	if err != nil {
		return nil, err
	}
	return s.Store.Learn.Select(ctx, l.Person, f, after, limit)
}

// Count counts the points that an expression selects.
func (s *Service) Count(ctx context.Context, l *Learner, x *Expression) (int, error) {
	f, err := x.Selection(l)
	if err != nil {
		return 0, err
	}
	return s.Store.Learn.CountSelected(ctx, l.Person, f, 0)
}
