package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"patchbay/internal/tool"
)

const volume = "self.audio_speaker.set_volume"

// calls is firmware that answers calls so.
func calls(answer func(a asked) []string) func(asked) []string {
	f := fw24
	f.call = answer
	return f.answer
}

func TestArguments(t *testing.T) {
	f := fw24
	f.tools = append(f.tools, `{"name":"free"}`, `{"name":"typed","inputSchema":{"properties":{"s":{"type":"string"},"b":{"type":"boolean"},"n":{"type":"number"},"l":{"type":"array"}}}}`)
	r := newRig(t, Options{}, f.answer)
	r.start()
	for _, c := range []struct{ tool, args, want string }{
		{volume, `{"volume":50}`, `{"volume":50}`},
		{volume, `{"volume":50.0}`, `{"volume":50}`},
		{volume, `{"volume":5e1}`, `{"volume":50}`},
		{volume, `{"volume":0.5}`, `{"volume":0.5}`},
		{volume, `{"volume":-0.0}`, `{"volume":0}`},
		{volume, `{"Volume":500,"volume":50}`, `{"volume":50}`}, // firmware would take the first
		{volume, `{"volume":500,"volume":50}`, `{"volume":50}`},
		{volume, `{"volume":null}`, `{}`},
		{volume, ``, `{}`},
		{volume, `null`, `{}`},
		{volume, ` { } `, `{}`},
		{"self.get_device_status", `{"x":1}`, `{}`},
		{"typed", `{"s":"a\u0022b\n\u4f60","b":false,"n":1e400,"l":[1,2]}`, `{"s":"a\u0022b\n\u4f60","b":false,"n":1e400,"l":[1,2]}`},
		{"free", `{"x":1.0,"y":null,"z":"1.0"}`, `{"x":1,"z":"1.0"}`},
	} {
		if _, err := r.call(t.Context(), c.tool, c.args); err != nil {
			t.Errorf("%s: %v", c.args, err)
		} else if got := r.last(); got.args != c.want || got.name != c.tool {
			t.Errorf("%s of %s became %s", c.args, c.tool, got.args)
		}
	}
	for args, want := range map[string]tool.Code{
		`{"volume":`: tool.BadArgs,
		`{"volume":"` + strings.Repeat("x", maxCallArgs) + `"}`: tool.BadArgs,
	} {
		if _, err := r.call(t.Context(), volume, args); code(err) != want {
			t.Errorf("%.30s: %v", args, err)
		}
	}
}

// Firmware carries out tools that were not listed. Nobody gets there.
func TestUnlisted(t *testing.T) {
	r := newRig(t, Options{}, fw24.answer)
	if _, err := r.call(t.Context(), volume, "{}"); code(err) != tool.Unknown {
		t.Error("before Start:", err)
	}
	r.start()
	if _, err := r.call(t.Context(), "self.assets.set_download_url", `{"url":"http://x"}`); code(err) != tool.Unknown {
		t.Error(err)
	}
	if got := r.methods(); got != "initialize tools/list" {
		t.Error(got)
	}
}

func TestResults(t *testing.T) {
	const status = `{"audio_speaker":{"volume":70},"screen":{"brightness":75,"theme":"light"}}`
	text := func(s string) string { return string(tool.Text(s).Content) }
	for _, c := range []struct {
		name, result        string
		content, structured string
		isError             bool
		code                tool.Code
	}{
		{"true", `{"content":[{"type":"text","text":"true"}],"isError":false}`, text("true"), "", false, ""},
		{"number", `{"content":[{"type":"text","text":"123"}]}`, text("123"), "", false, ""},
		{"no text", `{"content":[{"type":"text","text":true},{"type":"text","text":5}]}`, `[{"type":"text","text":"true"},{"type":"text","text":"5"}]`, "", false, ""},
		{"object", `{"content":[{"type":"text","text":` + quoted(status) + `}],"isError":false}`, text(status), status, false, ""},
		{"object with space", `{"content":[{"type":"text","text":"{\n\t\"a\": [1, 2]\n}"}]}`, text("{\n\t\"a\": [1, 2]\n}"), `{"a":[1,2]}`, false, ""},
		{"text in text", `{"content":[{"type":"text","text":` + quoted(quoted(status)) + `}]}`, text(status), status, false, ""},
		{"quotes", `{"content":[{"type":"text","text":"\"he\" said \"she\""}]}`, `[{"type":"text","text":"\"he\" said \"she\""}]`, "", false, ""},
		{"two objects", `{"content":[{"type":"text","text":"{}"},{"type":"text","text":"{}"}]}`, `[{"type":"text","text":"{}"},{"type":"text","text":"{}"}]`, "", false, ""},
		{"list", `{"content":[{"type":"text","text":"[1]"}]}`, text("[1]"), "", false, ""},
		{"no object", `{"content":[{"type":"text","text":"{volume}"}]}`, text("{volume}"), "", false, ""},
		{"picture", `{"content":[{"type":"image","image":"{\"type\":\"image\",\"mimeType\":\"image/jpeg\",\"data\":\"/9j/4A==\"}"}],"isError":false}`,
			`[{"type":"image","mimeType":"image/jpeg","data":"/9j/4A=="}]`, "", false, ""},
		{"picture not in a text", `{"content":[{"type":"image","image":{"mimeType":"image/png","data":"/9j/4A=="}}]}`, `[{"type":"image","mimeType":"image/png","data":"/9j/4A=="}]`, "", false, ""},
		{"picture of MCP", `{"content":[{"type":"image","mimeType":"text/html","data":"/9j/4A=="},{"type":"text","text":"{}"}]}`,
			`[{"type":"image","mimeType":"image/jpeg","data":"/9j/4A=="},{"type":"text","text":"{}"}]`, "", false, ""},
		{"no picture", `{"content":[{"type":"image","image":"{\"data\":\"***\"}"}]}`, text("(a picture that cannot be read)"), "", false, ""},
		{"empty picture", `{"content":[{"type":"image","image":"{}"}]}`, text("(a picture that cannot be read)"), "", false, ""},
		{"sound", `{"content":[{"type":"audio","mimeType":"audio/ogg","data":"T2dn"}]}`, `[{"type":"audio","mimeType":"audio/ogg","data":"T2dn"}]`, "", false, ""},
		{"failed", `{"content":[{"type":"text","text":"no"}],"isError":true}`, text("no"), "", true, ""},
		{"nothing", `{"content":[]}`, `[]`, "", false, ""},
		{"only odd blocks", `{"content":[7,{},{"type":"text"}]}`, "", "", false, tool.Garbled},
		{"no content", `{}`, "", "", false, tool.Garbled},
		{"content is null", `{"content":null}`, "", "", false, tool.Garbled},
		{"no object at all", `"x"`, "", "", false, tool.Garbled},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, Options{}, calls(func(a asked) []string { return []string{result(a.id, c.result)} }))
			r.start()
			got, err := r.call(t.Context(), volume, `{"volume":1}`)
			if code(err) != c.code || c.code == "" && err != nil {
				t.Fatal(err)
			}
			if c.code != "" {
				return
			}
			if string(got.Content) != c.content || string(got.Structured) != c.structured || got.IsError != c.isError {
				t.Errorf("%s\n%s\n%s", got.Content, c.content, got.Structured)
			}
		})
	}
}

func quoted(s string) string {
	text, _ := json.Marshal(s)
	return string(text)
}

// The texts of both lines of firmware, as they write them.
func TestErrors(t *testing.T) {
	for _, c := range []struct {
		text string
		code int // 0: up to 2.4
		want tool.Code
	}{
		{"Missing valid argument: volume", 0, tool.BadArgs},
		{"Value is below minimum allowed: 0", 0, tool.BadArgs},
		{"Value exceeds maximum allowed: 100", 0, tool.BadArgs},
		{"Invalid arguments", 0, tool.BadArgs},
		{"Unknown tool: self.audio_speaker.set_volume", 0, tool.Unknown},
		{"Missing required argument: volume", -32602, tool.BadArgs},
		{"Invalid type for argument: volume", -32602, tool.BadArgs},
		{"Value exceeds maximum allowed: 100", -32602, tool.BadArgs},
		{"Unknown tool: self.audio_speaker.set_volume", -32602, tool.Unknown},
		{"Unknown tool: self.audio_speaker.set_volume", -32601, tool.Unknown},
		{"Something else about the arguments", -32602, tool.BadArgs},
		{"Failed to upload photo", 0, ""},
		{"Failed to upload photo", -32603, ""},
		{"Image explain URL or token is not set", 0, ""},
		{`Cannot open "http://x/\y", sorry`, 0, ""}, // no JSON
		{`Cannot open "http://x/\y", sorry`, -32603, ""},
		{"two\nlines", 0, ""},
	} {
		t.Run(fmt.Sprint(c.text, c.code), func(t *testing.T) {
			r := newRig(t, Options{}, calls(func(a asked) []string {
				if c.code == 0 {
					return []string{plainError(a.id, c.text)}
				}
				return []string{codedError(a.id, c.code, c.text)}
			}))
			r.start()
			got, err := r.call(t.Context(), volume, `{"volume":1}`)
			if c.want != "" {
				if code(err) != c.want || tool.AsError(err).Told != c.text || tool.AsError(err).RPC != 0 {
					t.Errorf("%+v", err)
				}
				return
			}
			if err != nil || !got.IsError || got.Words() != c.text {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
	for reply, want := range map[string]string{
		`{"jsonrpc":"2.0","id":3,"error":"no"}`:                                            "no",
		`{"jsonrpc":"2.0","id":3,"error":{}}`:                                              "The board refused, and did not say why.",
		`{"jsonrpc":"2.0","id":3,"error":{"message":"a\u0022"}}`:                           `a"`,
		`{"id":3,"error":{"code":"x","message":"no"},"result":{}}`:                         "no",
		`{"jsonrpc":"2.0","id":3,"error":{"message":"` + strings.Repeat("x", 2000) + `"}}`: strings.Repeat("x", maxWords) + "…",
	} {
		r := newRig(t, Options{}, calls(func(asked) []string { return []string{reply} }))
		r.start()
		if got, err := r.call(t.Context(), volume, `{"volume":1}`); err != nil || !got.IsError || got.Words() != want {
			t.Errorf("%s: %v, %v", reply, got, err)
		}
	}
}

func TestTimeout(t *testing.T) {
	for name, limit := range map[string]time.Duration{volume: DefaultTimeout, "self.camera.take_photo": DefaultPhotoTimeout} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, Options{}, calls(func(a asked) []string {
				if strings.Contains(a.args, "77") {
					return []string{textResult(a.id, "second")}
				}
				time.Sleep(limit + time.Second)
				return []string{textResult(a.id, "late")}
			}))
			r.start()
			began := time.Now()
			_, err := r.call(t.Context(), name, `{"volume":1,"question":"?"}`)
			if code(err) != tool.TimedOut || time.Since(began) != limit || !strings.Contains(err.Error(), limit.String()) {
				t.Error(err, time.Since(began))
			}
			// The late answer is not the next one's.
			got, err := r.call(t.Context(), volume, `{"volume":77}`)
			if err != nil || got.Words() != "second" {
				t.Error(got, err)
			}
		})
	}
}

// A caller who gives up is free; the board gets the next call when it has answered.
func TestCancel(t *testing.T) {
	for _, answers := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, Options{}, calls(func(a asked) []string {
				if strings.Contains(a.args, "77") {
					return []string{textResult(a.id, "second")}
				}
				time.Sleep(10 * time.Second)
				if !answers {
					return nil
				}
				return []string{textResult(a.id, "first"), textResult(a.id, "first")}
			}))
			r.start()
			began := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err := r.call(ctx, volume, `{"volume":1}`); err != context.DeadlineExceeded || time.Since(began) != time.Second {
				t.Error(err, time.Since(began))
			}
			if _, err := r.call(ctx, volume, `{"volume":77}`); err != context.DeadlineExceeded || strings.Contains(r.last().args, "77") {
				t.Error("a call of somebody who is gone:", err)
			}
			got, err := r.call(t.Context(), volume, `{"volume":77}`)
			if err != nil || got.Words() != "second" {
				t.Error(got, err)
			}
			want := 10 * time.Second
			if !answers {
				want = DefaultTimeout
			}
			if took := time.Since(began); took != want {
				t.Errorf("the next call was answered after %s", took)
			}
		})
	}
}

// Calls come one after the other, in order; one who gives up in the queue leaves no
// gap; too many are refused; what the client asks for itself goes first.
func TestQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{}, calls(func(a asked) []string {
			time.Sleep(time.Second)
			return []string{textResult(a.id, a.args)}
		}))
		r.start()
		var wg sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for i := range 1 + maxWaiting {
			ctx := ctx
			if i != 5 {
				ctx = t.Context()
			}
			wg.Go(func() {
				args := fmt.Sprintf(`{"volume":%d}`, i)
				got, err := r.call(ctx, volume, args)
				switch {
				case i == 5 && errors.Is(err, context.Canceled):
				case err != nil || got.Words() != args:
					t.Errorf("%d: %v, %v", i, got, err)
				}
			})
			synctest.Wait()
		}
		if _, err := r.call(t.Context(), volume, `{}`); code(err) != tool.Busy {
			t.Error(err)
		}
		wg.Go(func() {
			if err := r.Alive(t.Context()); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		cancel()
		wg.Wait()
		want := []string{`{"volume":0}`, ""} // the latter is the probe
		for i := 1; i <= maxWaiting; i++ {
			if i != 5 {
				want = append(want, fmt.Sprintf(`{"volume":%d}`, i))
			}
		}
		var got []string
		for _, a := range r.got[2:] {
			got = append(got, a.args)
		}
		if !slices.Equal(got, want) {
			t.Error(got)
		}
	})
}

func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{}, calls(func(a asked) []string {
			time.Sleep(12 * time.Second)
			return []string{textResult(a.id, "true")}
		}))
		r.start()
		go func() { _, _ = r.call(t.Context(), volume, `{"volume":1}`) }()
		synctest.Wait()
		var notes []string
		call := &tool.Call{Tool: volume, Args: []byte(`{"volume":2}`), Progress: func(p tool.Progress) {
			notes = append(notes, fmt.Sprint(p.Done, p.Message))
		}}
		if _, err := r.Call(t.Context(), call); err != nil {
			t.Error(err)
		}
		want := "1The board is busy with an earlier call.|2The board is busy with an earlier call.|3The board has not finished yet.|4The board has not finished yet."
		if got := strings.Join(notes, "|"); got != want {
			t.Error(got)
		}
	})
}

func TestLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{}, calls(func(asked) []string { return nil }))
		r.start()
		errs := make(chan error, 2)
		for range 2 { // one is sent, one waits
			go func() {
				_, err := r.call(t.Context(), volume, `{"volume":1}`)
				errs <- err
			}()
		}
		synctest.Wait()
		r.Close(errors.New("connection reset"))
		codes := map[tool.Code]int{}
		for range 2 {
			err := <-errs
			codes[code(err)]++
			if !strings.Contains(err.Error(), "connection reset") || strings.Contains(tool.AsError(err).Told, "reset") {
				t.Error(err)
			}
		}
		if codes[tool.Lost] != 1 || codes[tool.Offline] != 1 {
			t.Error(codes)
		}
		if _, err := r.call(t.Context(), volume, `{"volume":1}`); code(err) != tool.Offline {
			t.Error(err)
		}
	})
}

// What cannot be sent does not block what comes after it.
func TestUnsent(t *testing.T) {
	broken := errors.New("broken pipe")
	var works atomic.Bool
	var r *rig
	works.Store(true)
	r = newRig(t, Options{Send: func(payload []byte) error {
		if !works.Load() {
			return broken
		}
		r.inbox <- payload
		return nil
	}}, fw24.answer)
	r.start()
	works.Store(false)
	if _, err := r.call(t.Context(), volume, `{"volume":1}`); code(err) != tool.Offline {
		t.Error(err)
	}
	if err := r.Alive(t.Context()); !errors.Is(err, broken) {
		t.Error(err)
	}
	works.Store(true)
	if _, err := r.call(t.Context(), volume, `{"volume":1}`); err != nil {
		t.Error(err)
	}
}

// A board that answers before Send has returned is quick, not wrong.
func TestQuickAnswer(t *testing.T) {
	var c *Client
	c = New(Options{Known: Catalog{Tools: []tool.Tool{{Name: "a"}}}, Send: func(payload []byte) error {
		c.Heard([]byte(textResult(1, "quick")))
		return nil
	}})
	defer c.Close(nil)
	if got, err := c.Call(t.Context(), &tool.Call{Tool: "a"}); err != nil || got.Words() != "quick" {
		t.Error(got, err)
	}
}

// Ids stay what a board gives back.
func TestIDs(t *testing.T) {
	r := newRig(t, Options{}, fw24.answer)
	r.start()
	r.Client.mu.Lock()
	r.lastID = 1<<31 - 2
	r.Client.mu.Unlock()
	for _, want := range []int64{1<<31 - 1, 1} {
		if _, err := r.call(t.Context(), volume, `{"volume":1}`); err != nil || r.last().id != want {
			t.Error(r.last().id, err)
		}
	}
}

// However many give up at whatever moment, nobody keeps the turn, and nobody gets
// what another asked for.
func TestTurnIsNeverLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{}, calls(func(a asked) []string {
			time.Sleep(time.Duration(a.id%3) * 10 * time.Millisecond)
			if a.id%7 == 0 {
				return nil
			}
			return []string{textResult(a.id, a.args)}
		}))
		r.start()
		var wg sync.WaitGroup
		var done, gone atomic.Int64
		for worker := range maxWaiting {
			wg.Go(func() {
				for i := range 50 {
					// A multiple of 10 ms, so that answers come in the same moment.
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration((worker+i)%30)*10*time.Millisecond)
					args := fmt.Sprintf(`{"volume":%d}`, worker*100+i)
					got, err := r.call(ctx, volume, args)
					cancel()
					switch {
					case err == nil && got.Words() != args:
						t.Errorf("%s got %s", args, got.Words())
					case err == nil:
						done.Add(1)
					case errors.Is(err, context.DeadlineExceeded):
						gone.Add(1)
						time.Sleep(time.Second)
					case code(err) != tool.TimedOut:
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		if done.Load() == 0 || gone.Load() == 0 {
			t.Errorf("%d were done and %d gave up", done.Load(), gone.Load())
		}
		time.Sleep(DefaultTimeout)
		synctest.Wait()
		if r.busy || r.running != nil || len(r.waiting) > 0 {
			t.Error("somebody keeps the turn")
		}
	})
}

// Somebody gives up in the moment in which it would be their turn, and the time of a
// request is up in the moment in which it is answered.
func TestSameMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{}, calls(func(a asked) []string {
			if strings.Contains(a.args, "77") {
				time.Sleep(time.Second)
				return []string{textResult(a.id, "second")}
			}
			return nil
		}))
		r.start()
		go func() { _, _ = r.call(t.Context(), volume, `{"volume":1}`) }()
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan error, 1)
		go func() {
			_, err := r.call(ctx, volume, `{"volume":2}`)
			gone <- err
		}()
		synctest.Wait()
		r.Client.mu.Lock()
		first := r.running
		cancel()
		r.finish(first, answer{fail: ErrSilent})
		r.Client.mu.Unlock()
		if err := <-gone; err != context.Canceled {
			t.Error(err)
		}
		time.AfterFunc(time.Second/2, func() {
			r.Client.mu.Lock()
			defer r.Client.mu.Unlock()
			if len(first.done) == 0 { // or it would block
				r.finish(first, answer{fail: ErrSilent})
			}
		})
		ctx, cancel = context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if got, err := r.call(ctx, volume, `{"volume":77}`); err != nil || got.Words() != "second" {
			t.Error(got, err)
		}
	})
}
