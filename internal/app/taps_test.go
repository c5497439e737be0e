package app

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"patchbay/internal/account"
	"patchbay/internal/hub"
	"patchbay/internal/hub/hubtest"
	"patchbay/internal/i18n"
	"patchbay/internal/plug/learn"
	"patchbay/internal/plug/learn/quiz"
	"patchbay/internal/plug/rokid"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// tapper is a person with glasses who taps suggestions. The handler, the hub and the quiz share a
// clock, which the test sets.
type tapper struct {
	*hubtest.Rig
	t       *testing.T
	service *learn.Service
	url     string
	key     string
	bot     int64
	clock   atomic.Int64 // in milliseconds
	asked   int          // how often the bot was asked
	done    deeds        // counts so far
}

// deeds counts the effects of taps.
type deeds struct{ asked, points, drafts, reviews int }

func (d deeds) minus(o deeds) deeds {
	return deeds{d.asked - o.asked, d.points - o.points, d.drafts - o.drafts, d.reviews - o.reviews}
}

func (p *tapper) now() time.Time { return time.UnixMilli(p.clock.Load()).UTC() }

func newTapper(t *testing.T) *tapper {
	p := &tapper{t: t}
	p.clock.Store(time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC).UnixMilli())
	p.Rig = hubtest.New(t, hubtest.Options{
		Hub: hub.Options{Now: p.now}, Shared: []func() any{func() any { return new(rokid.Settings) }},
	})
	p.service = learn.New(learn.Options{Store: p.Store, Zone: time.UTC, Now: p.now})
	p.Hub.Intercept("learn", quiz.New(quiz.Options{Service: p.service, Store: p.Store, Now: p.now}).Intercept)
	p.bot = p.AddScript(t, nil, func(_ context.Context, turn *talk.Turn, emit talk.Emit) error {
		p.asked++
		return emit(talk.Text(fmt.Sprintf("第 %d 次：%s", p.asked, turn.Text())))
	}).Number
	p.key = p.Key(t, account.NewKey{Scopes: []string{account.ScopeLingzhu}, Bot: p.bot})
	quiet := slog.New(slog.DiscardHandler)
	server := httptest.NewServer(rokid.New(rokid.Options{
		Accounts: p.Accounts, Hub: p.Hub, Guard: account.NewGuard(10, nil), Logger: quiet,
		Registerer: prometheus.NewRegistry(),
		Lang:       i18n.Chinese, Address: func(*http.Request) netip.Addr { return netip.Addr{} },
	}))
	t.Cleanup(server.Close)
	p.url = server.URL
	return p
}

// request is one tap as the platform posts it.
type request struct{ name, body string }

func (p *tapper) tap(session, text, name string) request {
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"lang": "zh-CN", "currentTime": p.now().Format(time.DateTime)},
		"agent_id": strings.Repeat("a", 32), "user_id": "U1",
		"message_id": session, "message": []any{map[string]any{"role": "user", "type": "text", "text": text,
			"image_url": nil}},
	})
	p.must(err)
	return request{name, string(body)}
}

// post sends a request and returns the text on the glasses.
func (p *tapper) post(q request) string {
	req, err := http.NewRequestWithContext(p.t.Context(), http.MethodPost, p.url, strings.NewReader(q.body))
	p.must(err)
	req.Header.Set("Authorization", "Bearer "+p.key)
	if q.name != "" {
		req.Header.Set("Traceparent", q.name)
	}
	res, err := http.DefaultClient.Do(req)
	p.must(err)
	defer res.Body.Close()
	var told strings.Builder
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		var event struct {
			Text string `json:"answer_stream"`
		}
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			p.must(json.Unmarshal([]byte(data), &event))
			told.WriteString(event.Text)
		}
	}
	p.must(lines.Err())
	return told.String()
}

func (p *tapper) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

// did counts the effects so far.
func (p *tapper) did() deeds {
	ctx, person := p.t.Context(), p.Person.ID
	all, err := p.Store.Learn.Points(ctx, person, store.PointFilter{}, store.PointKey{}, 100_000)
	p.must(err)
	drafts, err := p.Store.Learn.Points(ctx, person, store.PointFilter{Draft: true}, store.PointKey{}, 100_000)
	p.must(err)
	stats, err := p.service.Stats(ctx, person, 1, 0)
	p.must(err)
	return deeds{p.asked, len(all), len(drafts), stats.Done.Reviews}
}

var (
	replyAsked = regexp.MustCompile(`^第 (\d+) 次：`)
	replySaved = regexp.MustCompile(`^记住了 (\d+) 条`)
)

// honest reports whether the response matches the effects.
func honest(told string, done deeds, before deeds) bool {
	var want deeds
	switch {
	case replyAsked.MatchString(told):
		n, _ := strconv.Atoi(replyAsked.FindStringSubmatch(told)[1])
		want.asked = n - before.asked
	case replySaved.MatchString(told):
		n, _ := strconv.Atoi(replySaved.FindStringSubmatch(told)[1])
		want.drafts = -n
	case strings.HasPrefix(told, "问："): // a draft, shown for the first time or again
		return done == deeds{points: 1, drafts: 1} || done == deeds{}
	case strings.HasPrefix(told, "好，不要了"):
		want.points, want.drafts = -1, -1
	case strings.HasPrefix(told, "记为"):
		want.reviews = 1
	case strings.HasPrefix(told, "答案：") && !strings.Contains(told, "记得怎么样"): // and the next question, or the end
		want.reviews = 1
	}
	return done == want
}

// Each of several quick taps gets a response with its effects and nothing else: 1,000 random
// sequences, some of whose requests the network delivers twice.
func TestTapsAreToldAsTheyAreDone(t *testing.T) {
	installations, seed := 25, uint64(time.Now().UnixNano()) // each with 40 sequences
	if testing.Short() {
		installations = 2
	}
	for i := range installations {
		t.Run(fmt.Sprint(i), func(t *testing.T) { tapAtRandom(t, 40, seed+uint64(i)) })
	}
}

func tapAtRandom(t *testing.T, sequences int, seed uint64) {
	p := newTapper(t)
	r := rand.New(rand.NewPCG(seed, 0))
	words := []string{"确认", "确认", "取消", "开始复习", "答案", "记得", "记得", "忘了", "困难", "跳过", "停", "开灯", "开灯", "关灯", "记一下：问%d？答",
		"记一下：问%d？答"}
	names := 0
	newName := func() string {
		names++
		return fmt.Sprintf("00-%032x-%016x-01", names, names)
	}
	for sequence := range sequences {
		p.clock.Add((24 * time.Hour).Milliseconds())
		p.done = p.did()
		session := strconv.FormatInt(p.clock.Load(), 10)
		named := r.IntN(2) == 0
		var last request
		var lastTold string
		var story []string
		since := 0 // milliseconds since the first delivery of the last request
		for range 4 + r.IntN(5) {
			gap := 200 + r.IntN(1800)
			word := words[r.IntN(len(words))]
			if strings.Contains(word, "%d") {
				word = fmt.Sprintf(word, sequence*10+r.IntN(2))
			}
			again := last.body != "" && r.IntN(7) == 0 // a duplicate by the network, soon after
			if again && named {
				gap = 10 + r.IntN(900)
			} else if again {
				gap = 10 + r.IntN(100)
			}
			if again = again && since+gap < 1900 && (named || since+gap < 300); !again {
				gap = max(gap, 200)
			}
			p.clock.Add(int64(gap))
			since += gap
			q := last
			if !again {
				q = p.tap(session, word, "")
				if named {
					q.name = newName()
				}
			}
			joins := again || !named && q == last && since < int(talk.RetryGap.Milliseconds())
			if !joins {
				since = 0
			}
			told := p.post(q)
			after := p.did()
			done := after.minus(p.done)
			story = append(story, fmt.Sprintf("+%d ms %q again=%v: %q did %+v", gap, word, again, told, done))
			switch {
			case joins && (told != lastTold || done != deeds{}):
				t.Fatalf("seed %d: a repeated request was not joined:\n%s", seed, strings.Join(story, "\n"))
			case !joins && !honest(told, done, p.done):
				t.Fatalf("seed %d: what was told was not done:\n%s", seed, strings.Join(story, "\n"))
			}
			last, lastTold, p.done = q, told, after
		}
	}
}

// The observed cases, word by word.
func TestTheSameTapAfterAnotherIsDoneAgain(t *testing.T) {
	p := newTapper(t)
	session := "1774245909000"
	for _, tap := range [][2]string{
		{"记一下：A？a", "问：A"}, {"确认", "记住了 1 条"}, {"记一下：B？b", "问：B"}, {"确认", "记住了 1 条"},
		{"开灯", "第 1 次：开灯"}, {"关灯", "第 2 次：关灯"}, {"开灯", "第 3 次：开灯"},
		{"开始复习", "第 1 题"}, {"答案", "答案："}, {"记得", "记为记得"}, {"答案", "答案："}, {"记得", "记为记得"},
	} {
		p.clock.Add(500)
		if told := p.post(p.tap(session, tap[0], "")); !strings.HasPrefix(told, tap[1]) {
			t.Fatalf("%s: told %q, want %q", tap[0], told, tap[1])
		}
	}
	if did := p.did(); did != (deeds{asked: 3, points: 2, reviews: 2}) {
		t.Fatalf("done: %+v", did)
	}
}
