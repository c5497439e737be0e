package cli

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"patchbay/internal/control"
	"patchbay/internal/qr"
	"patchbay/internal/store"
)

type invitation struct {
	Token   string
	Code    string
	Expires time.Time `json:"expires_at"`
}

func TestBindAsJSON(t *testing.T) {
	d := withParrot(t)
	picture := filepath.Join(t.TempDir(), "code.png")
	var inv invitation
	d.json(&inv, "bind", "parrot", "--png", picture)
	if len(inv.Token) != 22 || len(inv.Code) != 6 || time.Until(inv.Expires) < 4*time.Minute {
		t.Errorf("the invitation is %+v", inv)
	}
	data, err := os.ReadFile(picture)
	if err != nil {
		t.Fatal(err)
	}
	texts, err := qr.Decode(t.Context(), data)
	if err != nil || len(texts) != 1 || texts[0] != inv.Token {
		t.Errorf("the picture says %q (%v), want %q", texts, err, inv.Token)
	}
	b := d.base()
	if _, err := b.Accounts.RedeemCode(t.Context(), store.Wearer{Publisher: ada(t, d).ID, UserID: "U1"},
		"a", inv.Code); err != nil {
		t.Error(err)
	}
}

func ada(t *testing.T, d *desk) store.Person {
	t.Helper()
	return personNamed(t, d, "ada")
}

func personNamed(t *testing.T, d *desk, name string) store.Person {
	t.Helper()
	p, err := d.base().Store.People.ByName(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestBindWaits redeems the invitation as soon as it is printed, and expects the command to end.
func TestBindWaits(t *testing.T) {
	d := withParrot(t)
	publisher := ada(t, d).ID
	out, in := io.Pipe()
	done := make(chan int, 1)
	var stderr safeBuffer
	go func() {
		done <- Run(t.Context(), []string{"bind", "1", "--json", "--wait"}, strings.NewReader(""), in, &stderr, d.env)
		in.Close()
	}()
	lines := json.NewDecoder(out)
	var inv invitation
	if err := lines.Decode(&inv); err != nil {
		t.Fatal(err)
	}
	if _, err := d.base().Accounts.RedeemToken(t.Context(), store.Wearer{Publisher: publisher, UserID: "U1"},
		"a", inv.Token); err != nil {
		t.Fatal(err)
	}
	var bound store.Binding
	if err := lines.Decode(&bound); err != nil || bound.UserID != "U1" || bound.Bot != 1 {
		t.Errorf("told %+v (%v)", bound, err)
	}
	if code := <-done; code != exitOK {
		t.Errorf("exit code %d: %s", code, stderr.String())
	}
	if got := d.ok("bind", "1", "--list"); !strings.Contains(got, "U1") {
		t.Errorf("bound are\n%s", got)
	}
}

func TestUnbind(t *testing.T) {
	d := newDesk(t)
	d.ok("user", "add", "ada")
	d.ok("bot", "add", "--name", "parrot", "--kind", "echo", "--set", "shared=true")
	b, publisher := d.base(), ada(t, d).ID
	bind := func(users ...string) {
		for _, u := range users {
			inv, err := b.Accounts.Invite(t.Context(), 1)
			if err == nil {
				_, err = b.Accounts.RedeemToken(t.Context(), store.Wearer{Publisher: publisher, UserID: u},
					"a", inv.Token)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	bound := func() string {
		var list []store.Binding
		d.json(&list, "bind", "1", "--list")
		var ids []string
		for _, w := range list {
			ids = append(ids, w.UserID)
		}
		return strings.Join(ids, " ")
	}
	bind("U1", "U2", "U3")
	d.failing(exitUsage, "", []string{"unbind", "1"}, "3 wearers", "--all")
	d.ok("unbind", "1", "--user-id", "U2")
	if got := bound(); got != "U1 U3" {
		t.Errorf("left are %s", got)
	}
	d.ok("unbind", "parrot", "--all")
	bind("U4")
	d.ok("unbind", "1")
	if got := bound(); got != "" {
		t.Errorf("left are %s", got)
	}
}

func TestBindShowsTheCode(t *testing.T) {
	d := withParrot(t)
	b := d.base()
	inv, err := b.Accounts.Invite(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	d.env[2] = "LANG=zh_CN"
	shown := control.Invitation{Invitation: inv, TakenBy: "glasses-2"}
	if err := (&bindCmd{}).show(newShell(nil, &out, &out, d.env), "parrot", shown); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "已经绑定了 glasses-2") {
		t.Errorf("the other glasses are not named:\n%s", out.String())
	}
	if !strings.Contains(out.String(), "“绑定 "+inv.Code+"”") || !strings.Contains(out.String(), "█") {
		t.Errorf("shown as\n%s", out.String())
	}
}
