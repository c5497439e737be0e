package learn

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"
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
