package settings_test

import (
	"bufio"
	"bytes"
	"database/sql"
	"io"
	"mime/multipart"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/backup"
	"patchbay/internal/console/consoletest"
	"patchbay/internal/console/page"
	"patchbay/internal/console/settings"
	"patchbay/internal/control"
	"patchbay/internal/hub"
	"patchbay/internal/hub/hubtest"
	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m) }

// newRig returns an installation and its data directory, so that it can be backed up.
func newRig(t *testing.T, o control.Options) (*consoletest.Rig, string) {
	t.Helper()
	folder := t.TempDir()
	o.Version = "test"
	r := consoletest.New(t, consoletest.Options{Options: hubtest.Options{DB: store.Options{Folder: folder}},
		Control: o}, func(r *consoletest.Rig) []page.Route {
		r.Control.Instance.Backup = backup.Source{Store: r.Store, Box: r.Box, Folder: folder, Version: "test"}
		r.Control.Instance.Secret = hubtest.Secret
		return settings.Routes(r.Control)
	})
	return r, folder
}

func person(t *testing.T, r *consoletest.Rig, id string) store.Person {
	t.Helper()
	p, err := r.Store.People.ByID(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestMe(t *testing.T) {
	r, _ := newRig(t, control.Options{})
	bob := r.SignedInAs(r.Bob)
	if p := bob.Get("/settings"); p.Status != http.StatusOK || !p.Contains(`value="bob"`, "You have no password") ||
		p.Contains("/settings/people", "/settings/backup") {
		t.Errorf("a member sees %d %s", p.Status, p.Text)
	}
	if p := bob.Post("/settings/profile", "name", "ada", "lang", "zh", "zone",
		"Asia/Shanghai"); p.Status != http.StatusConflict ||
		!p.Contains("Somebody else has this name", `value="Asia/Shanghai"`) {
		t.Errorf("a name that is taken: %d %s", p.Status, p.Text)
	}
	if p := bob.Post("/settings/profile", "name", "bob", "lang", "zh", "zone",
		"Mars"); p.Status != http.StatusUnprocessableEntity || !p.Contains("no such time zone") {
		t.Errorf("a zone that nobody knows: %d %s", p.Status, p.Text)
	}
	if p := bob.Post("/settings/profile", "name", "Bob", "lang", "zh", "zone",
		"Asia/Shanghai"); p.Status != http.StatusOK || !p.Contains("已保存",
		`value="Bob"`, time.Now().In(time.FixedZone("", 8*3600)).Format("15:")) {
		t.Errorf("saved: %d %s", p.Status, p.Text)
	}
	if p := person(t, r, r.Bob.ID); p.Name != "Bob" || p.Lang != "zh" || p.Zone != "Asia/Shanghai" ||
		p.Role != account.RoleMember {
		t.Errorf("kept %+v", p)
	}
}

func TestPassword(t *testing.T) {
	r, _ := newRig(t, control.Options{})
	if err := r.Accounts.SetPassword(t.Context(), r.Bob.ID, "correct horse"); err != nil {
		t.Fatal(err)
	}
	here, there := r.SignedInAs(r.Bob), r.SignedInAs(r.Bob)
	for _, c := range []struct {
		old, new, again, told string
		status                int
	}{
		{"wrong horse", "battery staple", "battery staple", "The old password is wrong", http.StatusForbidden},
		{"correct horse", "battery staple", "battery stable", "not the same", http.StatusUnprocessableEntity},
		{"correct horse", "short", "short", "at least 8 characters", http.StatusUnprocessableEntity},
	} {
		p := here.Post("/settings/password", "old", c.old, "new", c.new, "again", c.again)
		if p.Status != c.status || !p.Contains(c.told) || p.Contains(c.new+`"`) {
			t.Errorf("%+v: %d %s", c, p.Status, p.Text)
		}
	}
	if p := here.Post("/settings/password", "old", "correct horse", "new", "battery staple", "again",
		"battery staple"); !p.Contains("Your password is changed") {
		t.Errorf("%d %s", p.Status, p.Text)
	}
	if p := there.Get("/settings"); p.Contains("About you") {
		t.Error("the other browser is signed in still")
	}
	if p := here.Get("/settings"); !p.Contains("About you") {
		t.Errorf("this browser is not signed in any more: %d", p.Status)
	}
	if _, _, err := r.Accounts.SignIn(t.Context(), "bob", "battery staple", account.Browser{}); err != nil {
		t.Error(err)
	}
	for range 12 {
		here.Post("/settings/password", "old", "guess guess", "new", "battery staple", "again", "battery staple")
	}
	if p := here.Post("/settings/password", "old", "battery staple", "new", "battery staples", "again",
		"battery staples"); p.Status != http.StatusTooManyRequests {
		t.Errorf("after a dozen guesses: %d", p.Status)
	}
}

var endOne = regexp.MustCompile(`action="(/settings/browsers/[0-9a-f]{16}/end)"`)

func TestBrowsers(t *testing.T) {
	r, _ := newRig(t, control.Options{})
	if _, err := r.Accounts.Admit(t.Context(), r.Bob,
		account.Browser{Agent: "Mozilla/5.0 (iPhone; CPU iPhone OS 19_0 like Mac OS X) AppleWebKit/605.1.15 Version/19.0 Safari/604.1", Address: "198.51.100.9"}); err != nil {
		t.Fatal(err)
	}
	here, there, ada := r.SignedInAs(r.Bob), r.SignedInAs(r.Bob), r.SignedInAs(r.Person)
	p := here.Get("/settings/browsers")
	if !p.Contains("Safari on iPhone", "198.51.100.9") || strings.Count(p.Text, "this browser</span>") != 1 {
		t.Errorf("%d %s", p.Status, p.Text)
	}
	ends := endOne.FindAllStringSubmatch(p.Text, -1)
	if len(ends) != 3 {
		t.Fatalf("%d browsers", len(ends))
	}
	if p := ada.Post(ends[0][1]); p.Status != http.StatusNotFound {
		t.Errorf("somebody else's sign-in ends with %d", p.Status)
	}
	// Browsers seen in the same millisecond are listed in any order.
	_, phone, _ := strings.Cut(p.Text, "Safari on iPhone")
	if p := here.Post(endOne.FindStringSubmatch(phone)[1]); !p.Contains("Signed out") || p.Contains("iPhone") {
		t.Errorf("%d %s", p.Status, p.Text)
	}
	if p := here.Post("/settings/browsers/others/end"); !p.Contains("nowhere else") {
		t.Errorf("%d %s", p.Status, p.Text)
	}
	if p := there.Get("/settings"); p.Contains("About you") {
		t.Error("the other browser is signed in still")
	}
	if p := ada.Get("/settings"); !p.Contains("About you") {
		t.Error("somebody else is signed out")
	}
}

func TestPeople(t *testing.T) {
	unplugged := make(chan int64, 1)
	r, folder := newRig(t, control.Options{Disconnect: func(bot int64) { unplugged <- bot }})
	ada := r.SignedInAs(r.Person)
	p := ada.Post("/settings/people/new", "name", "eve", "role", "member", "lang", "zh", "by", "password",
		"password", "")
	made := regexp.MustCompile(`<code id="made">([^<]+)</code>`).FindStringSubmatch(p.Text)
	if made == nil || !p.Contains("eve has an account now") {
		t.Fatalf("%d %s", p.Status, p.Text)
	}
	if _, _, err := r.Accounts.SignIn(t.Context(), "eve", made[1], account.Browser{}); err != nil {
		t.Errorf("with the password that was shown: %v", err)
	}
	if p := ada.Post("/settings/people/new", "name", "eve", "role", "admin", "lang",
		"en"); p.Status != http.StatusConflict || !p.Contains("Somebody else", `value="eve"`) {
		t.Errorf("twice: %d %s", p.Status, p.Text)
	}
	eve, err := r.Store.People.ByName(t.Context(), "eve")
	if err != nil {
		t.Fatal(err)
	}
	if p := ada.Get("/settings/people"); !p.Contains("eve", "bob", "ada") {
		t.Errorf("%d %s", p.Status, p.Text)
	}
	at := "/settings/people/" + eve.ID
	if p := ada.Post(at+"/role", "role", "admin"); !p.Contains("Saved") ||
		person(t, r, eve.ID).Role != account.RoleAdmin {
		t.Errorf("%d %s", p.Status, p.Text)
	}
	if p := ada.Post(at+"/password", "password", "battery staple"); !p.Contains("eve has a new password") {
		t.Errorf("%d %s", p.Status, p.Text)
	}
	if _, _, err := r.Accounts.SignIn(t.Context(), "eve", "battery staple", account.Browser{}); err != nil {
		t.Error(err)
	}
	bot, _, err := r.Registry.Add(t.Context(), hub.NewBot{Owner: eve.ID, Name: "hers", Kind: "script"})
	if err != nil {
		t.Fatal(err)
	}
	if p := ada.Post(at+"/remove", "name", "Eve"); p.Status != http.StatusUnprocessableEntity ||
		!p.Contains("type exactly that name") {
		t.Errorf("with another name: %d %s", p.Status, p.Text)
	}
	if p := ada.Post(at+"/remove", "name", "eve"); !p.Contains("eve is removed") {
		t.Errorf("%d %s", p.Status, p.Text)
	}
	if got := <-unplugged; got != bot.Number {
		t.Errorf("bot %d was disconnected", got)
	}
	if p := ada.Get(at); p.Status != http.StatusNotFound {
		t.Errorf("who is gone is answered with %d", p.Status)
	}
	self := "/settings/people/" + r.Person.ID
	if p := ada.Post(self+"/remove", "name", "ada"); p.Status != http.StatusConflict {
		t.Errorf("herself: %d", p.Status)
	}
	if p := ada.Post(self+"/role", "role", "member"); p.Status != http.StatusConflict ||
		!p.Contains("Somebody has to run") {
		t.Errorf("the last one: %d %s", p.Status, p.Text)
	}
	p = ada.Get("/settings/admin-events")
	if !p.Contains("added a person", "changed a role", "eve: member → admin", "set a password", "removed a person",
		"newest rows are as they were written") {
		t.Errorf("the log has %s", p.Text)
	}
	db, err := sql.Open("sqlite", filepath.Join(folder, store.FileName)+"?_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(`UPDATE admin_events SET about = 'nobody' WHERE action = 'person.removed'`); err != nil {
		t.Fatal(err)
	}
	if p = ada.Get("/settings/admin-events"); !p.Contains("Rows were changed after they were written (problems: 1)") {
		t.Errorf("of a changed row it says %s", p.Text)
	}
}

// Members, strangers, and people who have not entered the password recently have no access.
func TestOnlyAdministrators(t *testing.T) {
	r, _ := newRig(t, control.Options{})
	bob, stranger := r.SignedInAs(r.Bob), r.Anonymous()
	for _, route := range settings.Routes(r.Control) {
		method, path, _ := strings.Cut(route.Pattern, " ")
		if route.Access != page.Admins && route.Access != page.AdminsConfirmed {
			continue
		}
		path = strings.ReplaceAll(path, "{person}", r.Person.ID)
		ask := func(b *consoletest.Browser) consoletest.Page {
			if method == http.MethodPost {
				return b.Post(path, "name", "ada", "role", "member", "password", "battery staple")
			}
			return b.Get(path)
		}
		if p := ask(bob); p.Status != http.StatusForbidden {
			t.Errorf("%s is %d for a member", route.Pattern, p.Status)
		}
		if p := ask(stranger); p.Path == path || p.Contains("ada") {
			t.Errorf("%s is %d %s for a stranger", route.Pattern, p.Status, p.Path)
		}
	}
	if p := person(t, r, r.Person.ID); p.Role != account.RoleAdmin || p.Password != "" {
		t.Errorf("ada is %+v", p)
	}
}

// sent sends a form with a passphrase and a file.
func sent(t *testing.T, b *consoletest.Browser, url, passphrase string, file []byte) (int, string) {
	t.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	if err := form.WriteField("passphrase", passphrase); err != nil {
		t.Fatal(err)
	}
	part, err := form.CreateFormFile("file", "backup.tar.gz")
	if err != nil {
		t.Fatal(err)
	}
	part.Write(file) //nolint:errcheck // into memory
	form.Close()     //nolint:errcheck // into memory
	resp, err := b.Client.Post(url, form.FormDataContentType(), &body)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

func TestBackupAndRestore(t *testing.T) {
	r, folder := newRig(t, control.Options{})
	ada := r.SignedInAs(r.Person)
	file := ada.Post("/settings/backup/file")
	if file.Status != http.StatusOK || !strings.HasPrefix(file.Header.Get("Content-Disposition"),
		`attachment; filename="patchbay-`) {
		t.Fatalf("%d %v", file.Status, file.Header)
	}
	if status, text := sent(t, ada, r.URL+"/settings/backup/restore",
		"", []byte("hello")); status != http.StatusUnprocessableEntity ||
		!strings.Contains(text, "no backup of Patchbay") {
		t.Errorf("%d %s", status, text)
	}
	if status, text := sent(t, ada, r.URL+"/settings/backup/restore", "", []byte(file.Text)); status != http.StatusOK ||
		!strings.Contains(text, "Restart the server") {
		t.Errorf("%d %s", status, text)
	}
	if backup.Staged(folder) == nil {
		t.Error("nothing is staged")
	}
	if p := ada.Post("/settings/backup/cancel"); p.Contains("Restart the server") || backup.Staged(folder) != nil {
		t.Errorf("%d %s", p.Status, p.Text)
	}
}

// A passphrase encrypts the backup, and is required to restore it.
func TestEncryptedBackup(t *testing.T) {
	const passphrase = "correct horse battery"
	r, folder := newRig(t, control.Options{})
	ada := r.SignedInAs(r.Person)
	for _, c := range []struct{ passphrase, again, told string }{
		{passphrase, "", "not the same"}, {"short", "short", "12 characters"},
	} {
		if p := ada.Post("/settings/backup/file", "passphrase", c.passphrase,
			"again", c.again); p.Status != http.StatusUnprocessableEntity || !p.Contains(c.told) {
			t.Errorf("%+v: %d %s", c, p.Status, p.Text)
		}
	}
	file := ada.Post("/settings/backup/file", "passphrase", passphrase, "again", passphrase)
	if file.Status != http.StatusOK || !strings.HasPrefix(file.Text, "age-encryption.org/v1\n") ||
		!strings.Contains(file.Header.Get("Content-Disposition"), ".tar.gz.age") {
		t.Fatalf("%d %v", file.Status, file.Header)
	}
	for given, told := range map[string]string{"": "give its passphrase",
		"wrong horse battery": "passphrase is wrong"} {
		if status, text := sent(t, ada, r.URL+"/settings/backup/restore", given,
			[]byte(file.Text)); status != http.StatusUnprocessableEntity || !strings.Contains(text, told) {
			t.Errorf("%q: %d %s", given, status, text)
		}
	}
	status, text := sent(t, ada, r.URL+"/settings/backup/restore", passphrase, []byte(file.Text))
	if status != http.StatusOK || !strings.Contains(text, "Restart the server") || backup.Staged(folder) == nil {
		t.Errorf("%d %s", status, text)
	}
}

func TestInstallation(t *testing.T) {
	r, _ := newRig(t, control.Options{PublicURL: "https://board.example.org"})
	r.Control.Instance.Settings = func() string { return "listen: 127.0.0.1:3000" }
	if p := r.SignedInAs(r.Person).Get("/settings/installation"); !p.Contains("ready", "SQLite",
		"https://board.example.org", "listen: 127.0.0.1:3000") {
		t.Errorf("%d %s", p.Status, p.Text)
	}
}

// Creating, changing and revoking keys and deleting records is listed as administrator actions,
// which only administrators see.
func TestKeysAndDeletionsAreInTheJournal(t *testing.T) {
	r, _ := newRig(t, control.Options{})
	ctx := t.Context()
	ada := control.Caller{Person: r.Person.ID, Admin: true, Program: "api"}
	bob := control.Caller{Person: r.Bob.ID, Program: "console"}
	done := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	k, err := r.Control.AddKey(ctx, bob, control.NewKey{Name: "desk", Scopes: []string{"mcp", "learn"}})
	done(err)
	_, err = r.Control.ChangeKey(ctx, bob, control.KeyChange{Key: k.ID, Rules: hub.Rules{Deny: []string{"home_*"}}})
	done(err)
	for range 2 { // revoked only once
		_, err = r.Control.RevokeKey(ctx, ada, control.KeyRevocation{Key: k.ID})
		done(err)
	}
	bot, _, err := r.Registry.Add(ctx, hub.NewBot{Owner: r.Person.ID, Name: "hers", Kind: "script"})
	done(err)
	glasses, err := r.Control.AddGlassesKey(ctx, ada, control.NewGlassesKey{Bot: strconv.FormatInt(bot.Number, 10),
		Name: "platform", Only: true})
	done(err)
	_, err = r.Control.RevokeBotKey(ctx, ada, control.BotKeyRef{Bot: strconv.FormatInt(bot.Number, 10),
		Key: glasses.ID})
	done(err)
	if _, err = r.Control.RevokeBotKey(ctx, ada, control.BotKeyRef{Bot: strconv.FormatInt(bot.Number, 10),
		Key: k.ID}); control.AsError(err) == nil {
		t.Errorf("a key that is not the bot's: %v", err)
	}
	done(r.Store.Traces.Finish(ctx, store.Trace{Turn: "t", Owner: r.Bob.ID, Bot: 7, At: time.Now(), Outcome: "done"},
		nil))
	_, err = r.Control.Forget(ctx, bob, control.Forgetting{Said: true, Turns: true})
	done(err)
	_, err = r.Control.Forget(ctx, ada, control.Forgetting{Bot: bot.Number, Arguments: true})
	done(err)
	list, err := r.Control.AdminEvents(ctx, ada, control.AdminEventsQuery{})
	done(err)
	var got []string
	for _, a := range list.Events {
		got = append(got, a.Name+" "+a.Action+" "+a.About)
		if strings.Contains(a.About, k.Secret) {
			t.Errorf("the journal tells a secret: %+v", a)
		}
	}
	slices.Reverse(got)
	want := []string{
		"bob key.made desk (learn, mcp)", "bob key.rules desk (learn, mcp)", "ada key.revoked bob: desk (learn, mcp)",
		"ada key.made platform (lingzhu)", "ada key.revoked platform (lingzhu)",
		"bob records.deleted said 0, turns 1, arguments 0, recordings 0", "ada records.deleted bot " +
			strconv.FormatInt(bot.Number, 10) + ": said 0, turns 0, arguments 0, recordings 0",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the journal has\n%s\nand not\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if p := r.SignedInAs(r.Person).Get("/settings/admin-events"); !p.Contains("made a key",
		"changed the rules of a key", "revoked a key", "deleted records", "bob: desk (learn, mcp)") {
		t.Errorf("the page has %s", p.Text)
	}
	if p := r.SignedInAs(r.Bob).Get("/settings/admin-events"); p.Status != http.StatusForbidden {
		t.Errorf("bob gets %d", p.Status)
	}
}

// The page says until when a backup can be uploaded, and when that time is over.
func TestBackupWaitsForNoPassword(t *testing.T) {
	r, _ := newRig(t, control.Options{})
	ada := r.SignedInAs(r.Person)
	if p := ada.Get("/settings/backup"); !p.Contains("Send it before", `hx-sse:connect="/settings/backup/live"`,
		`id="restore"`) {
		t.Errorf("%d %s", p.Status, p.Text)
	}
	list, err := r.Store.SignIns.ByPerson(t.Context(), r.Person.ID)
	if err != nil || len(list) != 1 {
		t.Fatalf("%d sign-ins, %v", len(list), err)
	}
	if err := r.Store.SignIns.Replace(t.Context(), list[0].ID, list[0].ID,
		time.Now().Add(500*time.Millisecond-account.ConfirmLife)); err != nil {
		t.Fatal(err)
	}
	resp, err := ada.Client.Get(r.URL + "/settings/backup/live")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() && !strings.Contains(lines.Text(), "#restore") {
		continue
	}
	if !strings.Contains(lines.Text(), "Type it again, then choose the file") {
		t.Errorf("the page is told %q, %v", lines.Text(), lines.Err())
	}
}
