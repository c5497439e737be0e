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

// boardServer is a running server for voice boards, with its administrator.
type boardServer struct {
	t *testing.T
	*installation
	*server
	key string // of scope admin
}

// newBoardServer starts a server for boards with both transports.
func newBoardServer(t *testing.T, env ...string) *boardServer {
	t.Helper()
	env = append([]string{
		"PATCHBAY_XIAOZHI_MQTT=127.0.0.1:0", "PATCHBAY_XIAOZHI_AUDIO=127.0.0.1:0",
		"PATCHBAY_LIMITS_AUTH_FAILURES=1000", // conformance probes send many wrong tokens from one address
	}, env...)
	h := &boardServer{t: t, installation: newInstallation(store.Options{Folder: t.TempDir()}, env...)}
	h.run(t, "user", "add", "ada")
	var key addedKey
	h.json(t, &key, "key", "add", "--name", "admin", "--scope", "admin")
	h.key, h.server = key.Key, h.serve(t)
	return h
}

// boardSlack is added to the boards' time limits, because the machine may be busy.
const boardSlack = 20 * time.Second

// board returns a simulated board that connects to this server. Nobody approves it.
func (h *boardServer) board(o sim.Options) *sim.Board {
	o.OTA, o.Scale = h.url+"/xiaozhi/ota/", 0.01
	if o.Slack == 0 {
		o.Slack = boardSlack
	}
	meter := sim.NewMeter()
	h.t.Cleanup(meter.Close)
	o.Stalled = meter.Stalled
	b := sim.New(o)
	h.t.Cleanup(b.Close)
	return b
}

// mine returns a board whose owner enters its code as soon as it is shown. The transport is
// websocket or mqtt.
func (h *boardServer) mine(name, transport string, o sim.Options) *sim.Board {
	watch := o.OnEvent
	o.OnEvent = func(e sim.Event) {
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

// online returns a board that has an owner and is turned on.
func (h *boardServer) online(ctx context.Context, name, transport string, o sim.Options) *sim.Board {
	h.t.Helper()
	b := h.mine(name, transport, o)
	must(h.t, b.Boot(ctx))
	return b
}

func (h *boardServer) approve(code, name, transport string) error {
	var d struct{ ID int64 }
	if err := h.ask(ctx, http.MethodPost, "/api/v1/devices/approve", given{"code": code, "name": name},
		&d); err != nil {
		return err
	}
	return h.ask(ctx, http.MethodPatch, "/api/v1/devices/"+strconv.FormatInt(d.ID, 10), given{"transport": transport},
		&d)
}

// boardClient keeps no idle connections, which would count as goroutines of the server.
var boardClient = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

func (h *boardServer) open(ctx context.Context, method, path string, body any) (*http.Response, error) {
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

func (h *boardServer) ask(ctx context.Context, method, path string, body, into any) error {
	res, err := h.open(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	return json.NewDecoder(res.Body).Decode(into)
}

// called is the result of a call.
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

// data returns the first picture or sound of a kind.
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

// callError is the error of a call.
type callError struct{ Code, Message string }

func (e *callError) Error() string { return e.Code + ": " + e.Message }

// call calls a tool of a device with its owner's key.
func (h *boardServer) call(ctx context.Context, device, name string, args given) (*called, error) {
	res, err := h.open(ctx, http.MethodPost, "/api/v1/devices/"+url.PathEscape(device)+"/tools/"+url.PathEscape(name)+
		"/call", given{"arguments": args})
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

// awaitTools waits until the tools of a board that started for the first time are known.
func (h *boardServer) awaitTools(ctx context.Context, device string) error {
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for {
		var list struct{ Tools []boardTool }
		err := h.ask(ctx, http.MethodGet, "/api/v1/devices/"+url.PathEscape(device)+"/tools", nil, &list)
		if err != nil || slices.ContainsFunc(list.Tools, func(x boardTool) bool {
			return strings.HasPrefix(x.Own,
				"self.")
		}) {
			return err
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// boardTool is a tool of a device: its name on the device, and its name for programs.
type boardTool struct {
	Own         string `json:"own_name"`
	Name, State string
}

// refused returns the error code of a refused call, or "".
func refused(err error) string {
	if e, ok := errors.AsType[*callError](err); ok {
		return e.Code
	}
	return ""
}

// metric returns the sum of a metric over all labels.
func (h *boardServer) metric(name string) float64 {
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
	if !found && !strings.HasSuffix(name, "_boards") { // without labels before the first board
		h.t.Fatalf("there is no metric %s", name)
	}
	return sum
}

// goroutines returns the server's number of goroutines once it is stable.
func (h *boardServer) goroutines() (n float64) {
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

// quiet waits until no connections and goroutines of disconnected boards remain.
func (h *boardServer) quiet(goroutines float64) {
	h.t.Helper()
	h.until("no board is connected", func() bool { return h.metric("patchbay_xiaozhi_boards") == 0 })
	h.until("nobody talks", func() bool { return h.metric("patchbay_xiaozhi_conversations") == 0 })
	now := 0.0
	defer func() { h.t.Logf("%v goroutines before, %v after", goroutines, now) }()
	h.until(fmt.Sprintf("there are %v goroutines again", goroutines), func() bool {
		now = h.metric("go_goroutines")
		return now <= goroutines+3 // of requests that are just ending
	})
}

// until waits until a condition holds.
func (h *boardServer) until(what string, so func() bool) {
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

// limited returns a context that ends a hanging test.
func limited(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// pleased fails a test if a board saw the server violate a rule, except for those that a killed
// server violates.
func pleased(t *testing.T, b *sim.Board, but ...string) {
	t.Helper()
	for _, v := range b.Report().Violations {
		if !slices.Contains(but, v.Check) {
			t.Errorf("%s: %v", b.MAC(), v)
		}
	}
}

// is returns a condition that is true in the given state of a board.
func is(want sim.State) func(sim.View) bool {
	return func(v sim.View) bool { return v.State == want }
}

// settled reports whether a board is idle and in no conversation.
func settled(v sim.View) bool { return v.State == sim.Idle && v.SessionID == "" }
