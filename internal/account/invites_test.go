package account_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

func TestInvites(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		s, db, c := service(t, o)
		ada, _, _ := people(t, s, db)
		i, err := s.InviteNode(ctx, ada, "", "wss://board.example.org")
		must(t, err)
		if !i.Expires.Equal(c.t.Add(account.InviteLife)) || len(i.Token) != 43 || len(i.Code) != 22 {
			t.Fatalf("%+v", i)
		}
		got, err := s.FetchInvite(ctx, i.Code)
		must(t, err)
		if got.Token != i.Token || got.URL != i.URL {
			t.Errorf("%+v is fetched, not %+v", got, i)
		}
		for _, code := range []string{i.Code, "", strings.Repeat("a", 22)} {
			_, err = s.FetchInvite(ctx, code)
			wantErr(t, err, store.ErrNotFound)
		}
		person, kept, err := s.CheckInvite(ctx, i.Token, "fe81")
		must(t, err)
		if person.ID != ada || kept.ID != i.ID {
			t.Errorf("%s has invited by %s", person.ID, kept.ID)
		}
		must(t, s.UseInvite(ctx, i.ID, "fe81"))
		must(t, s.UseInvite(ctx, i.ID, "fe81")) // its first connection may have been lost
		wantErr(t, s.UseInvite(ctx, i.ID, "fe82"), account.ErrUnknown)
		must(t, db.People.Add(ctx, store.Person{ID: "other", Name: "other", Role: account.RoleAdmin, Lang: "en",
			Created: c.t}))
		must(t, db.People.SetPaused(ctx, ada, c.t, account.RoleAdmin))
		_, _, err = s.CheckInvite(ctx, i.Token, "fe81")
		wantErr(t, err, account.ErrPaused)
		must(t, db.People.SetPaused(ctx, ada, time.Time{}, account.RoleAdmin))
		_, _, err = s.CheckInvite(ctx, i.Token, "fe82")
		wantErr(t, err, account.ErrUnknown)
		_, _, err = s.CheckInvite(ctx, "", "fe81")
		wantErr(t, err, account.ErrNoKey)

		// An invitation ends with the key that made it.
		k, _, err := s.AddKey(ctx, account.NewKey{Person: ada, Name: "op", Scopes: []string{account.ScopeOperator}})
		must(t, err)
		keyed, err := s.InviteNode(ctx, ada, k.ID, "wss://board.example.org")
		must(t, err)
		must(t, db.Keys.Revoke(ctx, k.ID, c.t))
		_, _, err = s.CheckInvite(ctx, keyed.Token, "fe83")
		wantErr(t, err, account.ErrUnknown)
		_, err = s.FetchInvite(ctx, keyed.Code)
		wantErr(t, err, store.ErrNotFound)

		unused, err := s.InviteNode(ctx, ada, "", "wss://board.example.org")
		must(t, err)
		checkCancelled(t, o, s, db, ada, unused.ID, i.ID)
		unused, err = s.InviteNode(ctx, ada, "", "wss://board.example.org")
		must(t, err)
		c.t = c.t.Add(account.InviteLife)
		_, err = s.FetchInvite(ctx, unused.Code)
		wantErr(t, err, store.ErrNotFound)
		_, _, err = s.CheckInvite(ctx, i.Token, "fe81")
		wantErr(t, err, account.ErrUnknown)
		for range store.MaxInvites {
			_, err = s.InviteNode(ctx, ada, "", "")
			must(t, err)
		}
		_, err = s.InviteNode(ctx, ada, "", "")
		wantErr(t, err, store.ErrFull)
		c.t = c.t.Add(time.Hour)
		_, err = s.InviteNode(ctx, ada, "", "")
		must(t, err)
	})
}

// checkCancelled cancels invitations that were not used, which every instance refuses from then
// on, and not one that was used.
func checkCancelled(t *testing.T, o store.Options, s *account.Service, db *store.DB, ada, unused, used string) {
	t.Helper()
	k, _, err := s.AddKey(ctx, account.NewKey{Person: ada, Name: "laptop", Scopes: []string{account.ScopeOperator}})
	must(t, err)
	keyed, err := s.InviteNode(ctx, ada, k.ID, "wss://board.example.org")
	must(t, err)
	other, otherDB, c := service(t, o) // another instance
	listed := func() (ids []string) {
		all, err := otherDB.Peers.Invites(ctx, ada, c.t)
		must(t, err)
		for _, i := range all {
			ids = append(ids, i.ID)
			if i.OwnerName == "" || i.TokenHash+i.CodeHash != "" || (i.KeyName == "laptop") != (i.ID == keyed.ID) ||
				(i.Peer != "") != (i.ID == used) {
				t.Errorf("%+v", i)
			}
		}
		slices.Sort(ids)
		return ids
	}
	all := []string{unused, used, keyed.ID}
	slices.Sort(all)
	if got := listed(); !slices.Equal(got, all) {
		t.Errorf("%q are listed, not %q", got, all)
	}
	if all, err := db.Peers.Invites(ctx, "somebody else", c.t); err != nil || len(all) > 0 {
		t.Errorf("somebody else sees %+v (%v)", all, err)
	}
	_, _, err = other.CheckInvite(ctx, keyed.Token, "fe90")
	must(t, err)
	must(t, db.Peers.CancelInvite(ctx, keyed.ID))
	wantErr(t, db.Peers.CancelInvite(ctx, keyed.ID), store.ErrNotFound)
	wantErr(t, db.Peers.CancelInvite(ctx, used), store.ErrNotFound)
	_, _, err = other.CheckInvite(ctx, keyed.Token, "fe90")
	wantErr(t, err, account.ErrUnknown)
	wantErr(t, other.UseInvite(ctx, keyed.ID, "fe90"), account.ErrUnknown) // it was checked a moment before
	_, err = other.FetchInvite(ctx, keyed.Code)
	wantErr(t, err, store.ErrNotFound)
	must(t, db.Peers.CancelInvite(ctx, unused))
	if got := listed(); !slices.Equal(got, []string{used}) {
		t.Errorf("%q are listed", got)
	}
}

// A token is replaced and revoked without those of other roles, and the key that it was got with is
// known.
func TestPeerTokenChanges(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		s, db, _ := service(t, o)
		ada, _, _ := people(t, s, db)
		p := paired(t, db, ada, account.OperatorWrite, account.OperatorPairing)
		works := func(role, token string, want error) {
			t.Helper()
			_, err := s.CheckPeerToken(ctx, account.PeerLogin{Peer: p.ID, Role: role, Token: token})
			wantErr(t, err, want)
		}
		key := func(name string) string {
			k, _, err := s.AddKey(ctx, account.NewKey{Person: ada, Name: name, Scopes: []string{account.ScopeOperator}})
			must(t, err)
			return k.ID
		}
		one, two := key("one"), key("two")
		was := func(role string) store.PeerToken {
			kept, err := db.Peers.Token(ctx, p.ID, role)
			must(t, err)
			return kept
		}
		node, _, err := s.PeerToken(ctx, p, account.PeerNode, nil, one, true)
		must(t, err)
		first, read, err := s.PeerToken(ctx, p, account.PeerOperator, []string{account.OperatorWrite}, one, true)
		must(t, err)
		second, kept, err := s.ReplacePeerToken(ctx, p, read, read.Scopes)
		must(t, err)
		if len(kept.Scopes) != 1 || second == first {
			t.Errorf("%+v", kept)
		}
		works(account.PeerOperator, first, account.ErrUnknown)
		works(account.PeerOperator, second, nil)
		works(account.PeerNode, node, nil)
		_, _, err = s.ReplacePeerToken(ctx, p, read, read.Scopes) // it was replaced since it was read
		wantErr(t, err, store.ErrTokenChanged)
		same, _, err := s.PeerToken(ctx, p, account.PeerOperator, nil, "", true)
		must(t, err)
		again, _, err := s.SamePeerToken(ctx, p, account.PeerOperator, kept.Version)
		must(t, err)
		if same != second || again != second {
			t.Error("the replaced token is replaced again")
		}
		_, _, err = s.SamePeerToken(ctx, p, account.PeerOperator, read.Version)
		wantErr(t, err, account.ErrUnknown)
		_, _, err = s.ReplacePeerToken(ctx, p, kept, []string{account.OperatorAdmin})
		wantErr(t, err, account.ErrScope)

		// A token is known by the key that gives all that it has.
		_, kept, err = s.PeerToken(ctx, p, account.PeerOperator, nil, two, true)
		must(t, err)
		if kept.Key != one {
			t.Errorf("a token with %v is that of a key that gives nothing", kept.Scopes)
		}
		tokens, err := db.Peers.TokensOfKey(ctx, one)
		must(t, err)
		if len(tokens) != 2 {
			t.Errorf("%+v", tokens)
		}
		must(t, s.RevokePeerToken(ctx, p.ID, account.PeerNode))
		wantErr(t, s.RevokePeerToken(ctx, p.ID, account.PeerNode), store.ErrNotFound)
		works(account.PeerNode, node, account.ErrUnknown)
		works(account.PeerOperator, second, nil)
		if tokens, err = db.Peers.TokensOfKey(ctx, one); err != nil || len(tokens) != 1 {
			t.Errorf("%+v, %v", tokens, err)
		}
		revoked := was(account.PeerNode)
		_, _, err = s.ReplacePeerToken(ctx, p, revoked, nil)
		wantErr(t, err, account.ErrUnknown)
		_, _, err = s.SamePeerToken(ctx, p, account.PeerNode, revoked.Version)
		wantErr(t, err, account.ErrUnknown)
		_, _, err = s.PeerToken(ctx, p, account.PeerNode, nil, "", false)
		wantErr(t, err, account.ErrUnknown)
		must(t, db.Keys.Revoke(ctx, one, revoked.Created))
		_, _, err = s.PeerToken(ctx, p, account.PeerNode, nil, one, true)
		wantErr(t, err, store.ErrNotFound) // the key was revoked since the peer has shown it
		anew, _, err := s.PeerToken(ctx, p, account.PeerNode, nil, two, true)
		must(t, err)
		works(account.PeerNode, node, account.ErrUnknown)
		works(account.PeerNode, anew, nil)
		if now, err := db.Peers.ByID(ctx, p.ID); err != nil || now.TokenChanges != p.TokenChanges+2 {
			t.Errorf("%d changes after %d (%v)", now.TokenChanges, p.TokenChanges, err)
		}
	})
}
