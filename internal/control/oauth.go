package control

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/hub"
	"patchbay/internal/i18n"
	"patchbay/internal/oauth"
	"patchbay/internal/problem"
	"patchbay/internal/store"
)

const (
	msgNoGrant        = i18n.Message("No program was let in with this id.")
	msgNoClient       = i18n.Message("No program for OAuth has this id.")
	msgClientRedirect = i18n.Message("A redirect is an https address, an http address of 127.0.0.1 or localhost, or has a scheme of the program's own. Give at least one, as the program shows it.")
	msgClientsFull    = i18n.Message("There are too many programs; remove some, %d are the most.")
)

// maxConfiguredClients limits the programs that administrators add.
const maxConfiguredClients = 200

// Grant is what a person's consent made for a program: a key that the program opens with tokens.
type Grant struct {
	KeyRow
	Program GrantProgram `json:"program"`
}

// GrantProgram is the program of a [Grant].
type GrantProgram struct {
	ID   string `json:"id"`
	Name string `json:"name"` // as the program says
	// Host is the host that the program has proved to belong to; empty if it has proved nothing.
	Host string `json:"host,omitempty"`
	// Redirects is where the program gets its codes.
	Redirects []string `json:"redirect_uris,omitempty"`
	Address   string   `json:"address,omitempty"` // from which it registered
}

// GrantList is a list of grants, newest first.
type GrantList struct {
	Grants []Grant `json:"grants"`
}

// Grants lists the programs that were let in by OAuth, including those whose access has ended.
func (s *Service) Grants(ctx context.Context, c Caller, in KeyQuery) (GrantList, error) {
	list, err := s.Keys(ctx, c, in)
	if err != nil {
		return GrantList{}, err
	}
	whose := c.Owner()
	if in.User != "" && len(list.Keys) > 0 {
		whose = list.Keys[0].Person
	}
	programs, err := s.Hub.Store.OAuth.ClientsOf(ctx, whose)
	if err != nil {
		return GrantList{}, err
	}
	out := GrantList{Grants: []Grant{}}
	for _, k := range list.Keys {
		if k.Client != "" {
			out.Grants = append(out.Grants, Grant{k, grantProgram(&k, programs[k.Client])})
		}
	}
	return out, nil
}

// grantProgram describes the program of a key. The client may be gone.
func grantProgram(k *KeyRow, p store.OAuthClient) GrantProgram {
	out := GrantProgram{ID: k.Client, Name: k.Name, Redirects: p.Redirects, Address: p.Address}
	if p.ID != "" {
		out.Name, out.Host = p.Name, oauth.VerifiedHost(&p)
	}
	return out
}

// GrantRef identifies a grant.
type GrantRef struct {
	Grant string `path:"grant"` // the id of its key
}

// RevokeGrant ends a program's access. It is refused within a second, on all instances, and its
// streams end.
func (s *Service) RevokeGrant(ctx context.Context, c Caller, in GrantRef) (Grant, error) {
	if err := requireUnrestrictedKey(c); err != nil {
		return Grant{}, err
	}
	k, err := s.Key(ctx, c, KeyRef{in.Grant})
	if e := AsError(err); e != nil && e.Code == problem.NotFound || err == nil && k.Client == "" {
		return Grant{}, problem.New(problem.NotFound, msgNoGrant)
	}
	if err != nil {
		return Grant{}, err
	}
	p, err := s.Hub.Store.OAuth.Client(ctx, k.Client)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return Grant{}, err
	}
	err = s.revoke(ctx, c, &k)
	return Grant{k, grantProgram(&k, p)}, err
}

// OAuthClientList is a list of programs, by name.
type OAuthClientList struct {
	Clients []store.OAuthClient `json:"clients"`
}

// OAuthClients lists the programs that administrators have added for OAuth.
func (s *Service) OAuthClients(ctx context.Context, c Caller, _ struct{}) (OAuthClientList, error) {
	if err := admin(c); err != nil {
		return OAuthClientList{}, err
	}
	list, err := s.Hub.Store.OAuth.Clients(ctx, store.ClientConfigured)
	if list == nil {
		list = []store.OAuthClient{}
	}
	return OAuthClientList{list}, err
}

// NewOAuthClient describes a program that cannot register itself.
type NewOAuthClient struct {
	Name      string   `json:"name"`
	Redirects []string `json:"redirect_uris"`    // where it gets its codes, as it shows them
	Secret    bool     `json:"secret,omitempty"` // it wants a secret
}

// AddedOAuthClient is a new program with its secret, which is returned only here.
type AddedOAuthClient struct {
	store.OAuthClient
	Secret string `json:"client_secret,omitempty"`
}

// AddOAuthClient adds a program that asks for consent under a fixed id. It gets no rights by that.
func (s *Service) AddOAuthClient(ctx context.Context, c Caller, in NewOAuthClient) (AddedOAuthClient, error) {
	if err := requireUnrestrictedAdmin(c); err != nil {
		return AddedOAuthClient{}, err
	}
	in.Name = strings.TrimSpace(in.Name)
	if account.CheckName(in.Name) != nil {
		return AddedOAuthClient{}, problem.New(problem.Invalid, msgKeyName)
	}
	list, err := s.Hub.Store.OAuth.Clients(ctx, store.ClientConfigured)
	if err != nil {
		return AddedOAuthClient{}, err
	}
	if len(list) >= maxConfiguredClients {
		return AddedOAuthClient{}, problem.New(problem.Conflict, msgClientsFull, maxConfiguredClients)
	}
	client, secret, err := s.OAuth.AddClient(ctx, in.Name, in.Redirects, in.Secret)
	if errors.Is(err, oauth.ErrRedirects) {
		return AddedOAuthClient{}, problem.New(problem.Invalid, msgClientRedirect)
	}
	if err != nil {
		return AddedOAuthClient{}, err
	}
	s.RecordAdminEvent(ctx, c, EventClientAdded, client.Name)
	return AddedOAuthClient{client, secret}, nil
}

// OAuthClientRef identifies a program.
type OAuthClientRef struct {
	Client string `path:"client"` // its id
}

// RemoveOAuthClient removes a program, and ends the access of everybody who let it in.
func (s *Service) RemoveOAuthClient(ctx context.Context, c Caller, in OAuthClientRef) (store.OAuthClient, error) {
	if err := requireUnrestrictedAdmin(c); err != nil {
		return store.OAuthClient{}, err
	}
	client, err := s.Hub.Store.OAuth.Client(ctx, in.Client)
	if err == nil && client.Kind != store.ClientConfigured {
		err = store.ErrNotFound
	}
	if err == nil {
		err = s.Hub.Store.OAuth.RemoveClient(ctx, client.ID, time.Now())
	}
	if errors.Is(err, store.ErrNotFound) {
		return store.OAuthClient{}, problem.New(problem.NotFound, msgNoClient)
	}
	if err != nil {
		return store.OAuthClient{}, err
	}
	s.RecordAdminEvent(ctx, c, EventClientRemoved, client.Name)
	return client, nil
}

// ConsentDays are the lifetimes that a person may choose for a program, in days; 0 means until it
// is revoked.
var ConsentDays = []int{0, 30, 1}

// GrantBefore is what a person has let a program in with before.
type GrantBefore struct {
	Rules hub.Rules // of the newest grant that is valid
	Days  int       // its lifetime, as one of [ConsentDays]
	// Asks reports whether calls of dangerous tools wait for an approval with any valid grant.
	Asks bool
}

// GrantBefore returns what the caller has let a program in with; nil if no grant is valid.
func (s *Service) GrantBefore(ctx context.Context, c Caller, client string) (*GrantBefore, error) {
	grants, err := s.validGrants(ctx, c, client)
	if err != nil || len(grants) == 0 {
		return nil, err
	}
	newest := slices.MaxFunc(grants, func(a, b KeyRow) int { return a.Created.Compare(b.Created) })
	return &GrantBefore{Rules: newest.Rules, Days: offeredDays(&newest.Key),
		Asks: slices.ContainsFunc(grants, func(k KeyRow) bool { return k.Rules.Ask != "" })}, nil
}

// validGrants returns the keys that the caller has let a program in with and that are valid.
func (s *Service) validGrants(ctx context.Context, c Caller, client string) ([]KeyRow, error) {
	list, err := s.Hub.Store.Keys.ByPerson(ctx, c.Person)
	if err != nil {
		return nil, err
	}
	var valid []KeyRow
	for _, k := range list {
		row := KeyRow{Key: k}
		if k.Client != client || !row.IsValid() {
			continue
		}
		if row.Rules, err = hub.ParseRules(k.Rules); err != nil {
			return nil, err
		}
		valid = append(valid, row)
	}
	return valid, nil
}

// offeredDays returns the longest lifetime of [ConsentDays] that is not longer than a key's, or the
// shortest.
func offeredDays(k *store.Key) int {
	if k.Expires.IsZero() {
		return 0
	}
	// The expiry may have been rounded down to what the database stores.
	life := int((k.Expires.Sub(k.Created) + time.Minute) / (24 * time.Hour))
	days := slices.Min(slices.DeleteFunc(slices.Clone(ConsentDays), func(d int) bool { return d == 0 }))
	for _, offered := range ConsentDays {
		if offered <= life {
			days = max(days, offered)
		}
	}
	return days
}

// AllowProgram stores the caller's consent to a request, with the rules that they chose, and
// returns the address to send the browser to.
func (s *Service) AllowProgram(r *http.Request, c Caller, q *oauth.Request, rules hub.Rules, days int) (string, error) {
	ctx := r.Context()
	owner, err := s.ownPerson(ctx, c)
	if err != nil {
		return "", err
	}
	if err := s.mayAdd(c); err != nil {
		return "", err
	}
	if days < 0 || days > int(keyLifeMost/(24*time.Hour)) {
		return "", problem.New(problem.Invalid, msgKeyExpires)
	}
	before, err := s.GrantBefore(ctx, c, q.Client)
	if err != nil {
		return "", err
	}
	if before == nil {
		before = new(GrantBefore)
	}
	s.useOriginalNames(owner.ID, before.Rules, &rules)
	want := account.NewKey{Name: q.Program.Name, Scopes: q.Scopes[:1]}
	if err := s.checkKey(ctx, c, owner, &want, rules); err != nil {
		return "", err
	}
	if rules.Ask == "" && len(rules.Dangerous) == 0 {
		q.Scopes = slices.DeleteFunc(slices.Clone(q.Scopes),
			func(scope string) bool { return scope == account.ScopeDangerous })
		// Before the consent: if this fails, the program gets nothing.
		if err := s.stopAsking(ctx, c, q); err != nil {
			return "", err
		}
	}
	to, err := s.OAuth.Allow(r, q, owner.ID, want.Rules, days)
	if err != nil {
		return "", err
	}
	s.RecordAdminEvent(ctx, c, EventOAuthAllowed, AboutProgram(&q.Program, q.RedirectHost))
	return to, nil
}

// stopAsking hides dangerous tools from a program where it was let in before and its calls of them
// wait for an approval. Learn has no such tools, so a consent to it says nothing about them.
func (s *Service) stopAsking(ctx context.Context, c Caller, q *oauth.Request) error {
	if q.Scopes[0] != account.ScopeMCP {
		return nil
	}
	grants, err := s.validGrants(ctx, c, q.Client)
	if err != nil {
		return err
	}
	for _, k := range grants {
		if k.Rules.Ask == "" {
			continue
		}
		k.Rules.Ask = ""
		if _, err := s.ChangeKey(ctx, c, KeyChange{Key: k.ID, Rules: k.Rules, Original: true}); err != nil {
			return err
		}
	}
	return nil
}

// AboutProgram describes a program in admin events: what it says, and what is known.
func AboutProgram(p *store.OAuthClient, redirect string) string {
	about := p.Name
	if host := oauth.VerifiedHost(p); host != "" {
		about += " (" + host + ")"
	}
	return about + " → " + redirect
}

// ProgramEvent records what a program did to its own access.
func (s *Service) ProgramEvent(ctx context.Context, k store.Key, act string) {
	s.RecordAdminEvent(ctx, Caller{Person: k.Person, Key: k.ID, Program: "oauth"}, act, k.Name)
}
