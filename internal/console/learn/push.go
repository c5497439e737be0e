package learn

import (
	"encoding/json"
	"errors"

	"patchbay/internal/console/page"
	"patchbay/internal/i18n"
	"patchbay/internal/plug/learn/push"
	"patchbay/internal/problem"
	"patchbay/internal/store"
	"patchbay/internal/webpush"
)

// Texts of the part of the settings about browsers that get reminders.
const (
	msgPushDevices = i18n.Message("Reminders in browsers")
	msgPushHint    = i18n.Message("A browser shows a reminder even if no page is open. Its maker's service carries it, and cannot read it.")
	msgPushHere    = i18n.Message("Remind me in this browser")
	msgPushDenied  = i18n.Message("This browser does not allow it, or its service cannot be reached. Allow notifications for this page in the browser's settings, and try again.")
	msgPushTest    = i18n.Message("Send a test message")
	msgPushTested  = i18n.Message("Test messages sent: %d")
	msgPushFailed  = i18n.Message("The test message could not be delivered: %s")
	msgPushNone    = i18n.Message("No browser gets reminders yet.")
	msgPushAdded   = i18n.Message("This browser gets reminders now. Choose “browsers” above, and a time.")
	msgPushRemoved = i18n.Message("That browser gets no reminders any more.")
	msgPushRemove  = i18n.Message("Remove")
	msgPushSince   = i18n.Message("since %s, last message %s")
	msgPushNever   = i18n.Message("never")
	msgByPush      = i18n.Message("in browsers that are chosen below")
	msgTestTitle   = i18n.Message("A test of Patchbay")
	msgTestText    = i18n.Message("Reminders to review come like this.")
)

// pushPart is the part of the settings about browsers that get reminders.
type pushPart struct {
	Key     string
	Devices []store.PushDevice
	Note    string
}

// pushRoutes returns what that part uses.
func (p *pages) pushRoutes() []page.Route {
	if p.Push == nil {
		return nil
	}
	return []page.Route{
		{Pattern: "POST /learn/push", Serve: p.addBrowser},
		{Pattern: "POST /learn/push/test", Serve: p.testBrowsers},
		{Pattern: "POST /learn/push/{device}/remove", Serve: p.removeBrowser},
	}
}

// pushOf returns the part for a person; nil if there is none.
func (p *pages) pushOf(v *page.Visit) (*pushPart, error) {
	if p.Push == nil {
		return nil, nil
	}
	key, err := p.Push.PublicKey(v.Context())
	if err != nil {
		return nil, err
	}
	out := &pushPart{Key: key}
	if v.FormValue("pushed") != "" {
		out.Note = v.Text(msgPushAdded)
	}
	if v.FormValue("removed") != "" {
		out.Note = v.Text(msgPushRemoved)
	}
	out.Devices, err = p.Push.Devices(v.Context(), personID(v))
	return out, err
}

// addBrowser takes the subscription of a browser from its script.
func (p *pages) addBrowser(v *page.Visit) {
	var to webpush.Subscription
	if err := json.NewDecoder(v.Body).Decode(&to); err != nil {
		replyError(v, problem.New(problem.Invalid, msgPushDenied))
		return
	}
	if err := p.Push.Subscribe(v.Context(), personID(v), v.BrowserName(v.UserAgent()), to); err != nil {
		replyError(v, err)
		return
	}
	replyJSON(v, ok, map[string]bool{"added": true})
}

// testBrowsers sends a message to all browsers of the person.
func (p *pages) testBrowsers(v *page.Visit) {
	sent, err := p.Push.Send(v.Context(), personID(v), push.Notice{Title: v.Text(msgTestTitle),
		Text: v.Text(msgTestText), Tag: "learn-test", Path: "/learn/offline"})
	text := v.Text(msgPushTested, sent)
	if err != nil {
		if errors.Is(err, v.Context().Err()) {
			return
		}
		v.Instance.Logger.WarnContext(v.Context(), "a test message was not delivered", "error", err)
		text = v.Text(msgPushFailed, err.Error())
	}
	p.showPush(v, text)
}

// removeBrowser removes a browser of the person.
func (p *pages) removeBrowser(v *page.Visit) {
	if err := p.Push.Remove(v.Context(), personID(v), v.PathValue("device")); err != nil {
		v.Fail(err)
		return
	}
	v.Redirect("/learn/settings?removed=1")
}

// showPush shows the settings with a note about browsers.
func (p *pages) showPush(v *page.Visit, note string) {
	f, err := p.settingsForm(v)
	if err != nil {
		v.Fail(err)
		return
	}
	f.Push.Note = note
	if v.IsPartial() {
		v.Render(ok, pushCard(v, f.Push))
		return
	}
	v.Render(ok, settingsPage(v, f))
}
