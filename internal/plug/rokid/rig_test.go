package rokid_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"patchbay/internal/account"
	"patchbay/internal/fetch"
	"patchbay/internal/hub/hubtest"
	"patchbay/internal/i18n"
	"patchbay/internal/observe"
	"patchbay/internal/plug/echo"
	"patchbay/internal/plug/rokid"
	"patchbay/internal/store/storetest"
	"patchbay/internal/talk"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestMain(m *testing.M) { storetest.Main(m) }

var ctx = context.Background()

// handlerRig is a Lingzhu handler on a socket, with an echo bot as number 1.
type handlerRig struct {
	*hubtest.Rig
	url string
	key string
}

// options are the settings of a handler under test that may differ from the defaults.
type options struct {
	rig    hubtest.Options
	change func(*rokid.Options)
}

func newHandlerRig(t testing.TB, o options) *handlerRig {
	t.Helper()
	o.rig.Kinds = append(o.rig.Kinds, echo.Kind())
	o.rig.Shared = append(o.rig.Shared, func() any { return new(rokid.Settings) })
	d := &handlerRig{Rig: hubtest.New(t, o.rig)}
	if _, err := d.Store.Bots.ByNumber(ctx, 1); err != nil {
		d.Add(t, "echo", nil)
	}
	d.key = d.Key(t, account.NewKey{Scopes: []string{account.ScopeLingzhu}})
	loopback := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	opts := rokid.Options{
		Accounts: d.Accounts, Hub: d.Hub, Guard: account.NewGuard(10, nil),
		Photos:        fetch.New(fetch.Options{AllowNets: loopback, Timeout: time.Second}),
		BindingPhotos: fetch.New(fetch.Options{AllowNets: loopback}),
		Logger:        d.Hub.Logger, Registerer: prometheus.NewRegistry(), PublicURL: "https://board.example.org",
		Lang: i18n.Chinese, Binding: true, Address: observe.Addresses{}.ClientAddress,
	}
	if o.change != nil {
		o.change(&opts)
	}
	h := rokid.New(opts)
	mux := http.NewServeMux()
	mux.Handle("/sse/rokid", h)
	server := httptest.NewServer(observe.HandleRequests(d.Hub.Logger, prometheus.NewRegistry(), mux))
	t.Cleanup(server.Close)
	d.url = server.URL + "/sse/rokid"
	return d
}

// post sends a body with the handler's key.
func (d *handlerRig) post(t testing.TB, body string) *http.Response {
	t.Helper()
	return d.send(t, ctx, d.key, body)
}

func (d *handlerRig) send(t testing.TB, ctx context.Context, key, body string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.url, strings.NewReader(body))
	must(t, err)
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "*/*")
	res, err := http.DefaultClient.Do(req)
	must(t, err)
	t.Cleanup(func() { res.Body.Close() })
	return res
}

// raw reads a whole response.
func raw(t testing.TB, res *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(res.Body)
	must(t, err)
	return string(b)
}

// event is a server-sent event.
type event struct {
	name string
	data map[string]any
}

// streamResult is an answer as the platform would read it.
type streamResult struct {
	events   []event
	text     string // all answer_stream texts
	commands []string
	followUp []string
	errors   []string
	comments int
}

// listen reads an answer and checks what holds for every answer: each event is JSON, one message is
// the last, and done is the last event.
func listen(t testing.TB, body io.Reader) streamResult {
	t.Helper()
	h, err := parse(body, nil)
	must(t, err)
	finished, done := 0, 0
	for i, e := range h.events {
		switch {
		case e.name == "message" && e.data["is_finish"] == true:
			finished++
		case e.name == "done":
			done++
			if i != len(h.events)-1 || e.data["is_finish"] != true || e.data["answer_stream"] != nil {
				t.Errorf("done is event %d of %d: %v", i+1, len(h.events), e.data)
			}
		}
	}
	if finished != 1 || done != 1 {
		t.Errorf("%d last messages and %d done in %+v", finished, done, h.events)
	}
	return h
}

// parse reads events until the stream ends, and passes each to seen.
func parse(body io.Reader, seen func(event)) (streamResult, error) {
	var h streamResult
	var e event
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		switch {
		case strings.HasPrefix(line, ":"):
			h.comments++
		case strings.HasPrefix(line, "event: "):
			e.name = line[len("event: "):]
		case strings.HasPrefix(line, "data: "):
			if err := json.Unmarshal([]byte(line[len("data: "):]), &e.data); err != nil {
				return h, fmt.Errorf("%q: %w", line, err)
			}
		case line == "" && e.data != nil:
			h.add(e)
			if seen != nil {
				seen(e)
			}
			e = event{}
		}
	}
	return h, lines.Err()
}

func (h *streamResult) add(e event) {
	h.events = append(h.events, e)
	if e.name != "message" {
		return
	}
	switch e.data["type"] {
	case "answer":
		h.text += e.data["answer_stream"].(string)
	case "tool_call":
		h.commands = append(h.commands, e.data["tool_call"].(map[string]any)["command"].(string))
	case "follow_up":
		for _, s := range e.data["follow_up"].([]any) {
			h.followUp = append(h.followUp, s.(string))
		}
	case "error":
		h.errors = append(h.errors, e.data["message"].(string))
	}
}

// turn returns a body in the form of the platform's requests (invented values).
func turn(agent, user, session, text, image string) string {
	msg := map[string]any{"role": "user", "type": "text", "text": text, "image_url": nil}
	if image != "" {
		msg = map[string]any{"role": "user", "type": "image", "text": nil, "image_url": image}
	}
	b, _ := json.Marshal(map[string]any{
		"metadata": map[string]any{
			"lang": "zh-CN", "location": "杭州市西湖区", "company_id": 1, "latitude": "30.25", "longitude": "120.13",
			"currentTime": "2026-03-23 14:05:09", "weather": "今天:晴 12~20℃\n明天:多云\n后天:小雨", "battery": "28",
			"runningApp": "",
		},
		"agent_id": agent, "user_id": user, "message_id": session, "message": []any{msg},
	})
	return string(b)
}

const (
	agent      = "0123456789abcdef0123456789abcdef"
	wearer     = "0123456789ABCDEF0123456789ABCDEF"
	sessionKey = "1774245909000"
)

// golden compares got with a file in testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		must(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	must(t, err)
	if !bytes.Equal(want, []byte(got)) {
		t.Errorf("%s:\ngot\n%s\nwant\n%s", name, got, want)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// say returns a bot that emits the words.
func say(words ...string) hubtest.Func {
	return func(_ context.Context, _ *talk.Turn, emit talk.Emit) error {
		for _, w := range words {
			if err := emit(talk.Text(w)); err != nil {
				return err
			}
		}
		return nil
	}
}

// keyFor returns a key for one bot.
func (d *handlerRig) keyFor(t testing.TB, bot int64) string {
	return d.Key(t, account.NewKey{Scopes: []string{account.ScopeLingzhu}, Bot: bot})
}
