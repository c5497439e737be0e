// Package talk serves the page on which a browser is a voice board: it talks with a bot by the
// computer's microphone and speaker.
//
// The page's script (page/assets/talk) speaks the boards' own protocol with the boards' own
// addresses, so everything that holds for a board holds for it. This package only shows the page,
// and approves the board in the name of whoever is signed in, so that nobody has to type a code.
package talk

import (
	"encoding/json"
	"net/http"
	"strings"

	"patchbay/internal/console/page"
	"patchbay/internal/control"
	"patchbay/internal/problem"
	"patchbay/internal/store"
)

// Routes returns the page and what its script asks for.
func Routes() []page.Route {
	return []page.Route{
		{Pattern: "GET /talk", Serve: show},
		{Pattern: "GET /talk/board", Serve: board},
		{Pattern: "POST /talk/board", Access: page.Confirmed, Serve: approve},
		{Pattern: "POST /talk/bot", Serve: changeBot},
	}
}

// Paths of the boards' endpoints.
const (
	otaPath    = "/xiaozhi/ota/"
	socketPath = "/xiaozhi/v1/"
	visionPath = "/xiaozhi/vision"
)

// config is what the script needs to know.
type config struct {
	Person string `json:"person"` // whose board it is: other people in this browser have their own

	// Addresses of the boards. The script does not use those that the server tells a board, which
	// may name the server differently: the page may only connect to where it came from.
	OTA    string `json:"ota"`
	Socket string `json:"socket"`
	Vision string `json:"vision"`

	Board   string            `json:"board"`
	Approve string            `json:"approve"`
	Bot     string            `json:"bot"`
	Confirm string            `json:"confirm"` // where the password is asked for
	Texts   map[string]string `json:"texts"`
}

func newConfig(v *page.Visit) config {
	texts := map[string]string{}
	for name, m := range scriptTexts {
		texts[name] = v.Text(m)
	}
	return config{
		Person: v.Session.Person.ID, OTA: otaPath, Socket: socketPath, Vision: visionPath,
		Board: "/talk/board", Approve: "/talk/board", Bot: "/talk/bot", Confirm: "/confirm?next=%2Ftalk", Texts: texts,
	}
}

// show shows the page.
func show(v *page.Visit) {
	bots, err := v.Instance.Control.BotStates(v.Context(), v.Caller())
	if err != nil {
		v.Fail(err)
		return
	}
	ready, err := v.Instance.Control.VoiceReady(v.Context())
	if err != nil {
		v.Fail(err)
		return
	}
	v.Render(http.StatusOK, talkPage(v, bots, !ready))
}

// board responds with the person's board of a hardware address, or null if there is none any more.
func board(v *page.Visit) {
	d, err := v.Instance.Control.Device(v.Context(), v.Caller(), control.DeviceRef{Device: v.FormValue("device")})
	if e := control.AsError(err); e != nil && e.Code == problem.NotFound {
		writeJSON(v, http.StatusOK, nil)
		return
	}
	respond(v, d, err)
}

// approve makes the board that got a code the person's. It uses the WebSocket whatever other boards
// use: pages have nothing else.
func approve(v *page.Visit) {
	d, err := v.Instance.Control.ApproveDevice(v.Context(), v.Caller(),
		control.Approval{Code: strings.TrimSpace(v.FormValue("code")), Bot: chosenBot(v)})
	if err == nil && d.Transport != store.TransportSocket {
		transport := store.TransportSocket
		d, err = v.Instance.Control.ChangeDevice(v.Context(), v.Caller(),
			control.DeviceChange{Device: d.Hardware, Transport: &transport})
	}
	respond(v, d, err)
}

// chosenBot returns the chosen bot, by its number as in [respond].
func chosenBot(v *page.Visit) string {
	if bot := v.FormValue("bot"); bot != "0" {
		return bot
	}
	return control.NoBot
}

// changeBot changes who answers.
func changeBot(v *page.Visit) {
	bot := chosenBot(v)
	d, err := v.Instance.Control.ChangeDevice(v.Context(), v.Caller(),
		control.DeviceChange{Device: v.FormValue("device"), Bot: &bot})
	respond(v, d, err)
}

// respond responds to the script with a board, or with what is wrong.
func respond(v *page.Visit, d control.Device, err error) {
	if err == nil {
		writeJSON(v, http.StatusOK, struct {
			ID   int64  `json:"id"`
			Name string `json:"name"`
			Bot  int64  `json:"bot"`
		}{d.Number, d.Name, d.Bot})
	} else if text, status := v.Wrong(err); text != "" { // otherwise the browser has disconnected
		writeJSON(v, status, map[string]string{"error": text})
	}
}

func writeJSON(v *page.Visit, status int, answer any) {
	v.W.Header().Set("Content-Type", "application/json")
	v.W.WriteHeader(status)
	json.NewEncoder(v.W).Encode(answer) //nolint:errcheck // the browser has disconnected
}
