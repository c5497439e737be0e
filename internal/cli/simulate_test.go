package cli

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"patchbay/internal/porttest"
)

// withGlasses returns a desk with a running demo server, and the flags for glasses that use it.
func withGlasses(t *testing.T) (*desk, []string) {
	t.Helper()
	d := newDesk(t)
	s := d.serve("--demo")
	return d, []string{"simulate", "glasses", "--url", s.URL, "--key", "test_token", "--agent-id", "1"}
}

func TestSimulateGlassesOneTurn(t *testing.T) {
	d, glasses := withGlasses(t)
	if got := d.ok(append(glasses, "你好")...); got != "你好\n" {
		t.Errorf("heard %q", got)
	}
	if got := d.ok(append(glasses,
		"导航到西湖")...); got != "⟶ take_navigation action=\"open\" navi_type=\"1\" poi_name=\"西湖\"\n" {
		t.Errorf("heard %q", got)
	}
	verbose := d.ok(append(glasses, "-v", "你好")...)
	for _, want := range []string{`message {"role":"agent","type":"answer","answer_stream":"你"`, `done {"role":"agent"`,
		"2 pieces"} {
		if !strings.Contains(verbose, want) {
			t.Errorf("-v does not show %q:\n%s", want, verbose)
		}
	}
	var r turnReport
	d.json(&r, append(glasses, "--user-id", "U1", "你好")...)
	if r.Text != "你好" || r.Pieces != 2 || r.UserID != "U1" || r.AgentID != "1" || len(r.Violations) > 0 ||
		r.First <= 0 {
		t.Errorf("as JSON %+v", r)
	}
}

func TestSimulateGlassesTakesPhotos(t *testing.T) {
	d, glasses := withGlasses(t)
	folder := t.TempDir()
	got := d.ok(append(glasses, "--save", folder, "拍照")...)
	if !strings.HasPrefix(got, "⟶ take_photo\n我看到一张图片（image/png，") {
		t.Errorf("heard %q", got)
	}
	kept, err := filepath.Glob(filepath.Join(folder, "photo-*.png"))
	if err != nil || len(kept) != 1 {
		t.Fatalf("kept are %v (%v)", kept, err)
	}
	again := d.ok(append(glasses, "--image", kept[0], "拍照")...)
	if again != got {
		t.Errorf("the kept photo gives %q, the first one gave %q", again, got)
	}
	d.failing(exitFailed, "", append(glasses, "--image", "/does/not/exist", "拍照"), "/does/not/exist")
}

func TestSimulateGlassesSession(t *testing.T) {
	d, glasses := withGlasses(t)
	o := d.do("one\n\n/photo\n/new\ntwo\n/quit\nthree\n", append(glasses, "--json")...)
	if o.code != 0 {
		t.Fatal(o.stderr)
	}
	var turns []turnReport
	for line := range strings.Lines(o.stdout) {
		var r turnReport
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		turns = append(turns, r)
	}
	if len(turns) != 3 || turns[0].Text != "one" || !strings.Contains(turns[1].Text, "image/png") ||
		turns[2].Text != "two" {
		t.Fatalf("heard %+v", turns)
	}
	if turns[0].MessageID != turns[1].MessageID || turns[1].MessageID == turns[2].MessageID {
		t.Errorf("sessions are %s, %s, %s", turns[0].MessageID, turns[1].MessageID, turns[2].MessageID)
	}
}

func TestSimulateGlassesFindsTheRunningServer(t *testing.T) {
	d := withParrot(t)
	var key struct{ Key string }
	d.json(&key, "key", "add", "--name", "glasses", "--scope", "lingzhu")
	d.serve()
	if got := d.ok("simulate", "glasses", "--key", key.Key, "--agent-id", "1", "hello"); got != "hello\n" {
		t.Errorf("heard %q", got)
	}
	// An unknown user is asked to photograph the code, and sends another picture.
	o := d.do("", "simulate", "glasses", "--key", key.Key, "hello")
	if o.code != 0 || !strings.Contains(o.stdout, "⟶ take_photo\n未能识别二维码") {
		t.Errorf("somebody new hears %+v", o)
	}
}

func TestSimulateGlassesReportsWhatIsWrong(t *testing.T) {
	d, glasses := withGlasses(t)
	glasses[5] = "wrong"
	d.failing(exitFailed, "", append(glasses, "hi"), "Invalid authentication token")
	d.failing(exitFailed, "", []string{"simulate", "glasses", "--url", "http://127.0.0.1:1", "hi"},
		"connection refused")
	d.failing(exitUsage, "", []string{"simulate", "glasses", "--url", "board", "hi"}, "--url")

	sloppy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.Write([]byte("event: message\ndata: {\"role\":\"agent\",\"type\":\"answer\",\"answer_stream\":\"hi\",\"is_finish\":false}\n\n")) //nolint:errcheck // the test notices
	}))
	defer sloppy.Close()
	o := d.do("", "simulate", "glasses", "--url", sloppy.URL, "hi")
	if o.code != exitFailed || o.stdout != "hi\n" || !strings.Contains(o.stderr,
		"protocol violation: 0 done events") || !strings.Contains(o.stderr, "see above") {
		t.Errorf("a sloppy server gives %+v", o)
	}
}

// If nobody is there, the message says where and what to do, in the reader's language, and blames
// nobody for a protocol.
func TestSimulateNobodyThere(t *testing.T) {
	d := blankDesk(t)
	nowhere := "http://" + porttest.Refused(t)
	for _, args := range [][]string{{"glasses", "--key", "k", "hi"}, {"xiaozhi", "--once"}, {"xiaozhi", "--check"},
		{"xiaozhi", "--count", "2", "--for", "1s"}} {
		args = append([]string{"simulate"}, append(args, "--url", nowhere)...)
		d.failing(exitFailed, "", args, nowhere, "cannot be reached: nothing listens there", "patchbay serve", "--url")
		if o := d.do("", args...); strings.Contains(o.stdout+o.stderr, "viol") {
			t.Errorf("%q blames the server: %s%s", args, o.stdout, o.stderr)
		}
	}
}
