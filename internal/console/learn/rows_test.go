package learn_test

import (
	"bytes"
	"html"
	"image"
	"image/color"
	"image/png"
	"regexp"
	"strings"
	"testing"

	"patchbay/internal/console/consoletest"
	learning "patchbay/internal/plug/learn"
)

// picture returns a PNG file of some size, in one colour.
func picture(t *testing.T, width, height int, c color.Color) []byte {
	t.Helper()
	im := image.NewRGBA(image.Rect(0, 0, width, height))
	for i := range width * height {
		im.Set(i%width, i/width, c)
	}
	var out bytes.Buffer
	must(t, png.Encode(&out, im))
	return out.Bytes()
}

var thumbs = regexp.MustCompile(`<img class="thumb" src="([^"]*)" alt="([^"]*)" width="48" height="36" loading="lazy"`)

// The list of points and what a search finds show the first picture of each side before its words:
// of Markdown, of imported cards, and none that is missing, is another person's or is no picture.
func TestPicturesInLists(t *testing.T) {
	r := newRig(t)
	for name, data := range map[string][]byte{"flag of x.png": picture(t, 30, 20, color.White),
		"map.png": picture(t, 40, 40, color.Black), "a.mp3": []byte("ID3\x03\x00\x00\x00\x00\x00\x00")} {
		_, err := r.points.SaveMedia(t.Context(), r.Person.ID, name, data)
		must(t, err)
	}
	_, err := r.points.SaveMedia(t.Context(), r.Bob.ID, "bobs.png", picture(t, 9, 9, color.White))
	must(t, err)
	long := strings.Repeat("long ", 58) + "![](map.png)"
	r.add(t, r.Person.ID,
		learning.Draft{Question: "Whose? [image: flag%20of%20x.png] [image: map.png]", Answer: "![The *map*](map.png)"},
		learning.Draft{Question: "Gone <b> [image: gone.png]", Answer: "![words](gone2.png)"},
		learning.Draft{Question: "Code `![](map.png)`", Answer: "[image: a.mp3]"},
		learning.Draft{Question: "Of Bob ![](bobs.png)", Answer: "![x](https://host.example/y.png)"},
		learning.Draft{Question: "Long", Answer: long})
	b := r.SignedInAs(r.Person)
	for _, path := range []string{"/learn/points", "/learn/points?q=" + "-tag:none"} {
		p := b.Get(path)
		found := thumbs.FindAllStringSubmatch(p.Text, -1)
		if len(found) != 2 || found[0][2] != "flag of x.png" || found[1][2] != "" {
			t.Fatalf("%s: %q in %s", path, found, p.Text)
		}
		if !p.Contains(`<span class="clip">Whose? [image: map.png]</span>`, `<span class="clip">The map</span>`,
			`<span class="clip">Gone &lt;b&gt; [image: gone.png]</span>`, `<span class="clip">[image: gone2.png]</span>`,
			`<span class="clip">Code ![](map.png)</span>`, `<span class="clip">[image: a.mp3]</span>`,
			`<span class="clip">Of Bob [image: bobs.png]</span>`, `<span class="clip">x</span>`, `long …</span>`) ||
			p.Contains("[…", "[](") {
			t.Errorf("%s: %s", path, p.Text)
		}
	}
	if p := b.Get("/learn/points?q=whose"); len(thumbs.FindAllString(p.Text, -1)) != 2 {
		t.Errorf("a search by words: %s", p.Text)
	}
}

// Browsers keep a thumbnail for ever, as another content has another address; each person gets
// their own.
func TestThumbnailsAreKept(t *testing.T) {
	r := newRig(t)
	r.add(t, r.Person.ID, learning.Draft{Question: "![](map.png)", Answer: "A"})
	save := func(c color.Color) {
		t.Helper()
		_, err := r.points.ReplaceMedia(t.Context(), r.Person.ID, "map.png", picture(t, 9, 9, c))
		must(t, err)
	}
	b := r.SignedInAs(r.Person)
	address := func() string {
		t.Helper()
		found := thumbs.FindStringSubmatch(b.Get("/learn/points").Text)
		if found == nil {
			t.Fatal("no thumbnail")
		}
		return html.UnescapeString(found[1])
	}
	kept := func(p consoletest.Page) bool { return strings.Contains(p.Header.Get("Cache-Control"), "immutable") }
	save(color.White)
	was := address()
	p := b.Get(was)
	if !kept(p) || p.Header.Get("Vary") != "Cookie" || p.Header.Get("Content-Type") != "image/png" ||
		!strings.Contains(p.Header.Get("Cache-Control"), "private") {
		t.Errorf("%d: %v", p.Status, p.Header)
	}
	save(color.Black)
	if now := address(); now == was || !kept(b.Get(now)) || kept(b.Get(was)) {
		t.Errorf("%s became %s", was, now)
	}
	if plain, _, _ := strings.Cut(was, "?"); kept(b.Get(plain)) {
		t.Error("an address without a version is kept")
	}
	if p := r.SignedInAs(r.Bob).Get(address()); p.Status != 404 || kept(p) {
		t.Errorf("another person: %d %v", p.Status, p.Header)
	}
	if p := r.Anonymous().Get(address()); !strings.HasPrefix(p.Path, "/signin") || kept(p) {
		t.Errorf("nobody: %s %v", p.Path, p.Header)
	}
}

// A thumbnail has the same place whatever the form of the picture, and the words beside it are cut
// off instead of making the page wider.
func TestThumbnailsHaveOnePlace(t *testing.T) {
	r := newRig(t)
	for name, data := range map[string][]byte{"wide.png": picture(t, 900, 60, color.Black),
		"tall.png": picture(t, 10, 500, color.Black)} {
		_, err := r.points.SaveMedia(t.Context(), r.Person.ID, name, data)
		must(t, err)
	}
	words := strings.Repeat("words ", 40)
	r.add(t, r.Person.ID, learning.Draft{Question: "![](wide.png) " + words, Answer: "[image: tall.png] " + words},
		learning.Draft{Question: "![What is it?](tall.png)", Answer: "A" + words})
	b := open(t, r)
	for _, width := range []int64{390, 1280} {
		b.SetWidth(width)
		b.Open("/learn/points")
		b.WaitUntil(`[...document.querySelectorAll(".points img")].filter(i => i.complete && i.naturalWidth).length === 3`)
		b.WaitUntil(`[...document.querySelectorAll(".points img")].every(i => i.offsetWidth === 48 && i.offsetHeight === 36)`)
		b.WaitUntil(`document.documentElement.scrollWidth <= innerWidth`)
	}
}
