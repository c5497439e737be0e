package learn

import (
	"cmp"
	"regexp"
	"strings"

	"patchbay/internal/console/page"
	notecard "patchbay/internal/plug/learn/card"
	"patchbay/internal/plug/learn/markdown"
	"patchbay/internal/store"
)

// row is a point in a list.
type row struct {
	*store.Point
	asked, answered line
}

// line is one side of a point in a list: its words, and the first picture before them.
type line struct {
	text    string
	picture *store.MediaFile // nil: none
	alt     string           // what describes the picture; empty if the words do
}

// rows returns points as a list shows them. All their pictures are looked up at once.
func (p *pages) rows(v *page.Visit, points []store.Point) ([]row, error) {
	rows := make([]row, len(points))
	var names []string
	sides := make([]lineSource, 0, 2*len(points))
	for i := range points {
		for _, text := range []string{points[i].Question, points[i].Answer} {
			s := lineSourceOf(text)
			if s.name != "" {
				names = append(names, s.name)
			}
			sides = append(sides, s)
		}
	}
	found, err := p.Points.Store.Learn.MediaByName(v.Context(), personID(v), names)
	if err != nil {
		return nil, err
	}
	pictures := map[string]*store.MediaFile{}
	for i := range found {
		if strings.HasPrefix(found[i].Type, "image/") && shownTypes.MatchString(found[i].Type) {
			pictures[found[i].Name] = &found[i]
		}
	}
	for i := range rows {
		rows[i] = row{&points[i], sides[2*i].line(pictures), sides[2*i+1].line(pictures)}
	}
	return rows, nil
}

// lineSource is a text of a point, with its first picture apart.
type lineSource struct {
	before, mark, after string // the words; mark stands for the picture
	name, alt           string // of the picture; without a name there is none
}

// pictureMark matches what stands for a picture: so do texts of cards of notes have it, and
// lineSourceOf writes it for those of Markdown.
var pictureMark = regexp.MustCompile(`\[image: ([^\]]*)\]`)

// lineSourceOf reads the beginning of a text of a point.
func lineSourceOf(text string) lineSource {
	alts := map[string]string{}
	words := markdown.PlainWith(beginning(text), func(name, alt string) string {
		alts[name] = cmp.Or(alts[name], alt)
		return "[image: " + name + "]"
	})
	at := pictureMark.FindStringSubmatchIndex(words)
	if at == nil {
		return lineSource{before: words}
	}
	name, ok := words[at[2]:at[3]], true
	if _, ours := alts[name]; !ours {
		name, ok = notecard.MediaName(name) // an address in HTML
	}
	if !ok {
		return lineSource{before: words}
	}
	return lineSource{before: words[:at[0]], mark: words[at[0]:at[1]], after: words[at[1]:], name: name,
		alt: cmp.Or(strings.TrimSpace(alts[name]), name)}
}

// line returns a side with its picture, or with what stands for it if there is none.
func (s lineSource) line(pictures map[string]*store.MediaFile) line {
	if m := pictures[s.name]; m != nil {
		if text := inOneLine(s.before + " " + s.after); text != "" {
			return line{text, m, s.alt}
		}
		return line{text: s.alt, picture: m}
	}
	return line{text: inOneLine(s.before + s.mark + s.after)}
}

// beginning returns as much of a text as a list may show, without a half reference to a picture at
// its end.
func beginning(text string) string {
	const most = 300
	if len(text) <= most {
		return text
	}
	text = strings.ToValidUTF8(text[:most], "")
	if half := halfMark.FindStringIndex(text); half != nil {
		text = text[:half[0]]
	}
	return text + "…"
}

// halfMark matches a reference to a picture that has no end.
var halfMark = regexp.MustCompile(`!?\[[^\]]*$|!\[[^\]]*\]\([^)]*$`)

func inOneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// oneLine returns the beginning of a text on one line, without pictures.
func oneLine(text string) string { return inOneLine(markdown.Plain(beginning(text))) }
