package test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"patchbay/internal/plug/xiaozhi/sim"
	"patchbay/internal/store"
)

// boardHouse is a running server to which voice boards connect, and its admin.
type boardHouse struct {
	t *testing.T
	*place
	*server
	key string // of scope admin
}

// newBoardHouse starts a server for boards on both transports.
func newBoardHouse(t *testing.T, env ...string) *boardHouse {
	t.Helper()
	env = append([]string{
		"PATCHBAY_XIAOZHI_MQTT=127.0.0.1:0", "PATCHBAY_XIAOZHI_AUDIO=127.0.0.1:0",
		"PATCHBAY_LIMITS_AUTH_FAILURES=1000", // boards that probe show many wrong tokens, all from one address
	}, env...)
	h := &boardHouse{t: t, place: newPlace(store.Options{Folder: t.TempDir()}, env...)}
	h.run(t, "user", "add", "ada")
	var key addedKey
	h.json(t, &key, "key", "add", "--name", "admin", "--scope", "admin")
	h.key, h.server = key.Key, h.serve(t)
	return h
}

// boardSlack is what boards add to their limits of time: the machine may be busy.
const boardSlack = 20 * time.Second

// board makes a simulated board that calls this server home. Nobody approves it.
func (h *boardHouse) board(o sim.Options) *sim.Board {
	o.OTA, o.Scale = h.url+"/xiaozhi/ota/", 0.01
	if o.Slack == 0 {
		o.Slack = boardSlack
	}
	meter := sim.NewMeter()
	h.t.Cleanup(meter.Close)
	o.Held = meter.Held
	b := sim.New(o)
	h.t.Cleanup(b.Close)
	return b
}

// mine makes a board whose owner types in its code as soon as it is shown. The
// transport is websocket or mqtt.
func (h *boardHouse) mine(name, transport string, o sim.Options) *sim.Board {
	watch := o.Watch
	o.Watch = func(e sim.Event) {
		if e.Kind == sim.EventCode {
			if err := h.approve(e.Text, name, transport); err != nil {
				h.t.Errorf("approve %s: %v", name, err)
			}
		}
		if watch != nil {
			watch(e)
		}
	}
	return h.board(o)
}

// online makes a board with an owner, and turns it on.
func (h *boardHouse) online(ctx context.Context, name, transport string, o sim.Options) *sim.Board {
	h.t.Helper()
	b := h.mine(name, transport, o)
	must(h.t, b.Boot(ctx))
	return b
}

func (h *boardHouse) approve(code, name, transport string) error {
	var d struct{ ID int64 }
	if err := h.ask(ctx, http.MethodPost, "/api/v1/devices/approve", given{"code": code, "name": name}, &d); err != nil {
		return err
	}
	return h.ask(ctx, http.MethodPatch, "/api/v1/devices/"+strconv.FormatInt(d.ID, 10), given{"transport": transport}, &d)
}

// boardClient leaves no connections behind, which would count as goroutines of the
// server.
var boardClient = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

func (h *boardHouse) open(ctx context.Context, method, path string, body any) (*http.Response, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, method, h.url+path, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+h.key)
	req.Header.Set("Content-Type", "application/json")
	res, err := boardClient.Do(req)
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(res.Body)
		res.Body.Close()
		return nil, fmt.Errorf("%s %s: %s: %s", method, path, res.Status, text)
	}
	return res, nil
}

func (h *boardHouse) ask(ctx context.Context, method, path string, body, into any) error {
	res, err := h.open(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	return json.NewDecoder(res.Body).Decode(into)
}

// called is what came of a call.
type called struct {
	Content []struct{ Type, Text, Data, MIMEType string }
	Fields  json.RawMessage `json:"structuredContent"`
	IsError bool            `json:"isError"`
}

func (c *called) text() (words string) {
	for _, x := range c.Content {
		words += x.Text
	}
	return words
}

// data is the first picture or sound of a kind.
func (c *called) data(t *testing.T, kind string) []byte {
	t.Helper()
	for _, x := range c.Content {
		if x.Type == kind {
			data, err := base64.StdEncoding.DecodeString(x.Data)
			must(t, err)
			return data
		}
	}
	t.Errorf("there is no %s in %q", kind, c.text())
	return nil
}

// callError is why a call was not carried out, or failed.
type callError struct{ Code, Told string }

func (e *callError) Error() string { return e.Code + ": " + e.Told }

// call calls a tool of a device as its owner does.
func (h *boardHouse) call(ctx context.Context, device, name string, args given) (*called, error) {
	res, err := h.open(ctx, http.MethodPost, "/api/v1/devices/"+url.PathEscape(device)+"/tools/"+url.PathEscape(name)+"/call", given{"arguments": args})
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var line struct {
			End         bool
			Result      *called
			Error, Code string
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			return nil, err
		}
		switch {
		case line.End && line.Error != "":
			return nil, &callError{line.Code, line.Error}
		case line.End:
			return line.Result, nil
		}
	}
	return nil, errors.Join(lines.Err(), io.ErrUnexpectedEOF)
}

// awaitTools waits until it is known which tools a board has that woke for the first
// time.
func (h *boardHouse) awaitTools(ctx context.Context, device string) error {
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for {
		var list struct{ Tools []boardTool }
		err := h.ask(ctx, http.MethodGet, "/api/v1/devices/"+url.PathEscape(device)+"/tools", nil, &list)
		if err != nil || slices.ContainsFunc(list.Tools, func(x boardTool) bool { return strings.HasPrefix(x.Own, "self.") }) {
			return err
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// boardTool is a tool of a device: its name there, and that for programs.
type boardTool struct {
	Own         string `json:"own_name"`
	Name, State string
}

// refused says with which code a call was refused; "" if it was not.
func refused(err error) string {
	if e, ok := errors.AsType[*callError](err); ok {
		return e.Code
	}
	return ""
}

// metric is the sum of a metric over all labels.
func (h *boardHouse) metric(name string) float64 {
	h.t.Helper()
	res, err := h.open(ctx, http.MethodGet, "/metrics", nil)
	must(h.t, err)
	defer res.Body.Close()
	sum, found := 0.0, false
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		rest, ok := strings.CutPrefix(lines.Text(), name)
		if !ok || rest == "" || rest[0] != ' ' && rest[0] != '{' {
			continue
		}
		n, err := strconv.ParseFloat(rest[strings.LastIndexByte(rest, ' ')+1:], 64)
		must(h.t, err)
		sum, found = sum+n, true
	}
	must(h.t, lines.Err())
	if !found && !strings.HasSuffix(name, "_boards") { // which has no labels before the first
		h.t.Fatalf("there is no metric %s", name)
	}
	return sum
}

// goroutines is how many the server has when it has come to rest.
func (h *boardHouse) goroutines() (n float64) {
	h.t.Helper()
	same := 0
	h.until("the server is at rest", func() bool {
		now := h.metric("go_goroutines")
		if same++; now != n {
			same = 0
		}
		n = now
		return same == 5
	})
	return n
}

// quiet waits until nothing is left of the boards that are gone: neither connections
// nor goroutines.
func (h *boardHouse) quiet(goroutines float64) {
	h.t.Helper()
	h.until("no board is connected", func() bool { return h.metric("patchbay_xiaozhi_boards") == 0 })
	h.until("nobody talks", func() bool { return h.metric("patchbay_xiaozhi_conversations") == 0 })
	now := 0.0
	defer func() { h.t.Logf("%v goroutines before, %v after", goroutines, now) }()
	h.until(fmt.Sprintf("there are %v goroutines again", goroutines), func() bool {
		now = h.metric("go_goroutines")
		return now <= goroutines+3 // those of requests that end just now
	})
}

// until waits until something is so.
func (h *boardHouse) until(what string, so func() bool) {
	h.t.Helper()
	waitUntil(h.t, what, so)
}

func waitUntil(t *testing.T, what string, so func() bool) {
	t.Helper()
	waitWithin(t, 20*time.Second, what, so)
}

func waitWithin(t *testing.T, limit time.Duration, what string, so func() bool) {
	t.Helper()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	late := time.After(limit)
	for !so() {
		select {
		case <-again.C:
		case <-late:
			t.Fatalf("it does not come that %s", what)
		}
	}
}

// limited ends a test that hangs.
func limited(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// pleased fails a test if a board saw its server break a rule, but for those that a
// server breaks that is killed.
func pleased(t *testing.T, b *sim.Board, but ...string) {
	t.Helper()
	for _, v := range b.Report().Violations {
		if !slices.Contains(but, v.Check) {
			t.Errorf("%s: %v", b.MAC(), v)
		}
	}
}

// is waits for a state of a board.
func is(want sim.State) func(sim.View) bool {
	return func(v sim.View) bool { return v.State == want }
}

// settled is a board that is idle and in no conversation.
func settled(v sim.View) bool { return v.State == sim.Idle && v.SessionID == "" }
