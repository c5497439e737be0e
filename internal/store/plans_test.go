package store

import (
	"strings"
	"testing"
	"time"
)

// With any filter, a page of turns or calls is read from an index, in the order of the list. IDs of
// some notes or cards are found by these.
func TestFiltersUseIndexes(t *testing.T) {
	db, err := Open(t.Context(), Options{Folder: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	behind := RecordCursor{At: time.Now(), ID: "x"}
	planOf := func(query string, args []any) string {
		t.Helper()
		steps, err := all(t.Context(), db, func(s scanner) (detail string, err error) {
			var id, parent, unused int
			return detail, s.Scan(&id, &parent, &unused, &detail)
		}, `EXPLAIN QUERY PLAN `+query, args...)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(steps, "; ")
	}
	check := func(index, query string, args []any) {
		t.Helper()
		plan := planOf(query, args)
		if !strings.Contains(plan, "INDEX "+index+" (") || !strings.HasPrefix(plan, "SEARCH") ||
			strings.Contains(plan, "TEMP B-TREE FOR ORDER BY") {
			t.Errorf("it should go by %s: %s\n%s", index, plan, query)
		}
	}
	for index, f := range map[string]TraceFilter{
		"traces_day":     {},
		"traces_bot":     {Bot: 1},
		"traces_channel": {Channel: "mcp"},
		"traces_outcome": {Outcome: "failed"},
		"traces_trouble": {Outcome: Wrong},
	} {
		for _, f.After = range []RecordCursor{{}, behind} {
			f.Owner = "p1"
			query, args := f.query(50)
			check(index, query, args)
		}
	}
	ids := append(inArgs([]int64{1}), int64(1), "p1")
	check("learn_ids_note", Numbering{IDOfNote, true}.idsQuery(), ids)
	check("learn_ids_point", Numbering{IDOfCard, false}.idsQuery(), ids)
	plan := planOf((&TraceFilter{Owner: "p1", Recorded: true}).query(50))
	if !strings.HasPrefix(plan, "SCAN recordings USING COVERING INDEX") || !strings.Contains(plan, "(turn=?)") {
		t.Errorf("turns with a recording should be found from the recordings: %s", plan)
	}
	for index, f := range map[string]CallFilter{
		"calls_person":       {},
		"calls_key":          {Key: "k"},
		"calls_bot":          {Bot: 1},
		"calls_tool":         {Tool: "record"},
		"calls_outcome":      {Outcome: "failed"},
		"calls_tool_outcome": {Tool: "record", Outcome: "failed"},
		"calls_trouble":      {Outcome: Wrong},
	} {
		for _, f.After = range []RecordCursor{{}, behind} {
			f.Person = "p1"
			query, args := f.query(50)
			check(index, query, args)
		}
	}
	plan = planOf(pastConversations, []any{1, "p1", 30})
	if strings.Count(plan, "exchanges USING COVERING INDEX exchanges_conversation (bot=? AND person=?)") != 1 ||
		!strings.Contains(plan, "exchanges USING INDEX exchanges_conversation (bot=? AND person=? AND conversation=?)") {
		t.Errorf("conversations should be listed from their index: %s", plan)
	}
	plan = planOf(callsByTurns, append(inArgs([]string{"t1", "t2"}), "p1", "p2", 1))
	if !strings.HasPrefix(plan, "SEARCH calls USING INDEX calls_turn (turn=?)") {
		t.Errorf("calls should be found by their turns: %s", plan)
	}
}
