package transfer

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/korean"
	"golang.org/x/text/encoding/traditionalchinese"

	"patchbay/internal/store"
)

func TestGolden(t *testing.T) {
	o := WriteOptions{Decks: []Deck{{Name: "语言", Settings: []byte(`{"retention":0.9}`)}, {Name: "语言::法语"}}}
	for _, format := range []string{JSON, CSV, Markdown} {
		golden(t, "items."+format, write(t, format, o, samples()...))
	}
}

func TestJSONKeepsEverything(t *testing.T) {
	var decks []Deck
	text := write(t, JSON, WriteOptions{Decks: []Deck{{Name: "语言", Settings: []byte(`{"retention":0.9}`)}}},
		samples()...)
	items, bad, err := read(t, "", text, ReadOptions{Decks: func(d Deck) error {
		decks = append(decks,
			d)
		return nil
	}})
	if err != nil || len(bad) > 0 {
		t.Fatal(bad, err)
	}
	same(t, items, samples())
	if len(decks) != 1 || decks[0].Name != "语言" || string(decks[0].Settings) != `{"retention":0.9}` {
		t.Errorf("decks are %v", decks)
	}
	odd := Item{Question: " a\r\nb ", Answer: "\tx\n", InPlan: true}
	items, _, err = read(t, JSON, write(t, JSON, WriteOptions{}, odd), ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	same(t, items, []Item{odd})
	if again := write(t, JSON, WriteOptions{}); !strings.Contains(again, `"points": [`) {
		t.Errorf("a file without items is %q", again)
	} else if items, _, err := read(t, JSON, again, ReadOptions{}); err != nil || len(items) > 0 {
		t.Errorf("and comes back as %v, %v", items, err)
	}
}

func TestPlainJSON(t *testing.T) {
	items, bad, err := read(t, "", "\ufeff"+
		`[{"question":"q1","answer":"a1"},{"question":"q2","answer":"a2","tags":["b","a","b"," "],"deck":" D :: E "},
		{"question":"q3","answer":"a3","tags":"x y"},{"question":7,"answer":"a"},"text",{"question":"q"},{"question":" ","answer":"x"},{"question":"q4","answer":"a4","id":"not-a-uuid"},
		{"question":"q5","answer":"a5","created_at":"yesterday"}]`, ReadOptions{Deck: "Inbox"})
	if err != nil {
		t.Fatal(err)
	}
	same(t, items, []Item{{Question: "q1", Answer: "a1", Deck: "Inbox", InPlan: true},
		{Question: "q2", Answer: "a2", Deck: "D::E", Tags: []string{"a", "b"}, InPlan: true},
		{Question: "q3", Answer: "a3", Deck: "Inbox", Tags: []string{"x", "y"}, InPlan: true},
		{Question: "q4", Answer: "a4", Deck: "Inbox", Origin: "json:not-a-uuid", InPlan: true}})
	for i, want := range []struct {
		row int
		why string
	}{{4, "question cannot be a number"}, {5, "should be an object"}, {6, `needs "question" and "answer"`}, {7,
		"question is empty"}, {9, "parsing time"}} {
		if i >= len(bad) || bad[i].Row != want.row || !strings.Contains(bad[i].Why, want.why) {
			t.Errorf("fault %d of %v should be %v", i, bad, want)
		}
	}
}

func TestBrokenJSON(t *testing.T) {
	for text, says := range map[string]string{
		``:                       "ends in the middle",
		`{`:                      "ends in the middle",
		`[{"question":"q"`:       "ends in the middle",
		`[{"question":"q",}]`:    "no valid JSON at byte",
		`7`:                      "neither a JSON object",
		`{"a":1}`:                `no "points"`,
		`{"points":7}`:           "an array should begin",
		`{"patchbay_learn":2}`:   "later version",
		`{"patchbay_learn":"x"}`: "string in a place",
		"[\"\xff\"]":             "not UTF-8",
	} {
		if _, _, err := read(t, JSON, text, ReadOptions{}); !errors.Is(err, ErrUnreadable) ||
			!strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", text, err, says)
		}
	}
	items, _, err := read(t, JSON, `[{"question":"q","answer":"a"},{"question"`, ReadOptions{})
	if len(items) != 1 || err == nil {
		t.Errorf("what came before the end is %v, %v", items, err)
	}
}

func TestLimits(t *testing.T) {
	text := "question,answer\n" + strings.Repeat("q,a\n", 10)
	var many *TooManyError
	items, _, err := read(t, CSV, text, ReadOptions{MaxItems: 9})
	if !errors.As(err, &many) || many.Max != 9 || len(items) != 9 {
		t.Errorf("%d items of at most 9, %v", len(items), err)
	}
	if items, _, err = read(t, CSV, text, ReadOptions{MaxItems: 10}); err != nil || len(items) != 10 {
		t.Errorf("%d items of at most 10, %v", len(items), err)
	}
	if _, err := Read(t.Context(), JSON, nil, MaxSize+1, ReadOptions{}, nil); !errors.Is(err, ErrUnreadable) {
		t.Errorf("a file that is too large: %v", err)
	}
	long := strings.Repeat("x", MaxText+1)
	items, bad, err := read(t, JSON, `[{"question":"`+long+`","answer":"a"},{"question":"q","answer":"`+long+
		`"},{"question":"q","answer":"a","tags":["`+strings.Repeat("y", MaxTag+1)+`"]}]`, ReadOptions{})
	if err != nil || len(items) != 1 || len(items[0].Tags) > 0 || len(bad) != 2 || len(bad[0].What) > 100 {
		t.Errorf("long texts: %d items, bad %v, %v", len(items), bad, err)
	}
	_, bad, err = read(t, CSV, "question,answer\n"+strings.Repeat("q,\n", 2*MaxRowErrors), ReadOptions{})
	if err != nil || len(bad) != MaxRowErrors || !strings.Contains(bad[MaxRowErrors-1].Why, "ends here") {
		t.Errorf("%d faults are told, %v", len(bad), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, format := range []string{JSON, Rows, CSV, Markdown, Anki} {
		b := []byte("[]")
		if format == Anki {
			b = []byte(write(t, Anki, WriteOptions{}, samples()...))
		}
		if _, err := Read(ctx, format, bytes.NewReader(b), int64(len(b)), ReadOptions{},
			func(Item) error { return nil }); !errors.Is(err, context.Canceled) {
			t.Errorf("%s after the end of its context: %v", format, err)
		}
	}
	stop := errors.New("stop")
	if _, err := Read(t.Context(), CSV, strings.NewReader(text), int64(len(text)), ReadOptions{},
		func(Item) error { return stop }); err != stop {
		t.Errorf("the caller's error came back as %v", err)
	}
	for _, format := range []string{Rows, "xml", ""} {
		if _, err := NewWriter(format, nil, WriteOptions{}); !errors.Is(err, ErrFormat) {
			t.Errorf("writing %q: %v", format, err)
		}
	}
	if _, _, err := read(t, "xml", "x", ReadOptions{}); !errors.Is(err, ErrFormat) {
		t.Errorf("reading xml: %v", err)
	}
	if _, _, err := read(t, "", "nothing in particular", ReadOptions{}); !errors.Is(err, ErrUnreadable) {
		t.Errorf("reading anything: %v", err)
	}
}

func TestProgress(t *testing.T) {
	text := "question,answer\n" + strings.Repeat("q,"+strings.Repeat("a", 1000)+"\n", 3000)
	calls, last := 0, 0
	if _, _, err := read(t, CSV, text, ReadOptions{Progress: func(done, total int) {
		if calls++; done <= last || total != len(text) {
			t.Errorf("%d of %d after %d", done, total, last)
		}
		last = done
	}}); err != nil || calls < 3 || last != len(text) {
		t.Errorf("%d calls, the last with %d of %d, %v", calls, last, len(text), err)
	}
}

func TestDetect(t *testing.T) {
	for _, c := range []struct{ name, head, want string }{
		{"x.apkg", "", Anki}, {"x.colpkg", "PK\x03\x04", Anki}, {"", "PK\x03\x04", Anki}, {`C:\x.APKG`, "", Anki},
		{"", `{"patchbay_learn":1,"user_id":1}`, JSON}, {"x.json", "", JSON}, {"", ` [{"question":"q"}]`, JSON},
		{"x.json", `[{"id":"1","user_id":"2","question":"q"}]`, Rows}, {"", `{"review_schedules":[]}`, Rows},
		{"x.csv", "id,knowledge_point_id,user_id,review_date\n", Rows},
		{"x.csv", "id,user_id,question,answer,created_at\n", Rows},
		{"x.csv", "a,b\n", CSV}, {"", "question,answer\n", CSV}, {"x.txt", "#separator:tab\n#html:true\nq\ta", CSV},
		{"notes.txt", "a\tb\n", CSV}, {"", "\xff\xfeq\x00", ""},
		{"x.md", "", Markdown}, {"x.txt", "# D\n## q\na", Markdown}, {"", "Q: x\nA: y", Markdown},
		{"", "x :: y", Markdown}, {"", "问题,答案\n", CSV},
		{"collection.anki2", "", Anki}, {"", "SQLite format 3\x00", Anki}, {"x.db", "SQLite format 2", ""},
		{"x.txt", "just words", ""}, {"", "", ""}, {"x.bin", "\x00\x01", ""},
	} {
		if got := Detect(c.name, []byte(c.head)); got != c.want {
			t.Errorf("%q %q is %q, want %q", c.name, c.head, got, c.want)
		}
	}
}

// Spreadsheets write other encodings than UTF-8, in China GBK.
func TestEncodings(t *testing.T) {
	ascii := strings.Repeat("question,answer,deck\nq,a,d\n", 20000)
	for _, c := range []struct{ text, encoding, question, answer string }{
		{"question,answer\n\xb7\xa8\xb9\xfa,\xb0\xcd\xc0\xe8\n", "GBK (GB18030)", "法国", "巴黎"},
		{"\xcc\xe2\xc4\xbf,\xb4\xf0\xb0\xb8\r\n\xb7\xa8\xb9\xfa,\xb0\xcd\xc0\xe8\r\n", "GBK (GB18030)", "法国", "巴黎"}, // 题目,答案
		{ascii + "\xb7\xa8\xb9\xfa,\xb0\xcd\xc0\xe8\n", "GBK (GB18030)", "法国", "巴黎"},
		{"q,a\n\xb5\xda\xd2\xbb\xb8\xf6\xb9\xfa\xbc\xd2\x81\x30\x84\x36,\xb5\xda\xd2\xbb\xb8\xf6\xb9\xfa\xbc\xd2", "GBK (GB18030)", "第一个国家¥",
			"第一个国家"},
		{"\xff\xfe" + string(utf16le("question\tanswer\r\n法国\t巴黎\r\n")), "UTF-16", "法国", "巴黎"},
		{"question,answer\n法国,巴黎\n", "", "法国", "巴黎"},
	} {
		got := ""
		items, bad, err := read(t, CSV, c.text, ReadOptions{Encoding: func(name string) { got = name }})
		if err != nil || len(bad) > 0 || got != c.encoding {
			t.Errorf("%.40q: encoding %q, want %q; %v %v", c.text, got, c.encoding, bad, err)
			continue
		}
		if last := items[len(items)-1]; last.Question != c.question || last.Answer != c.answer {
			t.Errorf("%.40q: %q %q", c.text, last.Question, last.Answer)
		}
		if f := Detect("list.txt", []byte(c.text)[:min(len(c.text), 64<<10)]); f != CSV {
			t.Errorf("%.40q is detected as %q", c.text, f)
		}
	}
	// Wherever the first Chinese characters are.
	for _, before := range []int{0, 1000, 4000, 6000, 20000, 200000 / 6, 600000 / 6} {
		text := strings.Repeat("q,abc\n", before) +
			"\xb7\xa8\xb9\xfa,\xb0\xcd\xc0\xe8\xa3\xac\x80\n" +
			strings.Repeat("q,abc\n", 30000)
		items, _, err := read(t, CSV, "question,answer\n"+text, ReadOptions{})
		if err != nil || items[before].Question != "法国" || items[before].Answer != "巴黎，€" {
			t.Errorf("after %d lines: %v", before, err)
		}
	}
	for _, c := range []struct {
		in   encoding.Encoding
		text string
	}{
		{korean.EUCKR, "한국의 수도는?,서울\n일본의 수도는?,도쿄\n물은 무엇인가요?,산소와 수소\n"},
		{japanese.EUCJP, "日本の首都は?,東京です\n水は何ですか,酸素と水素\n"},
		{japanese.ShiftJIS, "日本の首都は?,東京です\n水は何ですか,酸素と水素\n"},
		{traditionalchinese.Big5, "法國的首都,巴黎\n水是什麼,氧和氫\n"},
		{charmap.Windows1251, "вода,хлеб\nмолоко,соль\n"}, {charmap.Windows1253, "νερό,ψωμί\n"},
		{charmap.Windows1252, "für,schöne Prüfung\n"}, {charmap.Windows874, "น้ำ,ไฟ\n"},
	} {
		text, err := c.in.NewEncoder().String(c.text)
		if err != nil {
			t.Fatal(err)
		}
		for _, times := range []int{1, 20} {
			items, _, err := read(t, CSV, "question,answer\n"+strings.Repeat(text, times), ReadOptions{})
			if err == nil {
				t.Errorf("%v is read as %q", c.in, items[0].Question)
			}
		}
	}
	for _, text := range []string{
		"question,answer\n" + strings.Repeat("für,schöne Prüfung\n", 20) + "T\xfcr,x\n", // UTF-8 with an error
		"\ufeffquestion,answer\n\xb7\xa8\xb9\xfa,\xb0\xcd\xc0\xe8\n",
		"question,answer\ncaf\xe9,\xe9 \n", "question,answer\nf\xfcr wen,dich\n", "q,a\nT\xfcr,gro\xdfe T\xfcr\n",
		ascii + "caf\xe9", // its last byte may begin a character
		"q,a\n\xb7\xa8\xb9\xfa\xff,x",
		"q,a\n" + strings.Repeat("\xb7\xa8\xb9\xfa,\xb0\xcd\xc0\xe8\n", maxDecoded/8),
	} {
		if _, _, err := read(t, CSV, text, ReadOptions{}); !errors.Is(err, ErrUnreadable) ||
			!strings.Contains(err.Error(), "not UTF-8") || !strings.Contains(err.Error(), "CSV UTF-8") {
			t.Errorf("%.40q: %v", text, err)
		}
	}
	// Characters at buffer boundaries stay whole.
	for shift := range 4 {
		text := strings.Repeat("x", shift) + strings.Repeat("汉字🎌", 60000)
		if at, err := notUTF8(t.Context(), strings.NewReader(text), int64(len(text))); err != nil || at >= 0 {
			t.Errorf("shifted by %d: %d, %v", shift, at, err)
		}
	}
}

func utf16le(text string) (out []byte) {
	for _, unit := range utf16.Encode([]rune(text)) {
		out = append(out, byte(unit), byte(unit>>8))
	}
	return out
}

func TestAnkiRoundTrip(t *testing.T) {
	zone := ReadOptions{Zone: shanghai, DayStart: 4 * 3600e9}
	wo := WriteOptions{Zone: shanghai, DayStart: 4 * 3600e9}
	done := samples()[0]
	done.Origin, done.ID, done.Kin, done.InPlan, done.Suspended = "anki:g<1>:0", "", "", false, true
	done.Card = &store.Card{Phase: store.Done, Stability: 40, Difficulty: 3, Due: store.DateOf(now), Reps: 4,
		LastAt: now, LastDay: store.DateOf(now)}
	done.Created, done.History = now.Add(time.Minute), nil
	further := samples()[2]
	further.Origin, further.Created = "anki:g<1>:1", now.Add(2*time.Minute)
	other := Item{Origin: "md:x", Question: "q", Answer: "a", InPlan: true, Suspended: true,
		Created: now.Add(3 * time.Minute)}
	want := append(samples(), done, further, other)
	got, bad, err := read(t, Anki, write(t, Anki, wo, want...), zone)
	if err != nil || len(bad) > 0 || len(got) != len(want) {
		t.Fatalf("%d items, bad %v, %v", len(got), bad, err)
	}
	for i := range want {
		w, g := want[i], got[i]
		// Fields that Anki cannot store.
		w.Sittings, w.Tags, g.Tags = nil, nil, nil
		var history []store.LogEntry
		for _, e := range w.History {
			if e.Kind == store.LogReview {
				e.ID, e.Score, e.Recall = "", -1, ""
				if e.Grade == store.Ungraded {
					e.Grade = store.Good
				}
				history = append(history, e)
			}
		}
		w.History = history
		for j := range g.History {
			g.History[j].ID, g.History[j].Source = "", ""
		}
		if w.Card != nil {
			card := *w.Card
			card.Buried = 0
			w.Card = &card
		}
		switch {
		case w.ID != "" && w.Origin == "":
			w.Origin = "learn:" + w.ID
		case w.Origin == "":
			w.Origin, w.ID = g.Origin, g.ID
		}
		w.Created, w.Updated, g.Created, g.Updated = now, now, now, now
		same(t, []Item{g}, []Item{w})
	}
	again := write(t, Anki, wo, samples()...)
	twice, _, err := read(t, Anki, again, zone)
	if err != nil || twice[2].Origin != got[2].Origin || !strings.HasPrefix(got[2].Origin, "learn:") {
		t.Errorf("an item without a name is called %q and %q, %v", got[2].Origin, twice[2].Origin, err)
	}
}

func TestDamagedPackage(t *testing.T) {
	b := write(t, Anki, WriteOptions{}, samples()...)
	if _, _, err := read(t, "", b[:len(b)-30], ReadOptions{}); !errors.Is(err, ErrUnreadable) {
		t.Errorf("half a package: %v", err)
	}
	var many *TooManyError
	if _, _, err := read(t, "", b, ReadOptions{MaxItems: 1}); !errors.As(err, &many) {
		t.Errorf("a package with too many cards: %v", err)
	}
}

// The cost of a row depends on its cells, not on the header, which may have as many columns as the
// file has bytes.
func TestRowsCostNoHeader(t *testing.T) {
	rows := strings.Repeat("q,a\n", 8000)
	took := func(columns int) time.Duration {
		start := time.Now()
		items, _, err := read(t, CSV, "question,answer"+strings.Repeat(",", columns)+"\n"+rows, ReadOptions{})
		if err != nil || len(items) != 8000 {
			t.Fatalf("%d items, %v", len(items), err)
		}
		return time.Since(start)
	}
	// A search through all columns for each row took a hundred times as long.
	if few, many := took(1), took(64<<10); many > 20*few+2*time.Second {
		t.Errorf("%v with 3 columns, %v with 65,000", few, many)
	}
}
