package control

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"

	"patchbay/internal/account"
	"patchbay/internal/hub"
	"patchbay/internal/i18n"
	"patchbay/internal/problem"
	"patchbay/internal/seal"
	"patchbay/internal/store"
)

// Actions of [store.AdminEvent]: changes of accounts, keys, bots, devices, nodes, tools and
// records. Calls of tools are in the audit trail.
const (
	EventPersonAdded     = "person.added"
	EventPersonRole      = "person.role"
	EventPersonPassword  = "person.password"
	EventPersonLimits    = "person.limits"
	EventPersonPaused    = "person.paused"
	EventPersonResumed   = "person.resumed"
	EventPersonInvited   = "person.invited"
	EventPersonUninvited = "person.uninvited"
	EventPersonWelcomed  = "person.welcomed"
	EventPersonRemoved   = "person.removed"
	EventBackupTaken     = "backup.taken"
	EventBackupStaged    = "backup.staged"
	EventBackupCancelled = "backup.cancelled"
	EventDrained         = "instance.drained"
	EventUndrained       = "instance.undrained"
	EventKeyMade         = "key.made"
	EventKeyRules        = "key.rules"
	EventKeyRevoked      = "key.revoked"
	EventCallApproved    = hub.EventCallApproved
	EventCallDenied      = hub.EventCallDenied
	EventOAuthAllowed    = "oauth.allowed"
	EventOAuthReused     = "oauth.reused"
	EventOAuthGivenUp    = "oauth.given_up"
	EventClientAdded     = "oauth.client_added"
	EventClientRemoved   = "oauth.client_removed"
	EventRecordsDeleted  = "records.deleted"
	EventSecretRotated   = "secret.rotated"

	EventCertificateIssued  = "certificate.issued"
	EventCertificateRenewed = "certificate.renewed"
	EventCertificateFailed  = "certificate.failed"

	EventSecretForgotten = "secret.forgotten"
	EventSecretLost      = "secret.lost"

	EventSignedIn           = "person.signed_in"
	EventProfile            = "person.profile"
	EventSignInsEnded       = "person.signed_out"
	EventSignInRefused      = "person.refused"
	EventProviderRefused    = "person.provider_refused"
	EventLinked             = "person.linked"
	EventUnlinked           = "person.unlinked"
	EventAppAdded           = "person.authenticator_added"
	EventAppRemoved         = "person.authenticator_removed"
	EventPasskeyAdded       = "person.passkey_added"
	EventPasskeyRemoved     = "person.passkey_removed"
	EventSecondStepsRemoved = "person.second_steps_removed"
	EventRecoveryCodes      = "person.recovery_codes"
	EventBotAdded           = "bot.added"
	EventBotChanged         = "bot.changed"
	EventBotRemoved         = "bot.removed"
	EventBotToken           = "bot.token"
	EventBotInvited         = "bot.invited"
	EventBotUnbound         = "bot.unbound"
	EventBotShared          = "bot.shared"
	EventBotUnshared        = "bot.unshared"
	EventUpstreamAdded      = "upstream.added"
	EventUpstreamChanged    = "upstream.changed"
	EventPinsChanged        = "upstream.tools_changed"
	EventPinsApproved       = "upstream.tools_approved"
	EventUpstreamToken      = "upstream.token"
	EventUpstreamSigningIn  = "upstream.signing_in"
	EventUpstreamSignedIn   = "upstream.signed_in"
	EventUpstreamSignedOut  = "upstream.signed_out"
	EventUpstreamShared     = "upstream.shared"
	EventUpstreamUnshared   = "upstream.unshared"
	EventUpstreamRemoved    = "upstream.removed"
	EventEngineAdded        = "engine.added"
	EventEngineChanged      = "engine.changed"
	EventEngineRemoved      = "engine.removed"
	EventToolSet            = "tool.set"
	EventToolRule           = "tool.rule"
	EventToolWords          = "tool.words"
	EventDeviceApproved     = "device.approved"
	EventDeviceChanged      = "device.changed"
	EventDeviceVoice        = "device.voice"
	EventDeviceRecording    = "device.recording"
	EventRecordingsRead     = "recordings.exported"
	EventRecordingsGone     = "recordings.deleted"
	EventDeviceRemoved      = "device.removed"
	EventNodeRenamed        = "node.renamed"
	EventNodeRemoved        = "node.removed"
	EventNodePolicy         = "node.policy"
	EventPairApproved       = "pair.approved"
	EventPairRejected       = "pair.rejected"
	EventPairInvited        = "pair.invited"
	EventPairCancelled      = "pair.cancelled"
	EventPairRevoked        = "pair.revoked"
)

// RecordAdminEvent records an action of the caller as an admin event.
func (s *Service) RecordAdminEvent(ctx context.Context, c Caller, act, about string) {
	a := store.AdminEvent{ID: uuid.Must(uuid.NewV7()).String(), At: time.Now(), Person: c.Person, Action: act,
		About: about, Key: c.Key, Address: c.Address, Channel: c.Program}
	p, err := s.Hub.Store.People.ByID(ctx, c.Person)
	if err == nil {
		a.Name = p.Name
	}
	if errors.Is(err, store.ErrNotFound) || err == nil { // the command line has no account
		err = s.Hub.Store.AdminEvents.Add(ctx, a)
	}
	if err != nil {
		// The change is done, and cannot be undone because its record failed.
		s.Logger.ErrorContext(ctx, "an act was not kept", "act", act, "about", about, "person", c.Person, "error", err)
	}
	s.Logger.InfoContext(ctx, "the installation was changed", "act", act, "about", about, "person", a.Name)
}

// AdminEventsQuery selects admin events.
type AdminEventsQuery struct {
	Before string `query:"before" json:"-"` // the id of an event; empty: from the newest on
	Limit  int    `query:"limit" json:"-"`  // 0: 50
}

// AdminEventPage is a page of admin events, newest first.
type AdminEventPage struct {
	Events []store.AdminEvent `json:"admin_events"`
	// Next is the value of Before for the next page; empty on the last page.
	Next string `json:"next,omitempty"`
}

// maxAdminEvents bounds a page of admin events.
const maxAdminEvents = 500

// AdminEvents lists the admin events of the installation.
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

// People lists the accounts.
func (s *Service) People(ctx context.Context, c Caller, _ Empty) (People, error) {
	if err := admin(c); err != nil {
		return People{}, err
	}
	list, err := s.Hub.Store.People.All(ctx)
	if err != nil {
		return People{}, err
	}
	out, err := s.withSignIns(ctx, list...)
	if err != nil {
		return People{}, err
	}
	return People{People: out}, s.addCounts(ctx, out)
}

// AllPeople lists the accounts without what else [Service.People] reads, as for their names.
func (s *Service) AllPeople(ctx context.Context, c Caller) ([]store.Person, error) {
	if err := admin(c); err != nil {
		return nil, err
	}
	return s.Hub.Store.People.All(ctx)
}

// addCounts adds to accounts what belongs to them, and what they asked today.
func (s *Service) addCounts(ctx context.Context, people []Person) error {
	now := time.Now()
	invited, err := s.Hub.Store.Invitations.Open(ctx, now)
	if err != nil {
		return err
	}
	bots, err := s.Hub.Store.Bots.Counts(ctx)
	if err != nil {
		return err
	}
	devices, err := s.Hub.Store.Devices.Counts(ctx)
	if err != nil {
		return err
	}
	// Where a person is, today can be yesterday.
	asked, err := s.Hub.Store.People.EveryQuestionsAsked(ctx, now.Add(-24*time.Hour).UTC().Format(time.DateOnly))
	for i := range people {
		p := &people[i]
		p.Invited, p.Bots, p.Devices = invited[p.ID].Expires, bots[p.ID], devices[p.ID]
		if d := asked[p.ID]; p.Limits.Questions > 0 && d.Day >= hub.Today(p.Person, now) {
			p.Asked = d.Asked
		}
	}
	return err
}

// PersonRef identifies a person by id.
type PersonRef struct {
	Person string `path:"person" json:"-"`
}

// Member is an account with the number of things that belong to it.
func (s *Service) Member(ctx context.Context, c Caller, in PersonRef) (Person, error) {
	if err := admin(c); err != nil {
		return Person{}, err
	}
	p, err := s.Hub.Store.People.ByID(ctx, in.Person)
	if err != nil {
		return Person{}, aboutPerson(err)
	}
	list, err := s.withSignIns(ctx, p)
	if err != nil {
		return Person{}, err
	}
	if err := s.addCounts(ctx, list); err != nil {
		return Person{}, err
	}
	out := list[0]
	out.MayAsk, err = s.personBots(ctx, p)
	out.MayAsk = slices.DeleteFunc(out.MayAsk, func(b PersonBot) bool { return !b.Shared })
	return out, err
}

// NewPerson describes an account to create.
type NewPerson struct {
	Name string `json:"name"`
	Role string `json:"role,omitempty"` // admin or member; empty: member
	Lang string `json:"lang,omitempty"` // zh or en; empty: the caller's
	// Password is the first password. If it is empty, one is generated and returned once, unless
	// NoPassword is set: then the person cannot sign in, but has bots and keys.
	Password   string `json:"password,omitempty"`
	NoPassword bool   `json:"no_password,omitempty"`
	// Invite makes a link with which the person chooses a password, instead of a password.
	Invite bool `json:"invite,omitempty"`
	// Limits are what the person may do, and Bots those of administrators that the person may ask,
	// by number or name.
	Limits store.PersonLimits `json:"limits,omitzero"`
	Bots   []string           `json:"bots,omitempty"`
}

// AddedPerson is an account that was created.
type AddedPerson struct {
	store.Person
	// Password is the generated password, which is not stored and cannot be returned again.
	Password string `json:"password,omitempty"`
	// Invitation is the link with which the person chooses one; nil: there is none.
	Invitation *PersonInvitation `json:"invitation,omitempty"`
}

// AddPerson creates an account. If its limits, bots or invitation fail, it stays without them, and
// the error says so.
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
	if !i18n.IsLanguage(i18n.Lang(in.Lang)) {
		return AddedPerson{}, noLang(in.Lang)
	}
	// An account that could not be limited would have no limits.
	if err := checkLimits(in.Role, in.Limits); err != nil {
		return AddedPerson{}, err
	}
	if _, err := s.botsToShare(ctx, c, store.Person{}, in.Bots); err != nil {
		return AddedPerson{}, err
	}
	made := ""
	if in.Password == "" && !in.NoPassword && !in.Invite {
		made = generatePassword()
		in.Password = made
	}
	p, err := s.Accounts.AddPerson(ctx, in.Name, in.Role, in.Lang, in.Password)
	if err != nil {
		return AddedPerson{}, aboutPerson(err)
	}
	s.RecordAdminEvent(ctx, c, EventPersonAdded, p.Name)
	out := AddedPerson{Person: p, Password: made}
	if !in.Limits.IsZero() {
		err = s.setLimits(ctx, c, p, in.Limits)
	}
	if err == nil && len(in.Bots) > 0 {
		err = s.setPersonBots(ctx, c, p, in.Bots)
	}
	if err == nil && in.Invite {
		var link PersonInvitation
		link, err = s.invite(ctx, c, p)
		out.Invitation = &link
	}
	return out, err
}

// generatePassword returns a password for somebody who will replace it.
func generatePassword() string {
	text := seal.NewToken(12)
	return text[:4] + "-" + text[4:8] + "-" + text[8:12]
}

// PersonChange changes what somebody may do. Missing fields stay.
type PersonChange struct {
	PersonRef
	Role   string              `json:"role,omitempty"`   // admin or member
	Paused *bool               `json:"paused,omitempty"` // refuse the person, their programs and devices
	Limits *store.PersonLimits `json:"limits,omitempty"`
	// Bots are those bots of administrators that the person may ask, besides those that are shared
	// with everybody, by number or name.
	Bots *[]string `json:"bots,omitempty"`
}

// ChangePerson changes what somebody may do. An administrator has no limits.
func (s *Service) ChangePerson(ctx context.Context, c Caller, in PersonChange) (Person, error) {
	if err := requireUnrestrictedAdmin(c); err != nil {
		return Person{}, err
	}
	was, err := s.Member(ctx, c, in.PersonRef)
	if err != nil {
		return Person{}, err
	}
	if in.Role != "" {
		if err := s.setRole(ctx, c, &was.Person, in.Role); err != nil {
			return Person{}, err
		}
	}
	if in.Limits != nil {
		if err := s.setLimits(ctx, c, was.Person, *in.Limits); err != nil {
			return Person{}, err
		}
	}
	if in.Bots != nil {
		if err := s.setPersonBots(ctx, c, was.Person, *in.Bots); err != nil {
			return Person{}, err
		}
	}
	if in.Paused != nil && *in.Paused == was.Paused.IsZero() {
		if err := s.setPaused(ctx, c, was.Person, *in.Paused); err != nil {
			return Person{}, err
		}
	}
	if was.ID == c.Person && was.Role != account.RoleAdmin {
		return was, nil // who is no admin any more sees no accounts
	}
	return s.Member(ctx, c, in.PersonRef)
}

// setRole changes somebody's role. A new administrator has no limits.
func (s *Service) setRole(ctx context.Context, c Caller, p *store.Person, role string) error {
	if role != account.RoleAdmin && role != account.RoleMember {
		return problem.New(problem.Invalid, msgNoRole)
	}
	if role == p.Role {
		return nil
	}
	if err := aboutPerson(s.Accounts.SetRole(ctx, p.ID, role)); err != nil {
		return err
	}
	s.RecordAdminEvent(ctx, c, EventPersonRole, p.Name+": "+p.Role+" → "+role)
	if p.Role = role; role == account.RoleAdmin && !p.Limits.IsZero() {
		p.Limits = store.PersonLimits{}
		return s.setLimits(ctx, c, *p, p.Limits)
	}
	return nil
}

const msgNoRole = i18n.Message("A role is admin or member.")

// PersonPassword sets a password.
type PersonPassword struct {
	PersonRef
	Password string `json:"password,omitempty"` // empty: one is generated and returned once
}

// SetPersonPassword sets somebody's password and ends all their sign-ins.
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
		return AddedPerson{}, InputProblem(problem.Invalid, err)
	}
	if err := s.Accounts.SetPassword(ctx, p.ID, in.Password); err != nil {
		return AddedPerson{}, aboutPerson(err)
	}
	s.RecordAdminEvent(ctx, c, EventPersonPassword, p.Name)
	return AddedPerson{Person: p.Person, Password: made}, nil
}

// RemovedPerson identifies an account to remove.
type RemovedPerson struct {
	PersonRef
	// Name is the name of the account, as a confirmation.
	Name string `query:"name" json:"-"`
}

// RemovePerson removes an account and all its data: bots, devices, keys, upstreams, knowledge
// points, records.
func (s *Service) RemovePerson(ctx context.Context, c Caller, in RemovedPerson) (Done, error) {
	if err := requireUnrestrictedAdmin(c); err != nil {
		return Done{}, err
	}
	p, err := s.Member(ctx, c, in.PersonRef)
	if err != nil {
		return Done{}, err
	}
	if p.ID == c.Person {
		return Done{}, problem.New(problem.Conflict, msgNotSelf)
	}
	if in.Name != p.Name {
		return Done{}, problem.New(problem.Invalid, msgTypeName, p.Name)
	}
	bots, err := s.Hub.Store.Bots.ByOwner(ctx, p.ID)
	if err != nil {
		return Done{}, err
	}
	s.Hub.WaitForCallRecords(ctx) // calls that are recorded later would stay
	if err := aboutPerson(s.Accounts.RemovePerson(ctx, p.ID)); err != nil {
		return Done{}, err
	}
	// The owners of tools, devices and nodes notice the removal; connections of bots are closed
	// here.
	for _, b := range bots {
		if s.Disconnect != nil {
			s.Disconnect(b.Number)
		}
	}
	s.RecordAdminEvent(ctx, c, EventPersonRemoved, p.Name)
	return Done{true}, nil
}
