package account_test

import (
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
		i, err := s.InviteNode(ctx, ada, "wss://board.example.org")
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
		person, id, err := s.CheckInvite(ctx, i.Token, "fe81")
		must(t, err)
		if person.ID != ada || id != i.ID {
			t.Errorf("%s has invited %s", person.ID, id)
		}
		must(t, s.UseInvite(ctx, i.ID, "fe81"))
		must(t, s.UseInvite(ctx, i.ID, "fe81")) // its first connection may have been lost
		wantErr(t, s.UseInvite(ctx, i.ID, "fe82"), account.ErrUnknown)
		_, _, err = s.CheckInvite(ctx, i.Token, "fe82")
		wantErr(t, err, account.ErrUnknown)
		_, _, err = s.CheckInvite(ctx, "", "fe81")
		wantErr(t, err, account.ErrNoKey)

		unused, err := s.InviteNode(ctx, ada, "wss://board.example.org")
		must(t, err)
		c.t = c.t.Add(account.InviteLife)
		_, err = s.FetchInvite(ctx, unused.Code)
		wantErr(t, err, store.ErrNotFound)
		_, _, err = s.CheckInvite(ctx, i.Token, "fe81")
		wantErr(t, err, account.ErrUnknown)
		for range store.MaxInvites {
			_, err = s.InviteNode(ctx, ada, "")
			must(t, err)
		}
		_, err = s.InviteNode(ctx, ada, "")
		wantErr(t, err, store.ErrFull)
		c.t = c.t.Add(time.Hour)
		_, err = s.InviteNode(ctx, ada, "")
		must(t, err)
	})
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
		node, _, err := s.PeerToken(ctx, p, account.PeerNode, nil, "key 1")
		must(t, err)
		first, _, err := s.PeerToken(ctx, p, account.PeerOperator, []string{account.OperatorWrite}, "key 1")
		must(t, err)
		second, kept, err := s.ReplacePeerToken(ctx, p, account.PeerOperator, nil)
		must(t, err)
		if len(kept.Scopes) != 1 || second == first {
			t.Errorf("%+v", kept)
		}
		works(account.PeerOperator, first, account.ErrUnknown)
		works(account.PeerOperator, second, nil)
		works(account.PeerNode, node, nil)
		same, _, err := s.PeerToken(ctx, p, account.PeerOperator, nil, "")
		must(t, err)
		if same != second {
			t.Error("the replaced token is replaced again")
		}
		_, _, err = s.ReplacePeerToken(ctx, p, account.PeerOperator, []string{account.OperatorAdmin})
		wantErr(t, err, account.ErrScope)
		_, _, err = s.ReplacePeerToken(ctx, p, "worker", nil)
		wantErr(t, err, account.ErrPeerRole)

		tokens, err := db.Peers.TokensOfKey(ctx, "key 1")
		must(t, err)
		if len(tokens) != 2 {
			t.Errorf("%+v", tokens)
		}
		must(t, s.RevokePeerToken(ctx, p.ID, account.PeerNode))
		wantErr(t, s.RevokePeerToken(ctx, p.ID, account.PeerNode), store.ErrNotFound)
		works(account.PeerNode, node, account.ErrUnknown)
		works(account.PeerOperator, second, nil)
		if tokens, err = db.Peers.TokensOfKey(ctx, "key 1"); err != nil || len(tokens) != 1 {
			t.Errorf("%+v, %v", tokens, err)
		}
		anew, _, err := s.PeerToken(ctx, p, account.PeerNode, nil, "key 2")
		must(t, err)
		works(account.PeerNode, node, account.ErrUnknown)
		works(account.PeerNode, anew, nil)
		if now, err := db.Peers.ByID(ctx, p.ID); err != nil || now.TokenChanges != p.TokenChanges+2 {
			t.Errorf("%d changes after %d (%v)", now.TokenChanges, p.TokenChanges, err)
		}
	})
}
