package fetch

import (
	"container/list"
	"sync"
	"time"
)

// cache holds the most recently used images, bounded in bytes and in time. A limit of 0 bytes
// disables it. It is safe for concurrent use.
type cache struct {
	limit int64
	ttl   time.Duration

	mu    sync.Mutex
	bytes int64
	byURL map[string]*list.Element
	order list.List // of *cacheEntry, most recently used first
}

type cacheEntry struct {
	url   string
	image *Image
	until time.Time
}

// entryOverhead is the approximate memory of an entry besides its address and its image, in bytes.
const entryOverhead = 256

func (c *cacheEntry) size() int64 { return int64(len(c.url) + cap(c.image.Data) + entryOverhead) }

func newCache(limit int64, ttl time.Duration) *cache {
	return &cache{limit: limit, ttl: ttl, byURL: map[string]*list.Element{}}
}

// get returns an image that has not expired, or nil.
func (c *cache) get(url string) *Image {
	c.mu.Lock()
	defer c.mu.Unlock()
	el := c.byURL[url]
	if el == nil {
		return nil
	}
	e := el.Value.(*cacheEntry)
	if !time.Now().Before(e.until) {
		c.drop(el)
		return nil
	}
	c.order.MoveToFront(el)
	return e.image
}

// put stores an image, and evicts the least recently used ones.
func (c *cache) put(url string, m *Image) {
	e := &cacheEntry{url: url, image: m, until: time.Now().Add(c.ttl)}
	if e.size() > c.limit {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if el := c.byURL[url]; el != nil {
		c.drop(el)
	}
	c.byURL[url] = c.order.PushFront(e)
	c.bytes += e.size()
	for c.bytes > c.limit {
		c.drop(c.order.Back())
	}
}

// drop removes an entry. Requires mu.
func (c *cache) drop(el *list.Element) {
	e := c.order.Remove(el).(*cacheEntry)
	delete(c.byURL, e.url)
	c.bytes -= e.size()
}
