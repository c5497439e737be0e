package transfer

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"patchbay/internal/plug/learn/note"
	"patchbay/internal/plug/learn/transfer/apkg"
	"patchbay/internal/store"
)

// Names of what [ReadOptions.Source] gets; decks and options are followed by an id.
const (
	sourceCollection = "anki:collection"
	sourceDeck       = DeckSource
	sourceOptions    = "anki:options:"
)

// OrphansSource is what the source of [apkg.Orphans] begins with; the time of creation of their
// collection follows. They are whole notes, of any deck.
const OrphansSource = "anki:orphans:"

// DeckSource is what the source of a deck from Anki begins with; its id follows.
const DeckSource = "anki:deck:"

// NoteID returns the id that a note had in Anki, by its source; 0 if it had none.
func NoteID(source string) int64 {
	var row apkg.NoteRow
	if source == "" || json.Unmarshal([]byte(source), &row) != nil {
		return 0
	}
	return row.ID
}

// SortText returns the text of a field as Anki compares it to find duplicates: without HTML, with
// the names of pictures.
func SortText(field string) string {
	row := apkg.NoteRow{Fields: []string{field}}
	row.Refresh()
	return row.Sort
}

// PlainTypeID is the id of the note type under which points without a note are written.
const PlainTypeID = apkg.TypeID

// CardSource is the source of a point that is a card of a note of Anki, in [store.Point.Source].
type CardSource struct {
	Card apkg.CardRow `json:"card"`
	Day  int64        `json:"day"` // from which Card counts its due date, in days since 1970
	// State is the [Fingerprint] of the state that was made of Card. While it is that of the point,
	// the point was neither reviewed nor given another date, and is written as Card.
	State string `json:"state,omitempty"`
}

// ParseCardSource reads the source of a point; ok is false if it has none.
func ParseCardSource(source string) (s CardSource, ok bool) {
	if source == "" || json.Unmarshal([]byte(source), &s) != nil {
		return s, false
	}
	return s, s.Card.ID != 0
}

// String encodes the source.
func (s CardSource) String() string {
	text, err := json.Marshal(s)
	if err != nil {
		return "" // it has only numbers and texts
	}
	return string(text)
}

// Fingerprint returns the same text for the same state of a point. That it is buried is no part of
// it.
func Fingerprint(card store.Card, inPlan, suspended bool) string {
	card.Buried = 0
	card.LastAt, card.DueAt = card.LastAt.UTC().Truncate(time.Millisecond), card.DueAt.UTC().Truncate(time.Millisecond)
	text, err := json.Marshal(struct {
		Card              store.Card
		InPlan, Suspended bool
	}{card, inPlan, suspended})
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// collectionSource is what is kept of a collection as a whole.
type collectionSource struct {
	Created int64           `json:"crt"`
	Day     int64           `json:"day"`
	Config  json.RawMessage `json:"conf,omitempty"`
}

// ankiContents passes on what a package has beside its cards.
func (in *itemReader) ankiContents(c *apkg.Contents) error {
	if err := in.ankiTypes(c.Types); err != nil {
		return err
	}
	if in.o.Source != nil {
		if err := in.ankiSources(c); err != nil {
			return err
		}
	}
	if in.o.Decks != nil {
		options := map[int64]map[string]any{}
		for _, o := range c.Options {
			options[o.ID] = parseObject(o.JSON)
		}
		for _, d := range c.Decks {
			deck := parseObject(d.JSON)
			if d.ID == 1 || truthy(deck["dyn"]) {
				continue
			}
			if err := in.o.Decks(Deck{Name: cleanDeck(d.Name), Lazy: true,
				Source:   sourceDeck + strconv.FormatInt(d.ID, 10),
				Settings: deckSettings(deck, options[whole(deck["conf"])])}); err != nil {
				return err
			}
		}
	}
	if in.o.Media != nil {
		for _, m := range c.Media {
			if err := in.o.Media(Media{Name: m.Name, Open: m.Open}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (in *itemReader) ankiTypes(types []apkg.Part) error {
	if in.o.Types == nil {
		return nil
	}
	for _, t := range types {
		parsed, err := note.Parse(t.JSON)
		if err != nil {
			in.reject(0, t.Name, err)
			continue
		}
		parsed.ID = t.ID
		if err := in.o.Types(store.NoteType{Origin: parsed.Origin(), Name: clean(parsed.Name), Model: t.JSON,
			Updated: modifiedAt(parsed.Modified)}); err != nil {
			return err
		}
	}
	return nil
}

func (in *itemReader) ankiSources(c *apkg.Contents) error {
	text, err := json.Marshal(collectionSource{Created: c.Created, Day: c.Day, Config: c.Config})
	if err != nil {
		return err
	}
	if err := in.o.Source(sourceCollection, text); err != nil {
		return err
	}
	if !c.Orphans.Empty() {
		text, err := json.Marshal(c.Orphans)
		if err != nil {
			return err
		}
		if err := in.o.Source(OrphansSource+strconv.FormatInt(c.Created, 10), text); err != nil {
			return err
		}
	}
	for prefix, parts := range map[string][]apkg.Part{sourceDeck: c.Decks, sourceOptions: c.Options} {
		for _, p := range parts {
			if err := in.o.Source(prefix+strconv.FormatInt(p.ID, 10), p.JSON); err != nil {
				return err
			}
		}
	}
	return nil
}

// addNote adds the note of a card, and what only Anki understands.
func (it *Item) addNote(c *apkg.Card) {
	row := c.NoteRow
	it.Note = &Note{GUID: row.GUID, Type: typeOrigin(row.Type), Fields: row.Fields,
		Updated: modifiedAt(row.Modified)}
	if row.GUID == "" {
		it.Note.GUID = "id:" + strconv.FormatInt(row.ID, 10)
	}
	row.Fields = nil
	if text, err := json.Marshal(row); err == nil {
		it.Note.Source = string(text)
	}
	it.Ord, it.Flag = c.Order, int(c.Row.Flags&7)
	it.Source = CardSource{Card: c.Row, Day: c.Day}.String()
}

// modifiedAt converts the time of a change; some programs write milliseconds instead of seconds.
func modifiedAt(seconds int64) time.Time {
	if seconds > 100_000_000_000 {
		seconds /= 1000
	}
	return time.Unix(min(max(seconds, 0), 253_402_300_799), 0).UTC() // until the year 9999
}

func typeOrigin(id int64) string { return (&note.Type{ID: id}).Origin() }

// ankiHistory converts the review log of a card, oldest first. Rows that are no reviews come along,
// and do not count.
func (o ReadOptions) ankiHistory(c *apkg.Card, origin string) []store.LogEntry {
	sum := sha256.Sum256([]byte(origin))
	// Rows of two collections can have the same id.
	id := func(row apkg.LogRow) string {
		return "anki:" + strconv.FormatInt(row.ID, 10) + ":" + hex.EncodeToString(sum[:4])
	}
	var list []store.LogEntry
	for _, r := range c.Reviews {
		list = append(list, store.LogEntry{ID: id(r.Row), Kind: store.LogReview, At: r.At, Grade: store.Grade(r.Ease),
			Took: r.Took, Score: -1, Source: encodeRow(r.Row)})
	}
	o.elapsed(list)
	for _, row := range c.Others {
		kind := store.LogOther
		if row.Kind >= 4 { // manual, or rescheduled by a program
			kind = store.LogReschedule
		}
		list = append(list, store.LogEntry{ID: id(row), Kind: kind, At: time.UnixMilli(row.ID).UTC(), Score: -1,
			Source: encodeRow(row)})
	}
	slices.SortStableFunc(list, func(a, b store.LogEntry) int { return a.At.Compare(b.At) })
	return list
}

func encodeRow(row apkg.LogRow) string {
	if row.ID == 0 {
		return ""
	}
	text, err := json.Marshal(row)
	if err != nil {
		return ""
	}
	return string(text)
}

// ankiWriter writes a package.
type ankiWriter struct {
	p     *apkg.Writer
	o     WriteOptions
	types map[string]*note.Type // by origin
	// tags are the tags with which notes were written, by GUID.
	tags map[string]string
}

func newAnkiWriter(w io.Writer, o WriteOptions) (*ankiWriter, error) {
	a := &ankiWriter{o: o, types: map[string]*note.Type{}, tags: map[string]string{}}
	base, err := a.base()
	if err != nil {
		return nil, err
	}
	a.p, err = apkg.NewWriter(w, apkg.WriteOptions{Zone: o.Zone, DayStart: o.DayStart, Now: o.Now, Temp: o.Temp,
		Newest: o.Newest, Whole: o.Whole, Media: o.Media, Base: base})
	return a, err
}

// base collects the parts that came from packages, with the present names of the decks.
func (a *ankiWriter) base() (base apkg.Contents, err error) {
	var collection collectionSource
	_ = json.Unmarshal(a.o.Sources[sourceCollection], &collection)
	base.Created, base.Day, base.Config = collection.Created, collection.Day, collection.Config
	for _, t := range a.o.Types {
		parsed, err := note.Parse(t.Model)
		if err != nil {
			return base, err
		}
		a.types[t.Origin] = parsed
		base.Types = append(base.Types, apkg.Part{ID: parsed.ID, Name: t.Name, JSON: t.Model})
	}
	names := map[string]string{}
	for _, d := range a.o.Decks {
		if d.Source != "" {
			names[d.Source] = d.Name
		}
	}
	taken := map[string]bool{}
	for _, source := range slices.Sorted(maps.Keys(a.o.Sources)) {
		data := a.o.Sources[source]
		if strings.HasPrefix(source, OrphansSource) {
			var rows apkg.Orphans
			if json.Unmarshal(data, &rows) == nil {
				base.Orphans.Notes = append(base.Orphans.Notes, rows.Notes...)
				base.Orphans.Log = append(base.Orphans.Log, rows.Log...)
			}
			continue
		}
		text, isDeck := strings.CutPrefix(source, sourceDeck)
		if !isDeck {
			text, isDeck = strings.CutPrefix(source, sourceOptions)
			if id, err := strconv.ParseInt(text, 10, 64); isDeck && err == nil {
				base.Options = append(base.Options, apkg.Part{ID: id, JSON: data})
			}
			continue
		}
		if id, err := strconv.ParseInt(text, 10, 64); err == nil {
			base.Decks = append(base.Decks, renamedDeck(id, names[source], data, names))
		}
	}
	// A deck of Patchbay comes before one of the same name that only packages have.
	slices.SortFunc(base.Decks, func(x, y apkg.Part) int {
		return cmp.Or(-boolCompare(names[deckSource(x.ID)] != "", names[deckSource(y.ID)] != ""), cmp.Compare(x.ID, y.ID))
	})
	base.Decks = slices.DeleteFunc(base.Decks, func(d apkg.Part) bool {
		was := taken[d.Name]
		taken[d.Name] = true
		return was
	})
	a.writeOptions(&base)
	return base, nil
}

func deckSource(id int64) string { return sourceDeck + strconv.FormatInt(id, 10) }

func boolCompare(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// renamedDeck returns a deck of a package with the name that it has now; empty: its own.
func renamedDeck(id int64, name string, data json.RawMessage, names map[string]string) apkg.Part {
	deck := parseObject(data)
	own, _ := deck["name"].(string)
	if name == "" || cleanDeck(own) == name || id == 1 {
		return apkg.Part{ID: id, Name: cleanDeck(own), JSON: data}
	}
	deck["name"] = name
	if text, err := json.Marshal(deck); err == nil {
		data = text
	}
	return apkg.Part{ID: id, Name: name, JSON: data}
}

func (a *ankiWriter) Write(it Item) error {
	c := a.o.card(it)
	if it.Note == nil || a.types[it.Note.Type] == nil {
		return a.p.Write(c)
	}
	row := a.noteRow(&it)
	if err := a.writeNote(row, it.Tags); err != nil {
		return err
	}
	source, ok := ParseCardSource(it.Source)
	c.NoteRow, c.Row, c.Day = row, source.Card, source.Day
	c.Row.Order, c.Row.Flags = int64(it.Ord), c.Row.Flags&^7|int64(it.Flag&7)
	asRead := ok && it.Card != nil && source.State == Fingerprint(*it.Card, it.InPlan, it.Suspended)
	return a.p.WriteCard(c, asRead)
}

// noteRow returns the row of the note of an item.
func (a *ankiWriter) noteRow(it *Item) apkg.NoteRow {
	n, t := it.Note, a.types[it.Note.Type]
	row := apkg.NoteRow{GUID: n.GUID}
	if _ = json.Unmarshal([]byte(n.Source), &row); row.ID == 0 { // it was made here
		row.USN = -1
	}
	row.Type, row.Fields = t.ID, n.Fields
	if missing := len(t.Fields) - len(n.Fields); missing > 0 { // the type got fields
		row.Fields = append(slices.Clone(n.Fields), make([]string, missing)...)
	}
	if row.ID == 0 {
		row.ID, row.Tags = it.Created.UnixMilli(), apkg.JoinTags(it.Tags)
	}
	if n.Updated.Unix() > row.Modified {
		row.Modified, row.USN = n.Updated.Unix(), -1
		row.Refresh()
	}
	return row
}

// writeNote writes a note once. Its tags are those that it had, unless a card has others now.
func (a *ankiWriter) writeNote(row apkg.NoteRow, tags []string) error {
	own := row.Tags
	if !slices.Equal(cleanTags(strings.Fields(row.Tags)), cleanTags(tags)) {
		row.Tags = apkg.JoinTags(tags)
	}
	written, again := a.tags[row.GUID]
	if !again {
		a.tags[row.GUID] = row.Tags
		return a.p.WriteNote(row)
	}
	if row.Tags == own || row.Tags == written {
		return nil
	}
	a.tags[row.GUID] = row.Tags
	return a.p.SetTags(row.GUID, row.Tags)
}

func (a *ankiWriter) Close() error { return a.p.Close() }

// parseObject reads a JSON object, or returns an empty one.
func parseObject(data []byte) map[string]any {
	out := map[string]any{}
	_ = json.Unmarshal(data, &out)
	return out
}

// whole reads a number, which some programs write as a text.
func whole(v any) int64 {
	switch v := v.(type) {
	case float64:
		return int64(v)
	case string:
		n, _ := strconv.ParseInt(v, 10, 64)
		return n
	}
	return 0
}

func truthy(v any) bool {
	b, is := v.(bool)
	return is && b || whole(v) != 0
}
