package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// historyFile writes a file with points that were forgotten oftener than usual.
func historyFile(t *testing.T, points int) string {
	t.Helper()
	var items []map[string]any
	for i := range points {
		var history []map[string]any
		at := time.Now().AddDate(0, 0, -100+i%30)
		for n, days := range []int{0, 2, 5, 13, 40} {
			at = at.AddDate(0, 0, days)
			grade := 3
			if n > 0 && (i+n)%2 == 0 {
				grade = 1
			}
			history = append(history, map[string]any{"kind": "review", "at": at, "grade": grade, "elapsed_days": days})
		}
		items = append(items, map[string]any{"question": fmt.Sprint("question ", i), "answer": "a", "history": history})
	}
	text, err := json.Marshal(items)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "history.json")
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestLearnFit(t *testing.T) {
	d := withPoints(t)
	if got := d.ok("learn", "fit"); !strings.Contains(got, "not enough reviews yet") {
		t.Errorf("without reviews: %s", got)
	}
	d.failing(exitFailed, "", []string{"learn", "fit", "--undo"}, "There is no fit to undo.")
	d.ok("learn", "import", historyFile(t, 100))
	if got := d.ok("learn", "fit", "--dry-run"); !strings.Contains(got, "would get new weights") ||
		strings.Contains(got, "--undo") {
		t.Errorf("a dry run: %s", got)
	}
	var fits learnFits
	d.json(&fits, "learn", "fit")
	if len(fits.Fits) != 1 || fits.Fits[0].Outcome != "better" || fits.Fits[0].Points != 100 ||
		fits.Fits[0].Learned != 400 || fits.Fits[0].After.LogLoss >= fits.Fits[0].Before.LogLoss {
		t.Errorf("the fit is %+v", fits)
	}
	if got := d.ok("learn", "fit"); !strings.Contains(got, "the old weights predict as well") {
		t.Errorf("a second fit: %s", got)
	}
	if got := d.ok("learn", "fit", "--undo"); !strings.Contains(got, "the weights before are back") {
		t.Errorf("undone: %s", got)
	}
	if got := d.ok("learn", "fit", "--deck", "Geography"); !strings.Contains(got, "not enough") {
		t.Errorf("a deck: %s", got)
	}
	if got := d.ok("learn", "fit"); !strings.Contains(got, "patchbay learn fit --undo") {
		t.Errorf("the way back is not told: %s", got)
	}
	d.failing(exitUsage, "", []string{"learn", "fit", "--undo", "--dry-run"}, "cannot be used together")
	var p learnProfile
	if d.json(&p, "learn", "set", "--fit-monthly", "yes"); !p.FitMonthly {
		t.Error("monthly fits are not set")
	}
	if got := d.ok("learn", "set"); !strings.Contains(got, "each month") {
		t.Errorf("the settings do not tell: %s", got)
	}
	d.failing(exitUsage, "", []string{"learn", "set", "--fit-monthly", "often"}, "say yes or no")
}

func TestLearnSimulate(t *testing.T) {
	d := withPoints(t)
	var s learnSimulation
	d.json(&s, "learn", "simulate", "--new", "500", "--days", "60", "--retention", "0.9,0.95", "--seed", "3")
	if s.Days != 60 || s.NewPoints != 500 || len(s.Results) != 2 || s.Results[1].Minutes <= s.Results[0].Minutes {
		t.Errorf("it is %+v", s)
	}
	got := d.ok("learn", "simulate", "--days", "30")
	if !strings.Contains(got, "0.9 (now)") || !strings.Contains(got, "2 new ones") {
		t.Errorf("shown is %s", got)
	}
	d.failing(exitUsage, "", []string{"learn", "simulate", "--days", "5000"}, "5000")
	d.failing(exitUsage, "", []string{"learn", "simulate", "--retention", "0.9,1"}, "--retention is 1")
}
