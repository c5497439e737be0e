package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"patchbay/internal/tool"
)

const volume = "self.audio_speaker.set_volume"

// calls makes a board that answers tool calls.
func calls(answer func(a asked) []string) func(asked) []string {
	f := fw24
	f.call = answer
	return f.answer
}

func TestArguments(t *testing.T) {
	f := fw24
	f.tools = append(f.tools, `{"name":"free"}`,
		`{"name":"typed","inputSchema":{"properties":{"s":{"type":"string"},"b":{"type":"boolean"},"n":{"type":"number"},"l":{"type":"array"}}}}`)
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
		{"typed", `{"s":"a\u0022b\n\u4f60","b":false,"n":1e400,"l":[1,2]}`,
			`{"s":"a\u0022b\n\u4f60","b":false,"n":1e400,"l":[1,2]}`},
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

// Firmware carries out unlisted tools. The client does not call them.
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
		{"no text", `{"content":[{"type":"text","text":true},{"type":"text","text":5}]}`,
			`[{"type":"text","text":"true"},{"type":"text","text":"5"}]`, "", false, ""},
		{"object", `{"content":[{"type":"text","text":` + quoted(status) + `}],"isError":false}`, text(status), status,
			false, ""},
		{"object with space", `{"content":[{"type":"text","text":"{\n\t\"a\": [1, 2]\n}"}]}`,
			text("{\n\t\"a\": [1, 2]\n}"), `{"a":[1,2]}`, false, ""},
		{"text in text", `{"content":[{"type":"text","text":` + quoted(quoted(status)) + `}]}`, text(status), status,
			false, ""},
		{"quotes", `{"content":[{"type":"text","text":"\"he\" said \"she\""}]}`,
			`[{"type":"text","text":"\"he\" said \"she\""}]`, "", false, ""},
		{"two objects", `{"content":[{"type":"text","text":"{}"},{"type":"text","text":"{}"}]}`,
			`[{"type":"text","text":"{}"},{"type":"text","text":"{}"}]`, "", false, ""},
		{"list", `{"content":[{"type":"text","text":"[1]"}]}`, text("[1]"), "", false, ""},
		{"no object", `{"content":[{"type":"text","text":"{volume}"}]}`, text("{volume}"), "", false, ""},
		{"picture", `{"content":[{"type":"image","image":"{\"type\":\"image\",\"mimeType\":\"image/jpeg\",\"data\":\"/9j/4A==\"}"}],"isError":false}`,
			`[{"type":"image","mimeType":"image/jpeg","data":"/9j/4A=="}]`, "", false, ""},
		{"picture not in a text", `{"content":[{"type":"image","image":{"mimeType":"image/png","data":"/9j/4A=="}}]}`,
			`[{"type":"image","mimeType":"image/png","data":"/9j/4A=="}]`, "", false, ""},
		{"picture of MCP",
			`{"content":[{"type":"image","mimeType":"text/html","data":"/9j/4A=="},{"type":"text","text":"{}"}]}`,
			`[{"type":"image","mimeType":"image/jpeg","data":"/9j/4A=="},{"type":"text","text":"{}"}]`, "", false, ""},
		{"no picture", `{"content":[{"type":"image","image":"{\"data\":\"***\"}"}]}`,
			text("(a picture that cannot be read)"), "", false, ""},
		{"empty picture", `{"content":[{"type":"image","image":"{}"}]}`, text("(a picture that cannot be read)"),
			"", false, ""},
		{"sound", `{"content":[{"type":"audio","mimeType":"audio/ogg","data":"T2dn"}]}`,
			`[{"type":"audio","mimeType":"audio/ogg","data":"T2dn"}]`, "", false, ""},
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

// The error texts of firmware up to 2.4 and since 2.5.
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
		{`Cannot open "http://x/\y", sorry`, 0, ""}, // invalid JSON
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
			if err != nil || !got.IsError || got.PlainText() != c.text {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
	for reply, want := range map[string]string{
		`{"jsonrpc":"2.0","id":3,"error":"no"}`:                    "no",
		`{"jsonrpc":"2.0","id":3,"error":{}}`:                      "The board refused, and did not say why.",
		`{"jsonrpc":"2.0","id":3,"error":{"message":"a\u0022"}}`:   `a"`,
		`{"id":3,"error":{"code":"x","message":"no"},"result":{}}`: "no",
		`{"jsonrpc":"2.0","id":3,"error":{"message":"` + strings.Repeat("x", 2000) +
			`"}}`: strings.Repeat("x", maxErrorText) + "…",
	} {
		r := newRig(t, Options{}, calls(func(asked) []string { return []string{reply} }))
		r.start()
		if got, err := r.call(t.Context(), volume, `{"volume":1}`); err != nil || !got.IsError ||
			got.PlainText() != want {
			t.Errorf("%s: %v, %v", reply, got, err)
		}
	}
}

func TestTimeout(t *testing.T) {
	for name, limit := range map[string]time.Duration{volume: DefaultTimeout,
		"self.camera.take_photo": DefaultPhotoTimeout} {
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
			if code(err) != tool.TimedOut || time.Since(began) != limit ||
				!strings.Contains(err.Error(), limit.String()) {
				t.Error(err, time.Since(began))
			}
			// A late response is not taken for that of the next request.
			got, err := r.call(t.Context(), volume, `{"volume":77}`)
			if err != nil || got.PlainText() != "second" {
				t.Error(got, err)
			}
		})
	}
}

// A canceled call returns at once; the board gets the next call after its response.
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
			if _, err := r.call(ctx, volume, `{"volume":1}`); err != context.DeadlineExceeded ||
				time.Since(began) != time.Second {
				t.Error(err, time.Since(began))
			}
			if _, err := r.call(ctx, volume, `{"volume":77}`); err != context.DeadlineExceeded ||
				strings.Contains(r.last().args, "77") {
				t.Error("a call of somebody who is gone:", err)
			}
			got, err := r.call(t.Context(), volume, `{"volume":77}`)
			if err != nil || got.PlainText() != "second" {
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

// Ids stay within what a board returns unchanged.
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
