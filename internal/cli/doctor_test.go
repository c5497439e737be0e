package cli

import (
	"bytes"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"patchbay/internal/check"
	"patchbay/internal/plug/openai/openaitest"
	"patchbay/internal/porttest"
	"patchbay/internal/store"
)

// examine runs the doctor and returns its findings by check.
func (d *desk) examine(code int, args ...string) map[string]check.Finding {
	d.t.Helper()
	o := d.do("", append([]string{"doctor", "--json"}, args...)...)
	if o.code != code || o.stderr != "" {
		d.t.Errorf("doctor: exit code %d, want %d; stderr %q", o.code, code, o.stderr)
	}
	var list []check.Finding
	if err := json.Unmarshal([]byte(o.stdout), &list); err != nil {
		d.t.Fatalf("doctor: %v in %q", err, o.stdout)
	}
	all := map[string]check.Finding{}
	for _, f := range list {
		all[f.Check] = f
		if f.State != check.OK && f.Advice == "" {
			d.t.Errorf("no advice about %+v", f)
		}
	}
	return all
}

func want(t *testing.T, all map[string]check.Finding, check string, v check.State, found string) {
	t.Helper()
	if f := all[check]; f.State != v || !strings.Contains(f.Found, found) {
		t.Errorf("%s is %+v, want %s and %q", check, f, v, found)
	}
}

// free returns an address on which nothing listens.
func free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func TestDoctorBeforeTheBeginning(t *testing.T) {
	d := blankDesk(t)
	d.env = append(d.env, "PATCHBAY_LISTEN="+free(t))
	all := d.examine(exitOK)
	want(t, all, "data folder", check.Warn, "does not exist")
	want(t, all, "secret key", check.OK, "first use")
	want(t, all, "database", check.Warn, "nothing yet")
	want(t, all, "server", check.Warn, "does not run")
	if _, err := os.Stat(d.data); err == nil {
		t.Error("looking made the data folder")
	}
}

func TestDoctorOnARunningServer(t *testing.T) {
	model, err := openaitest.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer model.Close()
	model.Models, model.Key = []string{"m"}, "sk-right"
	d := withParrot(t)
	d.ok("bot", "add", "--name", "m", "--kind", "openai", "--set", "base_url="+model.URL, "--set", "model=m", "--set",
		"api_key=sk-right")
	d.ok("bot", "add", "--name", "lobster", "--kind", "eyeclaw")
	s := d.serve()
	all := d.examine(exitOK)
	want(t, all, "settings", check.OK, "")
	want(t, all, "data folder", check.OK, d.data)
	want(t, all, "secret key", check.OK, "can be read")
	want(t, all, "database", check.OK, "sqlite")
	want(t, all, "people", check.OK, "1")
	want(t, all, "clock", check.OK, "")
	want(t, all, "server", check.OK, s.URL)
	want(t, all, "public_url", check.Warn, "not set")
	want(t, all, "bot 1 (parrot)", check.OK, "valid")
	want(t, all, "bot 2 (m)", check.OK, "can be asked")
	want(t, all, "bot 3 (lobster)", check.Warn, "not connected")

	d.ok("bot", "set", "m", "api_key=sk-wrong")
	all = d.examine(exitFailed)
	want(t, all, "bot 2 (m)", check.Fail, "does not accept the key")
	if strings.Contains(all["bot 2 (m)"].Found, "sk-wrong") {
		t.Error("the doctor shows the key")
	}
	text := d.do("", "doctor").stdout
	if !strings.Contains(text, "\nfail  bot 2 (m)") || !strings.Contains(text,
		"→ Change them with: patchbay bot set 2") {
		t.Errorf("the report is\n%s", text)
	}
}

func TestDoctorFindsProblems(t *testing.T) {
	d := withParrot(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	d.env = append(d.env, "PATCHBAY_LISTEN="+l.Addr().String(), "PATCHBAY_PUBLIC_URL=http://192.168.1.5:3000")
	b := d.base()
	tomorrow := time.Now().Add(24 * time.Hour)
	bot, err := b.Store.Bots.ByNumber(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Store.Traces.Finish(t.Context(), store.Trace{Turn: "t", Bot: 1, Owner: bot.Owner, At: tomorrow,
		Outcome: "done"}, nil); err != nil {
		t.Fatal(err)
	}
	bot.Settings = []byte(`{"pace":"slow"}`)
	if err := b.Store.Bots.Save(t.Context(), bot); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(d.data, "secret.key"), 0o644); err != nil {
		t.Fatal(err)
	}
	all := d.examine(exitFailed)
	want(t, all, "server", check.Fail, "another program has that port")
	want(t, all, "public_url", check.Warn, "this machine or network only")
	want(t, all, "clock", check.Fail, "before the newest record")
	want(t, all, "bot 1 (parrot)", check.Fail, "45s")
	want(t, all, "secret key", check.Warn, "other accounts")
}

func TestDoctorFindsALostKey(t *testing.T) {
	d := blankDesk(t)
	d.ok("user", "add", "ada")
	d.ok("bot", "add", "--name", "m", "--kind", "openai", "--set", "base_url=http://127.0.0.1:1/v1", "--set", "model=m",
		"--set", "api_key=sk-x")
	d.env = append(d.env, "PATCHBAY_LISTEN="+free(t), "PATCHBAY_SECRET="+strings.Repeat("ab", 32))
	all := d.examine(exitFailed)
	want(t, all, "secret key", check.Fail, "not the one of this installation")
}

func TestDoctorFindsADeadServer(t *testing.T) {
	d := withParrot(t)
	text, _ := json.Marshal(map[string]any{"url": "http://" + porttest.Refused(t), "key": "k", "pid": 1})
	if err := os.WriteFile(filepath.Join(d.data, "server.json"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	want(t, d.examine(exitFailed), "server", check.Fail, "does not answer")
}

func TestDoctorFindsWrongSettings(t *testing.T) {
	d := blankDesk(t)
	d.env = append(d.env, "PATCHBAY_TURN_IDLE=soon")
	want(t, d.examine(exitFailed), "settings", check.Fail, "PATCHBAY_TURN_IDLE")
}

func TestDoctorFindsABoardThatCannotTalk(t *testing.T) {
	d, _ := withKitchen(t)
	d.env = append(d.env, "PATCHBAY_LISTEN="+free(t))
	if f, found := d.examine(exitOK)["talking with boards"]; found {
		t.Errorf("without a bot: %+v", f)
	}
	d.ok("device", "bind", "kitchen", "parrot")
	want(t, d.examine(exitOK), "talking with boards", check.Warn, "the bot of kitchen cannot talk")
}

func TestDoctorOnTools(t *testing.T) {
	d, _ := withLamp(t)
	all := d.examine(exitOK)
	want(t, all, "upstream lamp", check.OK, "tools: 7")
	want(t, all, "tools", check.OK, "40 allowed, 1 denied or dangerous")

	d.ok("bot", "set", "parrot", "mcp_open=true")
	d.ok("tool", "deny", "lmap_*")
	d.ok("tool", "deny", "lamp_dim")
	d.ok("tool", "allow", "lamp_burn")
	d.ok("key", "add", "--name", "good", "--scope", "mcp", "--allow-tool", "lamp_*")
	d.ok("key", "add", "--name", "slip", "--scope", "mcp", "--allow-tool", "lamb_*")
	list := d.do("", "doctor").stdout
	if !strings.Contains(list,
		"mcp_open is on: anybody who reaches the server can ask it → If that is not meant: patchbay bot set 1 mcp_open=") {
		t.Errorf("the report on an open bot is\n%s", list)
	}
	all = d.examine(exitOK)
	want(t, all, "rule lmap_*", check.Warn, "no tool")
	want(t, all, "key slip", check.Warn, "lamb_*")
	for _, check := range []string{"rule lamp_dim", "rule lamp_burn", "key good"} {
		if f, there := all[check]; there {
			t.Errorf("without a reason there is %+v", f)
		}
	}

	// Truncated lists, disconnected upstreams, and rules that may match their tools.
	d.ok("upstream", "set", "lamp", "max_tools=2")
	d.ok("upstream", "add", "dead", "--url", "http://127.0.0.1:1/mcp", "--no-check")
	d.ok("upstream", "add", "closed", "--url", servePeer(t, "token"), "--no-check")
	d.ok("tool", "deny", "dead_*")
	d.until("the trouble", func() bool {
		all = map[string]check.Finding{}
		var list []check.Finding
		if err := json.Unmarshal([]byte(d.do("", "doctor", "--json").stdout), &list); err != nil {
			t.Fatal(err)
		}
		for _, f := range list {
			all[f.Check] = f
		}
		return strings.Contains(all["upstream dead"].Found, "Nothing listens") &&
			all["upstream closed"].State == check.Fail && all["upstream lamp"].State == check.Warn
	})
	want(t, all, "upstream closed", check.Fail, "wants a token")
	want(t, all, "upstream lamp", check.Warn, "more tools than are taken over: 2")
	if !strings.Contains(all["upstream closed"].Advice, "patchbay upstream check closed") {
		t.Errorf("the advice is %+v", all["upstream closed"])
	}
	if f, there := all["rule dead_*"]; there {
		t.Errorf("without a reason there is %+v", f)
	}
}

func TestDoctorOnUpstreamsWithoutAServer(t *testing.T) {
	d := withParrot(t)
	d.env = append(d.env, "PATCHBAY_LISTEN="+free(t))
	d.ok("upstream", "add", "lamp", "--url", "http://127.0.0.1:1/mcp", "--no-check")
	want(t, d.examine(exitOK), "upstream lamp", check.Warn, "only while the server runs")
}

// The advice of doctor about a damaged or missing file names the file.
func TestDoctorDamaged(t *testing.T) {
	d := blankDesk(t)
	d.do("", "user", "add", "ada")
	path := filepath.Join(d.data, store.FileName)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	flipped := bytes.Clone(data)
	for i, at := 0, len(data)/2&^4095; i < 200; i++ {
		flipped[at+i] ^= 0xff
	}
	for what, text := range map[string][]byte{"flipped": flipped, "cut": data[:len(data)/2]} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if o := d.do("", "doctor"); !strings.Contains(o.stdout, "the database is damaged") ||
			!strings.Contains(o.stdout, "patchbay backup restore FILE") || strings.Contains(o.stdout, "its rights") {
			t.Errorf("%s: doctor says\n%s", what, o.stdout)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if o := d.do("", "doctor"); !strings.Contains(o.stdout, "serve --new") {
		t.Errorf("doctor says\n%s", o.stdout)
	}
}

// With --ready, doctor fails unless a server runs and is ready.
func TestDoctorReady(t *testing.T) {
	d := newDesk(t)
	d.serve()
	if got := d.do("", "doctor", "--ready"); got.code != exitOK || !strings.HasPrefix(got.stdout, "ok ") {
		t.Errorf("while a server runs: %+v", got)
	}
	if got := blankDesk(t).do("", "doctor", "--ready"); got.code != exitFailed || !strings.Contains(got.stdout, "patchbay serve") {
		t.Errorf("without a server: %+v", got)
	}
}
