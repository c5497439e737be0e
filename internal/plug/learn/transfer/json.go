package transfer

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"patchbay/internal/plug/learn/transfer/apkg"
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
	Note      *jsonNote     `json:"note,omitempty"`
	Ord       int           `json:"card_number,omitempty"`
	Flag      int           `json:"flag,omitempty"`
	Source    string        `json:"source,omitempty"`
}

// jsonNote is the note of an item. Each of its cards has it.
type jsonNote struct {
	GUID    string    `json:"guid"`
	Type    string    `json:"type"` // origin of its type
	Fields  []string  `json:"fields"`
	Source  string    `json:"source,omitempty"`
	Updated time.Time `json:"updated_at"`
}

// jsonType is a note type; they come before the points.
type jsonType struct {
	Origin  string          `json:"origin"`
	Name    string          `json:"name"`
	Model   json.RawMessage `json:"model"`
	Updated time.Time       `json:"updated_at"`
}

// jsonMedia is a picture or sound; they come after the points.
type jsonMedia struct {
	Name string `json:"name"`
	Data []byte `json:"data"` // in base64
}

// maxJSONMedia limits the pictures and sounds in a file together, in bytes, so that it can be
// imported again; the file says how many were left out.
const maxJSONMedia = 128 << 20

type jsonReview struct {
	ID      string       `json:"id,omitempty"`
	Kind    string       `json:"kind"`
	At      time.Time    `json:"at"`
	Grade   store.Grade  `json:"grade,omitempty"` // 0 not judged, 1 again, 2 hard, 3 good, 4 easy
	Took    jsonDuration `json:"took,omitempty"`
	Recall  string       `json:"recall_text,omitempty"`
	Score   *int         `json:"score,omitempty"` // missing: not judged
	Elapsed int          `json:"elapsed_days,omitempty"`
	Source  string       `json:"source,omitempty"`
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
		case "note_types":
			return s.listed(in.jsonType)
		case "sources":
			return s.sources()
		case "points":
			points = true
			return s.listed(in.jsonPoint)
		case "media":
			return s.listed(in.jsonMedia)
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

func (in *itemReader) jsonType(row int, raw []byte) error {
	var t jsonType
	if err := json.Unmarshal(raw, &t); err != nil || t.Origin == "" {
		in.reject(row, string(raw), msgTypeFault.Errorf())
		return nil
	}
	if in.o.Types == nil {
		return nil
	}
	return in.o.Types(store.NoteType{Origin: cut(clean(t.Origin), MaxName), Name: clean(t.Name), Model: t.Model,
		Updated: t.Updated})
}

func (in *itemReader) jsonMedia(row int, raw []byte) error {
	var m jsonMedia
	if err := json.Unmarshal(raw, &m); err != nil {
		in.reject(row, string(raw), describeJSONError(err))
		return nil
	}
	name := apkg.CleanMediaName(m.Name)
	if name == "" || in.o.Media == nil {
		return nil
	}
	return in.o.Media(Media{Name: name, Open: func() (io.ReadCloser, error) {
		if len(m.Data) > apkg.MaxMediaFile {
			return nil, apkg.ErrMediaLarge
		}
		return io.NopCloser(bytes.NewReader(m.Data)), nil
	}})
}

// sources reads what only Anki understands.
func (s *jsonStream) sources() error {
	var all map[string]json.RawMessage
	if err := s.value(&all); err != nil {
		return err
	}
	if s.source == nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if err := s.source(name, all[name]); err != nil {
			return err
		}
	}
	return nil
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
		Draft: p.Draft, Card: p.Card, Ord: p.Ord, Flag: p.Flag, Source: p.Source}
	if n := p.Note; n != nil && n.GUID != "" {
		it.Note = &Note{GUID: n.GUID, Type: n.Type, Fields: n.Fields, Source: n.Source, Updated: n.Updated}
	}
	for _, r := range p.History {
		e := store.LogEntry{ID: r.ID, Kind: r.Kind, At: r.At, Grade: r.Grade, Took: time.Duration(r.Took),
			Recall: r.Recall, Score: -1, Elapsed: r.Elapsed, Source: r.Source}
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
	dec    *json.Decoder
	source func(name string, data json.RawMessage) error
}

func newJSONStream(in *itemReader, r io.ReaderAt, size int64) *jsonStream {
	b := bufio.NewReaderSize(in.reader(r, size), 64<<10)
	if start, _ := b.Peek(len(byteOrderMark)); bytes.Equal(start, byteOrderMark) {
		_, _ = b.Discard(len(byteOrderMark))
	}
	return &jsonStream{dec: json.NewDecoder(b), source: in.o.Source}
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
	o     WriteOptions
	count int
	err   error
}

func newJSONWriter(w io.Writer, o WriteOptions) *jsonWriter {
	j := &jsonWriter{b: bufio.NewWriter(w), o: o}
	decks := o.Decks
	if decks == nil {
		decks = []Deck{}
	}
	j.put("{\"patchbay_learn\": 1,\n\"exported_at\": ")
	j.marshal(o.Now.UTC().Truncate(time.Second))
	j.put(",\n\"decks\": ")
	j.marshal(decks)
	if len(o.Types) > 0 {
		types := make([]jsonType, len(o.Types))
		for i, t := range o.Types {
			types[i] = jsonType{t.Origin, t.Name, t.Model, t.Updated.UTC()}
		}
		j.put(",\n\"note_types\": ")
		j.marshal(types)
	}
	if len(o.Sources) > 0 {
		j.put(",\n\"sources\": ")
		j.marshal(o.Sources)
	}
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
		Draft: it.Draft, Card: it.Card, Ord: it.Ord, Flag: it.Flag, Source: it.Source}
	if n := it.Note; n != nil {
		p.Note = &jsonNote{n.GUID, n.Type, n.Fields, n.Source, n.Updated.UTC()}
	}
	for _, e := range it.History {
		r := jsonReview{ID: e.ID, Kind: e.Kind, At: e.At.UTC(), Grade: e.Grade, Took: jsonDuration(e.Took),
			Recall: e.Recall, Elapsed: e.Elapsed, Source: e.Source}
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
	j.put("\n]")
	j.media()
	j.put("}\n")
	if j.err == nil {
		j.err = j.b.Flush()
	}
	return j.err
}
