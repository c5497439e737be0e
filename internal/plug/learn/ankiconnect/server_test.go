package ankiconnect

import (
	"context"
	"encoding/json"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/store"
)

// A page may call only from an allowed origin; a program has none.
func TestOrigins(t *testing.T) {
	r := newRig(t, store.Options{})
	for _, origin := range []string{"http://localhost", "http://localhost:8080", "https://127.0.0.1:5", "app://obsidian.md",
		"chrome-extension://abc", "moz-extension://abc"} {
		r.testOrigin(origin, true)
	}
	for _, origin := range []string{"https://evil.example", "http://localhost.evil.example",
		"http://127.0.0.1.evil.example", "null"} {
		r.testOrigin(origin, false)
	}
	body := `{"action":"version","version":6,"key":"` + r.key + `"}`
	if status, _, answer := r.send("POST", body, nil); status != 200 || answer != `{"error":null,"result":6}` {
		t.Errorf("a program: %d %s", status, answer)
	}
	if status, _, answer := r.send("POST", body, map[string]string{"Host": "rebound.example"}); status != 403 {
		t.Errorf("another host: %d %s", status, answer)
	}
}

// testOrigin sends what a browser sends for a page of an origin: the question whether it may call,
// a request for permission, and an action.
func (r *rig) testOrigin(origin string, allowed bool) {
	r.t.Helper()
	header := map[string]string{"Origin": origin, "Access-Control-Request-Private-Network": "true"}
	status, h, _ := r.send("OPTIONS", "", header)
	private := h.Get("Access-Control-Allow-Private-Network") == "true"
	if status != 200 || private != allowed || !strings.Contains(h.Get("Access-Control-Allow-Headers"), "*") {
		r.t.Errorf("preflight of %q: %d %v", origin, status, h)
	}
	permission := `{"permission":"granted","requireApikey":true,"version":6}`
	if !allowed {
		permission = `{"permission":"denied"}`
	}
	status, h, answer := r.send("POST", `{"action":"requestPermission","version":6}`, header)
	if status != 200 || answer != `{"error":null,"result":`+permission+`}` ||
		h.Get("Access-Control-Allow-Origin") != origin { // a page reads that it is denied
		r.t.Errorf("permission of %q: %d %s", origin, status, answer)
	}
	status, h, answer = r.send("POST", `{"action":"version","version":6,"key":"`+r.key+`"}`, header)
	done := status == 200 && answer == `{"error":null,"result":6}` && h.Get("Access-Control-Allow-Origin") == origin
	refused := status == 403 && !strings.Contains(answer, "6}") && h.Get("Access-Control-Allow-Origin") != origin
	if allowed && !done || !allowed && !refused {
		r.t.Errorf("action of %q: %d %v %s", origin, status, h, answer)
	}
}

func TestKeys(t *testing.T) {
	r := newRig(t, store.Options{})
	ask := func(key, header string) string {
		t.Helper()
		in := map[string]any{"action": "deckNames", "version": 6}
		if key != "" {
			in["key"] = key
		}
		text, err := json.Marshal(in)
		r.must(err)
		h := map[string]string{}
		if header != "" {
			h["Authorization"] = header
		}
		_, _, answer := r.send("POST", string(text), h)
		return answer
	}
	const good, bad = `{"error":null,"result":["Default"]}`, `{"error":"valid api key must be provided","result":null}`
	operator := r.addKey("operator", account.ScopeOperator, "")
	other := r.addKey("mcp", account.ScopeMCP, "")
	reader := r.addKey("reader", account.ScopeLearn, `{"allow":["list_decks"]}`)
	for _, c := range []struct{ key, header, want string }{{r.key, "", good}, {"", "Bearer " + r.key, good}, {operator, "", good},
		{reader, "", good}, {"", "", bad}, {other, "", bad}, {"sk_wrong", "", bad}, {"sk_wrong", "Bearer " + r.key, bad}} {
		if got := ask(c.key, c.header); got != c.want {
			t.Errorf("key %q, header %q: %s", c.key, c.header, got)
		}
	}
	r.key = reader
	if got := r.invoke("createDeck", `{"deck":"x"}`); !strings.Contains(got, "do not allow this key") {
		t.Errorf("a key that may list decks makes one: %s", got)
	}
	for range 10 {
		ask("sk_guess", "")
	}
	if status, h, _ := r.send("POST", `{"action":"version","key":"sk_guess"}`, nil); status != 429 || h.Get("Retry-After") == "" {
		t.Errorf("guessing goes on with status %d", status)
	}
	if log := r.log.String(); strings.Contains(log, "sk_guess") || strings.Contains(log, r.key) ||
		!strings.Contains(log, "cause=key") {
		t.Errorf("the log: %s", log)
	}
}

// TestWithoutKey checks the port whose programs need not send a key: they use one, a page of a
// stranger does not, and what was sent counts more.
func TestWithoutKey(t *testing.T) {
	r := newRig(t, store.Options{})
	port := httptest.NewUnstartedServer(r.handler)
	port.Config.BaseContext = func(net.Listener) context.Context { return WithKey(context.Background(), r.key) }
	port.Start()
	t.Cleanup(port.Close)
	r.url = port.URL
	const good, bad = `{"error":null,"result":["Default"]}`, `{"error":"valid api key must be provided","result":null}`
	for _, c := range []struct{ name, origin, key, want string }{
		{"a program", "", "", good},
		{"Obsidian", "app://obsidian.md", "", good},
		{"a page of this machine", "http://localhost:8080", "", bad},
		{"the same", "http://localhost", "", bad},
		{"an extension", "chrome-extension://abc", "", bad},
		{"an extension with a key", "chrome-extension://abc", r.key, good},
		{"a wrong key", "", "sk_wrong", bad},
	} {
		header := map[string]string{}
		if c.origin != "" {
			header["Origin"] = c.origin
		}
		_, _, answer := r.send("POST", `{"action":"deckNames","version":6,"key":"`+c.key+`"}`, header)
		if answer != c.want {
			t.Errorf("%s: %s", c.name, answer)
		}
	}
	if _, _, answer := r.send("POST", `{"action":"requestPermission","version":6}`,
		map[string]string{"Origin": "app://obsidian.md"}); !strings.Contains(answer, `"requireApikey":false`) {
		t.Errorf("permission: %s", answer)
	}
	if status, _, answer := r.send("POST", `{"action":"deckNames","version":6}`,
		map[string]string{"Origin": "https://evil.example"}); status != 403 {
		t.Errorf("a stranger's page: %d %s", status, answer)
	}
}

// Clients of version 4 and before get results as they are, and errors in an object.
func TestVersions(t *testing.T) {
	r := newRig(t, store.Options{})
	for body, want := range map[string]string{
		`{"action":"version","key":"K"}`:                             "6",
		`{"action":"version","version":4,"key":"K"}`:                 "6",
		`{"action":"version","version":5,"key":"K"}`:                 `{"error":null,"result":6}`,
		`{"action":"nothing","key":"K"}`:                             `{"error":"unsupported action","result":null}`,
		`{"action":"deckNames","version":2,"params":null,"key":"K"}`: `["Default"]`,
		`{`:  "no JSON object",
		`[]`: "no JSON object", `{}`: "required property", `{"action":5}`: "no JSON object",
		`{"action":"version","version":"six"}`: "integer", `{"action":"version","params":[]}`: "object", ``: "no JSON object",
	} {
		status, h, answer := r.send("POST", strings.ReplaceAll(body, "K", r.key), nil)
		if status != 200 || answer != want && (len(want) < 3 || !strings.Contains(answer, want)) ||
			h.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %d %s", body, status, answer)
		}
	}
	if _, _, answer := r.send("GET", "", nil); answer != "AnkiConnect v.6" {
		t.Errorf("GET: %s", answer)
	}
	if status, _, _ := r.send("DELETE", "", nil); status != 405 {
		t.Errorf("DELETE: %d", status)
	}
}

func TestLimits(t *testing.T) {
	r := newRig(t, store.Options{})
	many := `{"actions":[` + strings.TrimSuffix(strings.Repeat(`{"action":"version"},`, maxMulti+1), ",") + `]}`
	if got := r.invoke("multi", many); !strings.Contains(got, "at most") {
		t.Errorf("%d actions: %.200s", maxMulti+1, got)
	}
	deep := `{"action":"version"}`
	for range maxNests + 1 {
		deep = `{"action":"multi","params":{"actions":[` + deep + `]}}`
	}
	if got := r.invoke("multi", `{"actions":[`+deep+`]}`); !strings.Contains(got, "levels at most") {
		t.Errorf("deep: %s", got)
	}
	status, _, _ := r.send("POST", `{"action":"`+strings.Repeat("x", maxBody)+`"}`, nil)
	if status != 413 {
		t.Errorf("a large request: %d", status)
	}
}

// What changes something is in the audit trail, as a call of the key.
func TestAudit(t *testing.T) {
	r := newRig(t, store.Options{})
	var id int64
	r.result(&id, "addNote", `{"note":{"deckName":"Default","modelName":"Basic","fields":{"Front":"q","Back":"a"}}}`)
	r.result(nil, "addTags", `{"notes":[`+jsonOf(id)+`],"tags":"x"}`)
	r.result(nil, "updateNoteFields", `{"note":{"id":`+jsonOf(id)+`,"fields":{"Back":"b"}}}`)
	r.result(nil, "deleteNotes", `{"notes":[`+jsonOf(id)+`]}`)
	seen := map[string]bool{}
	deadline := time.Now().Add(10 * time.Second)
	for len(seen) < 3 {
		calls, err := r.Store.Calls.Find(t.Context(), store.CallFilter{Person: r.Person.ID}, 50)
		r.must(err)
		for _, c := range calls {
			if c.Channel == Channel && c.Key != "" {
				seen[c.Tool] = true
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("the audit trail has %v", seen)
		}
	}
	for _, name := range []string{toolAdd, toolUpdate, toolEdit} {
		if !seen[name] {
			t.Errorf("the audit trail has %v, without %s", seen, name)
		}
	}
}

func jsonOf(v any) string {
	text, _ := json.Marshal(v)
	return string(text)
}

func FuzzRequest(f *testing.F) {
	for _, in := range []string{`{"action":"version"}`, `{"action":"multi","params":{"actions":[{}]},"version":6}`, `{"action":"a","version":1e9}`,
		`[`, `{"params":[],"action":"x"}`, `{"action":"addNote","params":{"note":{"tags":"a b","audio":[null,{}],"picture":{"fields":["x"]}}}}`} {
		f.Add([]byte(in))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		q, err := parseRequest(in)
		if err != nil {
			if !json.Valid(errorAnswer(err.Error())) {
				t.Fatal("an error is no JSON")
			}
			return
		}
		if q.Action == "" || !json.Valid(q.Params) || !json.Valid(q.answer(map[string]any{"a": q.Action})) {
			t.Fatalf("%q: %+v", in, q)
		}
		var note noteParams
		if err := decode(q.Params, &note); err == nil && note.Note.media() > len(in) {
			t.Fatalf("%q has %d files", in, note.Note.media())
		}
	})
}
