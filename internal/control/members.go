package control

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"patchbay/internal/account"
	"patchbay/internal/seal"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// What is in the journal, as [store.Act] has it: what anybody changes about accounts, keys,
// bots, devices, nodes, tools and records. Calls of tools are in the audit trail.
const (
	ActPersonAdded     = "person.added"
	ActPersonRole      = "person.role"
	ActPersonPassword  = "person.password"
	ActPersonRemoved   = "person.removed"
	ActBackupTaken     = "backup.taken"
	ActBackupStaged    = "backup.staged"
	ActBackupCancelled = "backup.cancelled"
	ActDrained         = "instance.drained"
	ActUndrained       = "instance.undrained"
	ActKeyMade         = "key.made"
	ActKeyRules        = "key.rules"
	ActKeyRevoked      = "key.revoked"
	ActRecordsDeleted  = "records.deleted"
	ActSecretRotated   = "secret.rotated"
	ActSecretForgotten = "secret.forgotten"
	ActSecretLost      = "secret.lost"

	ActSignedIn        = "person.signed_in"
	ActProfile         = "person.profile"
	ActSignInsEnded    = "person.signed_out"
	ActSignInRefused   = "person.refused"
	ActBotAdded        = "bot.added"
	ActBotChanged      = "bot.changed"
	ActBotRemoved      = "bot.removed"
	ActBotToken        = "bot.token"
	ActBotInvited      = "bot.invited"
	ActBotUnbound      = "bot.unbound"
	ActBotDisconnected = "bot.disconnected"
	ActUpstreamAdded   = "upstream.added"
	ActUpstreamChanged = "upstream.changed"
	ActUpstreamToken   = "upstream.token"
	ActUpstreamRemoved = "upstream.removed"
	ActToolRule        = "tool.rule"
	ActDeviceApproved  = "device.approved"
	ActDeviceChanged   = "device.changed"
	ActDeviceRemoved   = "device.removed"
	ActNodeRenamed     = "node.renamed"
	ActNodeRemoved     = "node.removed"
	ActPairApproved    = "pair.approved"
	ActPairRejected    = "pair.rejected"
)

// Note keeps in the journal of the installation that the caller did something.
func (s *Service) Note(ctx context.Context, c Caller, act, about string) {
	a := store.Act{ID: uuid.Must(uuid.NewV7()).String(), At: time.Now(), Person: c.Person, Act: act, About: about, Key: c.Key, Address: c.Address, Door: c.Program}
	p, err := s.Board.Store.People.ByID(ctx, c.Person)
	if err == nil {
		a.Name = p.Name
	}
	if errors.Is(err, store.ErrNotFound) || err == nil { // the command line is nobody
		err = s.Board.Store.Acts.Add(ctx, a)
	}
	if err != nil {
		// It has been done, and cannot be undone because nobody could write it down.
		s.Logger.ErrorContext(ctx, "an act was not kept", "act", act, "about", about, "person", c.Person, "error", err)
	}
	s.Logger.InfoContext(ctx, "the installation was changed", "act", act, "about", about, "person", a.Name)
}

// ActsWanted says which acts are wanted: the newest before one.
type ActsWanted struct {
	Before string `query:"before" json:"-"` // the id of an act; empty: from the newest on
	Limit  int    `query:"limit" json:"-"`  // 0: 50
}

// Acts is the journal, the newest first.
type Acts struct {
	Acts []store.Act `json:"acts"`
	// Next, if it is not empty, is to be asked for as Before for those that follow.
	Next string `json:"next,omitempty"`
}

// actsMost bounds a list of acts.
const actsMost = 500

// Acts lists the journal of the installation.
func (s *Service) Acts(ctx context.Context, c Caller, in ActsWanted) (Acts, error) {
	if err := admin(c); err != nil {
		return Acts{}, err
	}
	if in.Limit < 1 {
		in.Limit = 50
	}
	in.Limit = min(in.Limit, actsMost)
	list, err := s.Board.Store.Acts.Newest(ctx, in.Before, in.Limit+1)
	out := Acts{Acts: list}
	if len(list) > in.Limit {
		out.Acts = list[:in.Limit]
		out.Next = list[in.Limit-1].ID
	}
	if out.Acts == nil {
		out.Acts = []store.Act{}
	}
	return out, err
}

// People lists who has an account.
func (s *Service) People(ctx context.Context, c Caller, _ None) (People, error) {
	if err := admin(c); err != nil {
		return People{}, err
	}
	list, err := s.Board.Store.People.All(ctx)
	out := People{People: make([]Person, len(list))}
	for i, p := range list {
		out.People[i] = Person{Person: p, HasPassword: p.Password != ""}
	}
	return out, err
}

// PersonRef names a person, by id.
type PersonRef struct {
	Person string `path:"person" json:"-"`
}

// Member is somebody with an account, and how much is theirs.
func (s *Service) Member(ctx context.Context, c Caller, in PersonRef) (Person, error) {
	if err := admin(c); err != nil {
		return Person{}, err
	}
	p, err := s.Board.Store.People.ByID(ctx, in.Person)
	if err != nil {
		return Person{}, aboutPerson(err)
	}
	bots, err := s.Board.Store.Bots.Count(ctx, p.ID)
	if err != nil {
		return Person{}, err
	}
	devices, err := s.Board.Store.Devices.Count(ctx, p.ID)
	return Person{Person: p, HasPassword: p.Password != "", Bots: bots, Devices: devices}, err
}

// NewPerson is an account to be opened.
type NewPerson struct {
	Name string `json:"name"`
	Role string `json:"role,omitempty"` // admin or member; empty: member
	Lang string `json:"lang,omitempty"` // zh or en; empty: the caller's
	// Password is what they sign in with first; empty: one is made, and told once.
	Password string `json:"password,omitempty"`
}

// AddedPerson is an account that was opened.
type AddedPerson struct {
	store.Person
	// Password was made here; it is not kept and cannot be told again.
	Password string `json:"password,omitempty"`
}

// AddPerson opens an account.
func (s *Service) AddPerson(ctx context.Context, c Caller, in NewPerson) (AddedPerson, error) {
	if err := adminWide(c); err != nil {
		return AddedPerson{}, err
	}
	if err := lasting(c); err != nil {
		return AddedPerson{}, err
	}
	if in.Role == "" {
		in.Role = account.RoleMember
	}
	if in.Lang == "" {
		in.Lang = string(c.Lang)
	}
	if in.Lang != string(talk.Chinese) && in.Lang != string(talk.English) {
		return AddedPerson{}, Fail(Invalid, sayNoLang)
	}
	made := ""
	if in.Password == "" {
		made = madePassword()
		in.Password = made
	}
	p, err := s.Accounts.AddPerson(ctx, in.Name, in.Role, in.Lang, in.Password)
	if err != nil {
		return AddedPerson{}, aboutPerson(err)
	}
	s.Note(ctx, c, ActPersonAdded, p.Name)
	return AddedPerson{p, made}, nil
}

// madePassword is one for somebody who is going to choose another.
func madePassword() string {
	text := seal.Token(12)
	return text[:4] + "-" + text[4:8] + "-" + text[8:12]
}

// PersonChange is what is changed about somebody by who runs the installation.
type PersonChange struct {
	PersonRef
	Role string `json:"role"` // admin or member
}

// ChangePerson gives somebody another role.
func (s *Service) ChangePerson(ctx context.Context, c Caller, in PersonChange) (Person, error) {
	if err := adminWide(c); err != nil {
		return Person{}, err
	}
	was, err := s.Member(ctx, c, in.PersonRef)
	if err != nil {
		return Person{}, err
	}
	if in.Role != account.RoleAdmin && in.Role != account.RoleMember {
		return Person{}, Fail(Invalid, sayNoRole)
	}
	if in.Role == was.Role {
		return was, nil
	}
	if err := aboutPerson(s.Accounts.SetRole(ctx, was.ID, in.Role)); err != nil {
		return Person{}, err
	}
	s.Note(ctx, c, ActPersonRole, was.Name+": "+was.Role+" → "+in.Role)
	was.Role = in.Role
	return was, nil
}

var sayNoRole = talk.Say{Zh: "角色是 admin 或 member。", En: "A role is admin or member."}

// PersonPassword is another password for somebody.
type PersonPassword struct {
	PersonRef
	Password string `json:"password,omitempty"` // empty: one is made, and told once
}

// SetPersonPassword gives somebody another password, and signs them out everywhere.
func (s *Service) SetPersonPassword(ctx context.Context, c Caller, in PersonPassword) (AddedPerson, error) {
	if err := adminWide(c); err != nil {
		return AddedPerson{}, err
	}
	if err := lasting(c); err != nil {
		return AddedPerson{}, err
	}
	p, err := s.Member(ctx, c, in.PersonRef)
	if err != nil {
		return AddedPerson{}, err
	}
	made := ""
	if in.Password == "" {
		made = madePassword()
		in.Password = made
	}
	if err := account.CheckPassword(in.Password); err != nil {
		return AddedPerson{}, said(Invalid, err)
	}
	if err := s.Accounts.SetPassword(ctx, p.ID, in.Password); err != nil {
		return AddedPerson{}, aboutPerson(err)
	}
	s.Note(ctx, c, ActPersonPassword, p.Name)
	return AddedPerson{p.Person, made}, nil
}

// PersonGone is somebody to be removed.
type PersonGone struct {
	PersonRef
	// Name is theirs, typed by whoever removes them, to be sure who it is.
	Name string `query:"name" json:"-"`
}

// RemovePerson closes an account, with everything that is theirs: bots, devices, keys,
// tool servers, knowledge points, records.
func (s *Service) RemovePerson(ctx context.Context, c Caller, in PersonGone) (Done, error) {
	if err := adminWide(c); err != nil {
		return Done{}, err
	}
	p, err := s.Member(ctx, c, in.PersonRef)
	if err != nil {
		return Done{}, err
	}
	if p.ID == c.Person {
		return Done{}, Fail(Conflict, sayNotSelf)
	}
	if in.Name != p.Name {
		return Done{}, Fail(Invalid, sayTypeName, p.Name)
	}
	bots, err := s.Board.Store.Bots.ByOwner(ctx, p.ID)
	if err != nil {
		return Done{}, err
	}
	s.Board.Settle(ctx) // calls that are recorded later would stay
	if err := aboutPerson(s.Accounts.RemovePerson(ctx, p.ID)); err != nil {
		return Done{}, err
	}
	// Tools, devices and nodes are found gone by those who run them; bots' connections
	// are not looked for.
	for _, b := range bots {
		if s.Disconnect != nil {
			s.Disconnect(b.Number)
		}
	}
	s.Note(ctx, c, ActPersonRemoved, p.Name)
	return Done{true}, nil
}
