package transfer

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"patchbay/internal/store"
)

func TestCSV(t *testing.T) {
	item := func(q, a, deck string, tags ...string) Item {
		return Item{Question: q, Answer: a, Deck: deck, Tags: tags, InPlan: true}
	}
	for name, c := range map[string]struct {
		text string
		want []Item
	}{
		"with a header":    {"question,answer,deck,tags\nq,a,D,x y\n", []Item{item("q", "a", "D", "x", "y")}},
		"in another order": {"Tags,Back,Front\n\"b,a\",a,q\n", []Item{item("q", "a", "", "a", "b")}},
		"in Chinese":       {"\ufeff问题,答案,标签\n法国的首都,巴黎,地理、欧洲\n", []Item{item("法国的首都", "巴黎", "", "地理", "欧洲")}},
		"without a header": {"word,meaning\nq,a\n", []Item{item("word", "meaning", ""), item("q", "a", "")}},
		"semicolons":       {"question;answer\n\"a;b\";c,d\n", []Item{item("a;b", "c,d", "")}},
		"tabs and quotes":  {"5\" disk\tbig\nq\t\"a\"\n", []Item{item(`5" disk`, "big", ""), item("q", "a", "")}},
		"letters to learn": {"a,apple\nb,bee\n", []Item{item("a", "apple", ""), item("b", "bee", "")}},
		"letters as names": {"Q,A\nb,bee\n", []Item{item("b", "bee", "")}},
		"sep=":             {"sep=;\r\nquestion;answer\r\nq;a\r\n", []Item{item("q", "a", "")}},
		"lines in cells": {"question,answer\r\n\"q\r\n2\",\"a \"\"b\"\"\n\nc\"\r\n",
			[]Item{item("q\n2", "a \"b\"\n\nc", "")}},
		"blank lines": {"question,answer\n\n,\nq,a", []Item{item("q", "a", "")}},
		"formulas":    {"question,answer\n'=1+1,'-1\n", []Item{item("=1+1", "-1", "")}},
		"short rows":  {"question,answer,deck\nq,a\n", []Item{item("q", "a", "")}},
		"empty":       {"", nil},
		"Anki's text": {"#separator:tab\n#html:true\n#tags column:3\nq <b>x</b>\ta<br>b\tone two\n\"l\"\"1\"\"\"\ta&amp;b\t\n", []Item{item("q **x**", "a\nb", "", "one", "two"), item(`l"1"`, "a&b", "")}},
		"Anki's text in full": {"#separator:Semicolon\n#html:false\n#guid column:1\n#notetype column:2\n#deck column:3\n#tags column:7\nG;Basic;A::B;q;a1;a2;t\n",
			[]Item{{Question: "q", Answer: "a1\n\na2", Deck: "A::B", Tags: []string{"t"},
				Origin: "anki:G:0", InPlan: true}}},
		"one deck and tags":   {"#separator:,\n#deck:D\n#tags:x y\nq,a\n", []Item{item("q", "a", "D", "x", "y")}},
		"a hash is no option": {"question,answer\n#1,a\n", []Item{item("#1", "a", "")}},
		"ids and times": {"id,question,answer,created_at,in_plan,suspended\n" + strings.ToUpper(id1) +
			",q,a,2026/11/21 8:00,否,true\n",
			[]Item{{ID: id1, Question: "q", Answer: "a", Created: time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC),
				Suspended: true}}},
	} {
		t.Run(name, func(t *testing.T) {
			got, bad, err := read(t, CSV, c.text, ReadOptions{Zone: shanghai})
			if err != nil || len(bad) > 0 {
				t.Fatal(bad, err)
			}
			same(t, got, c.want)
		})
	}
}

func TestBadCSV(t *testing.T) {
	for text, says := range map[string]string{
		"question,deck\nq,d":    `call one "answer"`,
		"a\nb":                  "1 columns",
		"a,b,c\nd,e,f":          "3 columns",
		"answer,meaning\nx,y\n": `call one "question"`,
	} {
		if _, _, err := read(t, CSV, text, ReadOptions{}); !errors.Is(err, ErrUnreadable) ||
			!strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", text, err, says)
		}
	}
	items, bad, err := read(t, CSV, "question,answer,created_at\n\"a\" b,c\nq,a,soon\nq2,\nq\" 3,a\nq4,a4\n\"open,x\n",
		ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	same(t, items, []Item{{Question: "q", Answer: "a", InPlan: true}, {Question: "q4", Answer: "a4", InPlan: true}})
	for i, want := range []struct {
		row int
		why string
	}{{2, "quote"}, {3, "no time"}, {4, "answer is empty"}, {5, "quote"}, {7, "quote"}} {
		if i >= len(bad) || bad[i].Row != want.row || !strings.Contains(bad[i].Why, want.why) {
			t.Errorf("fault %d of %v should be %v", i, bad, want)
		}
	}
}

// A spreadsheet does not run any cell that we write.
func TestFormulas(t *testing.T) {
	text := write(t, CSV, WriteOptions{}, awkwardItems()...)
	for line := range strings.SplitSeq(text, "\r\n") {
		for _, cell := range splitLoosely(line) {
			if cell != "" && strings.ContainsAny(cell[:1], "=+-@") {
				t.Errorf("%q begins a cell", cell)
			}
		}
	}
}

func TestTags(t *testing.T) {
	for _, tags := range [][]string{nil, {"a"}, {"a", "b"}, {"two words"}, {"a,b"}, {`a\`}, {`a\,b`, "c"}, {"a;b"},
		{"、"}, {"two words", "x"}, {`\`, `\\`}} {
		if got := splitTags(joinTags(tags)); !slices.Equal(cleanTags(got), cleanTags(tags)) {
			t.Errorf("%q came back as %q by way of %q", tags, got, joinTags(tags))
		}
	}
}

func TestMarkdown(t *testing.T) {
	item := func(q, a, deck string, tags ...string) Item {
		return Item{Question: q, Answer: a, Deck: deck, Tags: tags, InPlan: true}
	}
	for name, c := range map[string]struct {
		text string
		want []Item
	}{
		"headings": {"intro\n# D\n\n## q1 #x #y\n\na1\n\n### part\nmore\n## q2\na2\n# E::F\n## q3\na3",
			[]Item{item("q1", "a1\n\n### part\nmore", "D", "x", "y"), item("q2", "a2", "D"), item("q3", "a3", "E::F")}},
		"code": {"## q\n```sh\n# comment\n## more\n```\n## q2\r\na2\r\n",
			[]Item{item("q", "```sh\n# comment\n## more\n```", ""), item("q2", "a2", "")}},
		"open code": {"## q\n```\n# a\n## b", []Item{item("q", "```\n# a\n## b", "")}},
		"escapes":   {"## a \\#b\n\\# x\n\\\\## y\n", []Item{item("a #b", "# x\n\\## y", "")}},
		"C++":       {"## std::vector\nstd::list\n", []Item{item("std::vector", "std::list", "")}},
		"letters": {"# D\nQ: q1 #t\nA: a1\nmore\n\nq：q2\nstill\n**A:** a2\n## Part\n问：什么\n答：这个",
			[]Item{item("q1", "a1\nmore", "D", "t"), item("q2\nstill", "a2", "D"), item("什么", "这个", "D")}},
		"bold letters":    {"**Q:** q\n**A:** a", []Item{item("q", "a", "")}},
		"letters in code": {"Q: q\nA: a\n```\nQ: no\n```\n", []Item{item("q", "a\n```\nQ: no\n```", "")}},
		"inline":          {"#flashcards/lang/fr #other\n## Words\n- le chat :: the cat #animal\nplain\nun::one <!--SR:!2026-01-01,3,250-->\n```\na :: b\n```\n", []Item{item("le chat", "the cat", "lang::fr", "animal"), item("un", "one", "lang::fr")}},
		"both ways": {"a ::: b", []Item{{Question: "a", Answer: "b", Kin: "md:a", InPlan: true},
			{Question: "b", Answer: "a", Kin: "md:a", InPlan: true}}},
		"our own": {marker + "\n# D\n## q\n<!-- learn {\"id\":\"" + id1 +
			"\",\"in_plan\":false} -->\n\na :: b\nQ: x\nA: y\n",
			[]Item{{ID: id1, Question: "q", Answer: "a :: b\nQ: x\nA: y", Deck: "D"}}},
		"edited": {marker +
			"\n## new heading\n<!-- learn {\"question\":\"old <br> heading\",\"answer\":\"old\",\"tags\":[\"a b\"]} -->\nnew\n", []Item{item("new heading", "new", "", "a b")}},
	} {
		t.Run(name, func(t *testing.T) {
			got, bad, err := read(t, Markdown, c.text, ReadOptions{})
			if err != nil || len(bad) > 0 {
				t.Fatal(bad, err)
			}
			same(t, got, c.want)
		})
	}
}

func TestBadMarkdown(t *testing.T) {
	_, bad, err := read(t, Markdown, "\nsome text\n", ReadOptions{})
	if err != nil || len(bad) != 1 || bad[0].Row != 2 || !strings.Contains(bad[0].Why, "no question") {
		t.Errorf("bad %v, %v", bad, err)
	}
	items, bad, err := read(t, Markdown, "## q\n\n## q2\na\n", ReadOptions{})
	if err != nil || len(items) != 1 || len(bad) != 1 || bad[0].Row != 1 || bad[0].What != "q" {
		t.Errorf("items %v, bad %v, %v", items, bad, err)
	}
}

const rowPoints = `{"id":"` + id1 +
	`","user_id":"u","question":"什么是主动回忆？","answer":"回忆","created_at":"2026-11-01T23:30:00.5+00:00","updated_at":"2026-11-02T00:00:00+00:00","embedding":"[0.1,0.2]","is_in_review_plan":true`

const rowSchedules = `{"id":"` + id2 + `","knowledge_point_id":"` + id1 +
	`","user_id":"u","review_date":"2026-11-08","review_number":2,"completed":false,"completed_at":null,"created_at":"2026-11-01T23:30:00+00:00","recall_text":null},
	{"id":"` + id1 + `","knowledge_point_id":"` + id1 + `","user_id":"u","review_date":"2026-11-02","review_number":1,"completed":true,"completed_at":"2026-11-03T08:00:00+00:00","created_at":"2026-11-01T23:30:00+00:00","recall_text":"想起来"}`

func rowItem() Item {
	made := time.Date(2026, 11, 1, 23, 30, 0, 0, time.UTC)
	done := time.Date(2026, 11, 3, 8, 0, 0, 0, time.UTC)
	day := store.DateOf(done)
	return Item{ID: id1, Origin: "learn:" + id1, Question: "什么是主动回忆？", Answer: "回忆",
		Created: made.Add(500 * time.Millisecond), Updated: made.Add(30 * time.Minute), InPlan: true,
		Sittings: []store.Sitting{{ID: id1, Day: day - 1, Number: 1, Completed: done, Created: made, Recall: "想起来"},
			{ID: id2, Day: day + 5, Number: 2, Created: made}},
		History: []store.LogEntry{{ID: id1, Kind: store.LogReview, At: done, Recall: "想起来", Score: -1}}}
}

func TestRows(t *testing.T) {
	onlySittings := rowItem()
	onlySittings.Question, onlySittings.Answer, onlySittings.Created, onlySittings.Updated = "", "", time.Time{},
		time.Time{}
	onlyPoint := rowItem()
	onlyPoint.Sittings, onlyPoint.History = nil, nil
	out := onlyPoint
	out.InPlan, out.Question = false, "a,\"b\"\nc"
	for name, c := range map[string]struct {
		text string
		want Item
	}{
		"two tables": {`{"knowledge_points":[` + rowPoints + `}],"review_schedules":[` + rowSchedules + `]}`,
			rowItem()},
		"schedules first": {`{"review_schedules":[` + rowSchedules + `],"other":{"a":[1]},"knowledge_points":[` +
			rowPoints + `}]}`, rowItem()},
		"points with theirs": {`[` + rowPoints + `,"review_schedules":[` + rowSchedules + `]}]`, rowItem()},
		"schedules with theirs": {`[` + strings.ReplaceAll(rowSchedules, `"user_id":"u"`,
			`"knowledge_points":`+rowPoints+`}`) + `]`, rowItem()},
		"only points":    {`[` + rowPoints + `}]`, onlyPoint},
		"only schedules": {`[` + rowSchedules + `]`, onlySittings},
		"points as CSV": {"\ufeffid,user_id,question,answer,created_at,updated_at,embedding,is_in_review_plan\r\n" +
			id1 + ",u,\"a,\"\"b\"\"\nc\",回忆,2026-11-01 23:30:00.5+00,2026-11-02 00:00:00+00,\"[0.1,0.2]\",false\r\n",
			out},
		"schedules as CSV": {"id,knowledge_point_id,user_id,review_date,review_number,completed,completed_at,created_at,recall_text\n" +
			id2 + "," + id1 + ",u,2026-11-08,2,false,,2026-11-01 23:30:00+00,\n" + id1 + "," + id1 +
			",u,2026-11-02,1,true,2026-11-03 08:00:00+00,2026-11-01 23:30:00+00,想起来\n", onlySittings},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Detect("", []byte(c.text)); got != Rows {
				t.Errorf("it is taken for %q", got)
			}
			got, bad, err := read(t, Rows, c.text, ReadOptions{Zone: shanghai})
			if err != nil || len(bad) > 0 {
				t.Fatal(bad, err)
			}
			same(t, got, []Item{c.want})
		})
	}
}

func TestRowsHistory(t *testing.T) {
	text := `[` + rowPoints + `,"review_schedules":[{"id":"` + id1 +
		`","review_date":"2026-11-02","review_number":1,"completed":true,"completed_at":"2026-11-02T15:00:00+00:00"},
		{"id":"` + id2 + `","review_date":"2026-11-08","review_number":2,"completed":true,"completed_at":null},{"id":"` + id2 + `","review_date":"soon","review_number":3}]}, {"id":"x"}, 7]`
	items, bad, err := read(t, Rows, text, ReadOptions{Zone: shanghai, DayStart: 4 * time.Hour})
	if err != nil || len(items) != 1 || len(items[0].History) != 2 {
		t.Fatal(items, bad, err)
	}
	// 23:00 on the 2nd, and 08:00 on the 8th, in China.
	if h := items[0].History; h[0].Elapsed != 0 || h[1].Elapsed != 6 || h[1].Grade != store.Ungraded ||
		h[1].Score != -1 {
		t.Errorf("the history is %+v", h)
	}
	for i, why := range []string{"not a date", "no row of knowledge_points", "should be an object"} {
		if i >= len(bad) || !strings.Contains(bad[i].Why, why) {
			t.Errorf("fault %d of %v does not say %q", i, bad, why)
		}
	}
	_, bad, err = read(t, Rows, `{"review_schedules":[{"knowledge_point_id":7},{"knowledge_point_id":"`+id1+
		`","review_date":"soon"}]}`, ReadOptions{})
	if err != nil || len(bad) != 2 || !strings.Contains(bad[0].Why, "cannot be a number") ||
		!strings.Contains(bad[1].Why, "not a date") {
		t.Errorf("bad schedules: %v, %v", bad, err)
	}
	for text, says := range map[string]string{`{"a":[]}`: "neither", `{"knowledge_points":{}}`: "array should begin",
		"question,answer\nq,a": "no column id", "[": "ends in the middle"} {
		if _, _, err := read(t, Rows, text, ReadOptions{}); !errors.Is(err, ErrUnreadable) ||
			!strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", text, err, says)
		}
	}
}
