package mcp

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"patchbay/internal/board"
	"patchbay/internal/fetch"
	"patchbay/internal/talk"
	"patchbay/internal/tool"
)

// Cloud is a service that an owner offers tools to: we connect to it, and it
// calls. XiaoZhi's cloud is one, for boards that stay with it.
type Cloud struct {
	// ID is unique for ever; Version changes whenever anything of it does.
	ID      string
	Version int64
	Slug    string
	Owner   string // person id
	// URL is the address, wss://…, with its token. It is a secret.
	URL string
	// Allow and Deny choose the tools, by full names and patterns with *.
	Allow, Deny []string
	// Most is how many tools are offered at most; such services break with many.
	// 0: 32.
	Most int
	// ResultBytes is how much of a result's text is sent; 0: 1,024.
	ResultBytes int
	// Guarded clouds belong to somebody who is not to reach what we can reach.
	Guarded bool
}

const (
	cloudTools  = 32
	cloudResult = 1024
	// The pauses between tries, doubled each time. The service's own sample does
	// the same.
	cloudFirstPause   = time.Second
	cloudLongestPause = 10 * time.Minute
	// cloudSteady is how long a connection must have held to begin with the
	// shortest pause again.
	cloudSteady = time.Minute
	// cloudDial bounds connecting.
	cloudDial = 10 * time.Second
	// leaseTime is how long an instance has the right to be the one that connects;
	// it renews it in time.
	leaseTime = 15 * time.Second
)

// CloudStatus tells how a cloud's connection is.
type CloudStatus struct {
	Connected bool
	Since     time.Time
	// Elsewhere says that another instance holds the connection.
	Elsewhere bool
	Trouble   talk.Say // what went wrong last, and what to do; zero if nothing did
	NextTry   time.Time
}

// CloudOptions make a [Clouds].
type CloudOptions struct {
	Server *Server
	// Lease takes, or renews, the right to be the one instance that does a thing,
	// and Release gives it back.
	Lease   func(ctx context.Context, name string, until time.Duration) (bool, error)
	Release func(ctx context.Context, name string) error
	// Dial connects for guarded clouds.
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
	clouds *Clouds
	cancel context.CancelFunc
	first  time.Duration // pause; tests shorten it

	mu     sync.Mutex
	status CloudStatus
}

// NewClouds makes a Clouds without any.
func NewClouds(o CloudOptions) *Clouds {
	return &Clouds{CloudOptions: o, all: map[string]*cloud{}}
}

// Set makes the given clouds those that there are. It does not wait for their
// connections.
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
		it := &cloud{Cloud: c, clouds: cs, cancel: cancel, first: cloudFirstPause}
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

// Status tells how a cloud is, and false if there is no such.
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

// Close ends all connections and waits for their end.
func (cs *Clouds) Close() {
	cs.mu.Lock()
	cs.closed = true
	for _, c := range cs.all {
		c.cancel()
	}
	cs.mu.Unlock()
	cs.work.Wait()
}

var (
	sayCloudRefused = talk.Say{Zh: "对方拒绝了这个地址，请从控制台重新复制。", En: "The service refuses the address; copy it again from its console."}
	sayCloudPrivate = talk.Say{
		Zh: "这个地址通向内网或特殊网络，只有管理员添加的服务才能到那里。请使用公网地址，或请管理员放行那台主机（fetch.private_hosts）。",
		En: "The address leads to a private or special network, where only the services of administrators may be. Use a public address, or ask an administrator to allow that host (fetch.private_hosts).",
	}
	sayCloudAway  = talk.Say{Zh: "无法连接到该服务，稍后会重试。", En: "The service cannot be reached; it is tried again."}
	sayCloudEnded = talk.Say{Zh: "对方断开了连接，稍后会重试。", En: "The service ended the connection; it is tried again."}
)

// run keeps a connection, on one instance only, until ctx ends.
func (c *cloud) run(ctx context.Context) {
	pause := c.first
	lease := "cloud:" + c.ID
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeLimit)
		defer cancel()
		if err := c.clouds.Release(ctx, lease); err != nil {
			c.log().Warn("a lease was not given back", "lease", lease, "error", err)
		}
	}()
	for ctx.Err() == nil {
		mine, err := c.clouds.Lease(ctx, lease, leaseTime)
		if err != nil || !mine {
			c.set(func(s *CloudStatus) { *s = CloudStatus{Elsewhere: err == nil} })
			wait(ctx, leaseTime/3)
			continue
		}
		began := time.Now()
		say := c.connect(ctx, lease)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > cloudSteady {
			pause = c.first
		}
		rest := pause/2 + rand.N(pause/2+1)
		pause = min(2*pause, cloudLongestPause)
		c.set(func(s *CloudStatus) { *s = CloudStatus{Trouble: say, NextTry: time.Now().Add(rest)} })
		c.rest(ctx, lease, rest)
	}
}

// rest waits for the next try, keeping the lease.
func (c *cloud) rest(ctx context.Context, lease string, d time.Duration) {
	until := time.Now().Add(d)
	for ctx.Err() == nil {
		left := time.Until(until)
		if left <= 0 {
			return
		}
		wait(ctx, min(left, leaseTime/3))
		if mine, err := c.clouds.Lease(ctx, lease, leaseTime); err == nil && !mine {
			return
		}
	}
}

func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

type warner interface {
	Warn(msg string, args ...any)
	Info(msg string, args ...any)
}

func (c *cloud) log() warner {
	return c.clouds.Server.Logger.With("cloud", c.Slug, "host", host(c.URL))
}

// host is what may be shown of an address that holds a token.
func host(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Host
}

func (c *cloud) set(f func(*CloudStatus)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(&c.status)
}

// connect connects once and serves until the connection ends. It says what went
// wrong.
func (c *cloud) connect(ctx context.Context, lease string) talk.Say {
	dialing, cancel := context.WithTimeout(ctx, cloudDial)
	defer cancel()
	conn, resp, err := websocket.Dial(dialing, c.URL, &websocket.DialOptions{HTTPClient: c.client()})
	if err != nil {
		say := sayCloudAway
		switch {
		case fetch.Forbidden(err):
			say = sayCloudPrivate
		case resp != nil && resp.StatusCode/100 == 4:
			say = sayCloudRefused
		}
		// The error names the address, and with it the token.
		c.log().Warn("a cloud cannot be reached", "status", statusCode(resp), "reason", say.En)
		return say
	}
	c.set(func(s *CloudStatus) { *s = CloudStatus{Connected: true, Since: time.Now()} })
	c.log().Info("a cloud is connected")
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var keeping sync.WaitGroup
	defer keeping.Wait()
	defer stop(nil)
	keeping.Go(func() { c.keepLease(ctx, lease, stop) })
	rules := board.Rules{Allow: c.Allow, Deny: c.Deny, Dangerous: exact(c.Allow)}.String()
	who := caller{access: board.Access{
		Caller: tool.Caller{Person: c.Owner, Key: c.ID, Bound: rules, Address: host(c.URL), Door: doorSocket, Program: c.Slug}, Rules: rules,
	}}
	err = c.clouds.Server.serveConn(ctx, conn, who, dialect{
		door: doorSocket, most: orElse(c.Most, cloudTools), resultBytes: orElse(c.ResultBytes, cloudResult),
	})
	c.log().Info("a cloud's connection has ended", "reason", closeReason(err))
	return sayCloudEnded
}

// exact are the patterns that are names: who names a dangerous tool means it.
func exact(patterns []string) []string {
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

// closeReason is why a connection ended, without addresses.
func closeReason(err error) string {
	if code := websocket.CloseStatus(err); code >= 0 {
		return fmt.Sprintf("closed with %d", code)
	}
	if errors.Is(err, errLease) {
		return err.Error()
	}
	return "broken"
}

var errLease = errors.New("another instance has taken over")

// keepLease renews the lease while a connection holds, and ends the connection
// when another instance has it.
func (c *cloud) keepLease(ctx context.Context, lease string, lost context.CancelCauseFunc) {
	for {
		wait(ctx, leaseTime/3)
		if ctx.Err() != nil {
			return
		}
		if mine, err := c.clouds.Lease(ctx, lease, leaseTime); err == nil && !mine {
			lost(errLease)
			return
		}
	}
}

// client connects without following redirects, which would carry the token away.
func (c *cloud) client() *http.Client {
	t := &http.Transport{Proxy: http.ProxyFromEnvironment, TLSHandshakeTimeout: cloudDial, DisableKeepAlives: true}
	if c.Guarded {
		t.Proxy, t.DialContext = nil, c.clouds.Dial
	}
	return &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}
