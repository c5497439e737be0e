package account_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/seal"
	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

func TestCovers(t *testing.T) {
	list := func(s string) []string { return strings.Fields(s) }
	for _, c := range []struct {
		have, want string
		covers     bool
	}{
		{"", "", true},
		{"", "operator.read", false},
		{"operator.read", "operator.read", true},
		{"operator.read", "operator.write", false},
		{"operator.write", "operator.read", true},
		{"operator.write", "operator.read operator.write", true},
		{"operator.write", "operator.pairing", false},
		{"operator.pairing", "operator.read", false},
		{"operator.write operator.pairing", "operator.admin", false},
		{"operator.admin", "operator.read operator.write operator.pairing operator.admin operator.approvals", true},
		{"operator.admin", "node.all", false},
		{"operator.approvals", "operator.approvals", true},
		{"operator.read", "", true},
		{"operator.read", "operator.read operator.pairing", false},
	} {
		if got := account.Covers(list(c.have), list(c.want)); got != c.covers {
			t.Errorf("%q covers %q: %v", c.have, c.want, got)
		}
	}
}

func TestWhatKeysOpenToPeers(t *testing.T) {
	const most = "operator.read operator.write operator.pairing operator.approvals"
	for _, c := range []struct {
		scopes, role string
		bot          int64
		node         bool
		operator     string
	}{
		{"mcp learn lingzhu", "admin", 0, false, ""},
		{"node", "admin", 0, true, ""},
		{"node", "member", 7, false, ""},
		{"operator", "member", 0, false, most},
		{"operator", "admin", 0, false, most},
		{"operator", "admin", 7, false, "operator.read operator.write"},
		{"admin", "member", 0, false, most},
		{"admin", "admin", 0, false, most + " operator.admin"},
		{"admin", "admin", 7, false, "operator.read operator.write"},
		{"node operator", "member", 0, true, most},
	} {
		p := account.Principal{Key: store.Key{Scopes: strings.Fields(c.scopes), Bot: c.bot},
			Person: store.Person{Role: c.role}}
		if got := strings.Join(p.OperatorScopes(), " "); p.OpensNode() != c.node || got != c.operator {
			t.Errorf("%s of %s for bot %d: node %v, operator %q", c.scopes, c.role, c.bot, p.OpensNode(), got)
		}
	}
}

func TestNodeScope(t *testing.T) {
	s, db, _ := service(t, store.Options{Folder: t.TempDir()})
	ada, _, _ := people(t, s, db)
	_, secret, err := s.AddKey(ctx, account.NewKey{Person: ada, Name: "lamp", Scopes: []string{account.ScopeNode}})
	must(t, err)
	p, err := s.Authenticate(ctx, secret, account.ScopeNode, account.ScopeOperator)
	must(t, err)
	if !p.OpensNode() || p.OperatorScopes() != nil {
		t.Errorf("the key opens %v, %v", p.OpensNode(), p.OperatorScopes())
	}
	_, err = s.Authenticate(ctx, secret, account.ScopeOperator, account.ScopeAdmin)
	wantErr(t, err, account.ErrScope)
}

// paired pairs a program as a node and as an operator.
func paired(t *testing.T, db *store.DB, owner string, scopes ...string) store.Peer {
	t.Helper()
	at := time.Date(2026, 3, 23, 14, 5, 9, 0, time.UTC)
	r, _, err := db.Peers.Request(ctx, store.PeerRequest{ID: "r of " + owner, Kind: store.RequestDevice,
		Peer: "fe81", Owner: owner, Refreshed: at,
		Ask: store.PeerAsk{Name: "lamp", Roles: []string{account.PeerNode, account.PeerOperator}, Scopes: scopes}})
	must(t, err)
	p, _, err := db.Peers.Approve(ctx, store.PeerDecision{ID: r.ID, At: at})
	must(t, err)
	return p
}

func TestPeerToken(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		s, db, c := service(t, o)
		ada, bob, _ := people(t, s, db)
		p := paired(t, db, ada, account.OperatorWrite, account.OperatorPairing)
		token, kept, err := s.PeerToken(ctx, p, account.PeerNode, nil, "", true)
		must(t, err)
		if len(token) != 43 || kept.Hash != seal.Hash(token) || kept.Role != account.PeerNode ||
			!kept.Created.Equal(c.t) {
			t.Fatalf("token %q, kept %+v", token, kept)
		}
		_, _, err = s.PeerToken(ctx, p, "worker", nil, "", true)
		wantErr(t, err, account.ErrPeerRole)
		_, _, err = s.PeerToken(ctx, p, account.PeerOperator, []string{account.OperatorAdmin}, "", true)
		wantErr(t, err, account.ErrScope)

		// The token stays the same, even after a restart; its scopes grow.
		created := c.t
		c.t = c.t.Add(time.Hour)
		box, err := seal.New(strings.Repeat("5e", 32))
		must(t, err)
		for _, s := range []*account.Service{s, account.New(db, box, c.now)} {
			again, kept, err := s.PeerToken(ctx, p, account.PeerNode, nil, "", true)
			must(t, err)
			if again != token || !kept.Created.Equal(created) {
				t.Fatalf("first %q, then %q, kept %+v", token, again, kept)
			}
		}
		operator, kept, err := s.PeerToken(ctx, p, account.PeerOperator, []string{account.OperatorRead}, "", true)
		must(t, err)
		if operator == token || !slices.Equal(kept.Scopes, []string{account.OperatorRead}) {
			t.Fatalf("as an operator: %q %+v", operator, kept)
		}
		wider, kept, err := s.PeerToken(ctx, p, account.PeerOperator, []string{account.OperatorPairing}, "", true)
		must(t, err)
		if wider != operator || !slices.Equal(kept.Scopes, []string{account.OperatorPairing, account.OperatorRead}) {
			t.Fatalf("with more scopes: %q %+v", wider, kept)
		}
		if _, kept, err = s.PeerToken(ctx, p, account.PeerOperator, nil, "", true); err != nil || len(kept.Scopes) != 2 {
			t.Fatalf("with fewer scopes: %+v %v", kept, err)
		}

		login := func(role, token string, scopes ...string) account.PeerLogin {
			return account.PeerLogin{Peer: p.ID, Role: role, Token: token, Scopes: scopes}
		}
		got, err := s.CheckPeerToken(ctx, login(account.PeerOperator, operator, account.OperatorRead))
		must(t, err)
		if got.Peer.ID != p.ID || got.Person.ID != ada || got.Token.Role != account.PeerOperator ||
			!slices.Equal(got.Scopes, kept.Scopes) {
			t.Fatalf("checked: %+v", got)
		}
		must(t, db.People.Add(ctx, store.Person{ID: "other", Name: "other", Role: account.RoleAdmin, Lang: "en",
			Created: c.t}))
		paused := func(since time.Time) {
			t.Helper()
			must(t, db.People.SetPaused(ctx, ada, since, account.RoleAdmin))
		}
		paused(c.t)
		_, err = s.CheckPeerToken(ctx, login(account.PeerOperator, operator, account.OperatorRead))
		wantErr(t, err, account.ErrPaused)
		paused(time.Time{})
		if k, err := db.Peers.Token(ctx, p.ID, account.PeerOperator); err != nil || !k.Used.Equal(c.t) {
			t.Errorf("used at %v: %v", k.Used, err)
		}
		stranger := login(account.PeerNode, token)
		stranger.Peer = "fe82"
		for what, l := range map[string]struct {
			account.PeerLogin
			want error
		}{
			"none":               {login(account.PeerNode, ""), account.ErrNoKey},
			"another one":        {login(account.PeerNode, strings.Repeat("A", 43)), account.ErrUnknown},
			"longer":             {login(account.PeerNode, token+"A"), account.ErrUnknown},
			"of the other role":  {login(account.PeerOperator, token), account.ErrUnknown},
			"of another peer":    {stranger, account.ErrUnknown},
			"wants more":         {login(account.PeerOperator, operator, account.OperatorWrite), account.ErrScope},
			"a node wants scope": {login(account.PeerNode, token, account.OperatorRead), account.ErrScope},
		} {
			_, err := s.CheckPeerToken(ctx, l.PeerLogin)
			if wantErr(t, err, l.want); !account.Refused(err) {
				t.Errorf("%s: %v is no refusal", what, err)
			}
		}

		// With another secret the token is different.
		otherBox, err := seal.New(strings.Repeat("a1", 32))
		must(t, err)
		other := account.New(db, otherBox, c.now)
		_, err = other.CheckPeerToken(ctx, login(account.PeerNode, token))
		wantErr(t, err, account.ErrUnknown)
		anew, kept, err := other.PeerToken(ctx, p, account.PeerNode, nil, "", true)
		must(t, err)
		if anew == token || !kept.Created.Equal(c.t) {
			t.Fatalf("with another secret: %q %+v", anew, kept)
		}
		_, err = other.CheckPeerToken(ctx, login(account.PeerNode, anew))
		must(t, err)

		// RotatePeer ends all tokens.
		must(t, s.RotatePeer(ctx, p.ID))
		for role, token := range map[string]string{account.PeerNode: token, account.PeerOperator: operator} {
			_, err = s.CheckPeerToken(ctx, login(role, token))
			wantErr(t, err, account.ErrUnknown)
		}
		_, _, err = s.PeerToken(ctx, p, account.PeerNode, nil, "", true)
		wantErr(t, err, store.ErrNotFound) // the peer was read before the rotation
		p, err = db.Peers.ByID(ctx, p.ID)
		must(t, err)
		second, _, err := s.PeerToken(ctx, p, account.PeerNode, nil, "", true)
		must(t, err)
		if second == token {
			t.Fatal("rotated, the token is the same")
		}
		_, err = s.CheckPeerToken(ctx, login(account.PeerNode, second))
		must(t, err)

		// Tokens end with the peer, even if it is paired again with the same owner.
		for _, owner := range []string{ada, bob} {
			must(t, db.Peers.Remove(ctx, p.ID))
			_, err = s.CheckPeerToken(ctx, login(account.PeerNode, second))
			wantErr(t, err, account.ErrUnknown)
			p = paired(t, db, owner)
			_, err = s.CheckPeerToken(ctx, login(account.PeerNode, second))
			wantErr(t, err, account.ErrUnknown)
			third, _, err := s.PeerToken(ctx, p, account.PeerNode, nil, "", true)
			must(t, err)
			_, err = s.CheckPeerToken(ctx, login(account.PeerNode, second))
			wantErr(t, err, account.ErrUnknown)
			second = third
		}

		must(t, s.RenamePeer(ctx, p.ID, " hall "))
		if p, _ := db.Peers.ByID(ctx, p.ID); p.Name != "hall" {
			t.Errorf("renamed: %q", p.Name)
		}
		if err := s.RenamePeer(ctx, p.ID, "a\nb"); err == nil {
			t.Error("a name with a line break was taken")
		}
		wantErr(t, s.RenamePeer(ctx, "fe82", "x"), store.ErrNotFound)
		wantErr(t, s.RotatePeer(ctx, "fe82"), store.ErrNotFound)
	})
}

// The grants of an administrator end when the owner is no longer one.
func TestPeerOfAMember(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		s, db, _ := service(t, o)
		_, bob, _ := people(t, s, db)
		p := paired(t, db, bob, account.OperatorAdmin)
		token, _, err := s.PeerToken(ctx, p, account.PeerOperator,
			[]string{account.OperatorAdmin, account.OperatorRead}, "", true)
		must(t, err)
		l := account.PeerLogin{Peer: p.ID, Role: account.PeerOperator, Token: token,
			Scopes: []string{account.OperatorRead}}
		got, err := s.CheckPeerToken(ctx, l)
		must(t, err)
		if !slices.Equal(got.Scopes, []string{account.OperatorRead}) {
			t.Errorf("a member has %v", got.Scopes)
		}
		for _, scope := range []string{account.OperatorAdmin, account.OperatorPairing} {
			l.Scopes = []string{scope}
			_, err = s.CheckPeerToken(ctx, l)
			wantErr(t, err, account.ErrScope)
		}
	})
}
