package apkg

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"patchbay/internal/i18n"
)

// start is the date from which the packages of old and modern count, in days since 1970: 2020-01-01
// in China.
const start = 18262

func TestOldSchema(t *testing.T) {
	b := old(t,
		note(1600000000123, "g1", 1, " one two ", "法国的<b>首都</b>？\x1fParis\x1f"),
		card(10, 1600000000123, 5, 0, 2, 2, 300, 30, `{"s":31.5,"d":4.25}`),
		card(11, 1600000000123, 5, 1, 0, 0, 7, 0, ""),
		note(1600000000124, "g2", 2, "", "{{c1::Paris}} is in {{c2::France::country}}\x1fsee map"),
		card(12, 1600000000124, 1, 1, 2, -1, 301, 5, ""),
		note(1600000000125, "g3", 1, "", "Q\x1fA\x1fmore"), card(13, 1600000000125, 1, 0, 1, 1, 1700000000, 0,
			`{"s":"no number"}`),
		review(1650000000000, 10, 3, 0), review(1650000100000, 10, 1, 1), review(1650000200000, 10, 0, 4),
		review(1650000300000, 99, 3, 1), review(1600000000001, 13, 2, 2),
	)
	cards, bad, err := read(t, b, Options{})
	if err != nil || len(bad) > 0 || len(cards) != 4 {
		t.Fatalf("%d cards, bad %v, %v", len(cards), bad, err)
	}
	// The bare database, as in a profile's folder, gives the same cards.
	if alone, bad, err := read(t, unzipped(t, b, "collection.anki2"), Options{}); err != nil || len(bad) > 0 ||
		!reflect.DeepEqual(alone, cards) {
		t.Errorf("without the archive: %d cards, bad %v, %v", len(alone), bad, err)
	}
	for i, want := range []struct {
		question, answer, deck, guid string
		order                        int
		phase                        Phase
		due                          int64
		suspended                    bool
		stability                    float64
		reviews                      int
	}{
		{"法国的**首都**？", "Paris", "A::B", "g1", 0, Review, start + 300, false, 31.5, 2},
		{"Paris", "法国的**首都**？", "A::B", "g1", 1, New, 0, false, 0, 0},
		{"Paris is in [country]", "Paris is in France\nsee map", "", "g2", 1, Review, start + 301, true, 0, 0},
		{"Q", "A\n(more)", "", "g3", 0, Learning, 0, false, 0, 1},
	} {
		c := cards[i]
		if c.Question != want.question || c.Answer != want.answer || c.Deck != want.deck || c.GUID != want.guid ||
			c.Order != want.order || c.Phase != want.phase || c.Due != want.due ||
			c.Suspended != want.suspended || c.Stability != want.stability || len(c.Reviews) != want.reviews {
			t.Errorf("card %d is %+v, want %+v", i, c, want)
		}
	}
	c := cards[0]
	if !slices.Equal(c.Tags, []string{"one", "two"}) || !c.Created.Equal(time.UnixMilli(1600000000123)) ||
		!c.Updated.Equal(time.Unix(1600000001, 0)) || c.Interval != 30 || c.Ease != 2.5 || c.Left != 2 || c.Reps != 4 ||
		c.Lapses != 1 {
		t.Errorf("the first card is %+v", c)
	}
	if r := c.Reviews[1]; !r.At.Equal(time.UnixMilli(1650000100000)) || r.Ease != 1 ||
		r.Took != 4321*time.Millisecond || r.Phase != Review || r.Interval != 10 || r.Last != 3 {
		t.Errorf("the second review is %+v", r)
	}
	if !c.LastReview.Equal(c.Reviews[1].At) {
		t.Errorf("the last review was at %v", c.LastReview)
	}
	if d := cards[3].DueAt; !d.Equal(time.Unix(1700000000, 0)) {
		t.Errorf("the card on its steps is due at %v", d)
	}
}

func TestFilteredDeck(t *testing.T) {
	b := old(t, note(1, "g", 1, "", "Q\x1fA\x1f"), card(10, 1, 6, 0, 2, 2, -100000, 30, ""),
		"UPDATE cards SET odid = 5, odue = 77")
	cards, _, err := read(t, b, Options{})
	if err != nil || len(cards) != 1 || cards[0].Deck != "A::B" || cards[0].Due != start+77 {
		t.Errorf("%+v, %v", cards, err)
	}
}

// The first scheduler had three buttons for cards being learned
// (rslib/src/storage/revlog/v2_upgrade.sql).
func TestOldButtons(t *testing.T) {
	b := old(t, `UPDATE col SET conf = '{}'`, note(1, "g", 1, "", "Q\x1fA\x1f"), card(10, 1, 5, 0, 2, 2, 1, 30, ""),
		review(1600000000001, 10, 1, 0), review(1600000000002, 10, 2, 0), review(1600000000003, 10, 3, 2),
		review(1600000000004, 10, 3, 1), review(1600000000005, 10, 4, 1))
	cards, _, err := read(t, b, Options{})
	if err != nil || len(cards) != 1 {
		t.Fatalf("%v, %v", cards, err)
	}
	var got []int
	for _, r := range cards[0].Reviews {
		got = append(got, r.Ease)
	}
	if want := []int{1, 3, 4, 3, 4}; !slices.Equal(got, want) {
		t.Errorf("the answers are %v, want %v", got, want)
	}
}

// field encodes a field of a protobuf message: bytes or a number.
func field(number int, value any) []byte {
	switch v := value.(type) {
	case string:
		return append(append(binary.AppendUvarint(nil, uint64(number<<3|2)),
			binary.AppendUvarint(nil, uint64(len(v)))...), v...)
	case int:
		return binary.AppendUvarint(binary.AppendUvarint(nil, uint64(number<<3)), uint64(v))
	}
	return nil
}

// modern returns a package of schema 18 as Anki writes it, with an old database beside it that only
// asks for an update.
func modern(t testing.TB, more ...any) []byte {
	t.Helper()
	statements := []any{schema, "INSERT INTO col VALUES (1, 1577851200, 0, 0, 18, 0, 0, 0, '', '', '', '', '')",
		`CREATE TABLE fields (ntid integer NOT NULL, ord integer NOT NULL, name text NOT NULL COLLATE unicase, config blob NOT NULL, PRIMARY KEY (ntid, ord)) without rowid`,
		"CREATE UNIQUE INDEX idx_fields_name_ntid ON fields (name, ntid)",
		`CREATE TABLE templates (ntid integer NOT NULL, ord integer NOT NULL, name text NOT NULL COLLATE unicase, mtime_secs integer NOT NULL, usn integer NOT NULL, config blob NOT NULL, PRIMARY KEY (ntid, ord)) without rowid`,
		"CREATE UNIQUE INDEX idx_templates_name_ntid ON templates (name, ntid)",
		`CREATE TABLE notetypes (id integer NOT NULL PRIMARY KEY, name text NOT NULL COLLATE unicase, mtime_secs integer NOT NULL, usn integer NOT NULL, config blob NOT NULL)`,
		"CREATE UNIQUE INDEX idx_notetypes_name ON notetypes (name)",
		`CREATE TABLE decks (id integer PRIMARY KEY NOT NULL, name text NOT NULL COLLATE unicase, mtime_secs integer NOT NULL, usn integer NOT NULL, common blob NOT NULL, kind blob NOT NULL)`,
		"CREATE UNIQUE INDEX idx_decks_name ON decks (name)",
		"CREATE TABLE config (KEY text NOT NULL PRIMARY KEY, usn integer NOT NULL, mtime_secs integer NOT NULL, val blob NOT NULL) without rowid",
		"INSERT INTO config VALUES ('schedVer', 0, 0, '2'), ('creationOffset', 0, 0, '-480'), ('curDeck', 0, 0, '1')",
		[]any{"INSERT INTO notetypes VALUES (1, 'Basic', 0, 0, ?), (2, 'Cloze', 0, 0, ?)",
			append(field(3, "css"), field(1, 0)...), append(field(1, 1), field(3, "css")...)},
		"INSERT INTO fields VALUES (1, 1, 'Back', ''), (1, 0, 'Front', ''), (1, 2, 'Extra', ''), (2, 0, 'Text', ''), (2, 1, 'More', '')",
		[]any{"INSERT INTO templates VALUES (1, 0, 'Card 1', 0, 0, ?), (2, 0, 'Cloze', 0, 0, ?)",
			append(field(1, "{{Front}}"), field(2, "{{FrontSide}}<hr id=answer>{{Back}}<br>{{Extra}}")...),
			append(field(1, "{{cloze:Text}}"), field(2, "{{cloze:Text}}")...)},
		"INSERT INTO decks VALUES (1, 'Default', 0, 0, '', ''), (5, 'A' || char(31) || 'B', 0, 0, '', '')"}
	update := database(t, schema, "INSERT INTO col VALUES (1, 1, 0, 0, 11, 0, 0, 0, '{}', '{}', '{}', '{}', '{}')",
		note(1, "x", 1, "", "Please update\x1f"), card(1, 1, 1, 0, 0, 0, 0, 0, ""))
	return zipped(t, entry{"meta", field(1, 3)}, entry{"collection.anki21b",
		compressed(t, database(t, append(statements, more...)...))}, entry{"collection.anki2", update},
		entry{"media", compressed(t, nil)})
}

func TestModernSchema(t *testing.T) {
	cards, bad, err := read(t, modern(t,
		note(1600000000123, "g1", 1, "", "Q\x1fA\x1fE"), card(10, 1600000000123, 5, 0, 2, 2, 300, 30,
			`{"s":3.5,"d":4.25,"lrt":1599999999,"cd":"{\"learn\":\"done\"}"}`), review(1650000000000, 10, 3, 1),
		note(1600000000124, "g2", 2, "", "a {{c1::b}}\x1f"), card(12, 1600000000124, 1, 0, 3, 1, 1700000000, 5, "")),
		Options{})
	if err != nil || len(bad) > 0 || len(cards) != 2 {
		t.Fatalf("%d cards, bad %v, %v", len(cards), bad, err)
	}
	if c := cards[0]; c.Question != "Q" || c.Answer != "A\nE" || c.Deck != "A::B" || c.Due != start+300 ||
		c.Stability != 3.5 || c.Difficulty != 4.25 || c.Mark != "done" || len(c.Reviews) != 1 ||
		c.LastReview.Unix() != 1599999999 {
		t.Errorf("the first card is %+v", c)
	}
	if c := cards[1]; c.Question != "a […]" || c.Answer != "a b" || c.Phase != Relearning || c.Deck != "" {
		t.Errorf("the second card is %+v", c)
	}
}

var han = regexp.MustCompile(`\p{Han}`)

func TestBadCards(t *testing.T) {
	huge := strings.Repeat("x", 600_000)
	_, bad, err := read(t, old(t,
		card(10, 404, 1, 0, 0, 0, 0, 0, ""),
		note(1, "g1", 77, "", "Q\x1fA"), card(11, 1, 1, 0, 0, 0, 0, 0, ""),
		note(2, "g2", 1, "", "<img>\x1f\x1f"), card(12, 2, 1, 0, 0, 0, 0, 0, ""),
		note(3, "g3", 1, "", "  <br>\x1fA\x1f"), card(13, 3, 1, 0, 0, 0, 0, 0, ""),
		note(4, "g4", 1, "", "Q\x1f"+huge+"\x1f"+huge), card(14, 4, 1, 0, 0, 0, 0, 0, ""),
		note(5, "g5", 1, "", "fine\x1fthis one\x1f"), card(15, 5, 1, 0, 0, 0, 0, 0, ""),
	), Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"note is missing", "note type is missing", "no words on its back", "no words on its front",
		"1 MiB"}
	if len(bad) != len(want) {
		t.Fatalf("bad are %v", bad)
	}
	for i, w := range want {
		if !strings.Contains(bad[i].Why.Error(), w) || bad[i].Row != i+1 ||
			!han.MatchString(i18n.Localize(bad[i].Why, i18n.Chinese)) {
			t.Errorf("%+v does not say %q, or not in Chinese", bad[i], w)
		}
	}
}

func TestLimitsOfCards(t *testing.T) {
	b := old(t, note(1, "g", 1, "", "Q\x1fA\x1f"), card(10, 1, 1, 0, 0, 0, 0, 0, ""), card(11, 1, 1, 1, 0, 0, 0, 0, ""))
	var many *TooManyError
	if _, _, err := read(t, b, Options{MaxCards: 1}); !errors.As(err, &many) || many.Max != 1 {
		t.Errorf("with a limit of 1: %v", err)
	}
	if cards, _, err := read(t, b, Options{MaxCards: 2}); err != nil || len(cards) != 2 {
		t.Errorf("with a limit of 2: %d, %v", len(cards), err)
	}
	stop := errors.New("enough")
	if err := Read(t.Context(), bytes.NewReader(b), int64(len(b)), Options{Temp: t.TempDir()},
		func(Card) error { return stop }); err != stop {
		t.Errorf("the caller's error came back as %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Read(ctx, bytes.NewReader(b), int64(len(b)), Options{Temp: t.TempDir()},
		func(Card) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of the context: %v", err)
	}
	done := 0
	if _, _, err := read(t, b, Options{Progress: func(n, total int) { done = n*10 + total }}); err != nil ||
		done != 22 {
		t.Errorf("progress was %d, %v", done, err)
	}
}

// Packages may be hostile.
func TestHostile(t *testing.T) {
	good := old(t, note(1, "g", 1, "", "Q\x1fA\x1f"), card(10, 1, 1, 0, 0, 0, 0, 0, ""))
	base := []any{schema, "INSERT INTO col VALUES (1, 1, 0, 0, 11, 0, 0, 0, '{}', '{}', '{}', '{}', '{}')"}
	with := func(more ...any) []byte {
		return zipped(t, entry{"collection.anki2", database(t, append(slices.Clone(base), more...)...)})
	}
	flip := slices.Clone(database(t, append(slices.Clone(base), note(1, "g", 1, "", strings.Repeat("Q", 9000)),
		card(10, 1, 1, 0, 0, 0, 0, 0, ""))...))
	for i := 4096; i < len(flip); i += 7 {
		flip[i] ^= 0x55
	}
	for name, c := range map[string]struct {
		b    []byte
		says string
	}{
		"empty":                {nil, "no ZIP"},
		"text":                 {[]byte("hello"), "no ZIP"},
		"cut off":              {good[:len(good)/2], "no ZIP"},
		"without a collection": {zipped(t, entry{"media", nil}), "no collection"},
		"a path upwards": {zipped(t, entry{"collection.anki2", nil}, entry{"../../etc/passwd", nil}),
			"unpack to"},
		"an absolute path": {zipped(t, entry{"/etc/passwd", nil}), "unpack to"},
		"two collections": {zipped(t, entry{"collection.anki2", nil}, entry{"collection.anki2", nil}),
			"two files"},
		"no database": {zipped(t, entry{"collection.anki2", []byte(strings.Repeat("no database ", 1000))}),
			"damaged"},
		"no zstd":           {zipped(t, entry{"collection.anki21b", []byte("no zstd at all")}), "damaged"},
		"an empty database": {zipped(t, entry{"collection.anki2", nil}), "no table"},
		"broken pages":      {zipped(t, entry{"collection.anki2", flip}), "damaged"},
		"another database":  {database(t, "CREATE TABLE other (id)"), "no table"},
		"half a database":   {flip[:5000], "damaged"},
		"a view": {with("DROP TABLE notes",
			"CREATE VIEW notes AS WITH RECURSIVE n(id) AS (SELECT 1 UNION ALL SELECT id+1 FROM n) SELECT id, 'g' AS guid FROM n"), "is none"},
		"a computed column": {with("DROP TABLE revlog",
			"CREATE TABLE revlog (id, cid, ease, ivl, lastIvl, factor, time, type AS (hex(zeroblob(1000000))))"),
			"is none"},
		"missing columns":    {with("DROP TABLE cards", "CREATE TABLE cards (id)"), "no such column"},
		"models are no JSON": {with("UPDATE col SET models = '[[['"), "note types"},
		"decks are no JSON":  {with("UPDATE col SET decks = '7'"), "decks"},
		"no col":             {with("DELETE FROM col"), "damaged"},
		"a bomb in a column": {with("UPDATE col SET models = zeroblob(40000000)"), "damaged"},
		"broken protobuf":    {modern(t, "UPDATE templates SET config = x'ffffffffffffffffffffff'"), "protobuf"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, _, err := read(t, c.b, Options{}); !errors.Is(err, ErrBroken) ||
				!strings.Contains(err.Error(), c.says) || !han.MatchString(i18n.Localize(err, i18n.Chinese)) {
				t.Errorf("it says %v, want %q, and in Chinese too", err, c.says)
			}
		})
	}
}

// Values of an unexpected type cost at most their own card.
func TestWrongTypes(t *testing.T) {
	b := old(t, note(1, "g", 1, "", "Q\x1fA\x1f"), card(10, 1, 1, 0, 2, 2, 0, 0, ""),
		"PRAGMA writable_schema=on", "UPDATE sqlite_schema SET sql = replace(sql, 'NOT NULL', '') WHERE type = 'table'",
		"PRAGMA writable_schema=reset",
		"INSERT INTO cards VALUES (11, 1, 'x', NULL, NULL, NULL, 'two', x'ff', 9e99, -9223372036854775808, NULL, NULL, 'many', NULL, NULL, NULL, NULL, NULL)",
		"INSERT INTO cards VALUES (12, 1, 1, 9223372036854775807, 0, 0, 2, 2, 9223372036854775807, 1e300, 1e300, 1e300, 1e300, 0, 0, 0, 0, x'00ff')",
		"INSERT INTO cards VALUES (13, 1, 1, 0, 0, 0, 2, 2, 9223372036854775807, 1e300, 1e300, 1e300, 1e300, 0, 0, 0, 0, '{\"s\":1e999,\"d\":[],\"lrt\":9e18,\"cd\":\"[\"}')",
		"INSERT INTO revlog VALUES (-5, 10, 0, 3, 1, 1, 1, 1, 1), (9223372036854775807, 10, 0, 3, 1, 1, 1, 1, 1), (5, 10, NULL, 'x', NULL, NULL, NULL, -1, NULL), (6, NULL, 0, 2, 0, 0, 0, 0, 0)")
	cards, bad, err := read(t, b, Options{})
	if err != nil || len(cards)+len(bad) != 4 {
		t.Fatalf("%d cards, bad %v, %v", len(cards), bad, err)
	}
	if len(cards[0].Reviews) != 0 {
		t.Errorf("impossible reviews are %v", cards[0].Reviews)
	}
	if c := cards[len(cards)-1]; c.Stability != 0 || c.Interval > 1<<31 || !c.LastReview.IsZero() {
		t.Errorf("the last card is %+v", c)
	}
}

// The archive's directory is held in memory, so its size is limited.
func TestManyEntries(t *testing.T) {
	if testing.Short() {
		t.Skip("writes an archive with 400,000 entries")
	}
	header := make([]byte, 46+1)
	binary.LittleEndian.PutUint32(header, 0x02014b50)
	binary.LittleEndian.PutUint16(header[28:], 1)
	header[46] = 'x'
	b := bytes.Repeat(header, 400_000)
	end := make([]byte, 22)
	binary.LittleEndian.PutUint32(end, 0x06054b50)
	binary.LittleEndian.PutUint16(end[10:], uint16(400_000%65536))
	binary.LittleEndian.PutUint32(end[12:], uint32(len(b)))
	if _, _, err := read(t, append(b, end...), Options{}); !errors.Is(err, ErrBroken) ||
		!strings.Contains(err.Error(), "list of contents") {
		t.Errorf("it says %v", err)
	}
}

// The size that a package claims is not trusted.
func TestBomb(t *testing.T) {
	temp := t.TempDir()
	if _, err := copyOut(t.Context(), zeros{}, "collection.anki21b", temp, 3<<20); !errors.Is(err, ErrBroken) ||
		!strings.Contains(err.Error(), "3 MiB") {
		t.Errorf("it says %v", err)
	}
	if left, _ := os.ReadDir(temp); len(left) > 0 {
		t.Errorf("%d temporary files are left", len(left))
	}
	b := zipped(t, entry{"collection.anki2", nil})
	at := bytes.LastIndex(b, []byte("PK\x01\x02"))
	binary.LittleEndian.PutUint32(b[at+24:], 1<<31)
	if _, _, err := read(t, b, Options{}); !errors.Is(err, ErrBroken) || !strings.Contains(err.Error(), "1024 MiB") {
		t.Errorf("of a package that announces 2 GiB it says %v", err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestPeersFile(t *testing.T) {
	b, err := os.ReadFile("testdata/anki-apkg-export.apkg")
	if err != nil {
		t.Fatal(err)
	}
	checkPeers(t, b)
}
