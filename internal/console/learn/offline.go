package learn

import (
	"encoding/json"
	"net/http"

	"patchbay/internal/console/page"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
	"patchbay/internal/problem"
)

// Texts of the page that needs no server.
const (
	msgOffline        = i18n.Message("Review without the server")
	msgOfflineHint    = i18n.Message("The questions of a week are kept on this device; what you do here is sent when the server is back. Your browser can install this page as an app.")
	msgUnsentCount    = i18n.Message("Reviews waiting to be sent: %d")
	msgAllSent        = i18n.Message("All reviews are sent.")
	msgKeptUntil      = i18n.Message("Questions on this device: until %s")
	msgMediaMissing   = i18n.Message("Pictures and sounds that are missing here: %d")
	msgServerGone     = i18n.Message("The server cannot be reached. Go on: your reviews are kept here until it is back.")
	msgSessionEnded   = i18n.Message("You are signed out on this device. Nothing is lost: sign in again, and what waits is sent.")
	msgSomebodyElse   = i18n.Message("Somebody else is signed in on this device. The reviews here are kept until their owner signs in again.")
	msgServerRefuses  = i18n.Message("The server did not take the reviews. They are kept here, and sent again later.")
	msgRefusedReviews = i18n.Message("Reviews that the server refused: %d")
	msgDiscard        = i18n.Message("Discard them")
	msgPackOld        = i18n.Message("The questions on this device have run out. Others come as soon as the server can be reached.")
	msgNothingHere    = i18n.Message("Nothing is kept on this device yet. Open this page once while the server can be reached.")
	msgLoading        = i18n.Message("One moment…")
	msgInstall        = i18n.Message("Install as an app")
	msgSignInAgain    = i18n.Message("Sign in")
	msgReviewedHere   = i18n.Message("Reviewed on this page: %d")
	msgYourWords      = i18n.Message("What you wrote")
	msgNeedsScript    = i18n.Message("This page needs JavaScript.")
)

// offlineTexts are the texts of the script, by the names that it has for them. Their verbs are
// replaced in their order.
var offlineTexts = map[string]i18n.Message{
	"waiting": msgUnsentCount, "sent": msgAllSent, "until": msgKeptUntil, "missing": msgMediaMissing,
	"offline": msgServerGone, "out": msgSessionEnded, "other": msgSomebodyElse, "failed": msgServerRefuses,
	"refused": msgRefusedReviews, "discard": msgDiscard, "old": msgPackOld, "nothing": msgNothingHere,
	"loading": msgLoading, "install": msgInstall, "signin": msgSignInAgain, "count": msgReviewedHere,
	"yours": msgYourWords, "done": msgAllDone, "later": msgLaterToday, "question": msgQuestion,
	"answer": msgAnswer, "reveal": msgReveal, "space": msgSpaceKey, "recall": msgRecall, "how": msgHowWell,
	"undo": msgUndo, "progress": msgProgress, "number": msgDoneOf, "default": msgDefaultDeck,
	"minutes": msgWaitMinutes, "hours": msgWaitHours, "days": msgWaitDays, "months": msgWaitMonths,
	"years": msgWaitYears, "grade1": msgAgain, "grade2": msgHard, "grade3": msgGood, "grade4": msgEasy,
}

// maxReviewsBody limits reviews that a device sends, in bytes: those of the script have less than
// half of it.
const maxReviewsBody = 8 << 20

// offlineRoutes returns the page that needs no server, and what its script uses. The script must
// learn that nobody is signed in, so its endpoints answer themselves.
func (p *pages) offlineRoutes() []page.Route {
	return []page.Route{
		{Pattern: "GET /learn/offline", Serve: p.offline},
		{Pattern: "GET /learn/offline/queue", Access: page.Anybody, Serve: p.offlineQueue},
		{Pattern: "POST /learn/offline/reviews", Access: page.Anybody, Serve: p.offlineReviews, Large: true},
		{Pattern: "GET /learn/worker.js", Access: page.Anybody, Serve: p.worker},
		{Pattern: "GET /learn/manifest.webmanifest", Access: page.Anybody, Serve: p.manifest},
	}
}

// offline shows the page. Browsers keep it, so that it has nothing of a person.
func (p *pages) offline(v *page.Visit) {
	texts := map[string]string{}
	for name, m := range offlineTexts {
		texts[name] = v.Text(m)
	}
	text, err := json.Marshal(texts)
	if err != nil {
		v.Fail(err)
		return
	}
	_, version := page.Worker()
	v.W.Header().Set("Patchbay-Offline", version)
	v.Render(ok, offlinePage(v, string(text)))
}

// offlineQueue gives the script what it needs for some days.
func (p *pages) offlineQueue(v *page.Visit) {
	if !v.IsSignedIn() {
		replyJSON(v, http.StatusUnauthorized, nil)
		return
	}
	pack, err := v.Instance.Control.Learning().Offline(v.Context(), v.Caller(), control.LearnOfflineQuery{})
	if err != nil {
		replyError(v, err)
		return
	}
	replyJSON(v, ok, pack)
}

// offlineReviews takes reviews that were made without the server.
func (p *pages) offlineReviews(v *page.Visit) {
	if !v.IsSignedIn() {
		replyJSON(v, http.StatusUnauthorized, nil)
		return
	}
	var in control.LearnSync
	err := json.NewDecoder(http.MaxBytesReader(v.W, v.Body, maxReviewsBody)).Decode(&in)
	if err != nil {
		replyError(v, problem.New(problem.Invalid, msgBadReviews))
		return
	}
	out, err := v.Instance.Control.Learning().Sync(v.Context(), v.Caller(), in)
	if err != nil {
		replyError(v, err)
		return
	}
	replyJSON(v, ok, out)
}

const msgBadReviews = i18n.Message("The reviews cannot be read.")

// replyError answers a script with the message about an error.
func replyError(v *page.Visit, err error) {
	if text, status := v.Wrong(err); text != "" {
		replyJSON(v, status, map[string]string{"error": text})
	}
}

// replyJSON answers a script.
func replyJSON(v *page.Visit, status int, value any) {
	v.W.Header().Set("Content-Type", "application/json")
	v.W.WriteHeader(status)
	json.NewEncoder(v.W).Encode(value) //nolint:errcheck // the browser may have disconnected
}

// worker serves the service worker, for all pages of Learn. Its address must stay the same;
// browsers compare its contents to find a new version.
func (p *pages) worker(v *page.Visit) {
	text, _ := page.Worker()
	v.W.Header().Set("Content-Type", "text/javascript; charset=utf-8")
	v.W.Header().Set("Cache-Control", "no-cache")
	// Its path is below /learn/, and its scope begins without the slash (Service Workers §6.3.2).
	v.W.Header().Set("Service-Worker-Allowed", "/learn")
	v.W.Write([]byte(text)) //nolint:errcheck // the browser may have disconnected
}

// manifest describes the app to browsers that install it (W3C Web Application Manifest).
func (p *pages) manifest(v *page.Visit) {
	type icon struct {
		Source  string `json:"src"`
		Sizes   string `json:"sizes"`
		Type    string `json:"type"`
		Purpose string `json:"purpose,omitempty"`
	}
	icons := []icon{}
	for _, size := range []string{"192", "512"} {
		for _, purpose := range []string{"any", "maskable"} {
			icons = append(icons, icon{page.AssetURL("icon-" + size + ".png"), size + "x" + size, "image/png", purpose})
		}
	}
	v.W.Header().Set("Content-Type", "application/manifest+json")
	v.W.Header().Set("Cache-Control", "no-cache")
	text, err := json.Marshal(map[string]any{
		"id": "/learn", "name": "Patchbay · " + v.Text(msgLearn), "short_name": v.Text(msgLearn), "lang": v.Lang.Tag(),
		"start_url": "/learn/offline", "scope": "/learn", "display": "standalone",
		"background_color": "#f6f7f9", "theme_color": "#0b63ce", "icons": icons,
	})
	if err != nil {
		v.Fail(err)
		return
	}
	v.W.Write(text) //nolint:errcheck // the browser may have disconnected
}
