package console_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/console"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

// discarded is a response writer that keeps only the status.
type discarded struct {
	header http.Header
	status int
}

func (d *discarded) Header() http.Header         { return d.header }
func (d *discarded) WriteHeader(status int)      { d.status = status }
func (d *discarded) Write(b []byte) (int, error) { return len(b), nil }

// While ten thousand guesses arrive at once from five thousand addresses, a browser that has signed
// in before can sign in, and memory stays bounded. The password hashes are real.
func TestManyGuesses(t *testing.T) {
	r := newRig(t, false)
	r.Accounts.Addresses = account.NewGuard(10, nil)
	pages := console.New(console.Options{
		Accounts: r.Accounts, Control: control.New(control.Options{Hub: r.Hub, Accounts: r.Accounts}),
		Lang: i18n.English, Version: "test",
		Address: func(r *http.Request) netip.Addr { return netip.MustParseAddr(r.Header.Get("X-Test-Address")) },
	})
	signIn := func(w http.ResponseWriter, address netip.Addr, password string, cookies ...*http.Cookie) {
		form := url.Values{"name": {"ada"}, "password": {password}}
		req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/signin", strings.NewReader(form.Encode()))
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("X-Test-Address", address.String())
		for _, c := range cookies {
			req.AddCookie(c)
		}
		pages.ServeHTTP(w, req)
	}
	home := netip.MustParseAddr("192.0.2.1")
	first := httptest.NewRecorder()
	signIn(first, home, "correct horse")
	if first.Code != http.StatusSeeOther {
		t.Fatal(first.Code)
	}
	var known []*http.Cookie
	for _, c := range first.Result().Cookies() {
		if strings.Contains(c.Name, "known") {
			known = append(known, c)
		}
	}

	// Near this limit the collector runs more often: a busy machine would otherwise collect so late
	// that garbage alone exceeds what is checked below.
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(384 << 20))
	var most atomic.Uint64
	measured, enough := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(measured)
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			most.Store(max(most.Load(), m.HeapAlloc))
			select {
			case <-tick.C:
			case <-enough:
				return
			}
		}
	}()
	var statuses sync.Map // int → *atomic.Int64
	for _, status := range []int{http.StatusForbidden, http.StatusTooManyRequests, http.StatusServiceUnavailable} {
		statuses.Store(status, new(atomic.Int64))
	}
	var wg sync.WaitGroup
	begin := make(chan struct{})
	for i := range 10_000 {
		wg.Go(func() {
			<-begin
			w := &discarded{header: http.Header{}}
			signIn(w, netip.AddrFrom4([4]byte{10, 0, byte(i % 5000 >> 8), byte(i % 5000)}), "guess")
			if n, ok := statuses.Load(w.status); ok {
				n.(*atomic.Int64).Add(1)
			} else {
				t.Errorf("a guess is answered %d", w.status)
			}
		})
	}
	close(begin)
	began := time.Now()
	showForm := httptest.NewRecorder()
	signIn(showForm, home, "correct horse", known...)
	took := time.Since(began)
	wg.Wait()
	close(enough)
	<-measured
	count := func(status int) int64 {
		n, _ := statuses.Load(status)
		return n.(*atomic.Int64).Load()
	}
	t.Logf("%d checked, %d past their limit, %d told to come back; signed in after %v; %d MB of heap at most",
		count(http.StatusForbidden),
		count(http.StatusTooManyRequests), count(http.StatusServiceUnavailable), took, most.Load()>>20)
	if showForm.Code != http.StatusSeeOther {
		t.Errorf("the browser that is known is answered %d", showForm.Code)
	}
	// The machine may be busy; on an idle one it takes a quarter of a second.
	if took > time.Minute {
		t.Errorf("it took %v", took)
	}
	if n := count(http.StatusForbidden); n == 0 || n > 100 {
		t.Errorf("%d passwords were checked", n)
	}
	// The requests themselves need some 180 MB; all passwords at once would need 640 GB
	// (argon2id, 64 MiB each).
	if most.Load() > 512<<20 {
		t.Errorf("%d MB of heap", most.Load()>>20)
	}
}
