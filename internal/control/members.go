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

// What is in the journal, as [store.AdminEvent] has it: what anybody changes about accounts, keys,
// bots, devices, nodes, tools and records. Calls of tools are in the audit trail.
const (
	EventPersonAdded     = "person.added"
	EventPersonRole      = "person.role"
	EventPersonPassword  = "person.password"
	EventPersonRemoved   = "person.removed"
	EventBackupTaken     = "backup.taken"
	EventBackupStaged    = "backup.staged"
	EventBackupCancelled = "backup.cancelled"
	EventDrained         = "instance.drained"
	EventUndrained       = "instance.undrained"
	EventKeyMade         = "key.made"
	EventKeyRules        = "key.rules"
	EventKeyRevoked      = "key.revoked"
	EventRecordsDeleted  = "records.deleted"
	EventSecretRotated   = "secret.rotated"
	EventSecretForgotten = "secret.forgotten"
	EventSecretLost      = "secret.lost"

	EventSignedIn        = "person.signed_in"
	EventProfile         = "person.profile"
	EventSignInsEnded    = "person.signed_out"
	EventSignInRefused   = "person.refused"
	EventBotAdded        = "bot.added"
	EventBotChanged      = "bot.changed"
	EventBotRemoved      = "bot.removed"
	EventBotToken        = "bot.token"
	EventBotInvited      = "bot.invited"
	EventBotUnbound      = "bot.unbound"
	EventBotDisconnected = "bot.disconnected"
	EventUpstreamAdded   = "upstream.added"
	EventUpstreamChanged = "upstream.changed"
	EventUpstreamToken   = "upstream.token"
	EventUpstreamRemoved = "upstream.removed"
	EventToolRule        = "tool.rule"
	EventDeviceApproved  = "device.approved"
	EventDeviceChanged   = "device.changed"
	EventDeviceRemoved   = "device.removed"
	EventNodeRenamed     = "node.renamed"
	EventNodeRemoved     = "node.removed"
	EventPairApproved    = "pair.approved"
	EventPairRejected    = "pair.rejected"
)

// RecordAdminEvent keeps in the journal of the installation that the caller did something.
func (s *Service) RecordAdminEvent(ctx context.Context, c Caller, act, about string) {
	a := store.AdminEvent{ID: uuid.Must(uuid.NewV7()).String(), At: time.Now(), Person: c.Person, Action: act,
		About: about, Key: c.Key, Address: c.Address, Channel: c.Program}
	p, err := s.Hub.Store.People.ByID(ctx, c.Person)
	if err == nil {
		a.Name = p.Name
	}
	if errors.Is(err, store.ErrNotFound) || err == nil { // the command line is nobody
		err = s.Hub.Store.AdminEvents.Add(ctx, a)
	}
	if err != nil {
		// It has been done, and cannot be undone because nobody could write it down.
		s.Logger.ErrorContext(ctx, "an act was not kept", "act", act, "about", about, "person", c.Person, "error", err)
	}
	s.Logger.InfoContext(ctx, "the installation was changed", "act", act, "about", about, "person", a.Name)
}

// AdminEventsQuery says which acts are wanted: the newest before one.
type AdminEventsQuery struct {
	Before string `query:"before" json:"-"` // the id of an act; empty: from the newest on
	Limit  int    `query:"limit" json:"-"`  // 0: 50
}

// AdminEventPage is the journal, the newest first.
type AdminEventPage struct {
	Events []store.AdminEvent `json:"admin_events"`
	// Next, if it is not empty, is to be asked for as Before for those that follow.
	Next string `json:"next,omitempty"`
}

// maxAdminEvents bounds a list of acts.
const maxAdminEvents = 500

// AdminEvents lists the journal of the installation.
func (s *Service) AdminEvents(ctx context.Context, c Caller, in AdminEventsQuery) (AdminEventPage, error) {
	if err := admin(c); err != nil {
		return AdminEventPage{}, err
	}
	if in.Limit < 1 {
		in.Limit = 50
	}
	in.Limit = min(in.Limit, maxAdminEvents)
	list, err := s.Hub.Store.AdminEvents.Newest(ctx, in.Before, in.Limit+1)
	out := AdminEventPage{Events: list}
	if len(list) > in.Limit {
		out.Events = list[:in.Limit]
		out.Next = list[in.Limit-1].ID
	}
	if out.Events == nil {
		out.Events = []store.AdminEvent{}
	}
	return out, err
}

// People lists who has an account.
func (s *Service) People(ctx context.Context, c Caller, _ Empty) (People, error) {
	if err := admin(c); err != nil {
		return People{}, err
	}
	list, err := s.Hub.Store.People.All(ctx)
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
	p, err := s.Hub.Store.People.ByID(ctx, in.Person)
	if err != nil {
		return Person{}, aboutPerson(err)
	}
	bots, err := s.Hub.Store.Bots.Count(ctx, p.ID)
	if err != nil {
		return Person{}, err
	}
	devices, err := s.Hub.Store.Devices.Count(ctx, p.ID)
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
	if err := requireUnrestrictedAdmin(c); err != nil {
		return AddedPerson{}, err
	}
	if err := checkLifetime(c); err != nil {
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
		made = generatePassword()
		in.Password = made
	}
	p, err := s.Accounts.AddPerson(ctx, in.Name, in.Role, in.Lang, in.Password)
	if err != nil {
		return AddedPerson{}, aboutPerson(err)
	}
	s.RecordAdminEvent(ctx, c, EventPersonAdded, p.Name)
	return AddedPerson{p, made}, nil
}

// generatePassword is one for somebody who is going to choose another.
func generatePassword() string {
	text := seal.NewToken(12)
	return text[:4] + "-" + text[4:8] + "-" + text[8:12]
}

// PersonChange is what is changed about somebody by who runs the installation.
type PersonChange struct {
	PersonRef
	Role string `json:"role"` // admin or member
}

// ChangePerson gives somebody another role.
func (s *Service) ChangePerson(ctx context.Context, c Caller, in PersonChange) (Person, error) {
	if err := requireUnrestrictedAdmin(c); err != nil {
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
	s.RecordAdminEvent(ctx, c, EventPersonRole, was.Name+": "+was.Role+" → "+in.Role)
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
	if err := requireUnrestrictedAdmin(c); err != nil {
		return AddedPerson{}, err
	}
	if err := checkLifetime(c); err != nil {
		return AddedPerson{}, err
	}
	p, err := s.Member(ctx, c, in.PersonRef)
	if err != nil {
		return AddedPerson{}, err
	}
	made := ""
	if in.Password == "" {
		made = generatePassword()
		in.Password = made
	}
	if err := account.CheckPassword(in.Password); err != nil {
		return AddedPerson{}, said(Invalid, err)
	}
	if err := s.Accounts.SetPassword(ctx, p.ID, in.Password); err != nil {
		return AddedPerson{}, aboutPerson(err)
	}
	s.RecordAdminEvent(ctx, c, EventPersonPassword, p.Name)
	return AddedPerson{p.Person, made}, nil
}

// RemovedPerson is somebody to be removed.
type RemovedPerson struct {
	PersonRef
	// Name is theirs, typed by whoever removes them, to be sure who it is.
	Name string `query:"name" json:"-"`
}

// RemovePerson closes an account, with everything that is theirs: bots, devices, keys,
// tool servers, knowledge points, records.
func (s *Service) RemovePerson(ctx context.Context, c Caller, in RemovedPerson) (Done, error) {
	if err := requireUnrestrictedAdmin(c); err != nil {
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
	bots, err := s.Hub.Store.Bots.ByOwner(ctx, p.ID)
	if err != nil {
		return Done{}, err
	}
	s.Hub.WaitForCallRecords(ctx) // calls that are recorded later would stay
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
	s.RecordAdminEvent(ctx, c, EventPersonRemoved, p.Name)
	return Done{true}, nil
}
