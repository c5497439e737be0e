package test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"patchbay/internal/bus/bustest"
	"patchbay/internal/plug/eyeclaw/sim"
	"patchbay/internal/proxytest"
	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

// balancer is a load balancer for the instances that report to be ready.
type balancer struct {
	*server
	mu    sync.Mutex
	all   []*backend
	next  int
	empty atomic.Int64 // requests while no instance was ready
}

type backend struct {
	url   string
	proxy *httputil.ReverseProxy
	ready atomic.Bool
}

func newBalancer(t *testing.T, backends int) *balancer {
	t.Helper()
	b := &balancer{all: make([]*backend, backends)}
	front := httptest.NewServer(http.HandlerFunc(b.serve))
	b.server = &server{url: front.URL}
	watching, stop := context.WithCancel(ctx)
	var work sync.WaitGroup
	work.Go(func() { b.watch(watching) })
	t.Cleanup(func() {
		stop()
		work.Wait()
		front.CloseClientConnections()
		front.Close()
	})
	return b
}

// lead directs one backend of the balancer to a server once that is ready.
func (b *balancer) lead(t *testing.T, i int, s *server) {
	t.Helper()
	at, err := url.Parse(s.url)
	must(t, err)
	fresh := &backend{url: s.url, proxy: httputil.NewSingleHostReverseProxy(at)}
	fresh.proxy.FlushInterval = -1
	fresh.proxy.Transport = &http.Transport{DisableKeepAlives: true} // nginx's default
	b.mu.Lock()
	b.all[i] = fresh
	b.mu.Unlock()
	eventually(t, "the load balancer finds it", fresh.ready.Load)
}

// watch checks /readyz of all instances, as load balancers do.
func (b *balancer) watch(ctx context.Context) {
	client := &http.Client{Timeout: 5 * time.Second}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		b.mu.Lock()
		all := append([]*backend(nil), b.all...)
		b.mu.Unlock()
		for _, to := range all {
			if to == nil {
				continue
			}
			resp, err := client.Get(to.url + "/readyz")
			to.ready.Store(err == nil && resp.StatusCode == http.StatusOK)
			if err == nil {
				resp.Body.Close()
			}
		}
	}
}

func (b *balancer) serve(w http.ResponseWriter, r *http.Request) {
	// Go's proxy fails if the response comes before it has read the whole request.
	question, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(question))
	b.mu.Lock()
	var to *backend
	for range b.all {
		b.next++
		if c := b.all[b.next%len(b.all)]; c != nil && c.ready.Load() {
			to = c
			break
		}
	}
	b.mu.Unlock()
	if to == nil {
		b.empty.Add(1)
		http.Error(w, "nobody is ready", http.StatusServiceUnavailable)
		return
	}
	to.proxy.ServeHTTP(w, r)
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	deadline := time.After(2 * time.Minute)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("it did not happen that %s", what)
		}
	}
}

// instancePair is two instances behind a load balancer, with a bot that is answered by a plugin,
// which connects through the balancer. The first instance reaches the bus through a proxy.
type instancePair struct {
	*balancer
	places  [2]*installation
	servers [2]*server
	bus     *proxytest.Proxy
	glasses addedKey // for glasses that ask that bot
	others  addedKey // for glasses that ask an echo bot
	admin   addedKey
}

const pluginSays = "one two"

func newInstancePair(t *testing.T) *instancePair {
	t.Helper()
	o := storetest.Postgres(t)
	nats := bustest.Cluster(t, 1)
	at, err := url.Parse(nats)
	must(t, err)
	p := &instancePair{balancer: newBalancer(t, 2), bus: proxytest.New(t, at.Host)}
	for i, bus := range []string{"nats://" + p.bus.Addr(), nats} {
		o = store.Options{URL: o.URL, Folder: t.TempDir()}
		p.places[i] = newInstallation(o, "PATCHBAY_SECRET="+strings.Repeat("5e", 32), "PATCHBAY_BUS_URL="+bus)
	}
	p.places[0].run(t, "user", "add", "ada")
	var bot addedBot
	p.places[0].json(t, &bot, "bot", "add", "--name", "claw", "--kind", "eyeclaw")
	p.places[0].json(t, &p.glasses, "key", "add", "--name", "glasses", "--scope", "lingzhu",
		"--bot", fmt.Sprint(bot.ID))
	p.places[0].run(t, "bot", "add", "--name", "parrot", "--kind", "echo")
	p.places[0].json(t, &p.others, "key", "add", "--name", "others", "--scope", "lingzhu", "--bot", "parrot")
	p.places[0].json(t, &p.admin, "key", "add", "--name", "admin", "--scope", "admin")
	for i, at := range p.places {
		p.servers[i] = at.serve(t)
		p.lead(t, i, p.servers[i])
	}
	plugin := sim.New(sim.Options{Server: p.url, Token: bot.SDKToken, Scale: 0.02,
		Upstream: func(_ context.Context, _ sim.Chat, piece func(string)) error {
			piece("one ")
			piece("two")
			return nil
		}})
	running, stop := context.WithCancel(ctx)
	var work sync.WaitGroup
	work.Go(func() { plugin.Run(running) })
	t.Cleanup(func() { stop(); work.Wait() })
	awaitAnswer(t, p.server, p.glasses.Key, pluginSays)
	return p
}

// Instances restart one after another while glasses ask and a program makes calls: no request is
// refused. ROLLING_RESTARTS is the number of restarts.
func TestRollingRestarts(t *testing.T) {
	restarts := 3
	if s := os.Getenv("ROLLING_RESTARTS"); s != "" {
		var err error
		restarts, err = strconv.Atoi(s)
		must(t, err)
	}
	p := newInstancePair(t)
	loading, stop := context.WithCancel(ctx)
	defer stop()
	var load sync.WaitGroup
	var asked, looked, slowest atomic.Int64
	for wearer := range 3 {
		load.Go(func() {
			for n := 0; pace(loading); n++ {
				began := time.Now()
				a, err := p.ask(p.glasses.Key, question("x", fmt.Sprint("U", wearer), fmt.Sprint(wearer, "-", n),
					fmt.Sprint("question ", n)), nil)
				// it may have waited for other turns
				if err != nil || !strings.HasSuffix(a.text, pluginSays) || !a.done {
					t.Errorf("question %d of wearer %d: %q, done %t, %v, after %v", n, wearer, a.text, a.done, err,
						time.Since(began))
				}
				asked.Add(1)
				slowest.Store(max(slowest.Load(), int64(time.Since(began))))
			}
		})
	}
	load.Go(func() {
		for pace(loading) {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+"/api/v1/bots", nil)
			must(t, err)
			req.Header.Set("Authorization", "Bearer "+p.admin.Key)
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Errorf("a look: %v", err)
				continue
			}
			resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				t.Errorf("a look: %s", resp.Status)
			}
			looked.Add(1)
		}
	})
	for i := range restarts {
		which := i % 2
		if i == 0 { // a person may start it
			if out := p.places[which].run(t, "drain"); !strings.Contains(out, "draining") {
				t.Errorf("patchbay drain says %q", out)
			}
			if status, body := get(t, p.servers[which].url+"/readyz"); status != http.StatusServiceUnavailable ||
				!strings.Contains(body, `"draining"`) {
				t.Errorf("/readyz is %d %s", status, body)
			}
		}
		began := time.Now()
		must(t, p.servers[which].stop())
		stopped := time.Since(began)
		p.servers[which] = p.places[which].serve(t)
		p.lead(t, which, p.servers[which])
		t.Logf("restart %d: stopped after %v, back after %v", i+1, stopped.Round(time.Millisecond),
			time.Since(began).Round(time.Millisecond))
	}
	stop()
	load.Wait()
	if p.empty.Load() != 0 {
		t.Errorf("nobody was ready for %d requests", p.empty.Load())
	}
	t.Logf("%d questions and %d looks, the slowest question took %v", asked.Load(), looked.Load(),
		time.Duration(slowest.Load()).Round(time.Millisecond))
}

// pace waits between two operations of a load. It returns false once the load should end.
func pace(ctx context.Context) bool {
	timer := time.NewTimer(50 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// An instance that is disconnected from the bus reports it, sends its plugin to the other instance,
// where the plugin can be asked, and accepts devices again once the bus is back.
func TestCutOffFromTheBus(t *testing.T) {
	p := newInstancePair(t)
	first, second := p.servers[0], p.servers[1]
	here := func() bool { // the plugin is at the first instance, and only that can ask it
		a, err := first.ask(p.glasses.Key, question("x", "U", fmt.Sprint(time.Now().UnixNano()), "hello"), nil)
		return err == nil && a.text == pluginSays
	}
	has := func(i int) bool { // instance i has the plugin
		h := &boardServer{t, p.places[i], p.servers[i], p.admin.Key}
		return h.metric("patchbay_cable_connections") == 1
	}
	if !has(0) { // move it to the first instance
		p.places[1].run(t, "drain")
		eventually(t, "the plugin is at the first", func() bool { return has(0) && here() })
		p.places[1].run(t, "drain", "--undo")
		eventually(t, "the second is ready", func() bool {
			status,
				_ := get(t, second.url+"/readyz")
			return status == http.StatusOK
		})
	}
	p.bus.Mute()
	cut := time.Now()
	eventually(t, "it is not ready", func() bool {
		status, body := get(t, first.url+"/readyz")
		return status == http.StatusServiceUnavailable && strings.Contains(body, `"bus"`)
	})
	if a, err := first.ask(p.others.Key, question("x", "U", "1", "hello"), nil); err != nil || a.text != "hello" {
		t.Errorf("the first does not answer what it can: %q, %v", a.text, err)
	}
	eventually(t, "the plugin can be asked from the second", func() bool {
		if !has(1) {
			return false
		}
		a, err := second.ask(p.glasses.Key, question("x", "U", fmt.Sprint(time.Now().UnixNano()), "hello"), nil)
		return err == nil && a.text == pluginSays
	})
	t.Logf("the plugin can be asked %v after the cut", time.Since(cut).Round(time.Millisecond))
	p.bus.Pass()
	eventually(t, "the first is ready again", func() bool {
		status,
			_ := get(t, first.url+"/readyz")
		return status == http.StatusOK
	})
	awaitAnswer(t, first, p.glasses.Key, pluginSays)
}
