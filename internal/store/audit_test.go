package store_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

// chained opens a database with two people, ten calls of each and five admin events.
func chained(t *testing.T, o store.Options) *store.DB {
	t.Helper()
	db := twoPeople(t, o)
	for i := range 10 {
		must(t, db.Calls.Add(ctx, []store.Call{
			{ID: fmt.Sprintf("ada %d", i), At: now.Add(time.Duration(i) * time.Minute),
				Person: "p1", Tool: "record", Outcome: "done", Args: `{"seconds":3}`},
			{ID: fmt.Sprintf("bob %d", i), At: now.Add(time.Duration(i) * time.Minute), Person: "p2", Bot: 7,
				Tool: "look", Outcome: "failed", Cause: "why", Args: `{}`},
		}))
	}
	for i := range 5 {
		must(t, db.AdminEvents.Add(ctx, store.AdminEvent{ID: fmt.Sprint("act ", i),
			At: now.Add(time.Duration(i) * time.Minute), Person: "p1", Name: "ada", Action: "key.made"}))
	}
	return db
}

// verify verifies the audit trail and expects exactly these kinds of problems.
func verify(t *testing.T, db *store.DB, q store.AuditQuery, wrong ...string) store.AuditState {
	t.Helper()
	s, err := db.Audit.Verify(ctx, q)
	must(t, err)
	var kinds []string
	for _, p := range s.Problems {
		kinds = append(kinds, p.Kind)
	}
	if strings.Join(kinds, " ") != strings.Join(wrong, " ") {
		t.Errorf("wrong is %+v, not %q", s.Problems, wrong)
	}
	if int(s.ProblemCount) != len(wrong) {
		t.Errorf("%d problems are counted, not %d", s.ProblemCount, len(wrong))
	}
	return s
}

// Each change that bypasses Patchbay is detected and classified.
func TestAuditTampered(t *testing.T) {
	swap := `UPDATE audit_links SET seq = CASE seq WHEN 4 THEN -5 ELSE -4 END WHERE seq IN (4, 5);
		UPDATE audit_links SET seq = -seq WHERE seq < 0`
	for _, c := range []struct {
		what, sql string
		wrong     []string
		row       string
	}{
		{"nothing", ``, nil, ""},
		{"a changed call", `UPDATE calls SET outcome = 'done' WHERE id = 'bob 3'`, []string{"changed"}, "bob 3"},
		{"a changed key of a call", `UPDATE calls SET key = 'k' WHERE id = 'bob 3'`, []string{"changed"}, "bob 3"},
		{"a moved call", `UPDATE calls SET at = at + 1 WHERE id = 'bob 3'`, []string{"changed"}, "bob 3"},
		{"changed arguments", `UPDATE calls SET args = '{"seconds":4}' WHERE id = 'ada 4'`, []string{"changed"},
			"ada 4"},
		{"deleted arguments", `UPDATE calls SET args = NULL, args_salt = NULL WHERE id = 'ada 4'`, []string{"changed"},
			"ada 4"},
		{"a changed act", `UPDATE admin_events SET person = 'p2', name = 'bob' WHERE id = 'act 1'`, []string{"changed"},
			"act 1"},
		{"a deleted call", `DELETE FROM calls WHERE id = 'ada 0'`, []string{"missing"}, "ada 0"},
		{"a deleted act", `DELETE FROM admin_events WHERE id = 'act 4'`, []string{"missing"}, "act 4"},
		{"an added act",
			`INSERT INTO admin_events (id, at, person, name, action, about) VALUES ('x', 1, 'p1', 'ada', 'a', '')`,
			[]string{"added"}, "x"},
		{"swapped links", swap, []string{"broken", "broken", "broken"}, ""},
		{"a deleted row with its link",
			`DELETE FROM admin_events WHERE id = 'act 2'; DELETE FROM audit_links WHERE row_id = 'act 2'`,
			[]string{"gap"}, ""},
		{"the newest row with its link",
			`DELETE FROM admin_events WHERE id = 'act 4'; DELETE FROM audit_links WHERE row_id = 'act 4'`,
			[]string{"gap"}, ""},
		{"the first link", `DELETE FROM audit_links WHERE seq = 1`, []string{"gap"}, ""},
		{
			"links that are said to be old",
			`DELETE FROM calls WHERE id = 'ada 0'; UPDATE audit_chains SET base_seq = 2, base_link = (SELECT link FROM audit_links WHERE seq = 2);
			DELETE FROM audit_links WHERE seq <= 2`, []string{"gap"}, "",
		},
		{
			"a reason in no chain",
			`DELETE FROM calls WHERE id = 'ada 0'; INSERT INTO audit_links (chain, seq, kind, row_id, person, at, note, digest, link)
			VALUES ('x', 1, 'retention', '', '', 0, '{"before":9999999999999}', '', '')`, []string{"missing"}, "ada 0",
		},
		{
			"a row with a link in no chain",
			`INSERT INTO admin_events (id, at, person, name, action, about) VALUES ('x', 1, 'p1', 'ada', 'a', '');
			INSERT INTO audit_links (chain, seq, kind, row_id, person, at, note, digest, link) VALUES ('x', 1, 'acts', 'x', '', 1, '', '', '')`, []string{"added"}, "x",
		},
		{"a removal that nobody made",
			`UPDATE audit_links SET kind = 'person', person = (SELECT person FROM audit_links WHERE row_id = 'bob 1') WHERE row_id = ''`, []string{"claim", "broken"}, "p2"},
	} {
		t.Run(c.what, func(t *testing.T) {
			storetest.Each(t, func(t *testing.T, o store.Options) {
				db := chained(t, o)
				if c.sql != "" {
					raw(t, o, c.sql)
				}
				s := verify(t, db, store.AuditQuery{}, c.wrong...)
				if c.row != "" && s.Problems[0].Row != c.row {
					t.Errorf("it is said of %q, not of %q", s.Problems[0].Row, c.row)
				}
				if c.wrong == nil && (s.Rows != 25 || s.Links != 26 || len(s.Heads) != 1 || s.Heads[0].Seq != 26 ||
					s.Unlinked != 0 || !s.Complete) {
					t.Errorf("found is %+v", s)
				}
			})
		})
	}
}

// A truncated chain with a rewritten head is detected with a head kept elsewhere, as is a replaced
// end.
func TestAuditExpect(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := chained(t, o)
		old := verify(t, db, store.AuditQuery{}).Heads
		text, err := old[0].MarshalText()
		must(t, err)
		var again store.AuditHead
		must(t, again.UnmarshalText(text))
		if again != old[0] {
			t.Errorf("%s is read as %+v", text, again)
		}
		for _, bad := range []string{"", "1.2", "1.x." + old[0].Hash, "1.0." + old[0].Hash, "1.2.ff",
			"1.2." + strings.Repeat("x", 64)} {
			if again.UnmarshalText([]byte(bad)) == nil {
				t.Errorf("%q is a head", bad)
			}
		}
		must(t, db.AdminEvents.Add(ctx, store.AdminEvent{ID: "later", At: now, Action: "a"}))
		verify(t, db, store.AuditQuery{Expect: old})
		kept := verify(t, db, store.AuditQuery{}).Heads
		raw(t, o, `DELETE FROM admin_events WHERE id IN ('later', 'act 4'); DELETE FROM audit_links WHERE seq >= 26;
			UPDATE audit_chains SET seq = 25, link = (SELECT link FROM audit_links WHERE seq = 25)`)
		verify(t, db, store.AuditQuery{})
		verify(t, db, store.AuditQuery{Expect: kept}, "head")
		for i := range 3 {
			must(t, db.AdminEvents.Add(ctx, store.AdminEvent{ID: fmt.Sprint("other ", i), At: now, Action: "a"}))
		}
		verify(t, db, store.AuditQuery{})
		verify(t, db, store.AuditQuery{Expect: append(old, kept...)}, "head", "head")
	})
}

// Deletions by retention are distinguished from others, and old links are deleted.
func TestAuditRetention(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := chained(t, o)
		first := verify(t, db, store.AuditQuery{}).Heads
		purge := func(before time.Time, rows int64) {
			t.Helper()
			if n, err := db.Purge(ctx, store.Limits{Calls: before, Now: now}); err != nil || n != rows {
				t.Errorf("%d rows went, not %d: %v", n, rows, err)
			}
		}
		purge(now, 0)
		verify(t, db, store.AuditQuery{})
		// The very first link is recent although the rows are old, so it keeps the links after it.
		purge(now.Add(3*time.Minute), 9)
		s := verify(t, db, store.AuditQuery{Expect: first})
		if s.Rows != 16 || s.Expired != 9 || !s.Since.Equal(now.Add(3*time.Minute)) {
			t.Errorf("found is %+v", s)
		}
		raw(t, o, `DELETE FROM calls WHERE id = 'bob 3'`)
		verify(t, db, store.AuditQuery{}, "missing")
		// All rows and links are old.
		later := time.Now().Add(time.Hour)
		must(t, db.AdminEvents.Add(ctx, store.AdminEvent{ID: "late", At: later, Action: "a"}))
		last := verify(t, db, store.AuditQuery{}, "missing").Heads
		purge(later, 15)
		s = verify(t, db, store.AuditQuery{Expect: last})
		if s.Links != 3 || s.Rows != 1 {
			t.Errorf("%d links and %d rows are left", s.Links, s.Rows)
		}
		verify(t, db, store.AuditQuery{Expect: first}, "head")
		raw(t, o, `INSERT INTO admin_events (id, at, person, name, action, about) VALUES ('x', 4000000000000, '', '', '', '')`)
		verify(t, db, store.AuditQuery{}, "added")
		// Repeated hourly purges leave no more links than rows and reasons.
		raw(t, o, `DELETE FROM admin_events WHERE id = 'x'`)
		for i := range 5 {
			later = later.Add(time.Hour)
			must(t, db.AdminEvents.Add(ctx, store.AdminEvent{ID: fmt.Sprint("late ", i), At: later, Action: "a"}))
			purge(later, 1)
			if s = verify(t, db, store.AuditQuery{}); s.Links > 3 {
				t.Errorf("%d links are left", s.Links)
			}
		}
	})
}

// Removing a person deletes their calls, and arguments they deleted may be missing.
func TestAuditRemovals(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := chained(t, o)
		must(t, db.People.SetRole(ctx, "p1", "admin", "admin"))
		if n, err := db.Calls.ForgetArgs(ctx, "p2", 7); err != nil || n != 10 {
			t.Fatalf("%d lost their arguments: %v", n, err)
		}
		if s := verify(t, db, store.AuditQuery{}); s.Forgotten != 10 || s.Rows != 25 {
			t.Errorf("found is %+v", s)
		}
		// Arguments of others' calls, and of later ones, must exist.
		must(t, db.Calls.Add(ctx, []store.Call{{ID: "bob late", At: time.Now().Add(time.Hour), Person: "p2", Bot: 7,
			Args: `{}`}}))
		raw(t, o, `UPDATE calls SET args = NULL WHERE id IN ('ada 1', 'bob late')`)
		verify(t, db, store.AuditQuery{}, "changed", "changed")
		must(t, db.People.Remove(ctx, "p2", "admin"))
		if s := verify(t, db, store.AuditQuery{}, "changed"); s.Removed != 11 || s.Rows != 14 {
			t.Errorf("found is %+v", s)
		}
		raw(t, o, `DELETE FROM calls WHERE id = 'ada 1'`)
		verify(t, db, store.AuditQuery{}, "missing")
	})
}

// Rows from before the chain have no links. Their number must not grow.
func TestAuditOfRowsFromBefore(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		chained(t, o).Close() //nolint:errcheck // reopened below
		raw(t, o, `DELETE FROM audit_links; DELETE FROM audit_chains`)
		db := storetest.Open(t, o)
		// Calls from the journal of a replaced program are added again.
		must(t, db.Calls.Add(ctx, []store.Call{{ID: "ada 3", At: now, Person: "p1", Tool: "record"},
			{ID: "new", At: now, Person: "p1"}}))
		if s := verify(t, db, store.AuditQuery{}); s.Unlinked != 25 || s.Rows != 1 {
			t.Errorf("found is %+v", s)
		}
		raw(t, o, `INSERT INTO admin_events (id, at, person, name, action, about) VALUES ('x', 1, '', '', '', '')`)
		verify(t, db, store.AuditQuery{}, "added")
	})
}

// With concurrent writers, in one process or several, each row is chained once, and every
// intermediate state verifies.
func TestAuditOfManyWriters(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		one := seeded(t, o)
		other := storetest.Open(t, o)
		var all sync.WaitGroup
		for who := range 4 {
			db := []*store.DB{one, other}[who%2]
			all.Go(func() {
				for i := range 20 {
					var calls []store.Call
					for n := range 40 {
						// Two writers write the same calls.
						calls = append(calls, store.Call{ID: fmt.Sprintf("%d %d %d", who/2, i, n), At: now,
							Person: "p1", Args: "{}"})
					}
					if err := db.Calls.Add(ctx, append(calls, calls[7])); err != nil {
						t.Error(err)
					}
					if err := db.AdminEvents.Add(ctx, store.AdminEvent{ID: fmt.Sprint(who, " ", i), At: now,
						Action: "a"}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Go(func() {
			for i := range 5 {
				if _, err := one.Purge(ctx, store.Limits{Calls: now.Add(-time.Hour), Now: now}); err != nil {
					t.Error(err)
				}
				verify(t, other, store.AuditQuery{Newest: i * 10})
			}
		})
		all.Wait()
		s := verify(t, one, store.AuditQuery{})
		if s.Rows != 2*20*40+4*20 || s.Links != s.Rows+1 {
			t.Errorf("found is %+v", s)
		}
		if most := 6; len(s.Heads) > most || o.URL == "" && len(s.Heads) != 1 {
			t.Errorf("there are %d chains", len(s.Heads))
		}
		if s = verify(t, one, store.AuditQuery{Newest: 10}); s.Complete || s.Links > int64(10*len(s.Heads)) {
			t.Errorf("of the newest there are %+v", s)
		}
	})
}
