package control

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/seal"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

var (
	sayAdminOnly = talk.Say{Zh: "只有管理这台服务器的人可以这样做。", En: "Only those who run the installation may do that."}
	sayWholeKey  = talk.Say{Zh: "这个密钥只能用于一个机器人。", En: "This key is good for one bot only."}
	sayNoAccount = talk.Say{Zh: "命令行没有账户。", En: "The command line has no account."}
	sayNoPerson  = talk.Say{Zh: "没有这个人。", En: "There is no such person."}
	sayLastAdmin = talk.Say{Zh: "总要有人管理这台服务器；请先让别人成为管理员。",
		En: "Somebody has to run the installation; make somebody else an administrator first."}
	sayNameTaken = talk.Say{Zh: "已经有人叫这个名字了。", En: "Somebody else has this name."}
	sayNoZone    = talk.Say{Zh: "没有这个时区。时区的写法如 Asia/Shanghai 或 Europe/Berlin。",
		En: "There is no such time zone. They are written like Asia/Shanghai or Europe/Berlin."}
	sayNoLang        = talk.Say{Zh: "语言是 zh 或 en。", En: "A language is zh or en."}
	sayOldPassword   = talk.Say{Zh: "原来的密码不对。", En: "The old password is wrong."}
	sayManyPasswords = talk.Say{Zh: "尝试次数太多，请十分钟后再试。", En: "Too many tries; wait ten minutes and try again."}
	sayPasswordsBusy = talk.Say{Zh: "现在正在检查太多密码，请过几秒再试。",
		En: "Too many passwords are being checked now; try again in a few seconds."}
	sayTypeName = talk.Say{Zh: "要移除 %s，请准确输入这个名字。", En: "To remove %s, type exactly that name."}
	sayNotSelf  = talk.Say{Zh: "不能移除自己；请让另一位管理员来做。", En: "You cannot remove yourself; another administrator can."}
	sayNoSignIn = talk.Say{Zh: "没有这个登录，也许已经退出了。", En: "There is no such sign-in; it may have ended already."}
)

// Person is somebody with an account, as whoever runs the installation sees them.
type Person struct {
	store.Person
	HasPassword bool `json:"has_password"`
	Bots        int  `json:"bots"`
	Devices     int  `json:"devices"`
}

// People is who has an account.
type People struct {
	People []Person `json:"people"`
}

// Empty is what is given to something that needs nothing.
type Empty struct{}

// admin refuses who does not run the installation.
func admin(c Caller) error {
	if !c.Admin {
		return Fail(Refused, sayAdminOnly)
	}
	return nil
}

// ownPerson is whose own account a caller may see and change.
func (s *Service) ownPerson(ctx context.Context, c Caller) (store.Person, error) {
	switch {
	case c.Person == "":
		return store.Person{}, Fail(Missing, sayNoAccount)
	case c.Only != 0:
		return store.Person{}, Fail(Refused, sayWholeKey)
	}
	return s.Hub.Store.People.ByID(ctx, c.Person)
}

// aboutPerson is the error for whoever typed what an account cannot have.
func aboutPerson(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, account.ErrLastAdmin):
		return Fail(Conflict, sayLastAdmin)
	case errors.Is(err, account.ErrPersonName):
		return Fail(Conflict, sayNameTaken)
	case errors.Is(err, account.ErrTries):
		return Fail(TooMany, sayManyPasswords)
	case errors.Is(err, account.ErrBusy):
		return Fail(TooMany, sayPasswordsBusy)
	case errors.Is(err, account.ErrZone):
		return Fail(Invalid, sayNoZone)
	case errors.Is(err, store.ErrNotFound):
		return Fail(Missing, sayNoPerson)
	}
	if errors.Is(err, account.ErrNameAlike) {
		return said(Conflict, err)
	}
	if _, ok := errors.AsType[*talk.Wrong](err); ok {
		return said(Invalid, err)
	}
	return err
}

// Me is the account of the caller.
func (s *Service) Me(ctx context.Context, c Caller, _ Empty) (Person, error) {
	p, err := s.ownPerson(ctx, c)
	return Person{Person: p, HasPassword: p.Password != ""}, err
}

// MeChange is what somebody changes about themselves; nil stays as it is.
type MeChange struct {
	Name *string `json:"name,omitempty"`
	Lang *string `json:"lang,omitempty"` // zh or en
	Zone *string `json:"zone,omitempty"` // as the IANA names it; empty: the server's
}

// ChangeMe changes name, language or time zone of the caller.
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
	if in.Lang != nil && p.Lang != string(talk.Chinese) && p.Lang != string(talk.English) {
		return Person{}, Fail(Invalid, sayNoLang)
	}
	if err := account.CheckName(p.Name); err != nil {
		return Person{}, said(Invalid, err)
	}
	if err := aboutPerson(s.Accounts.SetProfile(ctx, p)); err != nil {
		return Person{}, err
	}
	s.RecordAdminEvent(ctx, c, EventProfile, p.Name)
	return s.Me(ctx, c, Empty{})
}

// PasswordChange is a new password, for who knows the old one.
type PasswordChange struct {
	Old string `json:"old"`
	New string `json:"new"`
	// Keep is the sign-in that does not end.
	Keep string `json:"-"`
}

// Changed is what became of a [PasswordChange].
type Changed struct {
	Changed bool `json:"changed"`
	// Token is for the browser whose sign-in was kept.
	Token string `json:"-"`
}

// ChangePassword gives the caller another password, and signs them out elsewhere.
func (s *Service) ChangePassword(ctx context.Context, c Caller, in PasswordChange) (Changed, error) {
	p, err := s.ownPerson(ctx, c)
	if err != nil {
		return Changed{}, err
	}
	token, err := s.Accounts.ChangePassword(ctx, p.ID, in.Old, in.New, in.Keep)
	if errors.Is(err, account.ErrPassword) {
		return Changed{}, Fail(Refused, sayOldPassword)
	}
	if err == nil {
		s.RecordAdminEvent(ctx, c, EventPersonPassword, p.Name)
	}
	return Changed{err == nil, token}, aboutPerson(err)
}

// SignIn is a browser in which somebody is signed in. ID names it, and is not what the
// browser shows.
type SignIn struct {
	ID      string    `json:"id"`
	Agent   string    `json:"agent"`
	Address string    `json:"address"`
	Created time.Time `json:"created_at"`
	Seen    time.Time `json:"seen_at"`
	key     string
}

// IsCurrent reports whether it is a sign-in, by what the store calls it.
func (x SignIn) IsCurrent(id string) bool { return x.key == id }

// SignIns is where somebody is signed in.
type SignIns struct {
	SignIns []SignIn `json:"sign_ins"`
}

// SignIns lists the browsers in which the caller is signed in, the one that was used
// last first.
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

// SignInRef names a sign-in.
type SignInRef struct {
	SignIn string `path:"signin" json:"-"`
}

// Done is the answer of what has nothing else to tell.
type Done struct {
	Done bool `json:"done"`
}

// EndSignIn signs the caller out in one browser.
func (s *Service) EndSignIn(ctx context.Context, c Caller, in SignInRef) (Done, error) {
	list, err := s.SignIns(ctx, c, Empty{})
	if err != nil {
		return Done{}, err
	}
	i := slices.IndexFunc(list.SignIns, func(x SignIn) bool { return x.ID == in.SignIn })
	if i < 0 {
		return Done{}, Fail(Missing, sayNoSignIn)
	}
	if err = s.Accounts.SignOut(ctx, c.Person, list.SignIns[i].key); err == nil {
		s.RecordAdminEvent(ctx, c, EventSignInsEnded, "1")
	}
	return Done{err == nil}, err
}

// OtherSignIns are all sign-ins but one; an empty Keep are all.
type OtherSignIns struct {
	Keep string `json:"-"`
}

// EndSignIns signs the caller out in all other browsers.
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
