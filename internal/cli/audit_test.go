package cli

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"

	"patchbay/internal/check"
	"patchbay/internal/store"
)

// The audit trail is verified while a server runs, and manipulated entries are named.
func TestAuditVerify(t *testing.T) {
	d := newDesk(t)
	d.ok("user", "add", "ada")
	d.ok("key", "add", "--name", "one", "--scope", "operator")
	d.serve()
	var s store.AuditState
	d.json(&s, "audit", "verify")
	if s.Rows != 2 || s.ProblemCount != 0 || !s.Complete || len(s.Heads) != 1 {
		t.Fatalf("found is %+v", s)
	}
	head := s.Heads[0].String()
	if out := d.ok("audit", "verify", "--expect", head); !strings.Contains(out, "Unchanged rows: 2") ||
		!strings.Contains(out, "Head: "+head) {
		t.Errorf("it says %q", out)
	}
	want(t, d.examine(0), "audit trail", check.OK, "the newest 3 links are right")
	d.failing(1, "", []string{"audit", "verify", "--expect", "1.2.x"}, `"1.2.x" is not a head`)

	db, err := sql.Open("sqlite", filepath.Join(d.data, store.FileName)+"?_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(`UPDATE admin_events SET about = 'bob: two' WHERE action = 'key.made'`); err != nil {
		t.Fatal(err)
	}
	o := d.do("", "audit", "verify", "--expect", "1.9."+strings.Repeat("a", 64))
	if o.code != 1 || !strings.Contains(o.stdout, "Unchanged rows: 1") ||
		!strings.Contains(o.stdout, "Problems: 2") ||
		!strings.Contains(o.stdout, "row changed") || !strings.Contains(o.stdout, "acts ") ||
		!strings.Contains(o.stdout, "expected head not in the chain") {
		t.Errorf("exit code %d, %q", o.code, o.stdout)
	}
	want(t, d.examine(1), "audit trail", check.Fail, "1 problem(s)")
}
