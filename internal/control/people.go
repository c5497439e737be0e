package control

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/hub"
	"patchbay/internal/i18n"
	"patchbay/internal/problem"
	"patchbay/internal/seal"
	"patchbay/internal/store"
)

const (
	msgAdminOnly     = i18n.Message("Only those who run the installation may do that.")
	msgWholeKey      = i18n.Message("This key is good for one bot only.")
	msgNoAccount     = i18n.Message("The command line has no account.")
	msgNoPerson      = i18n.Message("There is no such person.")
	msgLastAdmin     = i18n.Message("Somebody has to run the installation; make somebody else an administrator first.")
	msgNameTaken     = i18n.Message("Somebody else has this name.")
	msgNoZone        = i18n.Message("There is no such time zone. They are written like Asia/Shanghai or Europe/Berlin.")
	msgNoLang        = i18n.Message("There is no language %q; there are %s.")
	msgOldPassword   = i18n.Message("The old password is wrong.")
	msgManyPasswords = i18n.Message("Too many tries; wait ten minutes and try again.")
	msgPasswordsBusy = i18n.Message("Too many passwords are being checked now; try again in a few seconds.")
	msgTypeName      = i18n.Message("To remove %s, type exactly that name.")
	msgNotSelf       = i18n.Message("You cannot remove yourself; another administrator can.")
	msgForWhom       = i18n.Message("there are %d people; say for whom (user, or --user NAME)")
	msgNoUser        = i18n.Message("there is no user %q; patchbay user list lists the users")
	msgNobodyYet     = i18n.Message("there is nobody yet; begin with: patchbay user add NAME")
	msgNamesOthers   = i18n.Message("a key with scope admin is needed to name somebody else")
	msgNoSignIn      = i18n.Message("There is no such sign-in; it may have ended already.")
)

// Person is an account, as admins see it.
type Person struct {
	store.Person
	HasPassword bool `json:"has_password"`
	Linked      bool `json:"linked"` // to somebody of an OpenID provider
	// With an authenticator app or passkeys, the password is not enough.
	Authenticator bool `json:"authenticator"`
	Passkeys      int  `json:"passkeys"`
	Bots          int  `json:"bots"`
	Devices       int  `json:"devices"`
	// Invited is until when the person can choose a password with a link; zero: there is no link.
	Invited time.Time `json:"invited_until,omitzero"`
	// Asked is how many questions they have asked today, if these are limited.
	Asked int `json:"asked_today,omitempty"`
	// MayAsk are the bots of administrators that they may ask; only for one account.
	MayAsk []PersonBot `json:"may_ask,omitempty"`
}

// People is a list of accounts.
type People struct {
	People []Person `json:"people"`
}

// Empty is the input of operations that have none.
type Empty struct{}

// admin refuses callers that are not admins.
func admin(c Caller) error {
	if !c.Admin {
		return problem.New(problem.Denied, msgAdminOnly)
	}
	return nil
}

// ownPerson returns the id of the caller's own account.
func (s *Service) ownPerson(ctx context.Context, c Caller) (store.Person, error) {
	switch {
	case c.Person == "":
		return store.Person{}, problem.New(problem.NotFound, msgNoAccount)
	case c.Only != 0:
		return store.Person{}, problem.New(problem.Denied, msgWholeKey)
	}
	return s.Hub.Store.People.ByID(ctx, c.Person)
}

// aboutPerson converts an error of the accounts about input.
func aboutPerson(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, account.ErrLastAdmin):
		return problem.New(problem.Conflict, msgLastAdmin)
	case errors.Is(err, account.ErrPersonName):
		return problem.New(problem.Conflict, msgNameTaken)
	case errors.Is(err, account.ErrTries):
		return problem.New(problem.RateLimited, msgManyPasswords)
	case errors.Is(err, account.ErrBusy):
		return problem.New(problem.RateLimited, msgPasswordsBusy)
	case errors.Is(err, account.ErrZone):
		return problem.New(problem.Invalid, msgNoZone)
	case errors.Is(err, store.ErrNotFound):
		return problem.New(problem.NotFound, msgNoPerson)
	}
	if errors.Is(err, account.ErrNameAlike) {
		return InputProblem(problem.Conflict, err)
	}
	if _, ok := errors.AsType[*i18n.Error](err); ok {
		return InputProblem(problem.Invalid, err)
	}
	return err
}

// Me returns the account of the caller.
func (s *Service) Me(ctx context.Context, c Caller, _ Empty) (Person, error) {
	p, err := s.ownPerson(ctx, c)
	if err != nil {
		return Person{}, err
	}
	list, err := s.withSignIns(ctx, p)
	if err == nil && p.Limits.Questions > 0 {
		list[0].Asked, err = s.Hub.Store.People.QuestionsAsked(ctx, p.ID, hub.Today(p, time.Now()))
	}
	return list[0], err
}

// withSignIns adds how people can sign in.
func (s *Service) withSignIns(ctx context.Context, people ...store.Person) ([]Person, error) {
	out := make([]Person, len(people))
	person := ""
	if len(people) == 1 {
		person = people[0].ID
	}
	links, err := s.Accounts.Linked(ctx, person)
	if err != nil {
		return out, err
	}
	steps, err := s.Accounts.EverySecondStep(ctx, person)
	for i, p := range people {
		out[i] = Person{Person: p, HasPassword: p.Password != "", Linked: isLinked(links, p),
			Authenticator: steps[p.ID].App, Passkeys: steps[p.ID].Passkeys}
	}
	return out, err
}

// MeChange changes the caller's account; nil fields stay.
type MeChange struct {
	Name *string `json:"name,omitempty"`
	Lang *string `json:"lang,omitempty"` // code of a language, such as en
	Zone *string `json:"zone,omitempty"` // IANA name; empty: the server's
}

// ChangeMe changes the caller's name, language or time zone.
func (s *Service) ChangeMe(ctx context.Context, c Caller, in MeChange) (Person, error) {
	p, err := s.ownPerson(ctx, c)
	if err != nil {
		return Person{}, err
	}
	if in.Name != nil {
		p.Name = strings.TrimSpace(*in.Name)
	}
	if in.Lang != nil {
		p.Lang = *in.Lang
	}
	if in.Zone != nil {
		p.Zone = strings.TrimSpace(*in.Zone)
	}
	if in.Lang != nil && !i18n.IsLanguage(i18n.Lang(p.Lang)) {
		return Person{}, noLang(p.Lang)
	}
	if err := account.CheckName(p.Name); err != nil {
		return Person{}, InputProblem(problem.Invalid, err)
	}
	if err := aboutPerson(s.Accounts.SetProfile(ctx, p)); err != nil {
		return Person{}, err
	}
	s.RecordAdminEvent(ctx, c, EventProfile, p.Name)
	return s.Me(ctx, c, Empty{})
}

// PasswordChange sets a new password, given the old one.
type PasswordChange struct {
	Old string `json:"old"`
	New string `json:"new"`
	// Keep identifies the sign-in that does not end.
	Keep string `json:"-"`
}

// Changed is the result of a [PasswordChange].
type Changed struct {
	Changed bool `json:"changed"`
	// Token is the new token of the browser whose sign-in was kept.
	Token string `json:"-"`
}

// ChangePassword sets the caller's password, and ends all other sign-ins.
func (s *Service) ChangePassword(ctx context.Context, c Caller, in PasswordChange) (Changed, error) {
	p, err := s.ownPerson(ctx, c)
	if err != nil {
		return Changed{}, err
	}
	token, err := s.Accounts.ChangePassword(ctx, p.ID, in.Old, in.New, in.Keep)
	if errors.Is(err, account.ErrPassword) {
		return Changed{}, problem.New(problem.Denied, msgOldPassword)
	}
	if err == nil {
		s.RecordAdminEvent(ctx, c, EventPersonPassword, p.Name)
	}
	return Changed{err == nil, token}, aboutPerson(err)
}

// SignIn is a browser's session. ID identifies it; it is not the secret that the browser sends.
type SignIn struct {
	ID      string    `json:"id"`
	Agent   string    `json:"agent"`
	Address string    `json:"address"`
	Created time.Time `json:"created_at"`
	Seen    time.Time `json:"seen_at"`
	key     string
}

// IsCurrent reports whether it has the given id of the store.
func (x SignIn) IsCurrent(id string) bool { return x.key == id }

// SignIns are the sign-ins of a person.
type SignIns struct {
	SignIns []SignIn `json:"sign_ins"`
}

// SignIns lists the caller's sign-ins, the last used first.
func (s *Service) SignIns(ctx context.Context, c Caller, _ Empty) (SignIns, error) {
	p, err := s.ownPerson(ctx, c)
	if err != nil {
		return SignIns{}, err
	}
	list, err := s.Accounts.SignIns(ctx, p.ID)
	out := SignIns{SignIns: make([]SignIn, len(list))}
	for i, x := range list {
		out.SignIns[i] = SignIn{ID: seal.Hash("sign-in " + x.ID)[:16], Agent: x.Agent, Address: x.Address,
			Created: x.Created, Seen: x.Seen, key: x.ID}
	}
	return out, err
}

// SignInRef identifies a sign-in.
type SignInRef struct {
	SignIn string `path:"signin" json:"-"`
}

// Done is the output of operations that have none.
type Done struct {
	Done bool `json:"done"`
}

// EndSignIn ends one of the caller's sign-ins.
func (s *Service) EndSignIn(ctx context.Context, c Caller, in SignInRef) (Done, error) {
	list, err := s.SignIns(ctx, c, Empty{})
	if err != nil {
		return Done{}, err
	}
	i := slices.IndexFunc(list.SignIns, func(x SignIn) bool { return x.ID == in.SignIn })
	if i < 0 {
		return Done{}, problem.New(problem.NotFound, msgNoSignIn)
	}
	if err = s.Accounts.SignOut(ctx, c.Person, list.SignIns[i].key); err == nil {
		s.RecordAdminEvent(ctx, c, EventSignInsEnded, "1")
	}
	return Done{err == nil}, err
}

// OtherSignIns are all sign-ins except Keep.
type OtherSignIns struct {
	Keep string `json:"-"`
}

// EndSignIns ends all other sign-ins of the caller.
func (s *Service) EndSignIns(ctx context.Context, c Caller, in OtherSignIns) (Done, error) {
	p, err := s.ownPerson(ctx, c)
	if err != nil {
		return Done{}, err
	}
	if err = s.Accounts.SignOutOthers(ctx, p.ID, in.Keep); err == nil {
		s.RecordAdminEvent(ctx, c, EventSignInsEnded, "*")
	}
	return Done{err == nil}, err
}

// noLang returns the error about a language that there is no translation into.
func noLang(lang string) error {
	var list []string
	for _, l := range i18n.Languages() {
		list = append(list, string(l))
	}
	return problem.New(problem.Invalid, msgNoLang, lang, strings.Join(list, ", "))
}

// singlePerson returns the person that a request is for: the one an admin names, or the caller.
func (s *Service) singlePerson(ctx context.Context, c Caller, name string) (store.Person, error) {
	people, err := s.targetPeople(ctx, c, name)
	switch {
	case err != nil:
		return store.Person{}, err
	case len(people) == 0:
		return store.Person{}, problem.New(problem.Invalid, msgNobodyYet)
	case len(people) > 1:
		return store.Person{}, problem.New(problem.Invalid, msgForWhom, len(people))
	}
	return people[0], nil
}

// targetPeople returns the people that a request is about: the one it names, or the caller. For the
// operator of this machine it is everybody.
func (s *Service) targetPeople(ctx context.Context, c Caller, name string) ([]store.Person, error) {
	all := s.Hub.Store.People
	switch {
	case name != "":
		p, err := all.ByName(ctx, name)
		switch {
		case err != nil && !errors.Is(err, store.ErrNotFound):
			return nil, err
		case !c.Admin && (err != nil || p.ID != c.Person):
			return nil, problem.New(problem.Denied, msgNamesOthers)
		case err != nil:
			return nil, problem.New(problem.NotFound, msgNoUser, name)
		}
		return []store.Person{p}, nil
	case c.Person == "":
		return all.All(ctx)
	}
	p, err := all.ByID(ctx, c.Person)
	return []store.Person{p}, err
}
