package find_test

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"patchbay/internal/console/consoletest"
	"patchbay/internal/console/find"
	"patchbay/internal/console/page"
	learning "patchbay/internal/plug/learn"
	"patchbay/internal/store/storetest"
	"patchbay/internal/talk"
)

func TestMain(m *testing.M) { storetest.Main(m) }

// Pages, actions, bots and the manual are found, in a page and for the palette; nothing of others.
func TestFind(t *testing.T) {
	r := consoletest.New(t, consoletest.Options{}, func(*consoletest.Rig) []page.Route { return find.Routes() })
	bot := r.AddScript(t, nil, func(context.Context, *talk.Turn, talk.Emit) error { return nil })
	ada := r.SignedInAs(r.Person)
	if p := ada.Get("/find"); p.Status != http.StatusOK || !p.Contains(`href="/activity">Activity</a>`, "Add a bot",
		`id="palette"`) {
		t.Errorf("%d: %s", p.Status, p.Text)
	}
	p := ada.DoHX(http.MethodGet, "/find?q="+url.QueryEscape(strings.ToUpper(bot.Name)))
	if p.Status != http.StatusOK || !p.Contains(`role="option"`, `data-href="/bots/1"`, `data-href="/bots/1/chat"`,
		"Talk with "+bot.Name) || p.Contains("<html") {
		t.Errorf("%d: %s", p.Status, p.Text)
	}
	if p := r.SignedInAs(r.Bob).Get("/find?q=" + bot.Name); p.Contains("/bots/1") || !p.Contains("Nothing was found") {
		t.Error(p.Text)
	}
	if p := ada.Get("/find?q=spaced+repetition"); !p.Contains("/docs/") {
		t.Error(p.Text)
	}
	// Pages of the settings, and people, are for those who can open them.
	if p := ada.Get("/find?q=people"); !p.Contains(`href="/settings/people">Settings: People</a>`) {
		t.Error(p.Text)
	}
	if p := ada.Get("/find?q=" + r.Bob.Name); !p.Contains("/settings/people/" + r.Bob.ID) {
		t.Error(p.Text)
	}
	bob := r.SignedInAs(r.Bob)
	if p := bob.Get("/find?q=people"); p.Contains("/settings/people") {
		t.Error(p.Text)
	}
	if p := bob.Get("/find?q=" + r.Bob.Name); p.Contains(r.Bob.ID) {
		t.Error(p.Text)
	}
	// Of a long query the beginning counts: it neither fails nor finds everything.
	long := ada.Get("/find?q=" + url.QueryEscape("activity"+strings.Repeat(" activity", 40)))
	if !long.Contains(`href="/activity">Activity</a>`) || long.Contains("Add a bot") {
		t.Error(long.Text)
	}
	if p := ada.Get("/find?q=" + url.QueryEscape(strings.Repeat("记", 300))); !p.Contains("Nothing was found",
		`maxlength="200"`, `value="`+strings.Repeat("记", 200)+`"`) {
		t.Error(p.Text)
	}
	for _, query := range []string{"(", `"`, "tag:", "%", "*", "<b>", "\xff"} {
		if p := ada.Get("/find?q=" + url.QueryEscape(query)); p.Status != http.StatusOK || p.Contains("<b>") {
			t.Errorf("%s: %d: %s", query, p.Status, p.Text)
		}
	}
	if p := r.Anonymous().Get("/find?q=x"); !strings.HasPrefix(p.Path, "/signin") {
		t.Error(p.Path)
	}
}

// asked is an embedder that counts what it is asked for.
type asked struct{ texts atomic.Int32 }

func (a *asked) Model() string { return "m" }

func (a *asked) Embed(_ context.Context, texts []string) ([][]float32, error) {
	a.texts.Add(int32(len(texts)))
	out := make([][]float32, len(texts))
	for i := range out {
		out[i] = []float32{1, 0}
	}
	return out, nil
}

// Points are found by their words, and no service is asked about what is only being typed.
func TestFindPointsByWords(t *testing.T) {
	var service asked
	var points *learning.Service
	r := consoletest.New(t, consoletest.Options{}, func(c *consoletest.Rig) []page.Route {
		points = learning.New(learning.Options{Store: c.Store, Zone: time.UTC, Embedder: &service})
		c.Control.Points = points
		return find.Routes()
	})
	_, err := points.Create(t.Context(), r.Person.ID, []learning.Draft{{Question: "Photosynthesis\nmore", Answer: "Light"},
		{Question: "# What **chlorophyll** is\n\n![a leaf](leaf.png)", Answer: "Green"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := points.Index(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := service.texts.Load()
	ada := r.SignedInAs(r.Person)
	if p := ada.DoHX(http.MethodGet, "/find?q=photosynthesis"); !p.Contains(`data-href="/learn/points/`,
		"Photosynthesis</span>") {
		t.Error(p.Text)
	}
	if p := ada.DoHX(http.MethodGet, "/find?q=chlorophyll"); !p.Contains(`<span class="clip">What chlorophyll is</span>`,
		"Knowledge point") || p.Contains("**") {
		t.Errorf("its first line is not readable: %s", p.Text)
	}
	if p := ada.DoHX(http.MethodGet, "/find?q=leaves"); p.Contains("/learn/points/") {
		t.Error("found by its meaning:", p.Text)
	}
	if now := service.texts.Load(); before == 0 || now != before {
		t.Errorf("%d texts were embedded, then %d more", before, now-before)
	}
}
