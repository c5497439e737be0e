package mcp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"patchbay/internal/fetch"
	"patchbay/internal/hub"
	"patchbay/internal/i18n"
	"patchbay/internal/netx"
	"patchbay/internal/tool"
)

// Cloud is a service that an account offers its tools to: Patchbay dials the service, and the
// service calls tools over that connection. XiaoZhi's cloud is one, for boards that stay connected
// to it (wss://api.xiaozhi.me/mcp/; github.com/78/mcp-calculator at c537f71 is its sample).
type Cloud struct {
	// ID is never reused; Version changes whenever anything of it does.
	ID      string
	Version int64
	Slug    string
	Owner   string // person id
	// URL is the address, wss://…, with its token. It is a secret.
	URL string
	// Allow and Deny choose the tools, by full names and patterns with *.
	Allow, Deny []string
	// MaxTools limits the number of offered tools, because such services fail with long lists; 0
	// means 32, the default of github.com/xinnan-tech/xiaozhi-mqtt-gateway at 93f026a (app.js,
	// max_tools_count).
	MaxTools int
	// ResultBytes limits the text of a result; 0 means 1,024.
	ResultBytes int
	// Untrusted means that the owner may not reach internal addresses; Dial of [CloudOptions]
	// connects.
	Untrusted bool
}

const (
	defaultCloudTools       = 32
	defaultCloudResultBytes = 1024
	// The back-off between connection attempts, doubled each time, as in the service's own sample
	// (github.com/78/mcp-calculator at c537f71).
	cloudMinBackoff = time.Second
	cloudMaxBackoff = 10 * time.Minute
	// cloudStableAfter is how long a connection must last to reset the back-off.
	cloudStableAfter = time.Minute
	// cloudDialTimeout limits one connection attempt.
	cloudDialTimeout = 10 * time.Second
	// leaseDuration is how long an instance holds the lease to be the one that connects; it
	// renews the lease before it expires.
	leaseDuration = 15 * time.Second
)

// CloudStatus is the state of a cloud's connection.
type CloudStatus struct {
	Connected bool
	Since     time.Time
	// OnOtherInstance means that another instance holds the connection.
	OnOtherInstance bool
	Problem         i18n.Text // last error and its remedy; zero without an error
	NextTry         time.Time
}

// CloudOptions are the dependencies of [NewClouds].
type CloudOptions struct {
	Server *Server
	// Lease takes or renews the lease that makes this instance the only one that connects;
	// Release gives it back.
	Lease   func(ctx context.Context, name string, until time.Duration) (bool, error)
	Release func(ctx context.Context, name string) error
	// Dial connects for untrusted clouds.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Clouds keeps the connections to all clouds. It is safe for concurrent use.
type Clouds struct {
	CloudOptions

	mu     sync.Mutex
	all    map[string]*cloud
	closed bool
	work   sync.WaitGroup
}

type cloud struct {
	Cloud
	clouds     *Clouds
	cancel     context.CancelFunc
	minBackoff time.Duration // first back-off; tests shorten it

	mu     sync.Mutex
	status CloudStatus
}

// NewClouds returns a Clouds without any cloud.
func NewClouds(o CloudOptions) *Clouds {
	return &Clouds{CloudOptions: o, all: map[string]*cloud{}}
}

// Set replaces the list of clouds. It does not wait for their connections.
func (cs *Clouds) Set(list []Cloud) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.closed {
		return
	}
	wanted := map[string]bool{}
	for _, c := range list {
		wanted[c.ID] = true
		if have := cs.all[c.ID]; have != nil {
			if have.Version == c.Version {
				continue
			}
			have.cancel()
		}
		ctx, cancel := context.WithCancel(cs.Server.ctx)
		it := &cloud{Cloud: c, clouds: cs, cancel: cancel, minBackoff: cloudMinBackoff}
		cs.all[c.ID] = it
		cs.work.Go(func() {
			defer cancel()
			it.run(ctx)
		})
	}
	for id, c := range cs.all {
		if !wanted[id] {
			c.cancel()
			delete(cs.all, id)
		}
	}
}

// Status returns the state of a cloud, and false if the id is unknown.
func (cs *Clouds) Status(id string) (CloudStatus, bool) {
	cs.mu.Lock()
	c := cs.all[id]
	cs.mu.Unlock()
	if c == nil {
		return CloudStatus{}, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.status, true
}

// Close ends all connections and waits until they are closed.
func (cs *Clouds) Close() {
	cs.mu.Lock()
	cs.closed = true
	for _, c := range cs.all {
		c.cancel()
	}
	cs.mu.Unlock()
	cs.work.Wait()
}

const (
	msgCloudRefused = i18n.Message("The service refuses the address; copy it again from its console.")
	msgCloudPrivate = i18n.Message("The address leads to a private or special network, where only the services of administrators may be. Use a public address, or ask an administrator to allow that host (fetch.private_hosts).")
	msgCloudAway    = i18n.Message("The service cannot be reached; it is tried again.")
	msgCloudEnded   = i18n.Message("The service ended the connection; it is tried again.")
)

// run keeps a connection, on one instance at a time, until ctx ends.
func (c *cloud) run(ctx context.Context) {
	pause := netx.Backoff{First: c.minBackoff, Max: cloudMaxBackoff, Jitter: netx.HalfJitter}
	lease := "cloud:" + c.ID
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
		defer cancel()
		if err := c.clouds.Release(ctx, lease); err != nil {
			c.log().Warn("a lease was not given back", "lease", lease, "error", err)
		}
	}()
	for ctx.Err() == nil {
		mine, err := c.clouds.Lease(ctx, lease, leaseDuration)
		if err != nil || !mine {
			c.updateStatus(func(s *CloudStatus) { *s = CloudStatus{OnOtherInstance: err == nil} })
			_ = netx.Wait(ctx, leaseDuration/3)
			continue
		}
		began := time.Now()
		say := c.connect(ctx, lease)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > cloudStableAfter {
			pause.Reset()
		}
		rest := pause.Next()
		c.updateStatus(func(s *CloudStatus) { *s = CloudStatus{Problem: say.With(), NextTry: time.Now().Add(rest)} })
		c.waitForRetry(ctx, lease, rest)
	}
}

// waitForRetry waits for the next attempt and keeps renewing the lease.
func (c *cloud) waitForRetry(ctx context.Context, lease string, d time.Duration) {
	until := time.Now().Add(d)
	for ctx.Err() == nil {
		left := time.Until(until)
		if left <= 0 {
			return
		}
		_ = netx.Wait(ctx, min(left, leaseDuration/3))
		if mine, err := c.clouds.Lease(ctx, lease, leaseDuration); err == nil && !mine {
			return
		}
	}
}

type leveledLogger interface {
	Warn(msg string, args ...any)
	Info(msg string, args ...any)
}

func (c *cloud) log() leveledLogger {
	return c.clouds.Server.Logger.With("cloud", c.Slug, "host", hostOf(c.URL))
}

// hostOf returns the part of an address that may be shown; the address holds a token.
func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Host
}

func (c *cloud) updateStatus(f func(*CloudStatus)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(&c.status)
}

// connect connects once, serves until the connection ends, and returns the reason of its end.
func (c *cloud) connect(ctx context.Context, lease string) i18n.Message {
	dialing, cancel := context.WithTimeout(ctx, cloudDialTimeout)
	defer cancel()
	conn, resp, err := websocket.Dial(dialing, c.URL, &websocket.DialOptions{HTTPClient: c.httpClient()})
	if err != nil {
		say := msgCloudAway
		switch {
		case fetch.IsForbidden(err):
			say = msgCloudPrivate
		case resp != nil && resp.StatusCode/100 == 4:
			say = msgCloudRefused
		}
		// The error contains the address, and with it the token.
		c.log().Warn("a cloud cannot be reached", "status", statusCode(resp), "reason", say.In(i18n.English))
		return say
	}
	c.updateStatus(func(s *CloudStatus) { *s = CloudStatus{Connected: true, Since: time.Now()} })
	c.log().Info("a cloud is connected")
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var renewing sync.WaitGroup
	defer renewing.Wait()
	defer stop(nil)
	renewing.Go(func() { c.keepLease(ctx, lease, stop) })
	rules := hub.Rules{Allow: c.Allow, Deny: c.Deny, Dangerous: exactNames(c.Allow)}.String()
	who := caller{access: hub.Access{
		Caller: tool.Caller{Person: c.Owner, Key: c.ID, KeyRules: rules, Address: hostOf(c.URL),
			Channel: channelWebSocket, Program: c.Slug}, Rules: rules,
	}}
	err = c.clouds.Server.serveConn(ctx, conn, who, dialect{
		channel: channelWebSocket, maxTools: orElse(c.MaxTools, defaultCloudTools),
		resultBytes: orElse(c.ResultBytes, defaultCloudResultBytes),
	})
	c.log().Info("a cloud's connection has ended", "reason", closeReason(err))
	return msgCloudEnded
}

// exactNames returns the patterns without wildcards: naming a dangerous tool in full allows it.
func exactNames(patterns []string) []string {
	return slices.DeleteFunc(slices.Clone(patterns), func(p string) bool { return strings.Contains(p, "*") })
}

func orElse(n, otherwise int) int {
	if n == 0 {
		return otherwise
	}
	return n
}

func statusCode(r *http.Response) int {
	if r == nil {
		return 0
	}
	return r.StatusCode
}

// closeReason returns why a connection ended, without addresses.
func closeReason(err error) string {
	if code := websocket.CloseStatus(err); code >= 0 {
		return fmt.Sprintf("closed with %d", code)
	}
	if errors.Is(err, errLeaseLost) {
		return err.Error()
	}
	return "broken"
}

var errLeaseLost = errors.New("another instance has taken over")

// keepLease renews the lease while a connection lasts, and ends the connection when another
// instance holds the lease.
func (c *cloud) keepLease(ctx context.Context, lease string, lost context.CancelCauseFunc) {
	for {
		if netx.Wait(ctx, leaseDuration/3) != nil {
			return
		}
		if mine, err := c.clouds.Lease(ctx, lease, leaseDuration); err == nil && !mine {
			lost(errLeaseLost)
			return
		}
	}
}

// httpClient returns a client that does not follow redirects, which would leak the token.
func (c *cloud) httpClient() *http.Client {
	t := &http.Transport{Proxy: http.ProxyFromEnvironment, TLSHandshakeTimeout: cloudDialTimeout,
		DisableKeepAlives: true}
	if c.Untrusted {
		t.Proxy, t.DialContext = nil, c.clouds.Dial
	}
	return &http.Client{Transport: t, CheckRedirect: func(*http.Request,
		[]*http.Request) error {
		return http.ErrUseLastResponse
	}}
}
