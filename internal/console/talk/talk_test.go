package talk_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"patchbay/internal/console/consoletest"
	"patchbay/internal/console/page"
	"patchbay/internal/console/talk"
	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m) }

// The browser's board becomes that of whoever is signed in, without a code to type, uses the
// WebSocket, and is nobody else's. Once it is removed, the page gets none.
func TestBoardIsApproved(t *testing.T) {
	r := consoletest.New(t, consoletest.Options{}, func(*consoletest.Rig) []page.Route { return talk.Routes() })
	bot := r.Add(t, "script", nil)
	ada, bob := r.SignedInAs(r.Person), r.SignedInAs(r.Bob)
	if p := ada.Get("/talk"); p.Status != http.StatusOK || !p.Contains(bot.Name, `"person":"`+r.Person.ID) {
		t.Fatalf("the page is %d %s", p.Status, p.Text)
	}
	const mac = "02:00:00:00:00:07"
	_, code, err := r.Accounts.DeviceSeen(t.Context(), store.DeviceCall{Kind: "xiaozhi", Hardware: mac,
		Client: "11111111-1111-4111-8111-111111111111", Article: "browser", At: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		ID, Bot     int64
		Name, Error string
	}
	answers := func(p consoletest.Page, status int) {
		t.Helper()
		got.Error = ""
		if err := json.Unmarshal([]byte(p.Text), &got); err != nil || p.Status != status ||
			p.Header.Get("Content-Type") != "application/json" || (status != http.StatusOK) != (got.Error != "") {
			t.Fatalf("the answer is %d %s", p.Status, p.Text)
		}
	}
	answers(bob.Post("/talk/board", "code", "000000"), http.StatusNotFound)
	answers(ada.Post("/talk/board", "code", code, "bot", "99"), http.StatusNotFound) // no such bot
	answers(ada.Post("/talk/board", "code", code, "bot", bot.Name), http.StatusOK)
	d, err := r.Store.Devices.ByNumber(t.Context(), got.ID)
	if err != nil || d.Owner != r.Person.ID || d.Transport != store.TransportSocket || got.Bot != bot.Number {
		t.Errorf("the device is %+v, %v", d, err)
	}
	answers(ada.Get("/talk/board?device="+mac), http.StatusOK)
	none := func(b *consoletest.Browser) {
		t.Helper()
		if p := b.Get("/talk/board?device=" + mac); p.Status != http.StatusOK || p.Text != "null\n" {
			t.Errorf("the answer is %d %s", p.Status, p.Text)
		}
	}
	none(bob)
	answers(bob.Post("/talk/bot", "device", mac, "bot", "0"), http.StatusNotFound)
	if answers(ada.Post("/talk/bot", "device", mac, "bot", "0"), http.StatusOK); got.Bot != 0 {
		t.Errorf("bot %d answers", got.Bot)
	}
	if err := r.Store.Devices.Remove(t.Context(), got.ID); err != nil {
		t.Fatal(err)
	}
	none(ada)
	if p := r.Anonymous().Get("/talk/board?device=" + mac); strings.Contains(p.Text, mac) {
		t.Errorf("whoever is not signed in gets %s", p.Text)
	}
}
