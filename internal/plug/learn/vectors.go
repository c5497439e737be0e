package learn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"patchbay/internal/store"
)

// Vectors are kept as one signed byte for each number, the largest of a vector
// being ±127: only the direction is kept, which is all that is compared. A
// person's are held in memory from their first search on, as a copy:
//
//   - Points that were added have higher numbers, and are read when the copy is
//     looked at again, at most [lookAgain] later.
//   - Points that have got another vector, or lost theirs, are noticed by how many
//     there are, or at most [readAgain] later, when all is read again. Until then
//     they are found by their old text; what is shown of them is always read from
//     the database, so nothing that is gone or changed is seen.
//   - [Service.Index] drops a copy in its own process when it has written what is in
//     it.
const (
	// maxVectorBytes bounds all copies together: a million points of 256 numbers.
	// Of a person with more, the oldest are found by meaning. The copies that were
	// not used for longest go first.
	maxVectorBytes = 256 << 20
	// copyBytes is what a copy costs beside its vectors.
	copyBytes = 1 << 10
	// vectorPage is how many vectors are read at a time.
	vectorPage = 5000
	firstPage  = 100 // until their length is known
	lookAgain  = 10 * time.Second
	readAgain  = 10 * time.Minute
	// queryTime is how long the vector of a query may take, and loadTime how long
	// reading vectors: somebody waits, and words alone find much.
	queryTime = 1500 * time.Millisecond
	loadTime  = 2 * time.Second
	// restTime is how long an embedder that failed is left alone by searches.
	restTime = 15 * time.Second
	// maxQueries is how many queries' vectors are remembered.
	maxQueries = 100
	// maxQueryBytes is how much of a query is embedded.
	maxQueryBytes = 2 << 10
	// maxEmbedBytes is how much of a point is embedded: models take 8,192 tokens,
	// and a token has more than a byte.
	maxEmbedBytes = 8 << 10
	// maxNear is how many points a search by meaning brings in.
	maxNear = 50
	// leastAlike is the least cosine that counts: below, current models put what has
	// nothing in common. Others crowd everything together higher up, so a point must
	// also have leastShare of the best one's.
	leastAlike = 0.25
	leastShare = 0.75
	// indexBatch is how many points are embedded at a time, and indexTurn how many of
	// one person before it is the next one's turn.
	indexBatch = 64
	indexTurn  = 1024
	// indexPeople is how many people are looked up at a time.
	indexPeople = 500
)

// vectors are the vectors of people's points, in memory.
type vectors struct {
	mu      sync.Mutex
	people  map[string]*personVectors
	bytes   int64
	clock   int64             // counts uses
	queries map[string][]int8 // by model and text
	order   []string          // of queries, oldest first
	rest    time.Time         // until then the embedder is left alone
	limit   int64             // for tests; 0: maxVectorBytes
}

// personVectors is one person's copy. What is in at is never changed, but
// replaced; mu of vectors guards the fields.
type personVectors struct {
	model   string
	at      *space
	used    int64
	looked  time.Time
	read    time.Time     // when all was read
	loading chan struct{} // full while somebody reads
	bytes   int64
}

// space is vectors of one length, by point.
type space struct {
	dims   int
	points []int64
	data   []int8
	norms  []float32
}

// last is the highest number.
func (v *space) last() int64 {
	if len(v.points) == 0 {
		return 0
	}
	return v.points[len(v.points)-1]
}

// with is a space with more vectors; expected is how many there will be in the
// end. Those of another length than the first count as points without a direction.
// The room behind a space belongs to the next one that is made of it.
func (v *space) with(more []store.Vector, expected int) *space {
	out := *v
	expected = max(expected, len(out.points)+len(more))
	out.points, out.norms, out.data = reserve(out.points, expected), reserve(out.norms, expected), reserve(out.data, expected*out.dims)
	for _, m := range more {
		if out.dims == 0 && len(m.Data) > 0 {
			out.dims = len(m.Data)
			out.data = make([]int8, len(out.points)*out.dims, expected*out.dims)
		}
		var norm float32
		if len(m.Data) == out.dims {
			for _, b := range m.Data {
				out.data = append(out.data, int8(b))
			}
			norm = length(out.data[len(out.data)-out.dims:])
		} else {
			out.data = append(out.data, make([]int8, out.dims)...)
		}
		out.points = append(out.points, m.Point)
		out.norms = append(out.norms, norm)
	}
	return &out
}

// reserve makes room for n, without the room to spare that append would add: of
// the last megabytes it would be many.
func reserve[T any](s []T, n int) []T {
	if cap(s) >= n {
		return s
	}
	return append(make([]T, 0, n), s...)
}

// room is how many vectors fit into so many bytes.
func (v *space) room(bytes int64) int { return int(bytes / int64(v.dims+12)) }

func (v *space) bytes() int64 { return int64(cap(v.data) + 8*cap(v.points) + 4*cap(v.norms)) }

// near finds the points whose vectors are most like the query's, best first.
func (v *space) near(query []int8) []ranked {
	norm := length(query)
	if len(query) != v.dims || norm == 0 {
		return nil
	}
	best := make([]ranked, 0, maxNear+1)
	least := leastAlike
	for i, n := range v.norms {
		if n == 0 {
			continue
		}
		score := float64(dot(query, v.data[i*v.dims:(i+1)*v.dims])) / float64(n*norm)
		if score < least {
			continue
		}
		at, _ := slices.BinarySearchFunc(best, score, func(r ranked, s float64) int { return cmp.Compare(s, r.score) })
		best = slices.Insert(best, at, ranked{v.points[i], score})
		least = max(least, best[0].score*leastShare)
		if len(best) > maxNear {
			best = best[:maxNear]
			least = max(least, best[maxNear-1].score)
		}
	}
	for len(best) > 0 && best[len(best)-1].score < best[0].score*leastShare {
		best = best[:len(best)-1]
	}
	return best
}

// dot is the product of two vectors of one length. Of 8,192 numbers it is
// 132,128,768 at most, which fits.
func dot(a, b []int8) int32 {
	var s0, s1, s2, s3 int32
	for len(a) >= 8 && len(b) >= 8 {
		x, y := (*[8]int8)(a), (*[8]int8)(b)
		s0 += int32(x[0])*int32(y[0]) + int32(x[4])*int32(y[4])
		s1 += int32(x[1])*int32(y[1]) + int32(x[5])*int32(y[5])
		s2 += int32(x[2])*int32(y[2]) + int32(x[6])*int32(y[6])
		s3 += int32(x[3])*int32(y[3]) + int32(x[7])*int32(y[7])
		a, b = a[8:], b[8:]
	}
	for i := range a {
		s0 += int32(a[i]) * int32(b[i])
	}
	return s0 + s1 + s2 + s3
}

func length(v []int8) float32 { return float32(math.Sqrt(float64(dot(v, v)))) }

// quantised is the direction of a vector, as [vectors] keep it; nil if it has none.
func quantised(v []float32) []int8 {
	var most float64
	for _, x := range v {
		most = max(most, math.Abs(float64(x)))
	}
	if most == 0 || math.IsInf(most, 0) || math.IsNaN(most) {
		return nil
	}
	out := make([]int8, len(v))
	for i, x := range v {
		out[i] = int8(math.Round(float64(x) / most * 127))
	}
	return out
}

// searchMeaning brings in points that mean something like the query, best first;
// none if there is no [Embedder].
func (s *Service) searchMeaning(ctx context.Context, person, query string) ([]ranked, error) {
	query = clip(strings.TrimSpace(query), maxQueryBytes)
	if s.Embedder == nil || query == "" {
		return nil, nil
	}
	at, err := s.space(ctx, person)
	if err != nil {
		return nil, fmt.Errorf("read vectors: %w", err)
	}
	if len(at.points) == 0 {
		return nil, nil // no need to ask for the query's
	}
	q, err := s.queryVector(ctx, query)
	if err != nil {
		return nil, err
	}
	return at.near(q), nil
}

// queryVector is the vector of a query; nil while the embedder is left alone.
func (s *Service) queryVector(ctx context.Context, query string) ([]int8, error) {
	v := &s.vectors
	key := s.Embedder.Model() + "\x00" + query
	v.mu.Lock()
	known, resting := v.queries[key], s.Now().Before(v.rest)
	v.mu.Unlock()
	if known != nil || resting {
		return known, nil
	}
	limited, cancel := context.WithTimeout(ctx, queryTime)
	defer cancel()
	got, err := s.Embedder.Embed(limited, []string{query})
	if err == nil && len(got) != 1 {
		err = fmt.Errorf("%d vectors for one text", len(got))
	}
	if err != nil {
		// Neither a searcher who goes away nor a query that is refused says anything
		// about the next one.
		if ctx.Err() == nil && !refused(err) {
			v.mu.Lock()
			v.rest = s.Now().Add(restTime)
			v.mu.Unlock()
		}
		return nil, fmt.Errorf("embed a query: %w", err)
	}
	q := quantised(got[0])
	v.mu.Lock()
	defer v.mu.Unlock()
	if q == nil || v.queries[key] != nil {
		return q, nil
	}
	if v.queries == nil {
		v.queries = map[string][]int8{}
	}
	if len(v.order) >= maxQueries {
		delete(v.queries, v.order[0])
		v.order = v.order[1:]
	}
	v.queries[key], v.order = q, append(v.order, key)
	return q, nil
}

// space is a person's copy, brought up to date if it has not been looked at for
// a while. One search at a time does that; what it has read stays, even if its
// time is not enough.
func (s *Service) space(ctx context.Context, person string) (*space, error) {
	ctx, cancel := context.WithTimeout(ctx, loadTime)
	defer cancel()
	v := &s.vectors
	p := v.person(person, s.Embedder.Model())
	select {
	case p.loading <- struct{}{}:
		defer func() { <-p.loading }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	v.mu.Lock()
	at, looked, read := p.at, p.looked, p.read
	v.mu.Unlock()
	now := s.Now()
	if now.Sub(looked) < lookAgain {
		return at, nil
	}
	n, last, err := s.Store.Learn.VectorCount(ctx, person, p.model)
	if err != nil {
		return nil, err
	}
	if now.Sub(read) >= readAgain || len(at.points) > n {
		at, read = &space{}, now
	}
	for again := true; ; again = false {
		full := false
		if at, full, err = s.load(ctx, person, p, at, read, n); err != nil {
			return nil, err
		}
		if len(at.points) == n && at.last() == last || len(at.points) > n && at.last() > last || full || !again {
			break
		}
		at, read = &space{}, now // something in between has changed
	}
	v.mu.Lock()
	p.looked = now
	v.mu.Unlock()
	return at, nil
}

// load reads the vectors behind those that a copy has, of which there are n or so,
// and keeps what it has read. It stops when the room is full.
func (s *Service) load(ctx context.Context, person string, p *personVectors, at *space, read time.Time, n int) (_ *space, full bool, err error) {
	v := &s.vectors
	for {
		room := at.room(v.most())
		page, expected := min(vectorPage, room-len(at.points)), min(n, room)
		if at.dims == 0 {
			page, expected = min(page, firstPage), 0 // there is no telling yet how much room they need
		}
		if page <= 0 {
			return at, true, nil
		}
		more, err := s.Store.Learn.Vectors(ctx, person, p.model, at.last(), page)
		if err != nil {
			return nil, false, err
		}
		at = at.with(more, expected)
		v.keep(person, p, at, read)
		if len(more) < page {
			return at, false, nil
		}
	}
}

// person finds a person's copy, or begins one.
func (v *vectors) person(person, model string) *personVectors {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.clock++
	p := v.people[person]
	if p == nil || p.model != model {
		if p != nil {
			v.bytes -= p.bytes
		}
		p = &personVectors{model: model, at: &space{}, loading: make(chan struct{}, 1), bytes: copyBytes}
		if v.people == nil {
			v.people = map[string]*personVectors{}
		}
		v.people[person] = p
		v.bytes += p.bytes
	}
	p.used = v.clock
	return p
}

// keep makes a space a person's copy, and drops copies of others until there is
// room for it. A copy that was dropped meanwhile is for those who wait for it only.
func (v *vectors) keep(person string, p *personVectors, at *space, read time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	was := p.bytes
	p.at, p.read, p.bytes = at, read, copyBytes+at.bytes()
	if v.people[person] != p {
		return
	}
	v.bytes -= was
	v.bytes += p.bytes
	for v.bytes > v.most() && len(v.people) > 1 {
		oldest := ""
		for name, other := range v.people {
			if other != p && (oldest == "" || other.used < v.people[oldest].used) {
				oldest = name
			}
		}
		v.bytes -= v.people[oldest].bytes
		delete(v.people, oldest)
	}
}

// drop forgets a person's copy if it has a point of that number or a higher one.
func (v *vectors) drop(person string, from int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if p := v.people[person]; p != nil && p.at.last() >= from {
		v.bytes -= p.bytes
		delete(v.people, person)
	}
}

func (v *vectors) most() int64 {
	if v.limit > 0 {
		return v.limit
	}
	return maxVectorBytes
}

// Index embeds the points that have no vector by the present model, of everybody in
// turns. It is called again and again, by one instance at a time; several would do
// the same work twice. It stops at the first error that asking again may mend; a
// text that the model takes not at all is left out from then on, until it is
// changed.
func (s *Service) Index(ctx context.Context) error {
	if s.Embedder == nil {
		return nil
	}
	model := s.Embedder.Model()
	for after := ""; ; {
		people, err := s.Store.Learn.LackVectors(ctx, model, after, indexPeople)
		if err != nil {
			return fmt.Errorf("look up who lacks vectors: %w", err)
		}
		if len(people) == 0 {
			return nil
		}
		after = people[len(people)-1]
		begun := make(map[string]store.PointKey, len(people)) // until where a person is done
		for len(people) > 0 {
			var more []string
			for _, person := range people {
				last, done, err := s.indexPerson(ctx, person, model, begun[person])
				if err != nil {
					return err
				}
				if begun[person] = last; !done {
					more = append(more, person)
				}
			}
			people = more
		}
	}
}

// indexPerson embeds some of a person's points behind a key.
func (s *Service) indexPerson(ctx context.Context, person, model string, after store.PointKey) (last store.PointKey, done bool, err error) {
	last = after
	for range indexTurn / indexBatch {
		points, err := s.Store.Learn.WithoutVector(ctx, person, model, last, indexBatch)
		if err != nil {
			return last, false, fmt.Errorf("look up points without vectors: %w", err)
		}
		if len(points) == 0 {
			return last, true, nil
		}
		made, err := s.embedPoints(ctx, points)
		// What was made before an error is kept.
		if len(made) > 0 {
			if err := s.Store.Learn.SaveVectors(ctx, person, model, made); err != nil {
				return last, false, fmt.Errorf("save vectors: %w", err)
			}
			s.vectors.drop(person, slices.MinFunc(made, func(a, b store.Vector) int { return cmp.Compare(a.Point, b.Point) }).Point)
		}
		if err != nil {
			return last, false, fmt.Errorf("embed points: %w", err)
		}
		end := &points[len(points)-1]
		last = store.PointKey{At: end.Created, Number: end.Number}
		if len(points) < indexBatch {
			return last, true, nil
		}
	}
	return last, false, nil
}

// embedPoints makes the vectors of points. If the texts are refused, it
// looks for the one that is to blame, by halves.
func (s *Service) embedPoints(ctx context.Context, points []store.Point) ([]store.Vector, error) {
	texts := make([]string, len(points))
	for i := range points {
		texts[i] = embedded(&points[i])
	}
	got, err := s.Embedder.Embed(ctx, texts)
	if err == nil && len(got) != len(texts) {
		err = fmt.Errorf("%d vectors for %d texts", len(got), len(texts))
	}
	switch {
	case err == nil:
		out := make([]store.Vector, len(points))
		for i := range points {
			out[i] = store.Vector{Point: points[i].Number, Version: points[i].Version, Data: packed(quantised(got[i]))}
		}
		return out, nil
	case !refused(err) || ctx.Err() != nil:
		return nil, err
	case len(points) == 1:
		// Perhaps everything is refused, because of the settings.
		if _, err := s.Embedder.Embed(ctx, []string{"text"}); err != nil {
			return nil, err
		}
		s.Logger.WarnContext(ctx, "the embedding model takes the text of a point not", "point", points[0].ID, "error", err)
		return []store.Vector{{Point: points[0].Number, Version: points[0].Version}}, nil
	}
	out, err := s.embedPoints(ctx, points[:len(points)/2])
	if err != nil {
		return out, err
	}
	more, err := s.embedPoints(ctx, points[len(points)/2:])
	return append(out, more...), err
}

// refused says whether an embedder blames the texts.
func refused(err error) bool {
	var r interface{ Refused() bool }
	return errors.As(err, &r) && r.Refused()
}

// embedded is the text of a point whose vector is made.
func embedded(p *store.Point) string {
	return strings.ToValidUTF8(clip("Question: "+p.Question+"\n\nAnswer: "+p.Answer, maxEmbedBytes), "")
}

func packed(v []int8) []byte {
	out := make([]byte, len(v))
	for i, x := range v {
		out[i] = byte(x)
	}
	return out
}
