package upstream

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/url"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"
)

// The results of parsing external messages satisfy their contracts.
func FuzzMessages(f *testing.F) {
	for _, s := range []string{
		`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"x"}],"structuredContent":{},"isError":true,"_meta":{}}}`,
		`{"id":"7","error":{"code":-1,"message":"m","data":[1]}}`,
		`[{"method":"ping","id":null},{"method":"x","params":{}}]`,
		`{"result":{"tools":[{"name":"a","inputSchema":{"properties":{"x":{"x-mcp-header":"H"}}}}],"nextCursor":"c"}}`,
		`{"result":{"resultType":"input_required","inputRequests":{"a":{"method":"roots/list"}},"requestState":"s"}}`,
		``, `[]`, `null`, `{`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		list, err := readMessages(data)
		if err != nil {
			return
		}
		for _, m := range list {
			if m.number() < 0 {
				t.Errorf("id %d", m.number())
			}
			checkResult(t, m.Result)
			tools, _, err := readPage(m.Result, "tools")
			if err != nil {
				continue
			}
			c := &catalog{paramHeaders: map[string][]paramHeader{}}
			c.addPage(tools, map[string]bool{}, &Settings{MaxTools: 10}, &session{slug: "up"})
			for _, tool := range c.tools {
				if !json.Valid(tool.Input) || !isObject(tool.Input) || !isValidName(tool.Name) ||
					!utf8.ValidString(tool.Description) {
					t.Errorf("tool %+v", tool)
				}
				for name, value := range paramHeaderValues(c.paramHeaders[tool.Name], tool.Input) {
					if !strings.HasPrefix(name, "Mcp-Param-") || strings.ContainsAny(value, "\r\n\x00") {
						t.Errorf("header %q: %q", name, value)
					}
				}
			}
		}
	})
}

func checkResult(t *testing.T, raw json.RawMessage) {
	r, err := (&session{}).readResult(raw)
	if err != nil {
		return
	}
	for name, mapped := range map[string]json.RawMessage{"content": mapContent("up", r.Content), "meta": mapMeta("up", r.Meta),
		"prompt": mapPrompt("up", raw), "extra": r.Extra} {
		if mapped != nil && !json.Valid(mapped) {
			t.Errorf("%s of %s became %s", name, raw, mapped)
		}
	}
	if r.Content != nil && (!isArray(r.Content) || !json.Valid(r.Content)) ||
		r.Structured != nil && !json.Valid(r.Structured) || r.Meta != nil && !isObject(r.Meta) {
		t.Errorf("result %s became %+v", raw, r)
	}
	if r.Content != nil && !bytes.Contains(raw, r.Content) {
		t.Errorf("content %s is not in %s", r.Content, raw)
	}
}

// A stream yields the same events, however it is cut into pieces.
func FuzzEvents(f *testing.F) {
	for _, s := range []string{
		"event: endpoint\r\ndata: /x\r\n\r\n", "data: a\ndata: b\nid: 1\nretry: 5\n\n: c\n\ndata:c", "\ufeffdata:x\n\n",
		"data: " + strings.Repeat("x", 200) + "\n\ndata: y\n\n",
		"id: a\x00\ndata:\n\n", "data\n\n", "event: x\n\ndata: y\n\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		const limit = 100
		read := func(r io.Reader) (list []event) {
			in := newEventReader(r, limit)
			for {
				e, err := in.next()
				if err != nil {
					return list
				}
				if len(e.data) > limit || len(e.head) > keptHeadBytes || len(e.tail) > keptTailBytes ||
					e.tooLarge && e.data != nil {
					t.Errorf("an event of %d bytes, %v", len(e.data), e.tooLarge)
				}
				list = append(list, *e)
			}
		}
		whole, pieces := read(bytes.NewReader(data)), read(iotest.OneByteReader(bytes.NewReader(data)))
		if len(whole) != len(pieces) {
			t.Fatalf("%d events, and %d in pieces", len(whole), len(pieces))
		}
		for i := range whole {
			a, b := whole[i], pieces[i]
			if a.name != b.name || !bytes.Equal(a.data, b.data) || a.tooLarge != b.tooLarge || a.id != b.id ||
				a.retry != b.retry {
				t.Errorf("event %d: %+v, and in pieces %+v", i, a, b)
			}
		}
	})
}

// Lines are returned unchanged, or as their beginning and end.
func FuzzLines(f *testing.F) {
	f.Add([]byte("a\nb\r\n\nc"), 3)
	f.Add([]byte(strings.Repeat("x", 40)+"\n"), 20)
	f.Fuzz(func(t *testing.T, data []byte, limit int) {
		if limit < 0 || limit > 1<<16 {
			return
		}
		in := bufio.NewReaderSize(bytes.NewReader(data), 16)
		want := bytes.Split(data, []byte("\n"))
		if len(want[len(want)-1]) == 0 {
			want = want[:len(want)-1]
		}
		for i, w := range want {
			e, err := readLine(in, limit)
			if err != nil {
				t.Fatalf("line %d of %d: %v", i, len(want), err)
			}
			switch {
			case e.tooLarge != (len(w) > limit):
				t.Errorf("a line of %d bytes, huge %v", len(w), e.tooLarge)
			case e.tooLarge && (!bytes.HasPrefix(w, e.head) || !bytes.HasSuffix(w, e.tail)):
				t.Errorf("%q is said to begin with %q and to end with %q", w, e.head, e.tail)
			case !e.tooLarge && !bytes.Equal(e.data, bytes.TrimSuffix(w, []byte("\r"))):
				t.Errorf("%q became %q", w, e.data)
			}
		}
		if e, err := readLine(in, limit); err != io.EOF {
			t.Errorf("after the end: %+v, %v", e, err)
		}
	})
}

// The id found in the first and last bytes of a message is its id.
func FuzzIDOfHuge(f *testing.F) {
	for _, s := range []string{
		`{"jsonrpc":"2.0","id":7,"result":{"id":8}}`, `{"result":{"a":{"id":8}},"jsonrpc":"2.0","id":7}`,
		`{"result":[{"id":8}],"id":"7", "jsonrpc" : "2.0" }`,
		`{"id":5}`, `{"a":"\"id\":5}"}`, `{"a":{"id":5}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		n := idOfTooLarge(data, data)
		var m map[string]json.RawMessage
		if n == 0 || json.Unmarshal(data, &m) != nil || strings.Count(string(data), `"id"`) > 1 && duplicateID(data) {
			return
		}
		if got := idNumber(m["id"]); got != n {
			t.Errorf("%q has the id %d, not %d", data, got, n)
		}
	})
}

// duplicateID reports whether a message has several ids, any of which may be found.
func duplicateID(data []byte) bool {
	dec := json.NewDecoder(bytes.NewReader(data))
	depth, ids, key := 0, 0, false
	for {
		tok, err := dec.Token()
		if err != nil {
			return ids > 1
		}
		switch tok {
		case json.Delim('{'), json.Delim('['):
			depth++
			key = true
			continue
		case json.Delim('}'), json.Delim(']'):
			depth--
			key = true
			continue
		}
		if depth == 1 {
			if key && tok == "id" {
				ids++
			}
			key = !key
		}
	}
}

// An endpoint address is on the same server, or refused.
func FuzzEndpoint(f *testing.F) {
	for _, s := range []string{"/post?x=1", "http://a.example/p", "//b.example/p", "http://a.example@b.example/",
		"?s=1", "https://a.example/p", "\\\\b.example"} {
		f.Add(s)
	}
	w := &sseWire{settings: &Settings{URL: "http://a.example/sse"}}
	f.Fuzz(func(t *testing.T, told string) {
		where, err := w.endpoint(told)
		if err != nil {
			return
		}
		u, err := url.Parse(where)
		if err != nil || u.Scheme != "http" || u.Host != "a.example" {
			t.Errorf("%q became %q", told, where)
		}
	})
}
