package cli

import (
	"strings"
	"testing"
)

// Many points change by a query, and back.
func TestLearnBulk(t *testing.T) {
	d := withPoints(t)
	if out := d.ok("learn", "bulk", "is:new", "--suspend", "--dry-run"); !strings.Contains(out, "2 match") {
		t.Errorf("counted: %s", out)
	}
	if out := d.ok("learn", "bulk", "tag:europe", "--flag", "2", "--suspend"); !strings.Contains(out, "Changed 1 of 1") {
		t.Errorf("changed: %s", out)
	}
	if all := d.points("--query", "flag:2"); len(all) != 1 || all["Capital of France?"].State != "suspended" {
		t.Errorf("listed: %+v", all)
	}
	if out := d.ok("learn", "bulk", "--undo"); !strings.Contains(out, "Undone for 1") {
		t.Errorf("undone: %s", out)
	}
	d.failing(exitUsage, "", []string{"learn", "bulk"}, "--id")
	d.failing(exitFailed, "", []string{"learn", "bulk", "is:old", "--suspend"}, "is: knows")
	d.failing(exitFailed, "", []string{"learn", "bulk", "is:new"}, "say what to change")
	d.failing(exitFailed, "", []string{"learn", "bulk", "--undo"}, "no edit")
}

// Cramming goes through everything that matches and records nothing, unless that is wanted.
func TestLearnCram(t *testing.T) {
	d := withPoints(t)
	talk, sum := d.review("Paris\ng\n\na\n", "--query", "added:1d", "--cram")
	if sum.Reviewed != 2 || sum.Again != 1 || !strings.Contains(talk, "Capital of France?") {
		t.Errorf("practised: %+v\n%s", sum, talk)
	}
	if all := d.points(); all["Capital of France?"].State != "new" {
		t.Errorf("after practising: %+v", all)
	}
	if _, sum := d.review("Paris\ne\n", "--query", "tag:europe", "--cram", "--count"); sum.Reviewed != 1 {
		t.Errorf("reviewed: %+v", sum)
	}
	if all := d.points(); all["Capital of France?"].State != "review" {
		t.Errorf("after a review that counts: %+v", all)
	}
	d.failing(exitUsage, "", []string{"learn", "review", "--count"}, "--cram")
}
