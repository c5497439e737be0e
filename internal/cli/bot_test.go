package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"patchbay/internal/plug/openai"
	"patchbay/internal/store"
)

type newBot struct {
	ID    int64
	Token string `json:"sdk_token"`
}

func TestBotCommands(t *testing.T) {
	d := newDesk(t)
	d.ok("user", "add", "ada")
	if got := d.ok("bot", "list"); !strings.Contains(got, "no bots yet") {
		t.Errorf("an empty list is %q", got)
	}
	var parrot, lobster newBot
	d.json(&parrot, "bot", "add", "--name", "parrot", "--kind", "echo", "--set", "pace=5ms", "--description",
		"says it back")
	d.json(&lobster, "bot", "add", "--name", "lobster", "--kind", "eyeclaw")
	if parrot != (newBot{ID: 1}) || lobster.ID != 2 || len(lobster.Token) != 64 {
		t.Fatalf("added %+v and %+v", parrot, lobster)
	}
	shown := d.ok("bot", "add", "--name", "crab", "--kind", "eyeclaw")
	for _, want := range []string{"sdkToken ", "botId 3", "serverUrl http://127.0.0.1:3000", "shown only once"} {
		if !strings.Contains(shown, want) {
			t.Errorf("a new plugin bot is shown without %q:\n%s", want, shown)
		}
	}

	d.ok("bot", "set", "parrot", "pace=", "shared=true", "--name", "polly")
	var view botView
	d.json(&view, "bot", "show", "polly")
	if view.Name != "polly" || view.Description != "says it back" || string(view.Settings["shared"]) != "true" ||
		view.Settings["pace"] != nil {
		t.Errorf("the bot is now %+v", view)
	}

	var rotated newBot
	d.json(&rotated, "bot", "rotate", "lobster")
	b := d.base()
	if _, err := b.Registry.ByToken(t.Context(), lobster.Token); err == nil {
		t.Error("the old token is still good")
	}
	if bot, err := b.Registry.ByToken(t.Context(), rotated.Token); err != nil || bot.Number != 2 {
		t.Errorf("the new token leads to %v (%v)", bot.Number, err)
	}

	if o := d.do("y\n", "bot", "rm", "crab"); o.code != 0 || !strings.Contains(o.stderr, "Remove bot 3 (crab)") {
		t.Errorf("rm said %+v", o)
	}
	for _, answer := range []string{"n", "いいえ", "", "是不是"} {
		if o := d.do(answer+"\n", "bot", "rm", "lobster"); o.code != exitFailed {
			t.Errorf("rm went on after %q: %+v", answer, o)
		}
	}
	for _, answer := range []string{"Yes", "是", "はい"} {
		d.ok("bot", "add", "--kind", "echo", "--name", "gull")
		if o := d.do(answer+"\n", "bot", "rm", "gull"); o.code != 0 {
			t.Errorf("rm did not go on after %q: %+v", answer, o)
		}
	}
	d.ok("bot", "rm", "lobster", "--yes")
	var rows []botRow
	d.json(&rows, "bot", "list")
	if len(rows) != 1 || rows[0].Name != "polly" || rows[0].OwnerName != "ada" || rows[0].Online != nil {
		t.Errorf("left are %+v", rows)
	}
}

func TestSecretsStayOffTheCommandLineAndTheScreen(t *testing.T) {
	d := newDesk(t)
	d.ok("user", "add", "ada")
	file := filepath.Join(t.TempDir(), "key.txt")
	if err := os.WriteFile(file, []byte("sk-from-a-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	base := []string{"bot", "add", "--name", "gpt", "--kind", "openai", "--set", "base_url=http://127.0.0.1:1/v1",
		"--set", "model=m;x"}
	d.ok(append(base, "--set", "api_key=@"+file)...)
	if o := d.do("from standard input", "bot", "set", "gpt", "system=@-", "user=true"); o.code != 0 {
		t.Fatal(o.stderr)
	}
	shown := d.ok("bot", "show", "gpt")
	if strings.Contains(shown, "sk-from") || !strings.Contains(shown, "••••") ||
		!strings.Contains(shown, "system = from standard input") {
		t.Errorf("shown as\n%s", shown)
	}
	b := d.base()
	bot, err := b.Registry.Find(t.Context(), "", "gpt")
	if err != nil {
		t.Fatal(err)
	}
	var s openai.Settings
	if err := b.Registry.Settings(bot, &s); err != nil || s.APIKey != "sk-from-a-file" || s.Model != "m;x" {
		t.Errorf("the settings are %+v (%v)", s, err)
	}
	d.ok("bot", "set", "gpt", "system=@@home")
	bot, _ = b.Registry.Find(t.Context(), "", "gpt")
	if err := b.Registry.Settings(bot, &s); err != nil || s.System != "@home" {
		t.Errorf("system is %q (%v)", s.System, err)
	}
}

func TestShowTellsTheFormOfThePlatform(t *testing.T) {
	d := newDesk(t)
	d.ok("user", "add", "ada")
	d.ok("bot", "add", "--name", "parrot", "--kind", "echo")
	if got := d.ok("bot", "show", "1"); !strings.Contains(got, "public_url is not set") {
		t.Errorf("without a public address:\n%s", got)
	}
	d.env = append(d.env, "PATCHBAY_PUBLIC_URL=https://board.example.org")
	got := d.ok("bot", "show", "1")
	for _, want := range []string{
		"三方厂商   自定义智能体\n", "智能体ID   1\n", "URL        https://board.example.org/sse/rokid\n",
		"key add --name lingzhu --scope lingzhu --bot 1", "入参类型   文字, 图片",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the form lacks %q:\n%s", want, got)
		}
	}
	if strings.Contains(got, "public_url") {
		t.Errorf("warned without a reason:\n%s", got)
	}
}

func TestShowHasTheLastTurns(t *testing.T) {
	d := newDesk(t)
	d.ok("user", "add", "ada")
	d.ok("bot", "add", "--name", "parrot", "--kind", "echo")
	d.ok("bot", "add", "--name", "other", "--kind", "echo")
	d.ok("ask", "parrot", "abc")
	d.ok("ask", "other", "abcd")
	var view botView
	d.json(&view, "bot", "show", "parrot")
	if len(view.Traces) != 1 || view.Traces[0].Pieces != 3 || view.Traces[0].Outcome != "done" {
		t.Errorf("its turns are %+v", view.Traces)
	}
	if got := d.ok("bot", "show", "parrot"); !strings.Contains(got, "cli      done") {
		t.Errorf("shown as\n%s", got)
	}
}

func TestPairsKeepWhatIsWritten(t *testing.T) {
	sh := newShell(strings.NewReader(""), nil, nil, nil)
	set, err := sh.pairs([]string{`extra={"a":"b=c,d;e"}`, "system="})
	if err != nil {
		t.Fatal(err)
	}
	text, _ := json.Marshal(set)
	if string(text) != `{"extra":"{\"a\":\"b=c,d;e\"}","system":""}` {
		t.Errorf("read as %s", text)
	}
}

// Commands on a server elsewhere do what its key allows, and leave admin events.
func TestBotsOfAServerElsewhere(t *testing.T) {
	d := withParrot(t)
	d.ok("user", "add", "bob")
	d.failing(exitFailed, "", []string{"bot", "add", "--name", "x", "--kind", "echo"}, "2 people", "--user")
	d.failing(exitFailed, "", []string{"bot", "add", "--name", "x", "--kind", "echo", "--user", "eve"},
		`there is no user "eve"`, "user list")
	d.ok("bot", "add", "--name", "x", "--kind", "echo", "--user", "bob")
	var key struct{ Key string }
	d.json(&key, "key", "add", "--user", "bob", "--name", "laptop", "--scope", "operator")
	s := d.serve()
	away := blankDesk(t)
	away.env = append(away.env, "PATCHBAY_SERVER="+s.URL, "PATCHBAY_KEY="+key.Key)
	if got := away.ok("bot", "add", "--name", "claw", "--kind", "eyeclaw"); !strings.Contains(got, "serverUrl "+s.URL) {
		t.Errorf("added: %s", got)
	}
	if got := away.ok("bot", "list"); !strings.Contains(got, "bob    offline") || strings.Contains(got, "parrot") {
		t.Errorf("the list is\n%s", got)
	}
	away.ok("bot", "set", "claw", "shared=true", "--description", "in the kitchen")
	got := away.ok("bot", "show", "claw")
	for _, want := range []string{"in the kitchen", "shared = true", s.URL + "/sse/rokid"} {
		if !strings.Contains(got, want) {
			t.Errorf("it is shown without %q:\n%s", want, got)
		}
	}
	var inv invitation
	away.json(&inv, "bind", "claw")
	b, bob := d.base(), personNamed(t, d, "bob")
	if _, err := b.Accounts.RedeemCode(t.Context(), store.Wearer{Publisher: bob.ID, UserID: "U1"}, "a", inv.Code); err != nil {
		t.Fatal(err)
	}
	if got := away.ok("bind", "claw", "--list"); !strings.Contains(got, "U1") {
		t.Errorf("bound are\n%s", got)
	}
	if got := away.ok("unbind", "claw"); got != "1 unbound from claw.\n" {
		t.Errorf("unbind says %q", got)
	}
	away.failing(exitFailed, "", []string{"bot", "set", "parrot", "shared=true"}, `no bot "parrot"`)
	away.failing(exitFailed, "", []string{"bind", "1"}, `no bot "1"`)
	away.failing(exitFailed, "", []string{"bot", "add", "--name", "y", "--kind", "echo", "--user", "ada"}, "scope admin")
	events, err := b.Store.AdminEvents.Newest(t.Context(), "", 4)
	if err != nil {
		t.Fatal(err)
	}
	var acts []string
	for _, e := range events {
		acts = append(acts, e.Action+" "+e.Name)
	}
	if got := strings.Join(acts, ", "); got != "bot.unbound bob, bot.invited bob, bot.changed bob, bot.added bob" {
		t.Errorf("the admin events are %s", got)
	}
}
