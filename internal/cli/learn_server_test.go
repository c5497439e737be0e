package cli

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"patchbay/internal/control"
	"patchbay/internal/plug/learn"
)

func TestLearnImportAndExport(t *testing.T) {
	d := withPoints(t)
	folder := t.TempDir()
	backup := filepath.Join(folder, "backup.json")
	if err := os.WriteFile(backup, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := d.ok("learn", "export", backup); got != "Written to "+backup+": 2 knowledge points.\n" {
		t.Errorf("it says %q", got)
	}
	other := blankDesk(t)
	other.ok("user", "add", "bob")
	if got := other.ok("learn", "import", backup); !strings.Contains(got, "2 added, 0 changed, 0 unchanged") ||
		!strings.Contains(got, "New decks: Geography") {
		t.Errorf("it says %q", got)
	}
	if got := other.ok("learn", "import", backup); !strings.Contains(got, "0 added, 0 changed, 2 unchanged") {
		t.Errorf("again it says %q", got)
	}
	if got, want := other.points(), d.points(); len(got) != 2 ||
		got["Capital of France?"].Answer != want["Capital of France?"].Answer {
		t.Errorf("there are %+v", got)
	}
	table := "question,answer\nOne?,1\nTwo?,\n"
	d.failing(exitFailed, table, []string{"learn", "import", "-", "--json"}, "nothing was imported", "--skip-bad")
	var out learn.ImportResult
	o := d.do(table, "learn", "import", "-", "--format", "csv", "--deck", "Numbers", "--skip-bad", "--json")
	if err := json.Unmarshal([]byte(o.stdout), &out); err != nil || o.code != exitOK || !out.Done || out.Added != 1 ||
		len(out.RowErrors) != 1 || out.RowErrors[0].Row != 3 {
		t.Errorf("it gives %+v", o)
	}
	o = d.do(table, "learn", "import", "-")
	if o.code != exitFailed || !strings.Contains(o.stdout, "row 3: Two?: ") {
		t.Errorf("a bad row gives %+v", o)
	}
	o = d.do("question,answer\nThree?,3\n", "learn", "import", "-", "--dry-run")
	if o.code != exitOK || !strings.Contains(o.stdout, "Would import (csv): 1 added") || len(d.points()) != 3 {
		t.Errorf("a dry run gives %+v", o)
	}
	if got := d.ok("learn", "export", "--format", "csv", "--deck", "Numbers"); !strings.Contains(got, "One?,1,") ||
		strings.Contains(got, "France") {
		t.Errorf("as CSV there is\n%s", got)
	}
	d.failing(exitUsage, "", []string{"learn", "export", filepath.Join(folder, "x.txt")}, "--format")
	d.failing(exitFailed, "", []string{"learn", "export", filepath.Join(folder, "x.json"), "--deck", "Nothing"},
		`no deck "Nothing"`)
	d.failing(exitFailed, "", []string{"learn", "import", folder}, "is a folder")
	d.failing(exitFailed, "", []string{"learn", "import", filepath.Join(folder, "none")}, "none")
	if left, err := os.ReadDir(folder); err != nil || len(left) != 1 {
		t.Errorf("in the folder there are %v (%v)", left, err)
	}
}

// The commands give the same results through the server that runs on the data directory, and
// through a remote one with a key.
func TestLearnThroughAServer(t *testing.T) {
	d := withPoints(t)
	var key, wrong struct{ Key string }
	d.json(&key, "key", "add", "--name", "laptop", "--scope", "learn")
	d.json(&wrong, "key", "add", "--name", "other", "--scope", "mcp")
	s := d.serve()
	remoteLearn := blankDesk(t) // has no access to the data
	remoteLearn.env = append(remoteLearn.env, "PATCHBAY_SERVER="+s.URL+"/api/mcp/", "LEARN_ASSISTANT_API_KEY="+key.Key)
	for _, at := range []*desk{d, remoteLearn} {
		at.ok("learn", "add", "One?", "1")
		id := at.points()["One?"].ID
		if _, sum := at.review("\ne\nq\n"); sum.Reviewed != 1 {
			t.Errorf("reviewing gives %+v", sum)
		}
		if got := at.ok("learn", "undo"); !strings.Contains(got, "Undone (easy)") {
			t.Errorf("undoing says %q", got)
		}
		if got := at.ok("learn", "stats"); !strings.Contains(got, "Remaining for today: 3 (3 new).") {
			t.Errorf("it stands like\n%s", got)
		}
		at.ok("learn", "edit", id, "--suspend")
		at.ok("learn", "rm", id)
		at.failing(exitFailed, "", []string{"learn", "show", id}, "Knowledge point not found")
		at.failing(exitFailed, "", []string{"learn", "list", "--deck", "Nothing"}, `no deck "Nothing"`)
		o := at.do("a\t\nb\t2\n", "learn", "add", "--file", "-", "--deck", "Lines")
		if o.code != exitOK || o.stderr != "line 1: answer must not be empty\n" {
			t.Errorf("lines give %+v", o)
		}
		for _, p := range at.points("--deck", "Lines") {
			at.ok("learn", "rm", p.ID)
		}
	}
	backup := filepath.Join(t.TempDir(), "backup.json")
	remoteLearn.ok("learn", "export", backup)
	if got := remoteLearn.ok("learn", "import", backup); !strings.Contains(got, "0 added, 0 changed, 2 unchanged") {
		t.Errorf("importing says %q", got)
	}
	if o := remoteLearn.do("question,answer\nTwo?,\n", "learn", "import", "-"); o.code != exitFailed ||
		!strings.Contains(o.stdout, "row 2: Two?") {
		t.Errorf("a bad row gives %+v", o)
	}
	for _, args := range [][]string{{"learn", "list"}, {"learn", "export"}} {
		remoteLearn.failing(exitFailed, "", append(args, "--key", wrong.Key), "scope learn")
	}
	remoteLearn.failing(exitUsage, "", []string{"learn", "list", "--user", "ada"}, "--user")
	if _, err := os.Stat(remoteLearn.data); err == nil {
		t.Error("learning elsewhere made a data folder here")
	}
}

// The operator of the machine says whose files they are, with and without a server, and the audit
// trail says so, too.
func TestLearnOfSomebody(t *testing.T) {
	d := withPoints(t)
	d.ok("user", "add", "bob")
	use := func() {
		t.Helper()
		for _, args := range [][]string{{"import", "-"}, {"export"}, {"list"}} {
			d.failing(exitFailed, "question,answer\nq,a\n", append([]string{"learn"}, args...), "2 people")
		}
		d.failing(exitFailed, "", []string{"learn", "list", "--user", "eve"}, `there is no user "eve"`)
		if o := d.do("question,answer\nq,a\n", "learn", "import", "-", "--user", "bob"); o.code != exitOK {
			t.Errorf("importing gives %+v", o)
		}
		if got := d.ok("learn", "export", "--user", "bob", "--format", "csv"); !strings.Contains(got, "q,a,") ||
			strings.Contains(got, "France") {
			t.Errorf("bob's points are\n%s", got)
		}
		if got := d.points("--user", "bob"); len(got) != 1 {
			t.Errorf("bob's points are %+v", got)
		}
	}
	use()
	d.serve()
	use()
	var calls []control.Call
	d.until("the records", func() bool {
		calls = nil
		d.json(&calls, "calls", "--user", "bob")
		return len(calls) == 6
	})
	for _, c := range calls {
		if c.Actor != "-" || c.Outcome != "done" {
			t.Errorf("the trail has %+v", c)
		}
	}
}

func TestLearnNeedsAKeyElsewhere(t *testing.T) {
	d := blankDesk(t)
	d.failing(exitUsage, "", []string{"learn", "list", "--server", "https://board.example.org"}, "--key",
		"--scope learn")
	d.failing(exitUsage, "", []string{"learn", "list", "--key", "x"}, "--key requires --server")
	d.failing(exitFailed, "", []string{"learn", "list"}, d.data+" contains no data yet")
	d.failing(exitUsage, "", []string{"learn", "mcp"}, "--scope learn", "PATCHBAY_KEY")
}

// The response to the first review is lost, and the second review was done elsewhere in the
// meantime.
func TestLearnReviewOverABadLine(t *testing.T) {
	d := withPoints(t)
	var key struct{ Key string }
	d.json(&key, "key", "add", "--name", "laptop", "--scope", "learn")
	s := d.serve()
	var mu sync.Mutex // each connection has a goroutine of its own
	var submits []string
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var call struct {
			Arguments struct {
				Review string `json:"review_id"`
				Point  string `json:"knowledge_point_id"`
			}
		}
		body := readAll(t, r.Body)
		if err := json.Unmarshal(body, &call); err != nil {
			t.Error(err)
		}
		nth := 0
		if r.URL.Path == "/api/v1/tools/submit_review/call" {
			mu.Lock()
			submits = append(submits, call.Arguments.Review)
			nth = len(submits)
			mu.Unlock()
			if nth == 3 { // another device is faster
				d.ok("tool", "call", "submit_review", "knowledge_point_id="+call.Arguments.Point, "grade=easy")
			}
		}
		req, err := http.NewRequestWithContext(r.Context(), r.Method, s.URL+r.URL.Path, strings.NewReader(string(body)))
		if err != nil {
			t.Error(err)
			return
		}
		req.Header = r.Header.Clone()
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Error(err)
			return
		}
		defer resp.Body.Close()
		answer := readAll(t, resp.Body)
		if nth == 1 {
			panic(http.ErrAbortHandler)
		}
		w.WriteHeader(resp.StatusCode)
		w.Write(answer) //nolint:errcheck // the command notices
	}))
	defer web.Close()
	talk, sum := d.review("\ng\ng\n\ne\n", "--server", web.URL, "--key", key.Key)
	mu.Lock()
	defer mu.Unlock()
	if len(submits) != 3 || submits[0] != submits[1] || submits[1] == submits[2] {
		t.Errorf("submitted was %q", submits)
	}
	if sum.Reviewed != 1 || !strings.Contains(talk, "The grade could not be saved") ||
		!strings.Contains(talk, "reviewed on another device") {
		t.Errorf("it ends with %+v:\n%s", sum, talk)
	}
	var st learnStats
	d.json(&st, "learn", "stats")
	if st.Done.Reviews != 2 {
		t.Errorf("done are %+v", st.Done)
	}
}

func readAll(t *testing.T, r io.Reader) []byte {
	t.Helper()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Error(err)
	}
	return b
}

// Programs that start MCP servers themselves can use Learn, and get nothing but messages.
func TestLearnMCP(t *testing.T) {
	d := withPoints(t)
	var key struct{ Key string }
	d.json(&key, "key", "add", "--name", "desktop", "--scope", "learn")
	d.failing(exitFailed, "", []string{"learn", "mcp", "--key", key.Key}, "no server runs", "patchbay serve")
	s := d.serve()
	hello := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}` + "\n" +
		`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n" +
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"next_review","arguments":{}}}` + "\n"
	for _, args := range [][]string{nil, {"--server", s.URL}} {
		o := d.do(hello, append([]string{"learn", "mcp", "--key", key.Key}, args...)...)
		lines := strings.Split(strings.TrimSpace(o.stdout), "\n")
		if o.code != exitOK || o.stderr != "" || len(lines) != 2 || !strings.Contains(o.stdout, "Capital of France?") {
			t.Fatalf("it gives %+v", o)
		}
		for _, line := range lines {
			if !json.Valid([]byte(line)) {
				t.Errorf("this is no message: %s", line)
			}
		}
	}
}
