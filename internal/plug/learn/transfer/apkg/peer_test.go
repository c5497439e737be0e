package apkg

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// peer runs test/peers/anki: third-party programs for Anki packages. Without them the test is
// skipped, except in continuous integration.
func peer(t *testing.T, args ...string) []byte {
	t.Helper()
	missing := func(what string) {
		t.Helper()
		if os.Getenv("CI") == "true" {
			t.Fatal(what)
		}
		t.Skip(what)
	}
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for dir != filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
		dir = filepath.Dir(dir)
	}
	dir = filepath.Join(dir, "test", "peers", "anki")
	if _, err := os.Stat(filepath.Join(dir, "node_modules", ".package-lock.json")); err != nil {
		missing("run `npm ci` in test/peers/anki to test with programs that others wrote for Anki's packages")
	}
	node, err := exec.LookPath("node")
	if err != nil {
		missing("node is not installed; it runs the programs of test/peers/anki")
	}
	cmd := exec.CommandContext(t.Context(), node, append([]string{filepath.Join(dir, "peer.mjs")}, args...)...)
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, complaint.Bytes())
	}
	return out
}

func checkPeers(t *testing.T, b []byte) {
	t.Helper()
	cards, bad, err := read(t, b, Options{})
	if err != nil || len(bad) > 0 || len(cards) != 3 {
		t.Fatalf("%d cards, bad %v, %v", len(cards), bad, err)
	}
	for i, want := range [][2]string{
		{"Capital of France?", "Paris"},
		{"法国的**首都**？", "巴黎\n在塞纳河上"},
		{"Whose flag? [image: flag.png]", "- red\n- white & blue\n[sound: anthem.mp3]"},
	} {
		c := cards[i]
		if c.Question != want[0] || c.Answer != want[1] || c.Deck != "Capitals of Europe" || c.Phase != New ||
			c.GUID == "" || c.Created.Year() < 2026 {
			t.Errorf("card %d is %+v", i, c)
		}
	}
	if !slices.Equal(cards[1].Tags, []string{"europe", "two_words"}) {
		t.Errorf("tags are %q", cards[1].Tags)
	}
}

func TestReadsPeersPackage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "peer.apkg")
	peer(t, "write", path)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	checkPeers(t, b)
}

// A third-party reader finds in our package what we wrote.
func TestPeerReadsOurs(t *testing.T) {
	var ours bytes.Buffer
	zone := time.FixedZone("", 8*60*60)
	w, err := NewWriter(&ours, WriteOptions{Zone: zone, DayStart: 4 * time.Hour, Now: now, Temp: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range samples() {
		if err := w.Write(c); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "ours.apkg")
	if err := os.WriteFile(path, ours.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Version int
		Created time.Time
		Config  map[string]any
		Decks   map[string][]struct {
			Front, Back string
			Fields      map[string]string
			Raw         struct {
				Type, Queue, Due, Ivl, Factor, Reps, Lapses int64
				Data                                        string
			}
		}
		Log [][]int64
	}
	if err := json.Unmarshal(peer(t, "read", path), &got); err != nil {
		t.Fatal(err)
	}
	if got.Version != 11 || !got.Created.Equal(time.Date(2026, 11, 20, 4, 0, 0, 0, zone)) ||
		got.Config["creationOffset"] != -480.0 {
		t.Errorf("version %d, created %v, settings %v", got.Version, got.Created, got.Config)
	}
	deck := got.Decks["语言::法语"]
	if len(got.Decks) != 3 || len(deck) != 1 || len(got.Decks["Default"]) != len(samples())-1 ||
		got.Decks["语言"] == nil {
		t.Fatalf("decks are %v", got.Decks)
	}
	c := deck[0]
	if c.Front != "a &lt;b&gt; &amp; c<br>two &nbsp;spaces" || c.Fields["Answer"] != "**bold**<br><br>- item" ||
		c.Back != c.Fields["Answer"] {
		t.Errorf("the card says %q and %q", c.Front, c.Back)
	}
	if r := c.Raw; r.Type != 2 || r.Queue != 2 || r.Due != 10 || r.Ivl != 12 || r.Factor != 2500 || r.Reps != 3 ||
		r.Lapses != 1 || !strings.Contains(r.Data, `"s":12.25,"d":5.5`) {
		t.Errorf("its state is %+v", r)
	}
	if len(got.Log) != 3 || got.Log[0][1] != 3 || got.Log[1][1] != 1 || got.Log[1][4] != 2500 || got.Log[1][5] != 1 {
		t.Errorf("the log is %v", got.Log)
	}
}
