package learn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"patchbay/internal/plug/learn/embed"
	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

// embeddings is an embeddings API in which words with the same beginning have the same direction,
// and "poison" is rejected.
type embeddings struct {
	url string

	mu    sync.Mutex
	down  bool
	texts []string
}

func newEmbeddings(t *testing.T) *embeddings {
	e := &embeddings{}
	s := httptest.NewServer(http.HandlerFunc(e.serve))
	t.Cleanup(s.Close)
	e.url = s.URL + "/v1"
	return e
}

const testDims = 64

// direction returns the vector of a text: each word, cut to five letters, adds a random vector of
// its own.
func direction(text string) []float32 {
	out := make([]float32, testDims)
	for w := range strings.FieldsSeq(strings.ToLower(text)) {
		w = w[:min(len(w), 5)]
		if w == "quest" || w == "answe" {
			continue
		}
		h := fnv.New64a()
		h.Write([]byte(w))
		r := rand.New(rand.NewPCG(h.Sum64(), 1))
		for i := range out {
			out[i] += float32(r.NormFloat64())
		}
	}
	return out
}

func (e *embeddings) serve(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Model string   `json:"model"`
		Input []string `json:"input"`
	}
	_ = json.NewDecoder(r.Body).Decode(&in)
	e.mu.Lock()
	e.texts = append(e.texts, in.Input...)
	down := e.down
	e.mu.Unlock()
	status := 0
	switch {
	case down:
		status = http.StatusUnauthorized
	case slices.ContainsFunc(in.Input, func(s string) bool { return strings.Contains(s, "poison") }):
		status = http.StatusBadRequest
	}
	w.Header().Set("Content-Type", "application/json")
	if status != 0 {
		w.WriteHeader(status)
		fmt.Fprint(w, `{"error":{"message":"no","type":"invalid_request_error","param":null,"code":null}}`)
		return
	}
	type item struct {
		Object    string    `json:"object"`
		Index     int       `json:"index"`
		Embedding []float32 `json:"embedding"`
	}
	var data []item
	for i, text := range in.Input {
		data = append(data, item{"embedding", i, direction(text)})
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"object": "list", "data": data, "model": in.Model,
		"usage": map[string]int{"prompt_tokens": 1, "total_tokens": 1}})
}

// seen returns the texts requested since the last call.
func (e *embeddings) seen() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := e.texts
	e.texts = nil
	return out
}

func (e *embeddings) set(down bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.down = down
}

// meaning returns a service with an embedder and a clock.
func meaning(t *testing.T, o store.Options) (*Service, *embeddings, *time.Time) {
	e := newEmbeddings(t)
	c, err := embed.New(embed.Options{URL: e.url, Key: "k", Model: "m", Batch: 10})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 3, 23, 12, 0, 0, 0, time.UTC)
	return newService(t, storetest.Open(t, o), Profile{}, Options{Embedder: c, Now: func() time.Time { return now }}),
		e, &now
}

func index(t *testing.T, s *Service) {
	t.Helper()
	if err := s.Index(context.Background()); err != nil {
		t.Fatal(err)
	}
}

func near(t *testing.T, s *Service, query string) []int64 {
	t.Helper()
	got, err := s.searchMeaning(context.Background(), "ada", query)
	if err != nil {
		t.Fatal(err)
	}
	var out []int64
	for _, r := range got {
		out = append(out, r.number)
	}
	return out
}

func TestMeaning(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		s, e, now := meaning(t, o)
		want := func(query string, numbers ...int64) {
			t.Helper()
			if got := near(t, s, query); !slices.Equal(got, numbers) {
				t.Fatalf("%s: got %v, want %v", query, got, numbers)
			}
		}
		want("photon")
		if len(e.seen()) != 0 {
			t.Error("a query was embedded that there is nothing to compare with")
		}
		p := noted(t, s, Draft{Question: "photography", Answer: "photons"},
			Draft{Question: "gravity", Answer: "graviton"})
		*now = now.Add(refreshInterval)
		index(t, s)
		if got := e.seen(); !slices.Equal(got, []string{"Question: photography\n\nAnswer: photons",
			"Question: gravity\n\nAnswer: graviton"}) {
			t.Fatalf("embedded %q", got)
		}
		index(t, s)
		if got := e.seen(); len(got) != 0 {
			t.Fatalf("embedded again %q", got)
		}
		want("photosphere", p[0].Number)
		want("photosphere", p[0].Number)
		want("gravitation", p[1].Number)
		if got := e.seen(); len(got) != 2 {
			t.Errorf("queries were embedded again: %q", got)
		}
		hits, err := s.Search(ctx, "ada", "photosphere", SearchFilter{})
		if err != nil || len(hits) != 1 || hits[0].Question != "photography" {
			t.Errorf("found %+v, %v", hits, err)
		}
		if got, err := s.searchMeaning(ctx, "bob", "photosphere"); len(got) != 0 || err != nil {
			t.Errorf("somebody else finds %v, %v", got, err)
		}

		// Added and changed points are found soon, deleted ones are not.
		more := noted(t, s, Draft{Question: "photo", Answer: "photosynthesis"})
		index(t, s)
		*now = now.Add(refreshInterval)
		if got := near(t, s, "photosphere"); len(got) != 2 {
			t.Fatalf("got %v", got)
		}
		text := "gravity"
		if _, err := s.Update(ctx, "ada", more[0].ID, Edit{Question: &text, Answer: &text}); err != nil {
			t.Fatal(err)
		}
		index(t, s) // drops the copy
		want("photosphere", p[0].Number)
		if err := s.Delete(ctx, "ada", p[0].ID); err != nil {
			t.Fatal(err)
		}
		if hits, err = s.Search(ctx, "ada", "photosphere", SearchFilter{}); err != nil || len(hits) != 0 {
			t.Errorf("found %+v, %v", hits, err)
		}
		if _, err := s.EmptyTrash(ctx); err != nil {
			t.Fatal(err)
		}
		// Another instance replaces a vector: the copy is eventually read again.
		other := New(s.Options)
		text = "photo"
		if _, err := s.Update(ctx, "ada", p[1].ID, Edit{Question: &text, Answer: &text}); err != nil {
			t.Fatal(err)
		}
		index(t, other)
		*now = now.Add(reloadInterval)
		if got := near(t, s, "gravitation"); !slices.Equal(got, []int64{more[0].Number}) {
			t.Errorf("got %v", got)
		}
	})
}

// A text that the model rejects does not prevent the vectors of others, and is not requested again
// until it changes.
func TestPoison(t *testing.T) {
	s, e, now := meaning(t, store.Options{Folder: t.TempDir()})
	var drafts []Draft
	for i := range 70 {
		d := Draft{Question: fmt.Sprintf("word%d", i), Answer: "x"}
		if i == 0 || i == 33 {
			d.Answer = "poison"
		}
		drafts = append(drafts, d)
	}
	p := noted(t, s, drafts...)
	index(t, s)
	if n, _, err := s.Store.Learn.VectorCount(ctx, "ada", "m"); n != 70 || err != nil {
		t.Fatalf("%d vectors, %v", n, err)
	}
	if got, err := s.searchMeaning(ctx, "ada", "poison"); len(got) != 0 || !isRefused(err) {
		t.Errorf("got %v, %v", got, err)
	}
	if got := near(t, s, "word33"); len(got) == 0 || slices.Contains(got, p[33].Number) {
		t.Errorf("got %v", got)
	}
	e.seen()
	index(t, s)
	if got := e.seen(); len(got) != 0 {
		t.Errorf("asked again for %q", got)
	}
	text := "photo"
	if _, err := s.Update(ctx, "ada", p[33].ID, Edit{Question: &text, Answer: &text}); err != nil {
		t.Fatal(err)
	}
	index(t, s)
	*now = now.Add(refreshInterval)
	if got := near(t, s, "photon"); !slices.Equal(got, []int64{p[33].Number}) {
		t.Errorf("got %v", got)
	}
}

// refusing rejects everything, as a server does for an unknown model name.
type refusing struct{ Embedder }

func (refusing) Model() string { return "x" }

func (refusing) Embed(context.Context, []string) ([][]float32, error) {
	return nil, fmt.Errorf("wrapped: %w", &embed.Error{Status: 400})
}

func TestIndexWhenAllIsRefused(t *testing.T) {
	s := newService(t, storetest.SQLite(t), Profile{}, Options{Embedder: refusing{}})
	noted(t, s, Draft{Question: "a", Answer: "b"}, Draft{Question: "c", Answer: "d"})
	if err := s.Index(ctx); err == nil {
		t.Error("no error")
	}
	if n, _, err := s.Store.Learn.VectorCount(ctx, "ada", "x"); n != 0 || err != nil {
		t.Errorf("%d points were given up, %v", n, err)
	}
	if err := New(Options{Store: s.Store}).Index(ctx); err != nil {
		t.Error(err)
	}
}

// A server that is down delays one search, and none of the next.
func TestSearchWhileDown(t *testing.T) {
	s, e, now := meaning(t, store.Options{Folder: t.TempDir()})
	p := noted(t, s, Draft{Question: "photo", Answer: "gravity"})
	index(t, s)
	e.set(true)
	e.seen()
	for range 3 {
		hits, err := s.Search(ctx, "ada", "photo", SearchFilter{})
		if err != nil || len(hits) != 1 {
			t.Fatalf("found %+v, %v", hits, err)
		}
	}
	if got := e.seen(); len(got) != 1 {
		t.Errorf("asked for %q", got)
	}
	if err := s.Index(ctx); err != nil {
		t.Errorf("nothing is to be done: %v", err)
	}
	*now = now.Add(embedderPause)
	e.set(false)
	if got := near(t, s, "photo"); !slices.Equal(got, []int64{p[0].Number}) {
		t.Errorf("got %v", got)
	}
}

// fixed returns the same vector for every text.
type fixed struct {
	model string
	v     []float32
}

func (f fixed) Model() string { return f.model }

func (f fixed) Embed(_ context.Context, texts []string) ([][]float32, error) {
	return slices.Repeat([][]float32{f.v}, len(texts)), nil
}

// The copies of all people fit into the memory limit, and the copy of a person with more is
// truncated.
func TestVectorRoom(t *testing.T) {
	db := storetest.SQLite(t)
	s := newService(t, db, Profile{}, Options{Embedder: fixed{"m", direction("photo")}})
	const people, points = 5, 120
	for i := range people {
		name := fmt.Sprintf("p%d", i)
		if err := db.People.Add(ctx, store.Person{ID: name, Name: name,
			Role: "user", Lang: "en", Created: time.Now()}); err != nil {
			t.Fatal(err)
		}
		drafts := make([]Draft, points)
		for j := range drafts {
			drafts[j] = Draft{Question: "q", Answer: "a"}
		}
		if _, err := s.Create(ctx, name, drafts); err != nil {
			t.Fatal(err)
		}
	}
	index(t, s)
	s.vectors.limit = 3 * (copyBytes + points*(testDims+12))
	for range 2 {
		for i := range people {
			got, err := s.searchMeaning(ctx, fmt.Sprintf("p%d", i), "photo")
			if err != nil || len(got) != maxNearest {
				t.Fatalf("%d points, %v", len(got), err)
			}
		}
	}
	check := func(most int) {
		t.Helper()
		var sum int64
		for _, p := range s.vectors.people {
			sum += p.bytes
		}
		if sum != s.vectors.bytes || sum > s.vectors.limit || len(s.vectors.people) != most {
			t.Errorf("%d copies of %d bytes, accounted for as %d", len(s.vectors.people), sum, s.vectors.bytes)
		}
	}
	check(3)
	if s.vectors.people["p4"] == nil || s.vectors.people["p2"] == nil {
		t.Error("the copies that were used last went first")
	}
	s.vectors.limit = 2*copyBytes + points*(testDims+12)/2
	s.vectors.people, s.vectors.bytes = nil, 0
	if got, err := s.searchMeaning(ctx, "p0", "photo"); err != nil || len(got) != maxNearest {
		t.Fatalf("%d points, %v", len(got), err)
	}
	if n := len(s.vectors.people["p0"].set.points); n < points/3 || n >= points {
		t.Errorf("%d points are in memory", n)
	}
}

// Searches that run while points are added see whole vectors.
func TestVectorsMeanwhile(t *testing.T) {
	s, _, _ := meaning(t, store.Options{Folder: t.TempDir()})
	var mu sync.Mutex
	now := time.Now()
	s.Now = func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		now = now.Add(refreshInterval)
		return now
	}
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for range 3 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				got, err := s.searchMeaning(ctx, "ada", "photo")
				if err != nil {
					t.Error(err)
					return
				}
				for _, r := range got {
					if math.Abs(r.score-1) > 0.01 {
						t.Errorf("a score of %v", r.score)
					}
				}
			}
		})
	}
	for range 15 {
		noted(t, s, Draft{Question: "photo", Answer: "photo"}, Draft{Question: "gravity", Answer: "gravity"})
		index(t, s)
	}
	close(stop)
	wg.Wait()
	if got := near(t, s, "photo"); len(got) != 15 {
		t.Errorf("%d points", len(got))
	}
}

var errOther = errors.New("other")

func TestRefused(t *testing.T) {
	for err, want := range map[error]bool{&embed.Error{Status: 400}: true, &embed.Error{Status: 401}: false,
		errOther: false} {
		if isRefused(fmt.Errorf("x: %w", err)) != want {
			t.Errorf("%v", err)
		}
	}
}

// Reading 100,000 vectors from the database.
func BenchmarkLoad(b *testing.B) {
	const points, dims = 100_000, 256
	db := storetest.SQLite(b)
	s := newService(b, db, Profile{}, Options{Embedder: fixed{"m", make([]float32, dims)}})
	for range points / 1000 {
		rows := make([]store.NewPoint, 1000)
		for i := range rows {
			rows[i] = store.NewPoint{Point: store.Point{ID: newID(), Question: "q", Answer: "a", Created: time.Now(),
				Updated: time.Now()}}
		}
		if err := db.Learn.Add(ctx, "ada", rows); err != nil {
			b.Fatal(err)
		}
		vectors := make([]store.Vector, len(rows))
		for i := range rows {
			vectors[i] = store.Vector{Point: rows[i].Point.Number, Version: 1, Data: make([]byte, dims)}
			vectors[i].Data[0] = 1
		}
		if err := db.Learn.SaveVectors(ctx, "ada", "m", vectors); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		s.vectors.drop("ada", 0)
		at, err := s.personVectorSet(ctx, "ada")
		if err != nil || len(at.points) != points {
			b.Fatalf("%d points, %v", len(at.points), err)
		}
	}
}
