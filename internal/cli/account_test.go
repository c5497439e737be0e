package cli

import (
	"strings"
	"testing"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/app"
	"patchbay/internal/check"
	"patchbay/internal/config"
	"patchbay/internal/store"
)

// base opens the desk's data while the commands use it.
func (d *desk) base() *app.Base {
	d.t.Helper()
	c, _, err := config.Load(config.Sources{Env: d.env})
	if err != nil {
		d.t.Fatal(err)
	}
	b, err := app.OpenBase(d.t.Context(), c, "test", newShell(nil, d.t.Output(), d.t.Output(), nil).logger())
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { b.Close() })
	return b
}

func TestUserCommands(t *testing.T) {
	d := newDesk(t)
	var ada store.Person
	d.json(&ada, "user", "add", "ada", "--role", "member", "--lang", "zh")
	if ada.Role != "admin" || ada.Lang != "zh" {
		t.Errorf("the first person is %+v, want an admin who speaks Chinese", ada)
	}
	if o := d.do("correct horse\n", "user", "add", "bob", "--password-stdin"); o.code != 0 {
		t.Fatal(o.stderr)
	}
	if o := d.do("another horse\r\n", "user", "passwd", "ada", "--password-stdin"); o.code != 0 {
		t.Fatal(o.stderr)
	}
	var people []store.Person
	d.json(&people, "user", "list")
	if len(people) != 2 || people[0].Name != "ada" || people[1].Role != "member" || people[1].Lang != "en" {
		t.Errorf("people are %+v", people)
	}
	list := d.ok("user", "list")
	if strings.Count(list, "set") != 2 || !strings.HasPrefix(list, "NAME") {
		t.Errorf("the list is\n%s", list)
	}
	b := d.base()
	p, err := b.Store.People.ByName(t.Context(), "ada")
	if err != nil || !strings.HasPrefix(p.Password, "$argon2id$") {
		t.Errorf("ada's password is kept as %q (%v)", p.Password, err)
	}
}

func TestKeyCommands(t *testing.T) {
	d := newDesk(t)
	d.ok("user", "add", "ada")
	d.ok("bot", "add", "--name", "parrot", "--kind", "echo")
	var made struct{ ID, Key string }
	d.json(&made, "key", "add", "--name", "glasses", "--scope", "lingzhu", "--scope", "mcp", "--bot", "parrot",
		"--expires", "90d")
	b := d.base()
	p, err := b.Accounts.Authenticate(t.Context(), made.Key, account.ScopeMCP)
	if err != nil || p.Person.Name != "ada" || p.Key.Bot != 1 || p.Key.Expires.Sub(p.Key.Created).Round(time.Hour) != 90*24*time.Hour {
		t.Fatalf("the key speaks for %+v (%v)", p, err)
	}
	shown := d.ok("key", "add", "--name", "laptop", "--scope", "operator")
	if !strings.Contains(shown, "pb_") || !strings.Contains(shown, "shown only once") {
		t.Errorf("a new key is shown as\n%s", shown)
	}
	d.ok("key", "revoke", made.ID)
	if _, err := b.Accounts.Authenticate(t.Context(), made.Key, account.ScopeMCP); err != account.ErrRevoked {
		t.Errorf("the revoked key gives %v", err)
	}
	acts, err := b.Store.AdminEvents.Newest(t.Context(), "", 3)
	if err != nil || len(acts) != 3 || acts[0].Action != "key.revoked" ||
		acts[0].About != "ada: glasses (lingzhu, mcp)" || acts[1].Action != "key.made" ||
		acts[1].About != "ada: laptop (operator)" {
		t.Errorf("the journal has %+v, %v", acts, err)
	}
	list := d.ok("key", "list", "--user", "ada")
	if strings.Contains(list, made.Key) || !strings.Contains(list, "revoked") ||
		!strings.Contains(list, "lingzhu, mcp") {
		t.Errorf("the list is\n%s", list)
	}
}

func TestChinese(t *testing.T) {
	d := newDesk(t)
	for _, env := range [][]string{{"LANG=zh_CN.UTF-8"}, {"LANG=en_US", "LC_ALL=zh_TW"}, {"LC_MESSAGES=zh"}} {
		if got := newShell(nil, nil, nil, env).lang; got != "zh" {
			t.Errorf("%v speaks %s", env, got)
		}
	}
	d.env[2] = "LANG=zh_CN.UTF-8"
	if got := d.ok("user", "add", "小明"); !strings.Contains(got, "已为 小明 开通账户") {
		t.Errorf("said %q", got)
	}
	want := "名称  角色   语言  密码  创建于\n小明  admin  zh    无    2"
	if got := d.ok("user", "list"); !strings.HasPrefix(got, want) {
		t.Errorf("columns do not line up:\n%s", got)
	}
}

// Somebody whose account has no password learns how to set one: when the account is created, when
// the server starts, and from doctor.
func TestAccountWithoutPassword(t *testing.T) {
	d := blankDesk(t)
	set := "patchbay user passwd ada"
	if got := d.ok("user", "add", "ada"); !strings.Contains(got, "cannot sign in") || !strings.Contains(got, set) {
		t.Errorf("user add says %q", got)
	} else if !strings.Contains(got, "and start the server:") {
		t.Errorf("without a server, user add says %q", got)
	}
	s := d.serve()
	if got := d.ok("user", "add", "bob"); !strings.Contains(got, "patchbay bot add") ||
		strings.Contains(got, "start the server") {
		t.Errorf("beside a running server, user add says %q", got)
	}
	if got := s.stderr.String(); !strings.Contains(got, "Nobody can sign in") ||
		!strings.Contains(got, set+" --data "+d.data) {
		t.Errorf("serve says %q", got)
	}
	all := d.examine(exitOK)
	want(t, all, "console", check.Warn, "nobody can sign in")
	if got := all["console"].Advice; !strings.Contains(got, set) {
		t.Errorf("doctor advises %q", got)
	}
	if o := d.do("correct horse\n", "user", "passwd", "ada", "--password-stdin"); o.code != exitOK {
		t.Fatal(o.stderr)
	}
	want(t, d.examine(exitOK), "console", check.OK, "1 can sign in")
}
