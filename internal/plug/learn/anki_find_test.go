package learn

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"patchbay/internal/store"
)

// Points without a note are searched as programs see them: as HTML, not as Markdown.
func TestAnkiSearchPlain(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.add("ada", Draft{Question: "a **bold** word\nand $x<y$", Answer: "no"})
		for query, want := range map[string]string{
			`"<b>bold</b>"`: "1", `**bold`: "1", `\*\*bold`: "0", `"word<br>and"`: "1", `"x&lt;y"`: "1",
			`question:"a <b>bold</b>*"`: "1",
		} {
			if got := r.ankiFound(query); !strings.HasPrefix(got, want+" ") {
				t.Errorf("%s: %s, want %s", query, got, want)
			}
		}
	})
}

// What a search lists is combined as one query or in several, alike.
func TestAnkiSearchLists(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		const many = inlineList + 10
		var notes []string
		for i := range many {
			id := r.addAnki("Main", fmt.Sprintf("t%d all::a%d", i, i), "Basic", fmt.Sprintf("word%d.", i), "same")
			notes = append(notes, fmt.Sprint(id))
		}
		r.addAnki("Main::Below", "", "Basic (and reversed card)", "other", "same")
		r.add("ada", Draft{Question: "plain", Answer: "same"})
		all, err := r.Learner(ctx, "ada")
		r.must(err)
		i := slices.IndexFunc(all.Decks, func(d store.Deck) bool { return d.Name == "Main" })
		ids, either := strings.Join(notes, ","), ""
		for i := range 20 {
			either += fmt.Sprintf(" or word%d.", i)
		}
		for query, want := range map[string]int{
			`tag:t*`: many, `-tag:t*`: 3, `tag:t* tag:all same`: many, `tag:all word1.`: 1, `-tag:all -other`: 1,
			`tag:t1 or tag:t*`: many, `tag:nothing* or other`: 2, `nid:` + ids: many, `-nid:` + ids: 3,
			`nid:` + ids + ` word5.`: 1, `nid:` + notes[0] + ` tag:t0`: 1, `same -tag:t*`: 3,
			fmt.Sprintf("did:%d", AnkiDeckID(&all.Decks[i])): many, `deck:Main`: many + 2,
			`plain` + either: 21, `-(plain` + either + `)`: many + 3 - 21, `(plain` + either + `) same -word3. -word4.`: 19,
			`word1. same or (other -card:2)`: 2,
		} {
			l, err := r.Learner(ctx, "ada")
			r.must(err)
			points, err := r.FindAnki(ctx, l, query)
			r.must(err)
			if len(points) != want || !slices.IsSorted(points) {
				t.Errorf("%.60s: %d points, want %d", query, len(points), want)
			}
		}
	})
}
