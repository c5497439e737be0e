package transfer

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"time"

	"patchbay/internal/store"
)

// jsonVersion is the value of "patchbay_learn" in our files. Readers reject later versions.
const jsonVersion = 1

// jsonPoint is an item in our JSON. The first four fields suffice in files from elsewhere.
type jsonPoint struct {
	Question  *string       `json:"question"`
	Answer    *string       `json:"answer"`
	Deck      string        `json:"deck,omitempty"`
	Tags      stringList    `json:"tags,omitempty"`
	ID        string        `json:"id,omitempty"`
	Origin    string        `json:"origin,omitempty"`
	Kin       string        `json:"kin,omitempty"`
	Created   time.Time     `json:"created_at,omitzero"`
	Updated   time.Time     `json:"updated_at,omitzero"`
	InPlan    *bool         `json:"in_plan,omitempty"` // missing: true
	Suspended bool          `json:"suspended,omitempty"`
	Draft     bool          `json:"draft,omitempty"`
	Card      *store.Card   `json:"card,omitempty"`
	History   []jsonReview  `json:"history,omitempty"`
	Sittings  []jsonSitting `json:"sittings,omitempty"`
}

type jsonReview struct {
	ID      string       `json:"id,omitempty"`
	Kind    string       `json:"kind"`
	At      time.Time    `json:"at"`
	Grade   store.Grade  `json:"grade,omitempty"` // 0 not judged, 1 again, 2 hard, 3 good, 4 easy
	Took    jsonDuration `json:"took,omitempty"`
	Recall  string       `json:"recall_text,omitempty"`
	Score   *int         `json:"score,omitempty"` // missing: not judged
	Elapsed int          `json:"elapsed_days,omitempty"`
}

type jsonSitting struct {
	ID        string    `json:"id,omitempty"`
	Day       store.Day `json:"review_date"`
	Number    int       `json:"review_number"`
	Completed time.Time `json:"completed_at,omitzero"`
	Created   time.Time `json:"created_at,omitzero"`
	Recall    string    `json:"recall_text,omitempty"`
}

// stringList is an array of strings, or one string separated by spaces or commas.
type stringList []string

func (w *stringList) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		var s string
		err := json.Unmarshal(b, &s)
		*w = splitTags(s)
		return err
	}
	return json.Unmarshal(b, (*[]string)(w))
}

// jsonDuration is a duration such as "1.5s".
type jsonDuration time.Duration

func (s jsonDuration) MarshalText() ([]byte, error) { return []byte(time.Duration(s).String()), nil }

func (s *jsonDuration) UnmarshalText(b []byte) error {
	d, err := time.ParseDuration(string(b))
	*s = jsonDuration(d)
	return err
}

func (in *itemReader) readJSON(r io.ReaderAt, size int64) error {
	s := newJSONStream(in, r, size)
	if array, err := s.open(); err != nil {
		return err
	} else if array {
		return s.array(in.jsonPoint)
	}
	points := false
	err := s.object(func(key string) error {
		switch key {
		case "patchbay_learn":
			var version int
			if err := s.value(&version); err != nil {
				return err
			}
			if version > jsonVersion {
				return unreadable(msgNewer)
			}
		case "decks":
			return s.listed(in.jsonDeck)
		case "points":
			points = true
			return s.listed(in.jsonPoint)
		default:
			return s.skip()
		}
		return nil
	})
	if err == nil && !points {
		return unreadable(msgNoPoints)
	}
	return err
}

func (in *itemReader) jsonDeck(row int, raw []byte) error {
	var d Deck
	if err := json.Unmarshal(raw, &d); err != nil {
		in.reject(row, string(raw), msgDeckFault.Errorf(describeJSONError(err)))
		return nil
	}
	if d.Name = cleanDeck(d.Name); d.Name == "" || in.o.Decks == nil {
		return nil
	}
	return in.o.Decks(d)
}

func (in *itemReader) jsonPoint(row int, raw []byte) error {
	var p jsonPoint
	if err := json.Unmarshal(raw, &p); err != nil {
		in.reject(row, string(raw), describeJSONError(err))
		return nil
	}
	if p.Question == nil || p.Answer == nil {
		in.reject(row, string(raw), msgNeeds.Errorf())
		return nil
	}
	return in.item(row, p.item())
}

func (p *jsonPoint) item() Item {
	it := Item{ID: p.ID, Origin: p.Origin, Kin: p.Kin, Deck: p.Deck, Question: *p.Question, Answer: *p.Answer,
		Tags:    p.Tags,
		Created: p.Created, Updated: p.Updated, InPlan: p.InPlan == nil || *p.InPlan, Suspended: p.Suspended,
		Draft: p.Draft, Card: p.Card}
	for _, r := range p.History {
		e := store.LogEntry{ID: r.ID, Kind: r.Kind, At: r.At, Grade: r.Grade, Took: time.Duration(r.Took),
			Recall: r.Recall, Score: -1, Elapsed: r.Elapsed}
		if r.Score != nil {
			e.Score = *r.Score
		}
		if e.Kind == "" {
			e.Kind = store.LogReview
		}
		it.History = append(it.History, e)
	}
	for _, s := range p.Sittings {
		it.Sittings = append(it.Sittings, store.Sitting{ID: s.ID, Day: s.Day, Number: s.Number, Completed: s.Completed,
			Created: s.Created, Recall: s.Recall})
	}
	return it
}

// describeJSONError explains the error of a record without Go terms.
func describeJSONError(err error) error {
	var kind *json.UnmarshalTypeError
	if errors.As(err, &kind) {
		if kind.Field == "" {
			return msgShould.Errorf(kindOf(kind.Value))
		}
		return msgFieldKind.Errorf(kind.Field, kindOf(kind.Value))
	}
	return errors.New(strings.TrimPrefix(err.Error(), "json: "))
}

// jsonStream reads a large document one element at a time.
type jsonStream struct {
	dec *json.Decoder
}

func newJSONStream(in *itemReader, r io.ReaderAt, size int64) *jsonStream {
	b := bufio.NewReaderSize(in.reader(r, size), 64<<10)
	if start, _ := b.Peek(len(byteOrderMark)); bytes.Equal(start, byteOrderMark) {
		_, _ = b.Discard(len(byteOrderMark))
	}
	return &jsonStream{dec: json.NewDecoder(b)}
}

// wrapError classifies a decoder's error: a fault of the file unless something else failed.
func (s *jsonStream) wrapError(err error) error {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return unreadable(msgCutOff)
	case errors.As(err, &syntax):
		return unreadable(msgSyntax, s.dec.InputOffset(), syntax)
	case errors.As(err, &kind):
		return unreadable(msgMisplaced, s.dec.InputOffset(), kindOf(kind.Value))
	}
	return err
}

// open reads the opening brace or bracket.
func (s *jsonStream) open() (array bool, err error) {
	token, err := s.dec.Token()
	switch {
	case err != nil:
		return false, s.wrapError(err)
	case token == json.Delim('['):
		return true, nil
	case token == json.Delim('{'):
		return false, nil
	}
	return false, unreadable(msgNoJSON)
}

// object calls f for each key of an open object; f reads the value.
func (s *jsonStream) object(f func(key string) error) error {
	for {
		token, err := s.dec.Token()
		if err != nil {
			return s.wrapError(err)
		}
		key, ok := token.(string)
		if !ok { // closing brace
			return nil
		}
		if err := f(key); err != nil {
			return err
		}
	}
}

// array calls f for each element of an open array.
func (s *jsonStream) array(f func(row int, raw []byte) error) error {
	for row := 1; s.dec.More(); row++ {
		var raw json.RawMessage
		if err := s.dec.Decode(&raw); err != nil {
			return s.wrapError(err)
		}
		if err := f(row, raw); err != nil {
			return err
		}
	}
	if _, err := s.dec.Token(); err != nil {
		return s.wrapError(err)
	}
	return nil
}

// listed reads a value that must be an array. null counts as empty.
func (s *jsonStream) listed(f func(row int, raw []byte) error) error {
	token, err := s.dec.Token()
	switch {
	case err != nil:
		return s.wrapError(err)
	case token == nil:
		return nil
	case token != json.Delim('['):
		return unreadable(msgNoArray, s.dec.InputOffset())
	}
	return s.array(f)
}

func (s *jsonStream) value(v any) error {
	if err := s.dec.Decode(v); err != nil {
		return s.wrapError(err)
	}
	return nil
}

// skip skips a value without holding it in memory.
func (s *jsonStream) skip() error {
	depth := 0
	for {
		token, err := s.dec.Token()
		if err != nil {
			return s.wrapError(err)
		}
		switch token {
		case json.Delim('['), json.Delim('{'):
			depth++
		case json.Delim(']'), json.Delim('}'):
			depth--
		}
		if depth == 0 {
			return nil
		}
	}
}

// jsonWriter writes one point per line.
type jsonWriter struct {
	b     *bufio.Writer
	count int
	err   error
}

func newJSONWriter(w io.Writer, o WriteOptions) *jsonWriter {
	j := &jsonWriter{b: bufio.NewWriter(w)}
	decks := o.Decks
	if decks == nil {
		decks = []Deck{}
	}
	j.put("{\"patchbay_learn\": 1,\n\"exported_at\": ")
	j.marshal(o.Now.UTC().Truncate(time.Second))
	j.put(",\n\"decks\": ")
	j.marshal(decks)
	j.put(",\n\"points\": [")
	return j
}

func (j *jsonWriter) put(s string) {
	if j.err == nil {
		_, j.err = j.b.WriteString(s)
	}
}

func (j *jsonWriter) marshal(v any) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil && j.err == nil {
		j.err = err
	}
	j.put(strings.TrimSuffix(buf.String(), "\n"))
}

func (j *jsonWriter) Write(it Item) error {
	if j.count++; j.count > 1 {
		j.put(",")
	}
	j.put("\n")
	j.marshal(pointOf(it))
	return j.err
}

func pointOf(it Item) *jsonPoint {
	p := &jsonPoint{ID: it.ID, Origin: it.Origin, Kin: it.Kin, Deck: it.Deck, Question: &it.Question,
		Answer: &it.Answer, Tags: it.Tags,
		Created: it.Created.UTC(), Updated: it.Updated.UTC(), InPlan: &it.InPlan, Suspended: it.Suspended,
		Draft: it.Draft, Card: it.Card}
	for _, e := range it.History {
		r := jsonReview{ID: e.ID, Kind: e.Kind, At: e.At.UTC(), Grade: e.Grade, Took: jsonDuration(e.Took),
			Recall: e.Recall, Elapsed: e.Elapsed}
		if e.Score >= 0 {
			r.Score = &e.Score
		}
		p.History = append(p.History, r)
	}
	for _, s := range it.Sittings {
		p.Sittings = append(p.Sittings, jsonSitting{ID: s.ID, Day: s.Day, Number: s.Number,
			Completed: s.Completed.UTC(), Created: s.Created.UTC(), Recall: s.Recall})
	}
	return p
}

func (j *jsonWriter) Close() error {
	j.put("\n]}\n")
	if j.err == nil {
		j.err = j.b.Flush()
	}
	return j.err
}
