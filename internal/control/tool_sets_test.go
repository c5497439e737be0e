package control

import (
	"testing"
	"time"

	"patchbay/internal/hub"
	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

// Rules may name a set that the key's owner has. A set that is gone does not keep other rules from
// being changed.
func TestRulesNameSetsThatExist(t *testing.T) {
	db := storetest.SQLite(t)
	ada := store.Person{ID: "ada", Name: "ada", Role: "admin", Lang: "en", Created: time.Now()}
	if err := db.People.Add(t.Context(), ada); err != nil {
		t.Fatal(err)
	}
	if err := db.ToolSets.Save(t.Context(), store.ToolSet{Owner: "ada", Name: "home", Tools: []string{"lamp_*"},
		Created: time.Now()}); err != nil {
		t.Fatal(err)
	}
	s := &Service{}
	s.Hub = &hub.Hub{}
	s.Hub.Store = db
	for _, c := range []struct {
		person, before, set string
		good                bool
	}{
		{"ada", "", "home", true}, {"ada", "", "", true}, {"ada", "gone", "gone", true},
		{"ada", "", "gone", false}, {"ada", "home", "gone", false}, {"bob", "", "home", false},
	} {
		err := s.checkToolSet(t.Context(), c.person, hub.Rules{Set: c.before}, hub.Rules{Set: c.set})
		if (err == nil) != c.good {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
