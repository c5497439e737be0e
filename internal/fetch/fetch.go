// Package fetch downloads pictures whose addresses came from outside, and from
// nowhere but the public internet.
//
// Whoever can talk to us can name an address: of our own database, of the
// router, of the cloud's metadata service. So every address is checked after the
// name was resolved, the connection goes to exactly the addresses that were
// checked, and each redirect starts over. Size, time and kind of what comes back
// are limited too.
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
	// DefaultMaxBytes is the largest picture unless Options say otherwise; a
	// photo of the glasses has less than 1 MiB.
	DefaultMaxBytes int64 = 5 << 20
	// MaxBytesLimit is the most that Options can ask for: a picture is held in
	// memory.
	MaxBytesLimit int64 = 20 << 20
	// DefaultTimeout is the time for everything: resolving, connecting,
	// redirects, the whole body.
	DefaultTimeout = 15 * time.Second
	// DefaultMaxRedirects is how often an address may send us on.
	DefaultMaxRedirects = 3
	// DefaultCacheBytes and DefaultCacheTTL bound what is kept. A platform that
	// asks again about the same photo does so within minutes, and its links are
	// dead after some.
	DefaultCacheBytes int64 = 64 << 20
	DefaultCacheTTL         = time.Hour

	// maxHeader bounds the head of a response in bytes.
	maxHeader = 64 << 10
	// maxConcurrent is how many downloads run at the same time; it bounds memory to
	// maxConcurrent times MaxBytes. More wait, within their time.
	maxConcurrent = 16
)

// Options for a [Fetcher]. The zero value of each field means its default.
type Options struct {
	// AllowHosts are the hosts that may be asked: names, IP addresses, or
	// "*.example.com" for everything below a name (but not the name itself); see
	// [CheckHosts]. Empty means any. Redirects have to stay within, too.
	AllowHosts []string
	// AllowNets are networks that may be connected to although they are not
	// public, for example 192.168.1.0/24.
	AllowNets []netip.Prefix
	// PrivateHosts are hosts that [Fetcher.Dial] connects to although they may not be
	// public, written like AllowHosts. Pictures are not fetched from them.
	PrivateHosts []string
	// MaxBytes is the largest picture, up to [MaxBytesLimit].
	MaxBytes int64
	// Timeout is the time for one picture, all in all.
	Timeout time.Duration
	// MaxRedirects is how many redirects are followed; negative means none.
	MaxRedirects int
	// CacheBytes is how much is kept in memory; negative means nothing.
	CacheBytes int64
	// CacheTTL is how long a picture is kept.
	CacheTTL time.Duration
	// Resolver finds the addresses of hosts. Default: [net.DefaultResolver].
	Resolver Resolver
	// Logger gets a line at level debug for each failure. Default: none.
	Logger *slog.Logger
	// Registerer gets the counter patchbay_fetch_total. Several Fetchers on one
	// share it. Default: none.
	Registerer prometheus.Registerer
}

// Fetcher downloads pictures. It is safe for concurrent use and needs no closing:
// whatever a call started ends with it.
type Fetcher struct {
	guard        *guard
	privateGuard *guard // whose list has the private hosts; nil: there are none
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

// New makes a Fetcher.
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
		// No proxy, whatever the environment says: it would resolve the name
		// again, and connect to where it likes.
		DialContext:            f.guard.connect,
		DisableKeepAlives:      true, // each request is checked as the first one was
		DisableCompression:     true, // pictures are compressed; a small body cannot become a large one
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

// newTotal counts pictures by how they ended: ok, cached (also: another caller
// was downloading it already) or a Reason.
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
		panic(err) // the name belongs to something else: a mistake in the program
	}
	return c
}

// flight is a download that several callers may wait for.
type flight struct {
	done  chan struct{}
	image *Image
	err   error
	// abandoned means that whoever downloaded gave up before it was done, which
	// says nothing about the picture.
	abandoned bool
}

// Image downloads the picture at an http or https address, or takes it from the
// cache. Callers that want the same address at the same time share one download.
// The error is an *[Error].
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

// joinFlight finds the download that is under way, or starts one that the caller has
// to complete.
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

// runFlight downloads in the caller's goroutine and lands the flight.
func (f *Fetcher) runFlight(ctx context.Context, fl *flight, key string, u *url.URL) {
	fl.abandoned = true // should this goroutine not get to the end
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

// download follows redirects to a picture.
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

// follow returns the address that it was at in any case.
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

// request makes one request, and returns a picture or where to look for it.
func (f *Fetcher) request(ctx context.Context, u *url.URL) (*Image, *url.URL, error) {
	req, err := http.NewRequestWithContext(withRequest(ctx), http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, nil, fail(BadAddress, "cannot be requested")
	}
	req.Header.Set("User-Agent", "patchbay")
	req.Header.Set("Accept", "image/webp,image/jpeg,image/png,image/gif")
	// The transport rather than a client: no cookies, no Referer, and no redirect
	// that we have not looked at.
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

// read takes the picture out of a response. What the headers say about its kind
// does not count, and what does not begin as a picture is not read on.
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

// Dial connects to an address that came from outside, if it is public, in AllowNets, or
// that of one of PrivateHosts. The connection is the caller's.
func (f *Fetcher) Dial(ctx context.Context, _, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err == nil && f.privateGuard != nil && f.privateGuard.isHostAllowed(strings.ToLower(strings.TrimSuffix(host,
		"."))) {
		ctx = context.WithValue(ctx, privateAllowedKey{}, true)
	}
	return f.guard.dialHost(ctx, address)
}
