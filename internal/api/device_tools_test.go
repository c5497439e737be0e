package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"patchbay/internal/account"
	"patchbay/internal/api"
	"patchbay/internal/control"
	"patchbay/internal/hub"
	"patchbay/internal/tool"
)

// provider is a device that says what it was called with.
type provider struct{ err error }

func (p *provider) Call(_ context.Context, c *tool.Call) (*tool.Result, error) {
	if p.err != nil {
		return nil, p.err
	}
	if c.Progress != nil {
		c.Progress(tool.Progress{Done: 1, Total: 2})
	}
	return tool.Text(c.Tool + " " + string(c.Args) + " " + c.Caller.Channel), nil
}

func TestDeviceTools(t *testing.T) {
	h := newTestServer(t)
	socket := plugged(t, h, &provider{})
	limited := h.Key(t, account.NewKey{Name: "limited", Scopes: []string{account.ScopeOperator},
		Rules: `{"deny":["kettle_self*"]}`})
	for _, c := range []struct{ key, want string }{
		{h.local, "reboot=dangerous record=allowed self.audio_speaker.set_volume=allowed status=allowed"},
		{h.operator, "reboot=dangerous record=allowed self.audio_speaker.set_volume=allowed status=allowed"},
		{limited, "reboot=dangerous record=allowed self.audio_speaker.set_volume=denied status=allowed"},
	} {
		var out struct{ Tools []control.DeviceTool }
		h.ok(&out, c.key, "GET", "/kettle/tools", "")
		var got []string
		for _, tool := range out.Tools {
			got = append(got, tool.Own+"="+tool.State)
			if tool.Name != "kettle_"+strings.ReplaceAll(tool.Own, ".", "_") || tool.OwnerName != "ada" ||
				tool.Input != nil {
				t.Errorf("a tool is %+v", tool)
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("there are %v, want %s", got, c.want)
		}
	}
	var out struct{ Tools []control.DeviceTool }
	h.ok(&out, h.operator, "GET", "/1/tools?schemas=true", "")
	if !strings.Contains(string(out.Tools[2].Input), `"volume"`) {
		t.Errorf("with schemas there is %s", out.Tools[2].Input)
	}
	socket.Unregister()
	h.ok(&out, h.operator, "GET", "/1/tools", "")
	if len(out.Tools) != 0 {
		t.Errorf("without the device there are %+v", out.Tools)
	}
}

// lines calls a tool of the kettle and reads the lines of the answer.
func (h *testServer) lines(key, name, body string) []api.ToolLine {
	h.t.Helper()
	a := h.do(key, "POST", "/kettle/tools/"+name+"/call", body)
	if a.status != http.StatusOK {
		h.t.Fatalf("the call of %s gives %d %s", name, a.status, a.body)
	}
	var all []api.ToolLine
	for text := range strings.Lines(a.body) {
		var l api.ToolLine
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			h.t.Fatal(err)
		}
		all = append(all, l)
	}
	if len(all) == 0 || !all[len(all)-1].End {
		h.t.Fatalf("the call of %s has no end: %s", name, a.body)
	}
	return all
}

func TestCallDevice(t *testing.T) {
	h := newTestServer(t)
	p := &provider{}
	socket := plugged(t, h, p)
	const set = "self.audio_speaker.set_volume"
	const done = set + ` {"volume":5} cli`
	for _, c := range []struct{ key, tool string }{
		{h.operator, set}, {h.admin, set}, {h.local, set}, {h.operator, "kettle_self_audio_speaker_set_volume"},
	} {
		lines := h.lines(c.key, c.tool, `{"arguments":{"volume":5}}`)
		if len(lines) != 2 || lines[0].Progress == nil || lines[1].Result.PlainText() != done {
			t.Errorf("%s gives %+v", c.tool, lines)
		}
	}
	limited := h.Key(t, account.NewKey{Name: "limited", Scopes: []string{account.ScopeOperator},
		Rules: `{"deny":["kettle_self*"]}`})
	for _, c := range []struct {
		key, tool, body, want string
		code                  tool.Code
	}{
		{h.operator, "nothing", "", "kettle has no tool nothing", tool.Unknown},
		{h.operator, "reboot", "", "patchbay tool allow kettle_reboot", tool.Denied},
		{limited, set, `{"arguments":{}}`, "not allowed", tool.Denied},
		{h.operator, set, `{"arguments":{"volume":"x"}}`, "volume", tool.BadArgs},
	} {
		lines := h.lines(c.key, c.tool, c.body)
		if last := lines[len(lines)-1]; last.Code != c.code || !strings.Contains(last.Error, c.want) {
			t.Errorf("%s %s gives %+v", c.tool, c.body, last)
		}
	}
	if a := h.do(h.operator, "POST", "/kettle/tools/"+set+"/call", "["); a.status != http.StatusBadRequest {
		t.Errorf("what is no JSON gives %+v", a)
	}
	p.err = tool.Fail(tool.Offline, "The board is asleep.", nil)
	if l := h.lines(h.operator, "status", ""); l[0].Code != tool.Offline || l[0].Error != "The board is asleep." {
		t.Errorf("asleep it says %+v", l)
	}
	// What a device can do that has not been awake is not known.
	socket.Unregister()
	if l := h.lines(h.operator, set, ""); l[0].Code != tool.Offline || !strings.Contains(l[0].Error, "asleep") {
		t.Errorf("unplugged it says %+v", l)
	}
}

// A device that was approved a moment ago is called when the server has it.
func TestCallFreshDevice(t *testing.T) {
	h := newTestServer(t)
	code := h.shows("aa:aa:aa:aa:aa:03", "c3")
	var d control.Device
	h.ok(&d, h.operator, "POST", "/approve", `{"code":"`+code+`","name":"radio"}`)
	h.asked = make(chan struct{}, 1)
	done := make(chan answer, 1)
	go func() { done <- h.do(h.local, "POST", "/radio/tools/status/call", "{}") }()
	<-h.asked
	h.do(h.operator, "GET", "", "") // which takes as long as it takes the call to look for the device
	socket, err := h.Hub.Register(hub.ProviderRef{ID: fmt.Sprintf("board:%d", d.Number), Owner: h.Person.ID,
		Slug: "radio", Kind: "xiaozhi"}, &provider{})
	if err != nil {
		t.Fatal(err)
	}
	socket.SetTools([]tool.Tool{{Name: "status"}})
	if a := <-done; !strings.Contains(a.body, "status {} cli") {
		t.Errorf("the call gives %+v", a)
	}
}

func TestListen(t *testing.T) {
	h := newTestServer(t)
	h.listen = func(_ context.Context, device int64, w io.Writer) error {
		if device != 1 {
			t.Errorf("device %d is listened to", device)
		}
		for _, piece := range []string{"Ogg", "S and so on"} {
			if _, err := io.WriteString(w, piece); err != nil {
				return err
			}
		}
		return nil
	}
	a := h.do(h.operator, "GET", "/kettle/listen", "")
	if a.status != http.StatusOK || a.body != "OggS and so on" || a.header.Get("Content-Type") != "audio/ogg" {
		t.Errorf("heard is %+v", a)
	}
	for _, c := range []struct {
		err    error
		status int
		want   string
	}{
		{tool.Fail(tool.Offline, "The board is asleep.", errors.New("cause")), http.StatusConflict,
			"The board is asleep."},
		{tool.Fail(tool.Denied, "Its microphone is off.", nil), http.StatusForbidden, "microphone"},
		{tool.Fail(tool.Failed, "It broke.", nil), http.StatusBadGateway, "It broke."},
		{errors.New("a secret cause"), http.StatusInternalServerError, "our side"},
		{nil, http.StatusConflict, "no sound"},
	} {
		h.listen = func(context.Context, int64, io.Writer) error { return c.err }
		if a := h.failing(c.status, c.want, h.operator, "GET", "/kettle/listen", ""); strings.Contains(a.body,
			"cause") {
			t.Errorf("a cause is told: %s", a.body)
		}
	}
	// Who may not record may not listen.
	plugged(t, h, &provider{})
	for _, rules := range []string{`{"deny":["kettle_record"]}`, `{"allow":["learn_*"]}`} {
		key := h.Key(t, account.NewKey{Name: rules, Scopes: []string{account.ScopeOperator}, Rules: rules})
		h.failing(http.StatusForbidden, "not allowed here", key, "GET", "/kettle/listen", "")
	}
}

// Sound comes as it is heard; who leaves ends the listening, and what breaks off
// does not look like the end.
func TestListenLive(t *testing.T) {
	h := newTestServer(t)
	ended := make(chan error, 1)
	h.listen = func(ctx context.Context, _ int64, w io.Writer) error {
		_, err := io.WriteString(w, "first\n")
		<-ctx.Done()
		ended <- ctx.Err()
		return errors.Join(err, ctx.Err())
	}
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	resp := h.listening(ctx)
	if line, err := bufio.NewReader(resp.Body).ReadString('\n'); err != nil || line != "first\n" {
		t.Fatalf("heard is %q (%v)", line, err)
	}
	leave()
	resp.Body.Close()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the listening ended by %v", err)
	}

	h.listen = func(_ context.Context, _ int64, w io.Writer) error {
		io.WriteString(w, "first\n") //nolint:errcheck // the test reads it
		return errors.New("the board went away")
	}
	resp = h.listening(t.Context())
	if text, err := io.ReadAll(resp.Body); err == nil {
		t.Errorf("what broke off looks whole: %q", text)
	}
	resp.Body.Close()

	// The answer begins before anything is heard.
	h.listen = func(ctx context.Context, _ int64, _ io.Writer) error {
		<-ctx.Done()
		ended <- ctx.Err()
		return ctx.Err()
	}
	ctx, leave = context.WithCancel(t.Context())
	resp = h.listening(ctx)
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "audio/ogg" {
		t.Errorf("before anything is heard the answer is %v", resp)
	}
	leave()
	resp.Body.Close()
	<-ended
}

func (h *testServer) listening(ctx context.Context) *http.Response {
	h.t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, h.url+"/api/v1/devices/kettle/listen", nil)
	if err != nil {
		h.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+h.operator)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		h.t.Fatal(err)
	}
	return resp
}
