package ankiconnect

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/plug/learn"
	"patchbay/internal/store"
)

// begin sends the beginning of a request whose body is longer, and returns the connection.
func (r *rig) begin(header, body string, length int) net.Conn {
	r.t.Helper()
	host := strings.TrimPrefix(r.url, "http://")
	c, err := net.Dial("tcp", host)
	r.must(err)
	r.t.Cleanup(func() { c.Close() })
	r.must(c.SetDeadline(time.Now().Add(30 * time.Second)))
	_, err = fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n%s\r\n%s", host, length, header, body)
	r.must(err)
	return c
}

// TestRefusedBeforeBody sends no body, or a part of one, and is refused all the same.
func TestRefusedBeforeBody(t *testing.T) {
	r := newRig(t, store.Options{})
	for name, c := range map[string]struct {
		header, body string
		status       int
		text         string
	}{
		"a wrong key":      {"Authorization: Bearer sk_wrong\r\n", "", 200, textKey},
		"another's origin": {"Origin: https://evil.example\r\n", strings.Repeat(" ", maxDenied+1), 403, "origin"},
	} {
		conn := r.begin(c.header, c.body, maxBody)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		text, _ := io.ReadAll(resp.Body) // the server closes the connection
		if resp.StatusCode != c.status || !strings.Contains(string(text), c.text) {
			t.Errorf("%s: %d %s", name, resp.StatusCode, text)
		}
	}
}

// TestLargeBodies holds as many large bodies as there may be of callers that are not known yet.
func TestLargeBodies(t *testing.T) {
	r := newRig(t, store.Options{})
	large := `{"action":"version","version":6,"key":"` + r.key + `","params":{"x":"` + strings.Repeat("x", smallBody) + `"}}`
	var open []net.Conn
	for range maxLarge {
		open = append(open, r.begin("", large[:smallBody+2], len(large)))
	}
	for deadline := time.Now().Add(30 * time.Second); len(r.server.large) < maxLarge; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("%d large bodies are held", len(r.server.large))
		}
	}
	if status, h, text := r.send("POST", large, nil); status != 429 || h.Get("Retry-After") == "" {
		t.Errorf("one too many: %d %s", status, text)
	}
	const good = `{"error":null,"result":6}`
	if _, _, text := r.send("POST", large, map[string]string{"Authorization": "Bearer " + r.key}); text != good {
		t.Errorf("with the key in a header: %s", text)
	}
	_, err := io.WriteString(open[0], large[smallBody+2:])
	r.must(err)
	resp, err := http.ReadResponse(bufio.NewReader(open[0]), nil)
	r.must(err)
	if text, _ := io.ReadAll(resp.Body); string(text) != good {
		t.Errorf("a slow one: %s", text)
	}
	if _, _, text := r.send("POST", large, nil); text != good {
		t.Errorf("when there is room again: %s", text)
	}
}

// A part of multi has the rights of its own key, and without one those of the request, or of the
// part that it is in.
func TestKeyOfParts(t *testing.T) {
	r := newRig(t, store.Options{})
	reader := r.addKey("reader", account.ScopeLearn, `{"allow":["list_decks"]}`)
	other := store.Person{ID: "other", Name: "somebody", Role: "member", Created: start}
	r.must(r.Store.People.Add(t.Context(), other))
	_, theirs, err := r.Accounts.AddKey(t.Context(), account.NewKey{Person: other.ID, Name: "k",
		Scopes: []string{account.ScopeLearn}})
	r.must(err)
	part := func(action, params, key string) string {
		if key != "" {
			key = `,"key":"` + key + `"`
		}
		return `{"action":"` + action + `","version":6,"params":` + params + key + `}`
	}
	deck := func(name, key string) string { return part("createDeck", `{"deck":"`+name+`"}`, key) }
	inner := func(key string, parts ...string) string {
		return part("multi", `{"actions":[`+strings.Join(parts, ",")+`]}`, key)
	}
	const denied, profile = "do not allow this key", "getActiveProfile"
	own := `"result":"` + r.Person.Name + `"`
	for _, c := range []struct{ key, part, want string }{
		{r.key, part(profile, "{}", ""), own},
		{r.key, part(profile, "{}", r.key), own},
		{r.key, part(profile, "{}", theirs), `"result":"somebody"`},
		{r.key, deck("a", reader), denied},
		{reader, deck("b", ""), denied},
		{reader, deck("c", r.key), `"error":null`},
		{r.key, inner(theirs, part(profile, "{}", "")), "somebody"},
		{r.key, inner(theirs, part(profile, "{}", r.key)), own},
		{r.key, inner(reader, deck("d", "")), denied},
		{r.key, part(profile, "{}", "sk_wrong"), textKey},
		{r.key, part("requestPermission", "{}", "sk_wrong"), "granted"},
	} {
		header := map[string]string{"Authorization": "Bearer " + c.key}
		if _, _, text := r.send("POST", inner("", c.part), header); !strings.Contains(text, c.want) {
			t.Errorf("%s: %s, want %s", c.part, text, c.want)
		}
	}
	var guesses []string
	for i := range 10 {
		guesses = append(guesses, part("version", "{}", fmt.Sprint("sk_guess", i)))
	}
	guesses = append(guesses, part("version", "{}", reader), part(profile, "{}", ""))
	var out []json.RawMessage
	r.result(&out, "multi", `{"actions":[`+strings.Join(guesses, ",")+`]}`)
	for i, want := range map[int]string{0: textKey, 9: "too many refused keys", 10: "too many refused keys", 11: own} {
		if !strings.Contains(string(out[i]), want) {
			t.Errorf("guess %d: %s", i, out[i])
		}
	}
	if log := r.log.String(); strings.Contains(log, "sk_guess") || strings.Count(log, "cause=guessing") != 1 {
		t.Errorf("the log: %s", log)
	}
}

// TestLargeAnswer asks for one file many times.
func TestLargeAnswer(t *testing.T) {
	r := newRig(t, store.Options{})
	const size = 10 << 20
	r.storeMedia("big.gif", gif(size))
	each := base64.StdEncoding.EncodedLen(size)
	text := r.invoke("multi", `{"actions":[`+strings.TrimSuffix(strings.Repeat(
		`{"action":"retrieveMediaFile","params":{"filename":"big.gif"}},`, 8), ",")+`]}`)
	if len(text) > maxAnswer || len(text) < maxAnswer/each*each || !strings.Contains(text, "64 MiB at most") {
		t.Errorf("%d bytes", len(text))
	}
	long := strings.Repeat("x", 100<<10)
	var id int64
	r.result(&id, "addNote", `{"note":{"deckName":"Default","modelName":"Basic","fields":{"Front":"q","Back":"`+
		long[:60<<10]+`"}}}`)
	ids := strings.TrimSuffix(strings.Repeat(jsonOf(id)+",", 2000), ",")
	if text := r.invoke("notesInfo", `{"notes":[`+ids+`]}`); !strings.Contains(text, "64 MiB at most") {
		t.Errorf("one note many times: %d bytes", len(text))
	}
}

// TestCaps checks the limits of lists.
func TestCaps(t *testing.T) {
	r := newRig(t, store.Options{})
	list := func(one string, n int) string { return "[" + strings.TrimSuffix(strings.Repeat(one+",", n), ",") + "]" }
	notes := `{"notes":` + list("1", maxNotes+1) + `,"tags":"a","tag_to_replace":"a","replace_with_tag":"b"}`
	for _, action := range []string{"notesModTime", "notesInfo", "deleteNotes", "addTags", "removeTags", "replaceTags"} {
		if got := r.invoke(action, notes); !strings.Contains(got, "at most") {
			t.Errorf("%s: %.200s", action, got)
		}
	}
	media := `"picture":` + list(`{"filename":"a.gif","data":"!","fields":["Front"]}`, maxNoteMedia+1)
	for action, params := range map[string]string{
		"findModelsById":   `{"modelIds":` + list("1", maxInfos+1) + `}`,
		"findModelsByName": `{"modelNames":` + list(`"Basic"`, maxInfos+1) + `}`,
		"deleteDecks":      `{"cardsToo":true,"decks":` + list(`"x"`, maxInfos+1) + `}`,
		"getDeckStats":     `{"decks":` + list(`"Default"`, maxInfos+1) + `}`,
		"addNote":          `{"note":{"deckName":"Default","modelName":"Basic","fields":{"Front":"q"},` + media + `}}`,
	} {
		if got := r.invoke(action, params); !strings.Contains(got, "at most") {
			t.Errorf("%s: %.200s", action, got)
		}
	}
	// Actions that are not known count, too.
	var out []json.RawMessage
	part := `{"action":"multi","params":{"actions":` + list(`{"action":"nothing"}`, 600) + `}}`
	if r.result(&out, "multi", `{"actions":[`+part+","+part+`]}`); !strings.Contains(string(out[1]), "1000 actions at most") {
		t.Errorf("1,200 unknown actions: %.200s", out[1])
	}
}

// An action counts as one call, whatever it does.
func TestRate(t *testing.T) {
	r := newRig(t, store.Options{})
	id := jsonOf(r.addNote("q"))
	count := func(action, params string) (n int) {
		r.key = r.addKey("slow "+action, account.ScopeLearn, `{"per_minute":12}`)
		for ; n < 100 && strings.HasPrefix(r.invoke(action, params), `{"error":null`); n++ {
		}
		return n
	}
	want := count("version", "")
	for action, params := range map[string]string{
		"addTags":          `{"notes":[` + id + `],"tags":"a"}`,
		"updateNote":       `{"note":{"id":` + id + `,"fields":{"Back":"b"},"tags":["t"]}}`,
		"storeMediaFile":   `{"filename":"a.gif","data":"R0lGODlhAQABAAAAACwAAAAAAQABAAA="}`,
		"updateNoteFields": `{"note":{"id":` + id + `,"fields":{"Back":"b"}}}`,
	} {
		if got := count(action, params); got < want {
			t.Errorf("%s is done %d times a minute, version %d", action, got, want)
		}
	}
}

func (r *rig) addNote(front string) (id int64) {
	r.t.Helper()
	r.result(&id, "addNote", `{"note":{"deckName":"Default","modelName":"Basic","fields":{"Front":`+jsonOf(front)+`}}}`)
	return id
}

// What a key may not do at the end is not begun.
func TestRulesBeforeChanges(t *testing.T) {
	r := newRig(t, store.Options{})
	id := jsonOf(r.addNote("q"))
	all := r.key
	r.key = r.addKey("updates", account.ScopeLearn, `{"allow":["update_knowledge_point"]}`)
	for action, params := range map[string]string{
		"updateNote":       `{"note":{"id":` + id + `,"fields":{"Front":"changed"},"tags":["t"]}}`,
		"updateNoteFields": `{"note":{"id":` + id + `,"fields":{"Front":"changed"},"picture":{"filename":"a.gif","data":"R0lGODlhAQABAAAAACwAAAAAAQABAAA=","fields":["Front"]}}}`,
		"updateNoteTags":   `{"note":` + id + `,"tags":["t"]}`,
	} {
		if got := r.invoke(action, params); !strings.Contains(got, "do not allow this key") {
			t.Errorf("%s: %s", action, got)
		}
	}
	r.key = all
	if got := r.invoke("notesInfo", `{"notes":[`+id+`]}`); !strings.Contains(got, `"value":"q"`) {
		t.Errorf("changed: %s", got)
	}
}

// A card that cannot be reviewed does not hide that the others were.
func TestAnswersOneByOne(t *testing.T) {
	r := newRig(t, store.Options{})
	r.addNote("first")
	_, err := r.learn.Create(t.Context(), r.Person.ID, []learn.Draft{{Question: "not planned", Answer: "a", Unplanned: true}})
	r.must(err)
	r.addNote("last")
	var ids []int64
	for _, q := range []string{"first", `"not planned"`, "last"} {
		var found []int64
		r.result(&found, "findCards", `{"query":`+jsonOf(q)+`}`)
		ids = append(ids, found...)
	}
	got := r.invoke("answerCards", fmt.Sprintf(`{"answers":[{"cardId":%d,"ease":3},{"cardId":%d,"ease":3},{"cardId":%d,"ease":3}]}`,
		ids[0], ids[1], ids[2]))
	if got != `{"error":null,"result":[true,false,true]}` {
		t.Errorf("%d: %s", ids, got)
	}
}

// TestBuriedIsNotDue hides a card until tomorrow.
func TestBuriedIsNotDue(t *testing.T) {
	r := newRig(t, store.Options{})
	r.addNote("q")
	var ids []int64
	r.result(&ids, "findCards", `{"query":""}`)
	cards := `{"cards":` + jsonOf(ids) + `}`
	l, err := r.learn.Learner(t.Context(), r.Person.ID)
	r.must(err)
	yes := true
	points, err := r.learn.FindAnki(t.Context(), l, "")
	r.must(err)
	list, err := r.Store.Learn.PointsByNumber(t.Context(), r.Person.ID, points)
	r.must(err)
	_, err = r.learn.Bulk(t.Context(), r.Person.ID, learn.BulkTarget{IDs: []string{list[0].ID}}, learn.BulkEdit{Bury: &yes}, "test", nil)
	r.must(err)
	if got := r.invoke("areDue", cards); got != `{"error":null,"result":[false]}` {
		t.Errorf("today: %s", got)
	}
	r.pass(24 * time.Hour)
	if got := r.invoke("areDue", cards); got != `{"error":null,"result":[true]}` {
		t.Errorf("tomorrow: %s", got)
	}
}
