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

func TestStart(t *testing.T) {
	r := newRig(t, Options{}, fw24.answer)
	changed, err := r.Start(t.Context(), Vision{URL: "http://h:1/v", Token: `a"b`})
	if err != nil || !changed {
		t.Fatal(changed, err)
	}
	if got := r.methods(); got != "initialize tools/list" {
		t.Error(got)
	}
	var hello struct{ Capabilities struct{ Vision Vision } }
	if err := json.Unmarshal([]byte(r.got[0].params), &hello); err != nil ||
		hello.Capabilities.Vision != (Vision{"http://h:1/v", `a"b`}) {
		t.Error(r.got[0].params, err)
	}
	if k := r.Catalog(); k.Board != "lichuang-dev" || k.Firmware != "2.4.2" || k.Truncated != "" || k.Skipped != 0 {
		t.Errorf("%+v", k)
	}
	if got := r.names(); got != "self.get_device_status self.audio_speaker.set_volume self.camera.take_photo self.reboot self.upgrade_firmware" {
		t.Error(got)
	}
	// A new token is sent, and the same firmware is not listed again.
	if changed, err := r.Start(t.Context(), Vision{URL: "http://h:1/v"}); changed || err != nil {
		t.Error(changed, err)
	}
	if got := r.methods(); got != "initialize tools/list initialize" {
		t.Error(got)
	}
	if strings.Contains(r.last().params, "token") {
		t.Error("an empty token was sent:", r.last().params)
	}
	if changed, err := r.Refresh(t.Context()); changed || err != nil || r.last().method != "tools/list" {
		t.Error(changed, err)
	}
}

// A stored catalog serves the next connection, unless the firmware has changed.
func TestKnown(t *testing.T) {
	first := newRig(t, Options{}, fw24.answer)
	first.start()
	kept, err := json.Marshal(first.Catalog())
	if err != nil {
		t.Fatal(err)
	}
	var known Catalog
	if err := json.Unmarshal(kept, &known); err != nil {
		t.Fatal(err)
	}
	fw25 := fw24
	fw25.version, fw25.tools = "2.5.0", fw24.tools[:2]
	same := fw24
	same.version = "2.4.3"
	silent := func(a asked) []string {
		if a.method == "initialize" {
			return fw25.answer(a)
		}
		return []string{codedError(a.id, -32603, "no memory")}
	}
	cut := known
	cut.Truncated = "something was wrong"
	for _, c := range []struct {
		name    string
		known   Catalog
		answer  func(asked) []string
		changed bool
		methods string
		tools   int
		fails   bool
	}{
		// The version proves nothing, since custom builds may keep it.
		{"same firmware", known, fw24.answer, false, "initialize tools/list", 5, false},
		{"same tools in other firmware", known, same.answer, false, "initialize tools/list", 5, false},
		{"other tools", known, fw25.answer, true, "initialize tools/list", 2, false},
		{"was cut", cut, fw24.answer, false, "initialize tools/list", 5, false},
		{"no list", known, silent, true, "initialize tools/list", 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, Options{Known: c.known}, c.answer)
			if len(r.Catalog().Tools) != 5 {
				t.Error("the known tools are not there before Start")
			}
			changed, err := r.Start(t.Context(), Vision{})
			if changed != c.changed || err != nil != c.fails || r.methods() != c.methods ||
				len(r.Catalog().Tools) != c.tools {
				t.Errorf("changed %v, %v, %s, %d tools", changed, err, r.methods(), len(r.Catalog().Tools))
			}
		})
	}
}

// many returns n tools, of which some 30 fit on a page.
func many(n int) (out []string) {
	for i := range n {
		out = append(out,
			fmt.Sprintf(`{"name":"self.dog.move_%03d","description":"%s","inputSchema":{"type":"object","properties":{}}}`, i, strings.Repeat("x", 150)))
	}
	return out
}

func TestList(t *testing.T) {
	list := func(tools ...string) firmware { return firmware{version: "2.4.2", tools: tools} }
	long := `{"name":"long","description":"` + strings.Repeat("x", 9000) + `"}`
	once := func(page string) func(asked) []string {
		return func(a asked) []string {
			if a.method == "tools/list" {
				return []string{result(a.id, page)}
			}
			return fw24.answer(a)
		}
	}
	ends := func(a asked) []string { // after the first page
		if a.cursor != "" {
			return []string{plainError(a.id, `Failed to add tool "x" because of payload size limit`)}
		}
		return list(many(100)...).answer(a)
	}
	endless := func(a asked) []string {
		if a.method == "tools/list" {
			return []string{result(a.id, fmt.Sprintf(`{"tools":[%s],"nextCursor":"c%d"}`, toolVolume, a.id))}
		}
		return fw24.answer(a)
	}
	for _, c := range []struct {
		name        string
		answer      func(asked) []string
		tools, skip int
		cut         string // prefix
		fails       string // prefix
	}{
		{"pages", list(many(100)...).answer, 100, 0, "", ""},
		{"as many as can be", list(many(200)...).answer, 200, 0, "", ""},
		{"too many", list(many(201)...).answer, 200, 0, "the board has more than 200 tools", ""},
		{"far too many", list(many(400)...).answer, 200, 0, "the board has more than 200 tools", ""},
		{"a tool longer than a page", list(toolStatus, long, toolVolume).answer, 1, 0,
			"the board refuses: Failed to add tool long because", ""},
		{"the first tool longer than a page", list(long).answer, 0, 0, "",
			"tools/list: the board refuses: Failed to add tool long because"},
		{"an error on a later page", ends, 32, 0, `the board refuses: Failed to add tool "x" because`, ""},
		{"the same page for ever", once(`{"tools":[` + toolStatus + `],"nextCursor":"self.get_device_status"}`), 1, 0,
			"the board lists the same tools again and again", ""},
		{"pages for ever", endless, 1, 0, "the list has more than 100 pages", ""},
		{"empty cursor", once(`{"tools":[` + toolStatus + `],"nextCursor":""}`), 1, 0, "", ""},
		{"no tools", once(`{"tools":[]}`), 0, 0, "", ""},
		{"no list", once(`{}`), 0, 0, "", "tools/list: the board's list"},
		{"no object", once(`"x"`), 0, 0, "", "tools/list: the board's list"},
		{"garbage between", once(`{"tools":[null,1,"x",{},{"name":""},{"name":"a\u0007b"},` + toolStatus + `,` +
			toolStatus + `]}`), 1, 6, "", ""},
		{"a tool that is too long", once(`{"tools":[{"name":"a","description":"` + strings.Repeat("x", maxTool) +
			`"},` + toolStatus + `]}`), 1, 1, "", ""},
		{"without a schema",
			once(`{"tools":[{"name":"a"},{"name":"b","inputSchema":null},{"name":"c","inputSchema":[]},{"name":"d","description":3,"inputSchema":{"type":"array"}}]}`), 4, 0, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, Options{}, c.answer)
			_, err := r.Start(t.Context(), Vision{})
			switch {
			case c.fails == "" && err != nil, c.fails != "" && (err == nil || !strings.HasPrefix(err.Error(), c.fails)):
				t.Errorf("the error is %v", err)
			}
			k := r.Catalog()
			if len(k.Tools) != c.tools || k.Skipped != c.skip || c.cut == "" && c.fails == "" && k.Truncated != "" ||
				!strings.HasPrefix(k.Truncated, c.cut) {
				t.Errorf("%d tools, %d skipped, cut: %q", len(k.Tools), k.Skipped, k.Truncated)
			}
			for i, have := range k.Tools {
				if !json.Valid(have.Input) {
					t.Errorf("%s: %s", have.Name, have.Input)
				}
				if strings.HasPrefix(have.Name, "self.dog") && have.Name != fmt.Sprintf("self.dog.move_%03d", i) {
					t.Errorf("%s is at place %d", have.Name, i)
				}
			}
		})
	}
}

// Responses are lost, late, repeated, or errors.
func TestStartWithFaults(t *testing.T) {
	for _, c := range []struct {
		name    string
		answer  func(n int, a asked) []string // n counts from 1
		methods string
		err     error // wrapped
		tools   int
	}{
		{"each first answer lost", func(n int, a asked) []string {
			if n%2 == 1 {
				return nil
			}
			return fw24.answer(a)
		}, "initialize initialize tools/list tools/list", nil, 5},
		{"never an answer", func(int, asked) []string { return nil }, "initialize initialize", ErrSilent, 0},
		{"no list", func(_ int, a asked) []string {
			if a.method == "tools/list" {
				return nil
			}
			return fw24.answer(a)
		}, "initialize tools/list tools/list", ErrSilent, 0},
		{"the first answer late", func(n int, a asked) []string {
			if n == 1 {
				time.Sleep(setupTimeout + time.Second)
			}
			return fw24.answer(a)
		}, "initialize initialize tools/list", nil, 5},
		{"everything twice", func(_ int, a asked) []string { return append(fw24.answer(a), fw24.answer(a)...) },
			"initialize tools/list", nil, 5},
		{"somebody else's answers", func(_ int, a asked) []string {
			return append([]string{plainError(a.id+7, "x"), fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`,
				a.id), `{"jsonrpc":"2.0","id":null,"result":{}}`, `{"jsonrpc":"2.0","result":{}}`, "", "{", "null",
				"[]"}, fw24.answer(a)...)
		}, "initialize tools/list", nil, 5},
		{"initialize refused", func(_ int, a asked) []string {
			if a.method == "initialize" {
				return []string{plainError(a.id, `no "initialize" here`)}
			}
			return fw24.answer(a)
		}, "initialize tools/list", nil, 5},
		{"ids as texts and fractions", func(_ int, a asked) []string {
			reply := fw24.answer(a)[0]
			for from, to := range map[string]string{`"id":1,`: `"id":"1",`, `"id":2,`: `"id":2.0,`} {
				reply = strings.Replace(reply, from, to, 1)
			}
			return []string{reply}
		}, "initialize tools/list", nil, 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := 0
				r := newRig(t, Options{Firmware: "2.4.2"}, func(a asked) []string { n++; return c.answer(n, a) })
				_, err := r.Start(t.Context(), Vision{})
				if !errors.Is(err, c.err) || r.methods() != c.methods || len(r.Catalog().Tools) != c.tools {
					t.Errorf("%v, %s, %d tools", err, r.methods(), len(r.Catalog().Tools))
				}
			})
		})
	}
}

func TestStartEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{}, func(asked) []string { return nil })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := r.Start(ctx, Vision{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		time.AfterFunc(time.Second, func() { r.Close(errors.New("the plug was pulled")) })
		if _, err := r.Start(t.Context(), Vision{}); !errors.Is(err, ErrClosed) ||
			!strings.Contains(err.Error(), "the plug was pulled") {
			t.Error(err)
		}
		if err := r.Ping(t.Context()); !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
		r.Close(nil) // no effect
	})
}

func TestAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dead := false
		r := newRig(t, Options{}, func(a asked) []string {
			if dead {
				return nil
			}
			return fw24.answer(a)
		})
		if err := r.Ping(t.Context()); err != nil {
			t.Error(err)
		}
		if r.last().method != "ping" {
			t.Error(r.last())
		}
		dead = true
		began := time.Now()
		if err := r.Ping(t.Context()); !errors.Is(err, ErrSilent) || time.Since(began) != setupTimeout {
			t.Error(err, time.Since(began))
		}
	})
}

func TestEvents(t *testing.T) {
	var got []string
	c := New(Options{Send: func([]byte) error { return nil },
		OnNotification: func(method string, params json.RawMessage) {
			got = append(got, method+" "+string(params))
		}})
	for _, payload := range []string{
		`{"jsonrpc":"2.0","method":"notifications/state_changed","params":{"newState":"idle","oldState":"connecting"}}`,
		`{"method":"x"}`, `{"jsonrpc":"2.0","method":"y","id":5,"params":null}`, `{"id":5,"result":{}}`,
		`{"method":""}`, `{"method":7}`, `x`,
		`{"method":"` + "\xff" + `"}`,
	} {
		c.HandleMessage([]byte(payload))
	}
	c.Close(nil)
	c.HandleMessage([]byte(`{"method":"late"}`))
	want := "notifications/state_changed {\"newState\":\"idle\",\"oldState\":\"connecting\"}|x |y |\ufffd "
	if have := strings.Join(got, "|"); have != want {
		t.Errorf("%q", have)
	}
}

func TestReadTool(t *testing.T) {
	reads := tool.ReadOnlyHints()
	for _, c := range []struct {
		raw       string
		input     string
		dangerous bool
		user      string
		reads     bool
	}{
		{toolStatus, `{"type":"object","properties":{}}`, false, "", true},
		{toolVolume,
			`{"type":"object","properties":{"volume":{"type":"integer","minimum":0,"maximum":100}},"required":["volume"]}`, false, "", false},
		{toolPhoto, `{"type":"object","properties":{"question":{"type":"string"}},"required":["question"]}`, false,
			"", false},
		{toolReboot, `{"type":"object","properties":{}}`, true, "user", false},
		{toolUpdate,
			`{"type":"object","properties":{"url":{"type":"string","description":"The URL of the firmware binary file to download and install"}},"required":["url"]}`, true, "user", false},
		{`{"name":"self.system.reconfigure_wifi","description":"","inputSchema":{"type":"object","properties":{}}}`,
			`{"type":"object","properties":{}}`, true, "", false},
		{`{"name":"self.assets.set_download_url","inputSchema":{"type":"object","properties":{"url":{"type":"string"}},"required":["url"]}}`,
			`{"type":"object","properties":{"url":{"type":"string"}},"required":["url"]}`, true, "", false},
		{`{"name":"self.screen.snapshot","inputSchema":{"type":"object","properties":{"url":{"type":"string"},"quality":{"type":"integer","default":80,"minimum":1,"maximum":100}},"required":["url"]}}`,
			`{"type":"object","properties":{"url":{"type":"string"},"quality":{"type":"integer","default":80,"minimum":1,"maximum":100}},"required":["url"]}`, true, "", false},
		{`{"name":"self.music.get_song","inputSchema":{"properties":{"songUrl":{"type":"string","default":"http://x/y"}}}}`,
			`{"type":"object","properties":{"songUrl":{"type":"string","default":"http://x/y"}}}`, true, "", false},
		{`{"name":"self.net.join","inputSchema":{"properties":{"ssid":{"type":"string"}}}}`,
			`{"type":"object","properties":{"ssid":{"type":"string"}}}`, true, "", false},
		{`{"name":"self.hair.curl","inputSchema":{"properties":{"hurling":{"type":"boolean"}}}}`,
			`{"type":"object","properties":{"hurling":{"type":"boolean"}}}`, false, "", false},
		{`{"name":"getSystemReboot"}`, `{"type":"object"}`, true, "", false},
		{`{"name":"self.lamp.get","annotations":{"audience":["user","assistant"],"readOnlyHint":true}}`,
			`{"type":"object"}`, false, "", false},
		// Unknown parts of a schema are dropped.
		{`{"name":"a","inputSchema":{"type":"x","$ref":"file:///etc/passwd","properties":{"n":{"type":"integer","minimum":9,"maximum":1,"default":"x","format":5},"m":{"type":"integer","minimum":-1e3,"maximum":1e999},"s":{"type":"string","minimum":1,"enum":["a","b","a"],"pattern":"("},"b":{"type":["boolean","boolean","?"],"default":true},"x":7,"o":{"type":"object","properties":{"q":{}}},"l":{"type":"array","items":{"type":"integer"}},"e":{"enum":[{}]},"n":{"type":"string"}},"required":["n","n","zz",4]}}`,
			`{"type":"object","properties":{"n":{"type":"integer"},"m":{"type":"integer","minimum":-1000},"s":{"type":"string","enum":["a","b"]},"b":{"type":"boolean","default":true},"o":{"type":"object"},"l":{"type":"array","items":{"type":"integer"}},"e":{}},"required":["n"]}`, false, "", false},
	} {
		got, ok := readTool([]byte(c.raw))
		if !ok {
			t.Errorf("%s cannot be read", c.raw)
			continue
		}
		if string(got.Input) != c.input || got.Dangerous != c.dangerous || got.Audience != c.user {
			t.Errorf("%s is %v %q\n%s\n%s", got.Name, got.Dangerous, got.Audience, got.Input, c.input)
		}
		if isReads := got.Hints.ReadOnly != nil && got.Hints.Destructive != nil &&
			*got.Hints.ReadOnly == *reads.ReadOnly; isReads != c.reads {
			t.Errorf("%s: %+v", got.Name, got.Hints)
		}
	}
}

// Hints of forks are kept.
func TestHints(t *testing.T) {
	got, ok := readTool([]byte(`{"name":"self.lamp.get","annotations":{"readOnlyHint":false,"destructiveHint":true,"idempotentHint":true,"openWorldHint":3}}`))
	h := got.Hints
	if !ok || !got.Dangerous || h.ReadOnly == nil || *h.ReadOnly || h.Destructive == nil || !*h.Destructive ||
		h.Idempotent == nil || !*h.Idempotent || h.OpenWorld != nil {
		t.Errorf("%+v", h)
	}
}

// Firmware of the same version can have other tools. With a known build, the first page decides;
// otherwise the whole list is read.
func TestSameVersionOtherTools(t *testing.T) {
	all := firmware{version: "2.4.2", tools: many(100)} // three pages
	first := newRig(t, Options{Build: "a"}, all.answer)
	first.start()
	known := first.Catalog()
	two := firmware{version: "2.4.2", tools: many(2)}
	more := firmware{version: "2.4.2", tools: many(101)} // with the same first page
	unbuilt := known
	unbuilt.Build = ""
	for _, c := range []struct {
		name, build string
		known       Catalog
		board       firmware
		lists       int
		tools       int
	}{
		{"the same build", "a", known, all, 1, 100},
		{"fewer tools", "a", known, two, 1, 2},
		{"another build", "b", known, more, 4, 101},
		{"another build with the same tools", "b", known, all, 4, 100},
		{"no build", "", known, more, 4, 101},
		{"never a build", "", unbuilt, more, 4, 101},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, Options{Build: c.build, Known: c.known}, c.board.answer)
			changed, err := r.Start(t.Context(), Vision{})
			lists := strings.Count(r.methods(), "tools/list")
			if err != nil || changed != (c.tools != 100) || len(r.Catalog().Tools) != c.tools || lists != c.lists {
				t.Errorf("changed %v, %v, %d tools, %d pages", changed, err, len(r.Catalog().Tools), lists)
			}
			// A new token does not cause a new list.
			if r.start(); strings.Count(r.methods(), "tools/list") != lists {
				t.Error("listed twice in one connection")
			}
		})
	}
}
