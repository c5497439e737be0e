package learn

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"
)

// A stored vector has one signed byte for each number; the largest is scaled to ±127. This keeps
// only the direction, which is all that comparisons use. A person's vectors are copied into memory
// at their first search:
//
//   - Added points have higher numbers; they are read at the next refresh of the copy, at most
//     [refreshInterval] later.
//   - Points whose vector changed or was deleted are detected by the number of vectors, or at most
//     [reloadInterval] later, when the whole copy is read again. Until then they are found by their
//     old text. Results always show the text from the database, so deleted or outdated text is
//     never shown.
//   - [Service.Index] drops the copy in its own process after writing vectors that are in it.
const (
	// maxVectorBytes limits the memory of all copies together: a million points of 256 numbers. If
	// a person has more, only the oldest points are found by meaning. The least recently used
	// copies are dropped first.
	maxVectorBytes = 256 << 20
	// copyBytes is the overhead of a copy beside its vectors, in bytes.
	copyBytes = 1 << 10
	// vectorPage is how many vectors are read at a time.
	vectorPage      = 5000
	firstPage       = 100 // page size until the vector length is known
	refreshInterval = 10 * time.Second
	reloadInterval  = 10 * time.Minute
	// queryTimeout limits the embedding of a query, and loadTimeout the reading of vectors: a
	// person waits, and search by words works without them.
	queryTimeout = 1500 * time.Millisecond
	loadTimeout  = 2 * time.Second
	// embedderPause is how long searches skip an embedder after it failed.
	embedderPause = 15 * time.Second
	// maxQueries is how many query vectors are cached.
	maxQueries = 100
	// maxQueryBytes limits how much of a query is embedded.
	maxQueryBytes = 2 << 10
)

// vectors holds the vectors of people's points in memory.
type vectors struct {
	mu          sync.Mutex
	people      map[string]*personVectors
	bytes       int64
	useCount    int64             // number of uses so far
	queries     map[string][]int8 // by model and text
	order       []string          // of queries, oldest first
	pausedUntil time.Time         // no embedding requests until then
	limit       int64             // for tests; 0: maxVectorBytes
}

// personVectors is one person's copy. A set is never changed, only replaced; the mutex of vectors
// guards the fields.
type personVectors struct {
	model       string
	set         *vectorSet
	used        int64
	refreshedAt time.Time
	loadedAt    time.Time     // time of the last full read
	loading     chan struct{} // full while a goroutine reads
	bytes       int64
}

// searchMeaning returns points with a meaning similar to the query, best first. It returns none
// without an [Embedder].
func (s *Service) searchMeaning(ctx context.Context, person, query string) ([]ranked, error) {
	query = truncateBytes(strings.TrimSpace(query), maxQueryBytes)
	if s.Embedder == nil || query == "" {
		return nil, nil
	}
	at, err := s.personVectorSet(ctx, person)
	if err != nil {
		return nil, fmt.Errorf("read vectors: %w", err)
	}
	if len(at.points) == 0 {
		return nil, nil // the person has no vectors, so the query needs none
	}
	q, err := s.queryVector(ctx, query)
	if err != nil {
		return nil, err
	}
	return at.nearest(q), nil
}

// queryVector returns the vector of a query; nil while the embedder is paused.
func (s *Service) queryVector(ctx context.Context, query string) ([]int8, error) {
	v := &s.vectors
	key := s.Embedder.Model() + "\x00" + query
	v.mu.Lock()
	known, resting := v.queries[key], s.Now().Before(v.pausedUntil)
	v.mu.Unlock()
	if known != nil || resting {
		return known, nil
	}
	limited, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	got, err := s.Embedder.Embed(limited, []string{query})
	if err == nil && len(got) != 1 {
		err = fmt.Errorf("%d vectors for one text", len(got))
	}
	if err != nil {
		// A cancelled search or a rejected query does not mean that the next query fails.
		if ctx.Err() == nil && !isRefused(err) {
			v.mu.Lock()
			v.pausedUntil = s.Now().Add(embedderPause)
			v.mu.Unlock()
		}
		return nil, fmt.Errorf("embed a query: %w", err)
	}
	q := quantize(got[0])
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

// personVectorSet returns a person's vectors, refreshed if the last refresh is too old. One search
// at a time refreshes; what it has read is kept even if it runs out of time.
func (s *Service) personVectorSet(ctx context.Context, person string) (*vectorSet, error) {
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
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
	at, looked, read := p.set, p.refreshedAt, p.loadedAt
	v.mu.Unlock()
	now := s.Now()
	if now.Sub(looked) < refreshInterval {
		return at, nil
	}
	n, last, err := s.Store.Learn.VectorCount(ctx, person, p.model)
	if err != nil {
		return nil, err
	}
	if now.Sub(read) >= reloadInterval || len(at.points) > n {
		at, read = &vectorSet{}, now
	}
	for again := true; ; again = false {
		full := false
		if at, full, err = s.load(ctx, person, p, at, read, n); err != nil {
			return nil, err
		}
		if len(at.points) == n && at.maxNumber() == last || len(at.points) > n && at.maxNumber() > last || full ||
			!again {
			break
		}
		at, read = &vectorSet{}, now // vectors were changed meanwhile
	}
	v.mu.Lock()
	p.refreshedAt = now
	v.mu.Unlock()
	return at, nil
}

// load reads the vectors that a copy lacks, about n of them, and stores what it has read. It stops
// when the memory limit is reached.
func (s *Service) load(ctx context.Context, person string, p *personVectors, at *vectorSet, read time.Time,
	n int) (_ *vectorSet, full bool, err error) {
	v := &s.vectors
	for {
		room := at.capacity(v.maxBytes())
		page, expected := min(vectorPage, room-len(at.points)), min(n, room)
		if at.dims == 0 {
			page, expected = min(page, firstPage), 0 // their size is not known yet
		}
		if page <= 0 {
			return at, true, nil
		}
		more, err := s.Store.Learn.Vectors(ctx, person, p.model, at.maxNumber(), page)
		if err != nil {
			return nil, false, err
		}
		at = at.appended(more, expected)
		v.store(person, p, at, read)
		if len(more) < page {
			return at, false, nil
		}
	}
}

// person returns a person's copy, or creates one.
func (v *vectors) person(person, model string) *personVectors {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.useCount++
	p := v.people[person]
	if p == nil || p.model != model {
		if p != nil {
			v.bytes -= p.bytes
		}
		p = &personVectors{model: model, set: &vectorSet{}, loading: make(chan struct{}, 1), bytes: copyBytes}
		if v.people == nil {
			v.people = map[string]*personVectors{}
		}
		v.people[person] = p
		v.bytes += p.bytes
	}
	p.used = v.useCount
	return p
}

// store makes a set a person's copy and drops copies of others until it fits. If the copy itself
// was dropped meanwhile, only goroutines already waiting for it use the set.
func (v *vectors) store(person string, p *personVectors, at *vectorSet, read time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	was := p.bytes
	p.set, p.loadedAt, p.bytes = at, read, copyBytes+at.bytes()
	if v.people[person] != p {
		return
	}
	v.bytes -= was
	v.bytes += p.bytes
	for v.bytes > v.maxBytes() && len(v.people) > 1 {
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

// drop removes a person's copy if it contains the point with that number or a higher one.
func (v *vectors) drop(person string, from int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if p := v.people[person]; p != nil && p.set.maxNumber() >= from {
		v.bytes -= p.bytes
		delete(v.people, person)
	}
}

func (v *vectors) maxBytes() int64 {
	if v.limit > 0 {
		return v.limit
	}
	return maxVectorBytes
}
