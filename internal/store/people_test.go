package store_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

// everything creates rows of a person in every table with personal data. Names end in the person's
// name.
func everything(t *testing.T, db *store.DB, person, name string) {
	t.Helper()
	must(t, db.People.Add(ctx, store.Person{ID: person, Name: name, Role: "member", Lang: "en", Created: now}))
	bot, err := db.Bots.Add(ctx, store.Bot{Owner: person, Name: "bot of " + name, Kind: "echo", Settings: []byte(`{}`),
		TokenHash: "token " + name, Created: now})
	must(t, err)
	must(t, db.Keys.Add(ctx, store.Key{ID: "key " + name, Person: person, Name: "key of " + name,
		Scopes: []string{"mcp"}, Bot: bot.Number, Hash: "hash " + name, Created: now}))
	must(t, db.Bindings.AddToken(ctx, store.BindToken{ID: "invitation " + name, Bot: bot.Number,
		TokenHash: "invited " + name, CodeHash: "code " + name, Created: now, Expires: now.Add(time.Hour)}))
	w := store.Wearer{Publisher: person, UserID: "wearer of " + name}
	must(t, db.Bindings.Redeem(ctx, "invitation "+name, store.Binding{Publisher: person, UserID: w.UserID,
		Bot: bot.Number, Created: now}, true))
	must(t, db.Bindings.AwaitPhoto(ctx, w, "1", "m1", now.Add(time.Hour)))
	_, _, err = db.Bindings.Reserve(ctx, w, now, now.Add(-time.Hour))
	must(t, err)
	must(t, db.Traces.Finish(ctx, store.Trace{Turn: "turn " + name, Bot: bot.Number, Owner: person, At: now,
		Question: "q of " + name},
		&store.Exchange{Turn: "turn " + name, Bot: bot.Number, Person: "cli:" + person, Conversation: "c", At: now,
			Question: "q of " + name}))
	must(t, db.Calls.Add(ctx, []store.Call{{ID: "call " + name, At: now, Person: person, Tool: "tool of " + name}}))
	up, err := db.Upstreams.Add(ctx, store.Upstream{Owner: person, Slug: "up-" + name,
		Kind: "http", Settings: []byte(`{}`), Created: now})
	must(t, err)
	must(t, db.ShimNodes.Save(ctx, up.Number, "", "kept of "+name))
	must(t, db.UpstreamSignIns.Save(ctx, store.UpstreamSignIn{Upstream: up.Number, Person: person,
		Sealed: "sign-in of " + name}, false))
	must(t, db.Upstreams.Share(ctx, up.Number, false, []string{person}))
	_, err = db.Upstreams.RememberDangerous(ctx, up.Number, []string{"tool of " + name}, 9)
	must(t, err)
	_, _, err = db.Pins.Record(ctx, store.PinRecord{Upstream: up.Number, At: now,
		Forms: []store.PinForm{{PinKey: store.PinKey{Kind: "tool", Name: "tool of " + name}, Fingerprint: "f",
			Content: []byte("content of " + name)}}})
	must(t, err)
	must(t, db.Bots.Share(ctx, bot.Number, false, []string{person}))
	_, err = db.People.TakeQuestion(ctx, person, "2026-11-28", 1)
	must(t, err)
	must(t, db.Invitations.Save(ctx, store.Invitation{Person: person, Hash: "invited to " + name, Created: now,
		Expires: now.Add(time.Hour)}))
	must(t, db.ToolSets.Save(ctx, store.ToolSet{Owner: person, Name: "set of " + name, Tools: []string{"*"},
		Created: now}))
	must(t, db.ToolWordings.Save(ctx, store.ToolWords{Owner: person, Tool: "tool of " + name,
		Name: "name of " + name, Created: now}))
	_, err = db.ChatSessions.Open(ctx, store.ChatSession{Owner: person, Bot: bot.Number, Name: "session of " + name,
		Conversation: "session of " + name, Created: now, Updated: now})
	must(t, err)
	must(t, db.ToolRules.Set(ctx, store.ToolRule{Owner: person, Tool: "tool of " + name, Rule: "deny", Created: now}))
	must(t, db.SignIns.Add(ctx, store.SignIn{ID: "signin " + name, Person: person, Agent: "browser of " + name,
		Created: now, Seen: now, Confirmed: now}, 9))
	d, err := db.Devices.Seen(ctx, store.DeviceCall{Kind: "xiaozhi", Hardware: "hw " + name, Client: "client " + name,
		At: now})
	must(t, err)
	must(t, db.Devices.SetCode(ctx, d, "device code "+name, now.Add(time.Hour), now))
	_, err = db.Devices.Approve(ctx, store.DeviceApproval{CodeHash: "device code " + name, Owner: person,
		Name: "board of " + name, Bot: bot.Number, At: now})
	must(t, err)
	must(t, db.Devices.SetCatalog(ctx, d.Number, []byte(`[]`)))
	_, err = db.Timers.Add(ctx, store.Timer{Device: d.Number, Text: "timer of " + name, Due: now.Add(time.Hour),
		Zone: "UTC", Created: now})
	must(t, err)
	must(t, db.Recordings.Add(ctx, store.Recording{Turn: "turn " + name, Device: d.Number,
		Expires: now.Add(time.Hour), Question: "q of " + name}, store.RecordedSound{Question: []byte(name)}))
	must(t, db.SpeechUsage.Add(ctx, []store.SpeechUseKey{{Day: "2026-11-25", Owner: person, Device: d.Number,
		Engine: "ear of " + name}}, []store.SpeechUse{{Uses: 1}}))
	must(t, db.PushDevices.Save(ctx, store.PushDevice{ID: "push device " + name, Person: person, Hash: "hash " + name,
		Created: now}, 9))
	must(t, db.Outbox.Add(ctx, store.Push{ID: "push " + name, Device: d.Number, Kind: "x", Body: []byte(`{}`),
		Person: person, Created: now, Expires: now.Add(time.Hour)}))
	in := deviceRequest("peer " + name)
	in.Owner = person
	peer := pair(t, db, in)
	_, err = db.Peers.SetToken(ctx, peer, store.PeerToken{Peer: peer.ID, Role: "node", Hash: "peer token " + name,
		Created: now}, store.PeerToken{})
	must(t, err)
	must(t, db.Peers.Invite(ctx, store.PeerInvite{ID: "invite " + name, Owner: person, TokenHash: "invite token " + name,
		CodeHash: "join code " + name, Created: now, Expires: now.Add(time.Hour)}))
	can := surfaceRequest("peer "+name, "run")
	can.Owner = person
	ask(t, db, can, true)
	must(t, db.Learn.Add(ctx, person, []store.NewPoint{newPoint("point "+name, "q of "+name, "word")}))
	points, err := db.Learn.Points(ctx, person, store.PointFilter{}, store.PointKey{}, 1)
	must(t, err)
	must(t, db.Learn.SaveVectors(ctx, person, "model", []store.Vector{{Point: points[0].Number, Data: []byte{1},
		Version: points[0].Version}}))
	must(t, db.Learn.SaveMedia(ctx, person, &store.MediaFile{Name: "picture of " + name, Added: now}, []byte{1}))
	typ := store.NoteType{Origin: "type of " + name, Model: []byte(`{}`), Updated: now}
	must(t, db.Learn.SaveNoteType(ctx, person, &typ))
	notes := db.Learn.NewImport(person, "import of "+name)
	must(t, notes.StageNotes(ctx, []store.Note{{Type: typ.Number, GUID: "note of " + name, Fields: []string{"a"},
		Updated: now}}))
	must(t, notes.Finish(ctx, store.ImportEdits{Sources: []store.Source{{Name: "source", Data: []byte(`{}`)}}}))
	must(t, db.Learn.NewImport(person, "running import of "+name).StageNotes(ctx, nil))
	must(t, db.Learn.ChangeMany(ctx, person, store.ManyPoints{Numbers: []int64{points[0].Number}, Plans: true},
		func([]*store.PointChange) (*store.BulkPart, error) {
			return &store.BulkPart{ID: "edit of " + name, Edit: []byte(`{}`), Changes: []byte(`{}`), Until: now}, nil
		}, nil))
	must(t, db.Learn.GiveIDs(ctx, person, store.Numbering{Kind: store.IDOfCard},
		[]store.NewID{{Wanted: 1, Number: points[0].Number}}))
	must(t, db.Learn.SaveLearner(ctx, person, []byte(`{"of":"`+name+`"}`)))
	must(t, db.Learn.AddFit(ctx, store.Fit{ID: "fit " + name, Person: person, At: now}))
	must(t, db.Learn.AddDeck(ctx, store.Deck{ID: "deck " + name, Person: person, Name: "deck of " + name,
		Settings: []byte(`{}`), Created: now}))
	must(t, db.OAuth.SaveClient(ctx, store.OAuthClient{ID: "program", Kind: store.ClientRegistered,
		Redirects: []string{"https://a.example/"}, Created: now}))
	must(t, db.OAuth.AddRequest(ctx, store.OAuthRequest{ID: "request " + name, Client: "program",
		Expires: now.Add(time.Hour)}))
	must(t, db.OAuth.Consent(ctx, "request "+name, store.OAuthConsent{Person: person, Code: "code " + name,
		Expires: now.Add(time.Hour)}))
	must(t, db.OAuth.Exchange(ctx, "code "+name, store.Key{ID: "grant " + name, Person: person, Hash: "grant " + name,
		Created: now}, now.Add(time.Hour), store.OAuthToken{Hash: "access " + name, Kind: store.TokenAccess,
		Key: "grant " + name, Expires: now.Add(time.Hour)}))
	must(t, db.Linked.Add(ctx, store.Linked{Issuer: "https://id.example", Subject: "s of " + name, Person: person,
		Label: "label of " + name, Created: now, Used: now}, 9))
	must(t, db.Linked.AddRound(ctx, store.OIDCRound{ID: "round " + name, Purpose: "confirm", Person: person,
		Created: now, Expires: now.Add(time.Hour)}, 9))
	must(t, db.Authenticators.Add(ctx, store.Authenticator{Person: person, Secret: "secret of " + name, Created: now},
		[]string{"code of " + name}))
	_, err = db.Passkeys.Add(ctx, store.Passkey{ID: "passkey of " + name, Person: person, Name: name,
		Credential: []byte("{}"), Created: now, Used: now}, 9, nil)
	must(t, err)
	_, _, err = db.Approvals.Ask(ctx, store.Approval{ID: "approval of " + name, Person: person, Tool: "lamp",
		Asked:   now,
		Expires: now.Add(time.Hour)}, 9, 9)
	must(t, err)
	must(t, db.Learn.SaveTalk(ctx, "asker "+name, person, []byte(`{}`), now.Add(time.Hour)))
}

// unownedTables are the tables without personal data. An audit link contains only the id, time and
// digests of a call.
var unownedTables = []string{"counters", "leases", "media", "admin_events", "sign_in_tries", "audit_chains",
	"audit_links", "secrets", "installation", "written_by", "speech_engines", "oauth_clients",
	"acme_accounts", "certificates", "acme_challenges", "relay_links", "push_keys"}

// Removing a person deletes all their data, and nothing of others.
func TestRemovePerson(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := seeded(t, o)
		everything(t, db, "p2", "bob")
		without := func(all map[string][]string) map[string][]string {
			all["counters"], all["audit_chains"], all["audit_links"] = nil, nil, nil
			return all
		}
		before := without(storetest.Rows(t, o))
		everything(t, db, "p3", "eve")
		for table, rows := range storetest.Rows(t, o) {
			if len(rows) <= len(before[table]) && !slices.Contains(unownedTables, table) && table != "learn_words" &&
				!slices.Contains(unfilled, table) {
				t.Errorf("the test puts nothing of eve's into %s", table)
			}
		}
		versions := func() (v [3]int64) {
			var errs [3]error
			v[0], errs[0] = db.ToolsVersion(ctx)
			v[1], errs[1] = db.DevicesVersion(ctx)
			v[2], errs[2] = db.PeersVersion(ctx)
			must(t, errors.Join(errs[:]...))
			return v
		}
		was := versions()
		must(t, db.People.Remove(ctx, "p3", "admin"))
		after := without(storetest.Rows(t, o))
		for table, rows := range after {
			if !slices.Equal(rows, before[table]) {
				t.Errorf("%s has\n%q, and had before eve\n%q", table, rows, before[table])
			}
		}
		for i, v := range versions() {
			if v == was[i] {
				t.Errorf("counter %d says that nothing has changed", i)
			}
		}
		wantErr(t, db.People.Remove(ctx, "p3", "admin"), store.ErrNotFound)
		wantErr(t, db.People.Remove(ctx, "p1", "admin"), store.ErrLast)
		wantErr(t, db.People.SetRole(ctx, "p1", "member", "admin"), store.ErrLast)
		must(t, db.People.SetRole(ctx, "p2", "admin", "admin"))
		must(t, db.People.SetRole(ctx, "p1", "member", "admin"))
		wantErr(t, db.People.SetRole(ctx, "p9", "admin", "admin"), store.ErrNotFound)
		must(t, db.People.Remove(ctx, "p1", "admin"))
	})
}

// Nothing is recorded of a person removed during a request, even if others' records share the
// commit.
func TestNothingIsRecordedOfTheRemoved(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := twoPeople(t, o)
		bot, err := db.Bots.Add(ctx, store.Bot{Owner: "p2", Name: "b", Kind: "echo", Settings: []byte(`{}`),
			Created: now})
		must(t, err)
		record := func(turn, person string) error {
			e := &store.Exchange{Turn: turn, Bot: 1, Person: "x", Conversation: "c", At: now,
				Question: "q", Answer: "a"}
			if person == "p2" {
				e.Bot = bot.Number
			}
			return errors.Join(
				db.Traces.Finish(ctx, store.Trace{Turn: turn, Bot: e.Bot, Owner: person, At: now, Outcome: "done"}, e),
				db.Calls.Add(ctx, []store.Call{{ID: turn, Person: person, At: now, Outcome: "done"},
					{ID: turn + "'", Person: "p1", At: now, Outcome: "done"}}),
			)
		}
		// One of the two people is removed while records are written.
		var all sync.WaitGroup
		begun := make(chan struct{}, 200)
		for who := range 4 {
			all.Go(func() {
				for i := range 25 {
					if err := record(fmt.Sprint(who, " ", i), []string{"p1", "p2"}[who%2]); err != nil {
						t.Error(err)
					}
					begun <- struct{}{}
				}
			})
		}
		for range 10 {
			<-begun
		}
		must(t, db.People.Remove(ctx, "p2", "admin"))
		all.Wait()
		must(t, record("late", "p2"))
		must(t, record("hers", "p1"))
		rows := storetest.Rows(t, o)
		for table, list := range rows {
			for _, row := range list {
				if strings.Contains(row, "p2") {
					t.Errorf("%s knows who was removed: %s", table, row)
				}
			}
		}
		if n := len(rows["traces"]); n != 51 {
			t.Errorf("%d turns are recorded of who is there still", n)
		}
		if n := len(rows["calls"]); n != 51+51+51 {
			t.Errorf("%d calls are recorded of who is there still", n)
		}
	})
}

// unfilled are tables with personal data that take too much to fill here; their rows are deleted by
// foreign keys.
var unfilled = []string{"learn_log", "learn_days", "pages"}

// Two administrators who demote each other at the same time do not leave an installation without
// one.
func TestSomebodyRunsTheInstallation(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := seeded(t, o)
		must(t, db.People.Add(ctx, store.Person{ID: "p2", Name: "bob", Role: "admin", Created: now}))
		var errs [2]error
		var both sync.WaitGroup
		for i, id := range []string{"p1", "p2"} {
			both.Go(func() { errs[i] = db.People.SetRole(ctx, id, "member", "admin") })
		}
		both.Wait()
		if (errs[0] == nil) == (errs[1] == nil) {
			t.Errorf("both were told %v", errs)
		}
	})
}

func TestProfileAndActs(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		db := seeded(t, o)
		must(t, db.People.Add(ctx, store.Person{ID: "p2", Name: "bob", Role: "member", Created: now}))
		wantErr(t, db.People.SetProfile(ctx, store.Person{ID: "p2", Name: "ada"}, noCheck), store.ErrExists)
		must(t, db.People.SetProfile(ctx, store.Person{ID: "p2", Name: "Bob", Lang: "zh", Zone: "Asia/Shanghai"},
			noCheck))
		p, err := db.People.ByID(ctx, "p2")
		must(t, err)
		if p.Name != "Bob" || p.Lang != "zh" || p.Zone != "Asia/Shanghai" || p.Role != "member" {
			t.Errorf("kept %+v", p)
		}
		for i, act := range []string{"one", "two", "three"} {
			must(t, db.AdminEvents.Add(ctx, store.AdminEvent{ID: fmt.Sprint(i),
				At: now.Add(time.Duration(i) * time.Hour), Person: "p1", Name: "ada", Action: act}))
		}
		list, err := db.AdminEvents.Newest(ctx, "2", 1)
		must(t, err)
		if len(list) != 1 || list[0].Action != "two" || !list[0].At.Equal(now.Add(time.Hour)) {
			t.Errorf("before the third there is %+v", list)
		}
		_, err = db.Purge(ctx, store.Limits{Calls: now.Add(90 * time.Minute)})
		must(t, err)
		if list, err = db.AdminEvents.Newest(ctx, "", 9); err != nil || len(list) != 1 || list[0].Action != "three" {
			t.Errorf("left are %+v, %v", list, err)
		}
	})
}

// noCheck accepts any name.
func noCheck([]store.Person) error { return nil }
