package eyeclaw

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"patchbay/internal/plug/eyeclaw/sim"
)

// logbook collects log lines.
type logbook struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logbook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logbook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func logged(l *logbook) func(*Options) {
	return func(o *Options) {
		o.Logger = slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
}

// turnedAway reads the only frame that a refused client gets, and its close frame.
func turnedAway(t *testing.T, ws *websocket.Conn, want string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, data, err := ws.Read(ctx)
	if err != nil || string(data) != want {
		t.Errorf("got %s, %v; want %s", data, err, want)
	}
	if _, data, err := ws.Read(ctx); websocket.CloseStatus(err) != websocket.StatusPolicyViolation {
		t.Errorf("then %q, %v", data, err)
	}
}

const unauthorized = `{"type":"disconnect","reason":"unauthorized","reconnect":false}`

func TestToken_bad(t *testing.T) {
	var book logbook
	r := newRig(t, logged(&book))
	bad := strings.Repeat("bad0", 16)
	for _, query := range []string{"", "?sdk_token=", "?bot_id=7", "?sdk_token=" + bad, "?sdk_token=" + bad,
		"?sdk_token=x&sdk_token=" + goodToken} {
		ws, _, err := r.dial(query, nil)
		if err != nil {
			t.Fatalf("%q: %v", query, err)
		}
		turnedAway(t, ws, unauthorized)
	}
	if r.lookups != 2 {
		t.Errorf("%d look-ups for two different tokens", r.lookups)
	}
	if n := r.metric("bad_tokens_total", ""); n != 6 {
		t.Errorf("%v bad tokens counted", n)
	}
	log := book.String()
	if strings.Count(log, "bad or missing token") != 1 || strings.Contains(log, bad) ||
		strings.Contains(log, goodToken) {
		t.Errorf("log:\n%s", log)
	}
	if _, ok := r.s.Status(7); ok {
		t.Error("somebody got in")
	}
}

func TestToken_throttled(t *testing.T) {
	r := newRig(t)
	status := func(query string) int {
		t.Helper()
		ws, resp, err := r.dial(query, nil)
		if ws != nil {
			_ = ws.CloseNow()
		}
		if resp == nil {
			t.Fatal(err)
		}
		return resp.StatusCode
	}
	for i := range maxBadPerToken + 2 {
		want := http.StatusSwitchingProtocols
		if i >= maxBadPerToken {
			want = http.StatusTooManyRequests
		}
		if got := status("?sdk_token=same"); got != want {
			t.Errorf("try %d with the same token: %d, want %d", i, got, want)
		}
	}
	for i := maxBadPerToken + 2; i < maxBadPerIP; i++ {
		if got := status(fmt.Sprintf("?sdk_token=%d", i)); got != http.StatusSwitchingProtocols {
			t.Errorf("bad token %d of this address: %d", i, got)
		}
	}
	if got := status("?sdk_token=another"); got != http.StatusTooManyRequests {
		t.Errorf("bad token %d of this address: %d", maxBadPerIP, got)
	}
	if got := status("?sdk_token=" + goodToken); got != http.StatusSwitchingProtocols {
		t.Errorf("the good token: %d", got)
	}
}

func TestToken_otherKindOfBot(t *testing.T) {
	r := newRig(t)
	ws, _, err := r.dial("?sdk_token="+otherToken, nil)
	if err != nil {
		t.Fatal(err)
	}
	turnedAway(t, ws, `{"type":"disconnect","reason":"invalid_request","reconnect":false}`)
}

func TestToken_storeFails(t *testing.T) {
	var book logbook
	r := newRig(t, logged(&book))
	r.storeErr = errors.New("disk on fire")
	_, resp, _ := r.dial("?sdk_token="+goodToken, nil)
	if resp == nil || resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" {
		t.Errorf("got %v", resp)
	}
	if n := r.metric("bad_tokens_total", ""); n != 0 || strings.Contains(book.String(), goodToken) {
		t.Errorf("%v bad tokens; log %s", n, book.String())
	}
}

func TestStrikes_bounded(t *testing.T) {
	s := newBadTokenLimiter(time.Hour)
	for i := range 3 * maxLimiterEntries {
		s.record(fmt.Sprint("ip", i), fmt.Sprint("token", i))
	}
	for name, n := range map[string]int{"addresses": len(s.byIP.current), "earlier addresses": len(s.byIP.previous),
		"tokens": len(s.byToken.current), "earlier tokens": len(s.byToken.previous)} {
		if n > maxLimiterEntries {
			t.Errorf("%d %s are kept", n, name)
		}
	}
}

func TestLedger_windows(t *testing.T) {
	now := time.Now()
	l := windowCounter[string]{window: time.Minute}
	for i := range 5 {
		if k, before := l.increment("a", now); k.count != i+1 || before.count != 0 {
			t.Errorf("%d: %+v, %+v", i, k, before)
		}
	}
	if k, before := l.increment("a", now.Add(61*time.Second)); k.count != 1 || before.count != 5 {
		t.Errorf("in the next window: %+v, %+v", k, before)
	}
	if k, before := l.increment("a", now.Add(10*time.Minute)); k.count != 1 || before.count != 0 {
		t.Errorf("long after: %+v, %+v", k, before)
	}
}

// TestStrikes_askAgain checks that an unknown token is looked up again after a while, however often
// it is tried in the meantime: it may have become valid.
func TestStrikes_askAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newBadTokenLimiter(time.Minute)
		asked := 0
		for range 120 {
			if !s.isKnownBad("x") {
				asked++
			}
			s.record("ip", "x")
			time.Sleep(time.Second)
		}
		if want := int(2 * time.Minute / unknownTokenTTL); asked < want-2 || asked > want+2 {
			t.Errorf("the store was asked %d times in two minutes, want about %d", asked, want)
		}
	})
}

// TestLogsAreDiscreet checks that neither messages nor the token are logged.
func TestLogsAreDiscreet(t *testing.T) {
	var book logbook
	r := newRig(t, logged(&book))
	p := r.plugin(func(_ context.Context, c sim.Chat, piece func(string)) error {
		piece("PRIVATE answer")
		if c.Message == "PRIVATE fail" {
			return errors.New("PRIVATE error")
		}
		return nil
	})
	b := r.attachedBot()
	r.ask(t.Context(), b, "t1", "PRIVATE question").ends(t, "PRIVATE answer")
	_, _ = r.ask(t.Context(), b, "t2", "PRIVATE fail").end(t)
	p.Drop()
	p.wait(sim.Subscribed)
	c := r.subscribed()
	c.send(`{"action":"log","message":"PRIVATE log"}`)
	c.expectMessage("log")
	c.send(`{"type":"PRIVATE type"}`)
	c.raw(`{"command":"PRIVATE"}`)
	c.raw(`{"command":"subscribe","identifier":"{\"channel\":\"PRIVATE\"}"}`)
	c.expect("reject_subscription")
	if log := book.String(); strings.Contains(log, "PRIVATE") || strings.Contains(log, goodToken) ||
		!strings.Contains(log, "turn closed") {
		t.Errorf("log:\n%s", log)
	}
}
