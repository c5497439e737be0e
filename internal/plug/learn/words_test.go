package learn

import (
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"patchbay/internal/store"
)

// Chinese and English words are found, within a sentence too, and only in one's own points.
func TestSearch(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		for _, d := range []Draft{
			{Question: "什么是主动回忆？", Answer: "主动回忆是一种学习技巧：不看答案，先自己回想。", Tags: []string{"学习"}},
			{Question: "What is spaced repetition?", Answer: "Reviewing at growing intervals; Café Müller.",
				Deck: "English"},
			{Question: "光合作用的方程式", Answer: "6CO₂ + 6H₂O → C₆H₁₂O₆ + 6O₂"},
			{Question: "Who wrote Faust?", Answer: "Goethe"},
		} {
			r.add("ada", d)
		}
		for _, c := range []struct{ query, want string }{
			{"主动回忆", "什么是主动回忆？"}, {"回想", "什么是主动回忆？"}, {"忆", "什么是主动回忆？"}, {"repetit", "What is spaced repetition?"},
			{"INTERVALS", "What is spaced repetition?"},
			{"cafe muller", "What is spaced repetition?"}, {"学习", "什么是主动回忆？"}, {"光合", "光合作用的方程式"}, {"6co2", "光合作用的方程式"},
			{"who wrote faust", "Who wrote Faust?"},
			{"请告诉我主动回忆是什么意思呢", "什么是主动回忆？"}, {"how does spaced repetition help my memory", "What is spaced repetition?"},
		} {
			hits, err := r.Search(ctx, "ada", c.query, SearchFilter{Limit: 3})
			r.must(err)
			if len(hits) == 0 || hits[0].Question != c.want {
				t.Errorf("%q finds %+v", c.query, hits)
			}
			if hits, err := r.Search(ctx, "bob", c.query, SearchFilter{}); err != nil || len(hits) != 0 {
				t.Errorf("bob finds %+v, %v", hits, err)
			}
		}
		for _, query := range []string{"", "?!", "nothing-of-the-kind", `" OR 1=1 --`, "' & | ! <-> :*", "NEAR(a b)"} {
			if _, err := r.Search(ctx, "ada", query, SearchFilter{}); err != nil {
				t.Errorf("%q: %v", query, err)
			}
		}
		var found struct {
			Points []struct{ Question string } `json:"knowledge_points"`
		}
		r.call("ada", toolListPoints, `{"query":"repetition","deck":"english"}`, &found)
		if len(found.Points) != 1 {
			t.Errorf("in the deck: %+v", found)
		}
	})
}

// A character may decompose into many; a text stays bounded.
func TestCharactersThatGrow(t *testing.T) {
	for _, unit := range []string{"\ufdfa", "\ufdfa ", "㍿", "\u0344", "각", "é", "a", "\xff"} {
		long := strings.Repeat(unit, MaxText/len(unit))
		if got := len(decompose(long)); got > 3*MaxText {
			t.Errorf("%q grows to %d bytes", unit, got)
		}
		if whole := truncateToDecompose(long) == long; whole != (unit != "\ufdfa" && unit != "\ufdfa " && unit != "㍿") {
			t.Errorf("%q: whole is %v", unit, whole)
		}
	}
}

// Every character decomposes as NFKD says, alone, before and after an accent.
func TestAppendDecomposed(t *testing.T) {
	var got []byte
	for r := rune(0x80); r <= unicode.MaxRune; r++ {
		if !utf8.ValidRune(r) {
			continue
		}
		for _, text := range []string{string(r), string(r) + "\u0323", "\u0301" + string(r) + "\u0323，"} {
			if got = appendDecomposed(got[:0], text); string(got) != norm.NFKD.String(text) {
				t.Fatalf("%+q becomes %+q", text, got)
			}
		}
	}
}

func BenchmarkRank(b *testing.B) {
	points := make([]store.Point, maxRanked)
	for i := range points {
		points[i] = store.Point{Number: int64(i), Question: "长城有多长，在哪里？（第二题）", Tags: []string{"历史"},
			Answer: strings.Repeat("它长约二万一千公里，从鸭绿江到嘉峪关。It was built under several dynasties; it’s “long”. ", 6)}
	}
	for b.Loop() {
		rank(points, "长城到底有多长呢？", map[int64]float64{})
	}
}

// The runs of a text are those of the whole text decomposed, as the words of stored indexes are.
func FuzzSplitRuns(f *testing.F) {
	for _, text := range []string{"Ａｂ１ ﬁn Ångström e\u0301t\u0323e\u0307", "주동 ガ が กำ 主动回忆？abc", "x\u0301一\u0301\u0323a\uf900",
		"½ ① \u1100\u1161\u11a8 \U0001d165"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if !utf8.ValidString(text) || len(text) > 1000 {
			return
		}
		type run struct {
			text  string
			dense bool
		}
		var got, want []run
		splitRuns(text, func(r []rune, dense bool) { got = append(got, run{string(r), dense}) })
		begin := true
		for _, r := range decompose(text) {
			dense := isUnspaced(r)
			switch last := len(want) - 1; {
			case !dense && r >= utf8.RuneSelf && unicode.Is(unicode.Mn, r):
			case !unicode.IsLetter(r) && !unicode.IsNumber(r) && !unicode.IsMark(r):
				begin = true
			case begin || want[last].dense != dense:
				want, begin = append(want, run{string(unicode.ToLower(r)), dense}), false
			default:
				want[last].text += string(unicode.ToLower(r))
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	})
}
