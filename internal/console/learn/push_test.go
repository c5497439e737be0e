package learn_test

import (
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"patchbay/internal/console/browsertest"
	"patchbay/internal/console/consoletest"
	"patchbay/internal/console/learn"
	"patchbay/internal/console/page"
	learning "patchbay/internal/plug/learn"
	"patchbay/internal/plug/learn/push"
	"patchbay/internal/webpush"
)

// A browser is added by its button, gets a test message, and is removed. The push service of the
// browser cannot be reached here, so its PushManager is replaced.
func TestPushInBrowser(t *testing.T) {
	browsertest.Path(t)
	var messages atomic.Int64
	service := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Content-Encoding") == "aes128gcm" {
			messages.Add(1)
		}
		w.WriteHeader(http.StatusCreated)
	}))
	t.Cleanup(service.Close)
	r := &rig{now: time.Now()}
	r.Rig = consoletest.New(t, consoletest.Options{}, func(c *consoletest.Rig) []page.Route {
		r.points = learning.New(learning.Options{Store: c.Store, Zone: time.UTC, Now: r.clock})
		c.Control.Points = r.points
		browsers := push.New(push.Options{Store: c.Store, Box: c.Box, Client: service.Client(),
			Subject: "mailto:ada@example.org"})
		return learn.Routes(learn.Options{Points: r.points, Largest: largest, Push: browsers})
	})
	key, err := webpush.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	public, err := webpush.PublicKey(key)
	if err != nil {
		t.Fatal(err)
	}
	b := open(t, r)
	b.Open("/learn/settings")
	b.WaitText("#push", "No browser gets reminders yet")
	if n := browsertest.Evaluate[int](b, `atob(document.querySelector("[data-push]").dataset.push.replaceAll("-", "+").replaceAll("_", "/")).length`); n != 65 {
		t.Errorf("the key has %d bytes", n)
	}
	b.Script(`Notification.requestPermission = async () => "granted";
		PushManager.prototype.subscribe = async o => {
			if (o.applicationServerKey.length !== 65 || !o.userVisibleOnly) throw new Error("options");
			return { endpoint: "` + service.URL + `/x", keys: { p256dh: "` + public + `", auth: "` +
		base64.RawURLEncoding.EncodeToString(make([]byte, 16)) + `" } };
		}`)
	b.Click("[data-push]")
	b.WaitText("#push", "This browser gets reminders now")
	b.WaitText("#push", "Chrome on Linux")
	b.Click(`form[action="/learn/push/test"] button`)
	b.WaitText("#push", "Test messages sent: 1")
	if messages.Load() != 1 {
		t.Errorf("%d messages", messages.Load())
	}
	b.Click("input[name=via][value=push]")
	b.Fill("input[name=at]", "20:00")
	b.Click(".saver button.main")
	b.WaitText("#saving", "Saved")
	l, err := r.points.Learner(t.Context(), r.Person.ID)
	if err != nil || len(l.Profile.Remind.Via) != 1 || l.Profile.Remind.Via[0] != "push" {
		t.Errorf("%+v, %v", l.Profile.Remind, err)
	}
	b.Click(`form[action$="/remove"] button`)
	b.WaitText("#push", "That browser gets no reminders any more")
	b.WaitText("#push", "No browser gets reminders yet")
}
