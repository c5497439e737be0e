package fit

import (
	"bufio"
	"bytes"
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"patchbay/internal/plug/learn/fsrs"
)

// peerLog is a log for test/peers/fsrs.
type peerLog struct {
	Cards   [][][2]int   `json:"cards"`
	Items   [][2]int     `json:"items"`
	SameDay bool         `json:"same_day"`
	Relearn int          `json:"relearn"`
	Weights fsrs.Weights `json:"weights"`
}

// peerResult is what the reference optimizer found.
type peerResult struct {
	Weights []float64 `json:"weights"`
	Seconds float64   `json:"seconds"`
	Theirs  Measure   `json:"theirs"`
	Ours    Measure   `json:"ours"`
}

func peerLogOf(set *Set, o Options, w fsrs.Weights) (p peerLog) {
	p.SameDay, p.Relearn, p.Weights = o.SameDay, o.Relearn, w
	for _, card := range set.cards {
		var reviews [][2]int
		for _, r := range card {
			reviews = append(reviews, [2]int{int(r.grade), int(r.elapsed)})
		}
		p.Cards = append(p.Cards, reviews)
	}
	for _, it := range set.items {
		p.Items = append(p.Items, [2]int{int(it.card), int(it.length)})
	}
	return p
}

// peer runs the reference optimizer. Without it the test is skipped, or fails in CI.
func peer(t *testing.T, logs []peerLog) (out []peerResult) {
	t.Helper()
	missing := t.Skip
	if os.Getenv("CI") == "true" {
		missing = t.Fatal
	}
	dir, err := filepath.Abs("../../../../../test/peers/fsrs")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "node_modules", "@open-spaced-repetition")); err != nil {
		missing("run `npm ci` in test/peers/fsrs to compare with the reference optimizer")
	}
	node, err := exec.LookPath("node")
	if err != nil {
		missing("node is not installed; it runs the reference optimizer of test/peers/fsrs")
	}
	var in bytes.Buffer
	for _, log := range logs {
		if err := json.NewEncoder(&in).Encode(log); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), node, filepath.Join(dir, "peer.mjs"))
	cmd.Stdin, cmd.Stderr = &in, os.Stderr
	text, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		var r peerResult
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		out = append(out, r)
	}
	if len(out) != len(logs) {
		t.Fatalf("the reference optimizer answered %d of %d logs", len(out), len(logs))
	}
	return out
}

// TestReference compares with the reference optimizer, on logs of simulated learners. The
// weights agree to three digits or more; the reference computes with 32 bits.
func TestReference(t *testing.T) {
	n := 4
	if os.Getenv("CHECK_ALL") != "" {
		n = 24
	}
	var logs []peerLog
	var sets []*Set
	for seed := range n {
		size := []int{4000, 1500, 10_000, 200, 500, 25_000}[seed%6]
		l := newLearner(uint64(seed), size)
		set := setOf(l.log(uint64(seed), size))
		o := Options{SameDay: l.sameDay, Relearn: 1 + seed%2, Workers: 2}
		w, err := Fit(t.Context(), set, o)
		if err != nil {
			t.Fatal(err)
		}
		logs, sets = append(logs, peerLogOf(set, o, w)), append(sets, set)
	}
	for i, r := range peer(t, logs) {
		ours, theirs := measured(t, sets[i], logs[i].Weights), measured(t, sets[i], fsrs.Weights(r.Weights))
		lossBy, rmseBy := 100*(ours.LogLoss/theirs.LogLoss-1), 100*(ours.RMSE/theirs.RMSE-1)
		t.Logf("log %d, %d items: log-loss %.5f, %+.3f %%; RMSE %.5f, %+.3f %%; published weights %.5f, %.5f", i,
			sets[i].Items(), ours.LogLoss, lossBy, ours.RMSE, rmseBy, measured(t, sets[i], fsrs.Published).LogLoss,
			measured(t, sets[i], fsrs.Published).RMSE)
		if math.Abs(lossBy) > 1 || rmseBy > 1 {
			t.Errorf("log %d: log-loss is off by %.2f %%, RMSE by %.2f %%", i, lossBy, rmseBy)
		}
		for k, w := range r.Weights {
			if math.Abs(w-logs[i].Weights[k]) > 1e-3 {
				t.Errorf("log %d: w%d is %v; the reference found %v", i, k, logs[i].Weights[k], w)
			}
		}
		checkMeasure(t, sets[i], logs[i].Weights, r.Ours)
	}
}

// checkMeasure compares how well weights predict a log with what the reference says about the same
// weights. Its module takes the items that training learns from, and the second reviews of cards as
// the oldest ones.
func checkMeasure(t *testing.T, set *Set, w fsrs.Weights, theirs Measure) {
	t.Helper()
	items, seconds := set.withoutOutliers()
	items = slices.DeleteFunc(items, func(it item) bool { return days(set.of(it)) == 1 })
	items = append(seconds, items...)
	ours, err := set.measure(t.Context(), items, w)
	if err != nil {
		t.Fatal(err)
	}
	if math.Abs(ours.LogLoss-theirs.LogLoss) > 1e-5 || math.Abs(ours.RMSE-theirs.RMSE) > 1e-5 {
		t.Errorf("the measure is %+v; the reference says %+v", ours, theirs)
	}
}

func measured(t *testing.T, set *Set, w fsrs.Weights) Measure {
	t.Helper()
	m, err := set.Measure(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	return m
}
