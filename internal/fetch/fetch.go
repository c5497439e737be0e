// Package fetch downloads images from untrusted addresses, only from the public internet.
//
// Any sender of a message can name an address: of our own database, of the router, of the cloud's
// metadata service (server-side request forgery). So every address is checked after the name was
// resolved, the connection goes only to the checked addresses, and each redirect is checked anew.
// The size, the duration and the type of a download are limited too.
package fetch

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Limits and defaults of a [Fetcher].
const (
	// DefaultMaxBytes is the default maximum size of an image; a photo of the glasses has less than
	// 1 MiB.
	DefaultMaxBytes int64 = 5 << 20
	// MaxBytesLimit is the upper bound of Options.MaxBytes: an image is held in memory.
	MaxBytesLimit int64 = 20 << 20
	// DefaultTimeout is the time for the whole download: resolving, connecting, redirects and body.
	DefaultTimeout = 15 * time.Second
	// DefaultMaxRedirects is the maximum number of redirects.
	DefaultMaxRedirects = 3
	// DefaultCacheBytes and DefaultCacheTTL bound the cache. A platform that repeats a question
	// about the same photo does so within minutes, and its links expire soon.
	DefaultCacheBytes int64 = 64 << 20
	DefaultCacheTTL         = time.Hour

	// maxHeader is the maximum size of a response header, in bytes.
	maxHeader = 64 << 10
	// maxConcurrent is the maximum number of concurrent downloads; it bounds the memory to
	// maxConcurrent times MaxBytes. More wait, within their timeout.
	maxConcurrent = 16
)

// Options configure a [Fetcher]. The zero value of each field means its default.
type Options struct {
	// AllowHosts are the allowed hosts: names, IP addresses, or "*.example.com" for all subdomains
	// (but not the name itself). Empty means any. Redirects are checked too.
	AllowHosts []string
	// AllowNets are networks that are allowed although they are not public, for example
	// 192.168.1.0/24.
	AllowNets []netip.Prefix
	// PrivateHosts are hosts that [Fetcher.Dial] may connect to although they are not public,
	// written like AllowHosts. Images are not downloaded from them.
	PrivateHosts []string
	// MaxBytes is the maximum size of an image, up to [MaxBytesLimit].
	MaxBytes int64
	// Timeout is the time for one whole download.
	Timeout time.Duration
	// MaxRedirects is the maximum number of redirects; negative means none.
	MaxRedirects int
	// CacheBytes is the size of the cache; negative means no cache.
	CacheBytes int64
	// CacheTTL is the lifetime of a cached image.
	CacheTTL time.Duration
	// Resolver looks up the addresses of hosts. Default: [net.DefaultResolver].
	Resolver Resolver
	// Logger gets a line at level debug for each failure. Default: none.
	Logger *slog.Logger
	// Registerer gets the counter patchbay_fetch_total. Several Fetchers with the same Registerer
	// share it. Default: none.
	Registerer prometheus.Registerer
}

// Fetcher downloads images. It is safe for concurrent use and needs no Close: everything that a
// call starts ends with it.
type Fetcher struct {
	guard        *guard
	privateGuard *guard // whose list has the private hosts; nil if there are none
	transport    *http.Transport
	maxBytes     int64
	timeout      time.Duration
	redirects    int
	cache        *cache
	log          *slog.Logger
	total        *prometheus.CounterVec
	slots        chan struct{}

	mu      sync.Mutex
	flights map[string]*flight
}

// New returns a Fetcher.
func New(o Options) *Fetcher {
	if o.Resolver == nil {
		o.Resolver = net.DefaultResolver
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	f := &Fetcher{
		guard:     newGuard(o.AllowHosts, o.AllowNets, o.Resolver),
		maxBytes:  min(orDefault(o.MaxBytes, DefaultMaxBytes), MaxBytesLimit),
		timeout:   orDefault(o.Timeout, DefaultTimeout),
		redirects: orDefault(o.MaxRedirects, DefaultMaxRedirects),
		cache:     newCache(orDefault(o.CacheBytes, DefaultCacheBytes), orDefault(o.CacheTTL, DefaultCacheTTL)),
		log:       o.Logger,
		total:     newTotal(o.Registerer),
		slots:     make(chan struct{}, maxConcurrent),
		flights:   map[string]*flight{},
	}
	if len(o.PrivateHosts) > 0 {
		f.privateGuard = newGuard(o.PrivateHosts, o.AllowNets, o.Resolver)
	}
	f.transport = &http.Transport{
		// No proxy, whatever the environment says: it would resolve the name again and connect to
		// any address.
		DialContext:            f.guard.connect,
		DisableKeepAlives:      true, // each request is checked like the first one
		DisableCompression:     true, // a small body cannot expand to a large one
		MaxResponseHeaderBytes: maxHeader,
		TLSHandshakeTimeout:    10 * time.Second,
	}
	return f
}

func orDefault[T int | int64 | time.Duration](v, otherwise T) T {
	if v == 0 {
		return otherwise
	}
	return max(v, 0)
}

// newTotal counts images by result: ok, cached (or shared with another caller's download) or a
// Reason.
func newTotal(r prometheus.Registerer) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "patchbay_fetch_total",
		Help: "Pictures fetched from addresses that came from outside, by result.",
	}, []string{"result"})
	if r == nil {
		return c
	}
	err := r.Register(c)
	if there, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
		if same, ok := there.ExistingCollector.(*prometheus.CounterVec); ok {
			return same
		}
	}
	if err != nil {
		panic(err) // the name is used by another metric: a programming error
	}
	return c
}

// flight is a download that several callers may wait for.
type flight struct {
	done  chan struct{}
	image *Image
	err   error
	// abandoned means that the downloading caller gave up before the end. The result does not count
	// for the others.
	abandoned bool
}

// Image downloads the image at an http or https address, or returns it from the cache. Concurrent
// calls for the same address share one download. The error is an *[Error].
func (f *Fetcher) Image(ctx context.Context, rawURL string) (*Image, error) {
	m, result, err := f.image(ctx, rawURL)
	if err != nil {
		e, ok := errors.AsType[*Error](err)
		if !ok {
			e = netError(ctx, err)
		}
		f.total.WithLabelValues(string(e.Reason)).Inc()
		f.log.DebugContext(ctx, "picture not fetched", "from", e.URL, "reason", string(e.Reason), "error", e.Err)
		return nil, e
	}
	f.total.WithLabelValues(result).Inc()
	return m, nil
}

func (f *Fetcher) image(ctx context.Context, rawURL string) (*Image, string, error) {
	u, err := f.guard.parse(rawURL)
	if err != nil {
		return nil, "", err
	}
	u.Fragment, u.RawFragment = "", ""
	key := u.String()
	for {
		if m := f.cache.get(key); m != nil {
			return m, "cached", nil
		}
		fl, first := f.joinFlight(key)
		if first {
			f.runFlight(ctx, fl, key, u)
			return fl.image, "ok", fl.err
		}
		select {
		case <-fl.done:
		case <-ctx.Done():
			e := netError(ctx, ctx.Err())
			e.URL = redacted(u)
			return nil, "", e
		}
		if !fl.abandoned {
			return fl.image, "cached", fl.err
		}
	}
}

// joinFlight returns the flight of an address, or a new one that the caller has to complete.
func (f *Fetcher) joinFlight(key string) (fl *flight, first bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if fl = f.flights[key]; fl != nil {
		return fl, false
	}
	fl = &flight{done: make(chan struct{})}
	f.flights[key] = fl
	return fl, true
}

// runFlight downloads in the caller's goroutine and completes the flight.
func (f *Fetcher) runFlight(ctx context.Context, fl *flight, key string, u *url.URL) {
	fl.abandoned = true // in case of a panic
	defer func() {
		f.mu.Lock()
		delete(f.flights, key)
		f.mu.Unlock()
		close(fl.done)
	}()
	fl.image, fl.err = f.download(ctx, u)
	if fl.err == nil {
		f.cache.put(key, fl.image)
	}
	fl.abandoned = fl.err != nil && ctx.Err() != nil
}

// download requests an image within the timeout, and returns an *Error.
func (f *Fetcher) download(ctx context.Context, u *url.URL) (*Image, error) {
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	m, at, err := f.follow(ctx, u)
	if err == nil {
		return m, nil
	}
	e := *netError(ctx, err)
	if e.URL == "" {
		e.URL = redacted(at)
	}
	return nil, &e
}

// follow follows redirects. It always returns the last address.
func (f *Fetcher) follow(ctx context.Context, u *url.URL) (*Image, *url.URL, error) {
	select {
	case f.slots <- struct{}{}:
		defer func() { <-f.slots }()
	case <-ctx.Done():
		return nil, u, ctx.Err()
	}
	for hop := 0; ; hop++ {
		m, next, err := f.request(ctx, u)
		if err != nil || m != nil {
			return m, u, err
		}
		if hop >= f.redirects {
			return nil, u, fail(HTTPStatus, "more than %d redirects", f.redirects)
		}
		if u.Scheme == "https" && next.Scheme == "http" {
			return nil, u, fail(ForbiddenAddress, "redirected from https to http")
		}
		if err := f.guard.check(next); err != nil {
			return nil, next, err
		}
		u = next
	}
}

// request makes one request, and returns an image or the address of a redirect.
func (f *Fetcher) request(ctx context.Context, u *url.URL) (*Image, *url.URL, error) {
	req, err := http.NewRequestWithContext(withRequest(ctx), http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, nil, fail(BadAddress, "cannot be requested")
	}
	req.Header.Set("User-Agent", "patchbay")
	req.Header.Set("Accept", "image/webp,image/jpeg,image/png,image/gif")
	// The transport instead of a client: no cookies, no Referer, and no redirect without a check.
	resp, err := f.transport.RoundTrip(req)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
		m, err := f.read(resp)
		return m, nil, err
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther,
		http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		next, err := resp.Location()
		if err != nil {
			return nil, nil, fail(BadAddress, "redirected to nowhere")
		}
		return nil, next, nil
	}
	return nil, nil, &Error{Reason: HTTPStatus, Status: resp.StatusCode}
}

// read reads the image of a response. The Content-Type is ignored, and a body that does not begin
// like an image is not read further.
func (f *Fetcher) read(resp *http.Response) (*Image, error) {
	if resp.ContentLength > f.maxBytes {
		return nil, fail(TooLarge, "%d bytes", resp.ContentLength)
	}
	body := bufio.NewReader(io.LimitReader(resp.Body, f.maxBytes+1))
	head, err := body.Peek(maxMagic)
	if err != nil && err != io.EOF {
		return nil, err
	}
	if sniff(head) == nil {
		return nil, fail(NotAnImage, "body does not begin as a picture")
	}
	data, err := io.ReadAll(body)
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > f.maxBytes {
		return nil, fail(TooLarge, "more than %d bytes", f.maxBytes)
	}
	return NewImage(data)
}

// Dial connects to an untrusted address if it is public, in AllowNets, or that of one of
// PrivateHosts. The caller owns the connection.
func (f *Fetcher) Dial(ctx context.Context, _, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err == nil && f.privateGuard != nil && f.privateGuard.isHostAllowed(strings.ToLower(strings.TrimSuffix(host,
		"."))) {
		ctx = context.WithValue(ctx, privateAllowedKey{}, true)
	}
	return f.guard.dialHost(ctx, address)
}
