package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"patchbay/internal/plug/xiaozhi/sim"
	"patchbay/internal/plug/xiaozhi/wire"
	"patchbay/internal/tool"
)

// simRig is a minimal server for a simulated board.
type simRig struct {
	board   *sim.Board
	client  *Client
	url     string
	events  chan string
	options Options
	clients chan *Client
	ended   chan struct{}
}

func newSimRig(t *testing.T, opt sim.Options, options Options) *simRig {
	r := &simRig{events: make(chan string, 10), options: options, clients: make(chan *Client),
		ended: make(chan struct{})}
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	r.url = server.URL
	mux.HandleFunc("/ota", func(w http.ResponseWriter, _ *http.Request) {
		a := wire.OTAResponse{
			Time:     &wire.ServerTime{Timestamp: time.Now().UnixMilli()},
			Firmware: wire.Firmware{Version: opt.Profile.Version},
			WebSocket: &wire.WebSocketConfig{URL: "ws" + strings.TrimPrefix(server.URL, "http") + "/socket", Token: "x",
				Version: wire.FramingBare},
		}
		body, err := a.Marshal()
		if err != nil {
			t.Error(err)
		}
		_, _ = w.Write(body)
	})
	mux.HandleFunc("/vision", func(w http.ResponseWriter, req *http.Request) {
		if err := req.ParseMultipartForm(1 << 20); err != nil || req.Header.Get("Authorization") != "Bearer see" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = io.WriteString(w, `{"success":true,"text":"`+req.FormValue("question")+`: a cat"}`)
	})
	mux.HandleFunc("/socket", func(w http.ResponseWriter, req *http.Request) { r.serve(t, w, req) })
	opt.OTA, opt.Scale = server.URL+"/ota", 0.01
	r.board = sim.New(opt)
	t.Cleanup(r.board.Close)
	if err := r.board.Boot(t.Context()); err != nil {
		t.Fatal(err)
	}
	pressed := make(chan error, 1)
	go func() { pressed <- r.board.Press(t.Context()) }()
	select {
	case r.client = <-r.clients:
	case <-t.Context().Done():
		t.Fatal("the board does not come")
	}
	if err := <-pressed; err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *simRig) serve(t *testing.T, w http.ResponseWriter, req *http.Request) {
	ws, err := websocket.Accept(w, req, nil)
	if err != nil {
		t.Error(err)
		return
	}
	defer close(r.ended)
	defer ws.CloseNow() //nolint:errcheck // the connection has ended
	if _, _, err := ws.Read(req.Context()); err != nil {
		t.Error(err)
		return
	}
	h := wire.Hello{Transport: wire.WebSocket, SessionID: "s1",
		Audio: wire.Audio{Format: "opus", SampleRate: 24000, Channels: 1, FrameDuration: 60}}
	if err := ws.Write(req.Context(), websocket.MessageText, h.AppendServer(nil)); err != nil {
		t.Error(err)
	}
	opt := r.options
	opt.OnNotification = func(method string, params json.RawMessage) { r.events <- method + string(params) }
	opt.Send = func(payload []byte) error {
		m := wire.Message{Type: wire.TypeMCP, SessionID: "s1", Payload: payload}
		return ws.Write(context.WithoutCancel(req.Context()), websocket.MessageText, m.Append(nil))
	}
	c := New(opt)
	r.clients <- c
	for {
		kind, data, err := ws.Read(req.Context())
		if err != nil {
			c.Close(err)
			return
		}
		if m, err := wire.Parse(data); err == nil && kind == websocket.MessageText && m.Type == wire.TypeMCP {
			c.HandleMessage(m.Payload)
		}
	}
}

// Calls to the simulated board of package sim work as with real boards.
func TestSim(t *testing.T) {
	block := make(chan struct{})
	tools := []sim.Tool{
		{Name: "self.fails", Description: "Fails", Do: func(context.Context, sim.Args) (string,
			error) {
			return "", errors.New(`Cannot say "no"`)
		}},
		{Name: "self.blocks", Description: "Blocks", Do: func(ctx context.Context, _ sim.Args) (string, error) {
			select {
			case <-block:
			case <-ctx.Done():
			}
			return "true", nil
		}},
	}
	for i := range 60 {
		tools = append(tools, sim.Tool{Name: fmt.Sprintf("self.dog.move_%d", i),
			Description: strings.Repeat("Moves. ", 30)})
	}
	for _, profile := range sim.Profiles() {
		t.Run(profile.Name, func(t *testing.T) {
			r := newSimRig(t, sim.Options{Profile: profile, Tools: tools,
				Picture: append([]byte{0xff, 0xd8, 0xff}, make([]byte, 5000)...)}, Options{})
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			if _, err := r.client.Start(ctx, Vision{URL: r.url + "/vision", Token: "see"}); err != nil {
				t.Fatal(err)
			}
			r.check(ctx, t, profile)
			if err := r.client.Ping(ctx); err != nil {
				t.Error(err)
			}
			r.board.Notify("notifications/x", []byte(`{"a":1}`))
			select {
			case e := <-r.events:
				if e != `notifications/x{"a":1}` {
					t.Error(e)
				}
			case <-ctx.Done():
				t.Error("no event")
			}
			report := r.board.Report()
			if report.Broke("C5") || report.Broke("C17") {
				t.Error(report.Violations)
			}
			// The board disconnects during a call.
			lost := make(chan error, 1)
			go func() {
				_, err := r.client.Call(ctx, &tool.Call{Tool: "self.blocks"})
				lost <- err
			}()
			if _, err := r.board.Await(ctx, func(v sim.View) bool { return v.Calls > report.Calls }); err != nil {
				t.Error(err)
			}
			r.board.Close()
			if err := <-lost; code(err) != tool.Lost {
				t.Error(err)
			}
			<-r.ended
		})
	}
	close(block)
}

func (r *simRig) check(ctx context.Context, t *testing.T, profile sim.Profile) {
	k := r.client.Catalog()
	want := 4 + 1 + 62
	if profile.UserTools {
		want += 7
	}
	if len(k.Tools) != want || k.Truncated != "" || k.Skipped != 0 || k.Firmware != profile.Version ||
		k.Tools[0].Name != "self.get_device_status" {
		t.Errorf("%d tools (not %d), %q, %d, %s", len(k.Tools), want, k.Truncated, k.Skipped, k.Firmware)
	}
	people := 0
	for _, have := range k.Tools {
		if have.Audience == "user" {
			people++
		}
	}
	if people != want-67 {
		t.Errorf("%d tools are for people", people)
	}
	for _, c := range []struct {
		tool, args string
		words      string
		structured string // prefix
		isError    bool
		code       tool.Code
	}{
		{volume, `{"volume":33.0}`, "true", "", false, ""},
		{volume, `{"volume":101}`, "", "", false, tool.BadArgs},
		{volume, `{"volume":-1}`, "", "", false, tool.BadArgs},
		{volume, `{"volume":"loud"}`, "", "", false, tool.BadArgs},
		{volume, `{}`, "", "", false, tool.BadArgs},
		{"self.get_device_status", ``, "", `{"audio_speaker":{"volume":33}`, false, ""},
		{"self.camera.take_photo", `{"question":"what?"}`, `{"success":true,"text":"what?: a cat"}`,
			`{"success":true`, false, ""},
		{"self.fails", `{}`, `Cannot say "no"`, "", true, ""},
		{"self.dog.move_59", `{}`, "true", "", false, ""},
		{"self.nothing", `{}`, "", "", false, tool.Unknown},
	} {
		got, err := r.client.Call(ctx, &tool.Call{Tool: c.tool, Args: json.RawMessage(c.args)})
		if code(err) != c.code || c.code == "" && err != nil {
			t.Errorf("%s %s: %v", c.tool, c.args, err)
			continue
		}
		if err == nil && (c.words != "" && got.PlainText() != c.words ||
			!strings.HasPrefix(string(got.Structured), c.structured) || got.IsError != c.isError) {
			t.Errorf("%s: %s", c.tool, got.Content)
		}
	}
	if v := r.board.Volume(); v != 33 {
		t.Errorf("the volume is %d", v)
	}
}

// Responses are missing, repeated, or late.
func TestSimFaults(t *testing.T) {
	for _, c := range []struct {
		name   string
		faults sim.Faults
		limit  time.Duration
		code   tool.Code
	}{
		{"mute", sim.Faults{DropToolResults: true}, 300 * time.Millisecond, tool.TimedOut},
		{"twice", sim.Faults{DuplicateToolResults: true}, 0, ""},
		{"late", sim.Faults{ToolDelay: 400 * time.Millisecond}, 300 * time.Millisecond, tool.TimedOut},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newSimRig(t, sim.Options{Profile: sim.FW242, Faults: c.faults}, Options{Timeout: c.limit})
			if _, err := r.client.Start(t.Context(), Vision{}); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				if _, err := r.client.Call(t.Context(), &tool.Call{Tool: volume,
					Args: []byte(`{"volume":3}`)}); code(err) != c.code {
					t.Error(err)
				}
			}
			if err := r.client.Ping(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}
