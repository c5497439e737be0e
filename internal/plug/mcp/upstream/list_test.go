package upstream

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"patchbay/internal/tool"
)

// Tools are passed on byte by byte.
func TestFaithfulTools(t *testing.T) {
	const (
		input  = `{"type":"object", "properties":{"b":{"x-vendor":[1.50,2e3]},"a":{}},"$defs":{"π":{"const":12345678901234567890}},"required":[]}`
		output = `{"type":"object","z":1,"y":"<&>\u2028"}`
		icons  = `[{"src":"data:,x","sizes":["48x48"],"new":true}]`
		meta   = `{"vendor/x":{"deep":[null,1.0]}}`
	)
	o := newScriptedServer(t, map[string]scriptedHandler{"tools/list": result(`{"tools":[
		{"name":"a.b/c","title":"T","description":"d","inputSchema":` + input + `,"outputSchema":` + output + `,"icons":` + icons + `,"_meta":` + meta + `,
		 "annotations":{"title":"not this","readOnlyHint":true,"destructiveHint":false,"openWorldHint":false},"execution":{"x":1}},
		{"name":"wipe","inputSchema":{"type":"object"},"annotations":{"title":"Wipe","destructiveHint":true},"outputSchema":null},
		{"name":"plain","inputSchema":{ }},
		{"name":"typeless","inputSchema":{"properties":{}}}
	]}`)})
	list := newRig(t, o.settings(), fastTimings()).ready().tools("four tools",
		func(l []tool.Tool) bool { return len(l) == 4 })
	a := list[0]
	for what, pair := range map[string][2]string{
		"input": {string(a.Input), input}, "output": {string(a.Output), output}, "icons": {string(a.Icons), icons},
		"meta":  {string(a.Meta), meta},
		"title": {a.Title, "T"}, "the other title": {list[1].Title, "Wipe"}, "no output": {string(list[1].Output), ""},
		"plain":    {string(list[2].Input), `{"type":"object"}`},
		"typeless": {string(list[3].Input), `{"type":"object","properties":{}}`},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s is %s, want %s", what, pair[0], pair[1])
		}
	}
	if !a.IsReadOnly() || a.Dangerous || *a.Hints.OpenWorld || a.Hints.Idempotent != nil {
		t.Errorf("hints %+v, dangerous %v", a.Hints, a.Dangerous)
	}
	if !list[1].Dangerous || list[2].Dangerous {
		t.Error("what is dangerous is not what says so")
	}
}

// Results are passed on unchanged, with unknown kinds of content.
func TestFaithfulResults(t *testing.T) {
	const (
		content    = `[{"type":"hologram","depth":1.50,"voxels":[[],{}]}, {"type":"text","text":"<&> \u00e9","annotations":{"new":1}}]`
		structured = `{"n":12345678901234567890,"f":1.0}`
		meta       = `{"vendor":{"a":[1]}}`
	)
	o := newScriptedServer(t, nil)
	var seen atomic.Pointer[message]
	o.on = map[string]scriptedHandler{"tools/call": func(_ http.ResponseWriter, _ *http.Request, m *message) string {
		seen.Store(m)
		return `{"isError":true,"content":` + content + `,"structuredContent":` + structured + `,"_meta":` + meta +
			`,"more":1}`
	}}
	r := newRig(t, o.settings(), fastTimings()).ready()
	res, err := r.do(t.Context(), &tool.Call{Tool: "do", Args: json.RawMessage(`{"a":1.50,"z":"<&>"}`),
		Meta: json.RawMessage(`{"trace":"t1","progressToken":9,"io.modelcontextprotocol/clientInfo":{"name":"x"}}`)})
	if err != nil {
		t.Fatal(err)
	}
	if string(res.Content) != content || string(res.Structured) != structured || string(res.Meta) != meta ||
		!res.IsError {
		t.Errorf("the result became %s %s %s %v", res.Content, res.Structured, res.Meta, res.IsError)
	}
	if got := string(seen.Load().
		Params); got != `{"_meta":{"trace":"t1"},"arguments":{"a":1.50,"z":"<&>"},"name":"do"}` {
		t.Errorf("the server got %s", got)
	}
}

// Unusable tools are skipped, and usable ones stay.
func TestGarbageTools(t *testing.T) {
	bad := []string{
		`null`, `7`, `"x"`, `[]`, `{}`, `{"name":""}`, `{"name":" ","inputSchema":{"type":"object"}}`,
		`{"name":7,"inputSchema":{"type":"object"}}`, `{"name":"no schema"}`, `{"name":"x","inputSchema":null}`,
		`{"name":"x","inputSchema":[]}`, `{"name":"x","inputSchema":{"type":"string"}}`,
		`{"name":"x","inputSchema":{"type":["object","null"]}}`,
		`{"name":"x","inputSchema":{"type":"object"},"outputSchema":7}`,
		`{"name":"x","inputSchema":{"type":"object","properties":[]}}`,
		`{"name":"x","inputSchema":{"type":"object","properties":{"a":7}}}`,
		`{"name":"x","inputSchema":{"type":"object","properties":{"a":null}}}`,
		`{"name":"x","inputSchema":{"type":"object","required":"a"}}`,
		`{"name":"x","inputSchema":{"type":"object","required":[7]}}`,
		`{"name":"x","inputSchema":{"type":"object","$schema":7}}`,
		`{"name":"x","inputSchema":{"type":"object","properties":{},"properties":[]}}`,
		`{"name":"x","inputSchema":{"TYPE":"object","type":"string"}}`,
		`{"name":"x","inputSchema":{"type":"object"},"annotations":{"destructiveHint":"yes"}}`,
		`{"name":"good","description":"the second of that name","inputSchema":{"type":"object"}}`,
		"{\"name\":\"x\",\"description\":\"\xff\",\"inputSchema\":{\"type\":\"object\"}}",
		`{"name":"x","inputSchema":{"type":"object"},"description":"` + strings.Repeat("d", maxDescription+1) + `"}`,
		`{"name":"deep","inputSchema":` + strings.Repeat(`{"not":`, 3000) + `{}` + strings.Repeat(`}`, 3000) + `}`,
		`{"name":"deep","inputSchema":{"type":"object"},"_meta":{"x":` +
			strings.Repeat(`[`, 60) + strings.Repeat(`]`, 60) + `}}`,
		`{"name":"a\nb","inputSchema":{"type":"object"}}`, `{"name":"` + strings.Repeat("n", maxName+1) +
			`","inputSchema":{"type":"object"}}`,
	}
	text := `{"name":"good","description":"first","inputSchema":{"type":"object"}},` + strings.Join(bad, ",") +
		`,{"name":"also good","inputSchema":{"type":"object"}}`
	o := newScriptedServer(t, map[string]scriptedHandler{"tools/list": result(`{"tools":[` + text + `]}`)})
	r := newRig(t, o.settings(), fastTimings()).ready()
	list := r.tools("tools", some)
	if len(list) != 2 || list[0].Description != "first" || list[1].Name != "also good" {
		t.Errorf("offered are %v", list)
	}
	if st := r.state(Ready); st.Skipped != len(bad) || st.Tools != 2 {
		t.Errorf("status %+v, want %d skipped", st, len(bad))
	}
}

// Schemas get the shape that all clients can read, or are left out.
func TestToolSchemas(t *testing.T) {
	const object = `{"type":"object"}`
	for in, want := range map[string]string{
		`{"properties":{"a":true,"b":false,"c":{}}}`: `{"type":"object","properties":{"a":{},"b":{"not":{}},"c":{}}}`,
		`{"type":"object","properties":{"a":true,"b":true,"c":true,"d":true,"e":true,"f":false,"g":false}}`: `{"type":"object",` +
			`"properties":{"a":{},"b":{},"c":{},"d":{},"e":{},"f":{"not":{}},"g":{"not":{}}}}`,
		`{"type":"object","properties":null,"required":null}`: object,
		`{"properties":null}`: object, `{"TYPE":"object"}`: `{"type":"object","TYPE":"object"}`,
		`{"type" : "object", "properties" : { } }`: `{"type" : "object", "properties" : { } }`,
	} {
		if got, ok := inputSchema(json.RawMessage(in)); !ok || string(got) != want {
			t.Errorf("%s becomes %s, %v; want %s", in, got, ok, want)
		}
	}
	for _, in := range []string{`{}`, `{"type":"string"}`, `{"type":"object","properties":[]}`, `{"properties":{}}`,
		`{"type":"object","required":"a"}`, `{"type":"object","properties":{"a":7}}`} {
		if got := outputSchema(json.RawMessage(in)); got != nil {
			t.Errorf("%s becomes %s", in, got)
		}
	}
	const named = `{"$id":"https://example.com/a","type":"object"}`
	if got := outputSchema(json.RawMessage(named)); string(got) != object {
		t.Errorf("%s becomes %s", named, got)
	}
	large := `{"type":"object","description":"` + strings.Repeat("a", maxOutputSchema) + `"}`
	many := `{"type":"object","allOf":[` + strings.Repeat(`{"pattern":"a"},`, maxExpressions) + `{"pattern":"a"}]}`
	for _, in := range []string{large, many} {
		if got := outputSchema(json.RawMessage(in)); got != nil {
			t.Errorf("a schema of %d bytes is passed on", len(in))
		}
	}
	// What Ajv cannot compile; the first of each pair it can.
	for _, pair := range [][2]string{
		{`{"type":["string","null"]}`, `{"type":"text"}`}, {`{"minimum":1}`, `{"minimum":"1"}`},
		{`{"pattern":"^[a-z\\-]{2,3}\\.\\p{Lu}(?:x|y)$"}`, `{"pattern":"("}`},
		{`{"pattern":"[[a]"}`, `{"pattern":"(?i)a"}`}, {`{"pattern":"a{2}"}`, `{"pattern":"a{"}`},
		{`{"pattern":"-"}`, `{"pattern":"\\-"}`}, {`{"patternProperties":{"^a":{}}}`, `{"patternProperties":{"\\z":{}}}`},
		{`{"$ref":"#"}`, `{"$ref":"#/$defs/none"}`}, {`{"$ref":"#/properties/a~1b"}`, `{"$ref":"http://x/y"}`},
		{`{"enum":[1]}`, `{"enum":[]}`}, {`{"items":{"not":{}}}`, `{"items":{"not":7}}`},
		{`{"type":["string","null"]}`, `{"type":"string","nullable":true}`}, {`{"allOf":[true]}`, `{"allOf":{}}`},
		{`{"$comment":"x"}`, `{"$id":"x"}`}, {`{"allOf":[{"$ref":"#/properties/a~1b"}]}`, `{"allOf":[{"$ref":"#/properties/a/allOf/00"}]}`},
		{`{"dependencies":{"a":["b"]}}`, `{"dependencies":{"a":"b"}}`},
	} {
		for i, property := range pair {
			schema := `{"type":"object","properties":{"a/b":{},"a":` + property + `}}`
			if got := outputSchema(json.RawMessage(schema)); (got != nil) != (i == 0) {
				t.Errorf("%s becomes %s", schema, got)
			}
		}
	}
}

// pages answers tools/list with count pages of n tools each.
func pages(n, count int) scriptedHandler {
	return func(_ http.ResponseWriter, _ *http.Request, m *message) string {
		var p struct{ Cursor string }
		_ = json.Unmarshal(m.Params, &p)
		at := 0
		_, _ = fmt.Sscan(p.Cursor, &at)
		var tools []string
		for i := range n {
			tools = append(tools, fmt.Sprintf(`{"name":"t%d-%d","inputSchema":{"type":"object"}}`, at, i))
		}
		next := ""
		if at+1 < count {
			next = fmt.Sprintf(`,"nextCursor":"%d"`, at+1)
		}
		return `{"tools":[` + strings.Join(tools, ",") + `]` + next + `}`
	}
}

// Lists of many pages, some without end.
func TestPages(t *testing.T) {
	stubborn := func(http.ResponseWriter, *http.Request, *message) string {
		return `{"tools":[{"name":"a","inputSchema":{"type":"object"}}],"nextCursor":"same"}`
	}
	breaks := func(w http.ResponseWriter, r *http.Request, m *message) string {
		if strings.Contains(string(m.Params), `"cursor":"3"`) {
			return `{"tools":"none"}`
		}
		return pages(2, 10)(w, r, m)
	}
	heavy := func(_ http.ResponseWriter, _ *http.Request, m *message) string {
		next := 0
		_, _ = fmt.Sscanf(string(m.Params), `{"cursor":"%d"}`, &next)
		return fmt.Sprintf(`{"tools":[{"name":"h%d","inputSchema":{"type":"object","x":"%s"}}],"nextCursor":"%d"}`,
			next, strings.Repeat("x", 3<<20), next+1)
	}
	for name, c := range map[string]struct {
		list  scriptedHandler
		max   int
		tools int
		asked int
		cut   bool
	}{
		"2000 tools":         {pages(100, 20), 0, 2000, 20, false},
		"one too many":       {pages(667, 3), 0, 2000, 3, true},
		"fewer wanted":       {pages(10, 10), 25, 25, 3, true},
		"just as many":       {pages(5, 5), 25, 25, 5, false},
		"without end":        {pages(1, 1<<30), 0, maxPages, maxPages, true},
		"empty, without end": {pages(0, 1<<30), 0, 0, maxPages, true},
		"always the same":    {stubborn, 0, 1, 2, true},
		"a page is broken":   {breaks, 0, 6, 4, true},
		"too much":           {heavy, 0, 5, 6, true},
		"no tools":           {result(`{"tools":[]}`), 0, 0, 1, false},
		"null":               {result(`{"tools":null}`), 0, 0, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			o := newScriptedServer(t, map[string]scriptedHandler{"tools/list": c.list})
			s := o.settings()
			s.MaxTools = c.max
			r := newRig(t, s, fastTimings()).start()
			st := r.state(Ready)
			if st.Tools != c.tools || st.Truncated != c.cut || o.count("tools/list") != c.asked {
				t.Errorf("%d tools, cut %v, asked %d times; want %d, %v, %d", st.Tools, st.Truncated,
					o.count("tools/list"), c.tools, c.cut, c.asked)
			}
			if c.tools > 0 {
				r.tools("all", func(l []tool.Tool) bool { return len(l) == c.tools })
			}
		})
	}
}

// Pages of two thousand tools of the official SDK.
func TestManyTools(t *testing.T) {
	s := mcp.NewServer(&mcp.Implementation{Name: "many"}, &mcp.ServerOptions{PageSize: 100})
	for i := range 2000 {
		s.AddTool(&mcp.Tool{Name: fmt.Sprintf("t%04d", i), InputSchema: json.RawMessage(`{"type":"object"}`)}, nil)
	}
	r := newRig(t, Settings{URL: serve(t, streamableServer(s, nil)).URL}, fastTimings()).ready()
	list := r.tools("all of them", func(l []tool.Tool) bool { return len(l) == 2000 })
	if !slices.IsSortedFunc(list, func(a, b tool.Tool) int { return strings.Compare(a.Name, b.Name) }) {
		t.Error("their order is not the server's")
	}
}

// Servers without tools answer in different ways.
func TestNoTools(t *testing.T) {
	o := newScriptedServer(t, map[string]scriptedHandler{"tools/list": func(w http.ResponseWriter, _ *http.Request,
		m *message) string {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no tools"}}`, m.ID)
		return ""
	}})
	if st := newRig(t, o.settings(), fastTimings()).start().state(Ready); st.Tools != 0 || st.Err != nil {
		t.Errorf("status %+v", st)
	}
}

// The owner selects tools; the others cannot be called.
func TestChoice(t *testing.T) {
	o := newScriptedServer(t, map[string]scriptedHandler{"tools/list": pages(3, 2)})
	s := o.settings()
	s.Allow, s.Deny = []string{"t0-*", "t1-2"}, []string{"*-1"}
	r := newRig(t, s, fastTimings()).ready()
	list := r.tools("some", some)
	var names []string
	for _, t := range list {
		names = append(names, t.Name)
	}
	if st := r.state(Ready); !slices.Equal(names, []string{"t0-0", "t0-2", "t1-2"}) || st.Hidden != 3 {
		t.Errorf("offered are %v, hidden %d", names, st.Hidden)
	}
	r.must("t0-0", "{}")
	r.fails(tool.Unknown, "t0-1", "{}")
}

// Several change notifications cause one read of the list, and an unchanged list is not published
// again.
func TestChanges(t *testing.T) {
	o := newScriptedServer(t, nil)
	var n atomic.Int32
	n.Store(1)
	o.on = map[string]scriptedHandler{"tools/list": func(w http.ResponseWriter, r *http.Request, m *message) string {
		return pages(int(n.Load()), 1)(w, r, m)
	}}
	tell := make(chan int)
	o.get = func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for {
			w.(http.Flusher).Flush()
			select {
			case times := <-tell:
				fmt.Fprint(w,
					strings.Repeat("data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n",
						times))
			case <-r.Context().Done():
				return
			}
		}
	}
	r := newRig(t, o.settings(), fastTimings()).ready()
	n.Store(2)
	tell <- 1
	r.tools("two", func(l []tool.Tool) bool { return len(l) == 2 })
	before := o.count("tools/list")
	tell <- 50
	r.status("looked again", func(Status) bool { return o.count("tools/list") > before })
	n.Store(3)
	tell <- 1
	r.tools("three", func(l []tool.Tool) bool { return len(l) == 3 })
	if got := r.offers(); got != 3 {
		t.Errorf("%d lists were offered, want 3", got)
	}
	if asked := o.count("tools/list") - before; asked > 3 {
		t.Errorf("51 words of a change were %d looks at the list", asked)
	}
}

// The list of a server without change notifications is polled.
func TestPolling(t *testing.T) {
	var n atomic.Int32
	n.Store(1)
	o := newScriptedServer(t, map[string]scriptedHandler{"tools/list": func(w http.ResponseWriter, r *http.Request,
		m *message) string {
		return pages(int(n.Load()), 1)(w, r, m)
	}})
	times := fastTimings()
	times.listInterval = 5 * time.Millisecond
	r := newRig(t, o.settings(), times).ready()
	n.Store(2)
	r.tools("two", func(l []tool.Tool) bool { return len(l) == 2 })
}
