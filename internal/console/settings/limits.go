package settings

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"patchbay/internal/console/page"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
	"patchbay/internal/qr"
	"patchbay/internal/settings"
	"patchbay/internal/store"
)

const (
	msgYouMayDo     = i18n.Message("What you may do")
	msgMayDo        = i18n.Message("What %s may do")
	msgTheyMayDo    = i18n.Message("What they may do")
	msgMayDoTold    = i18n.Message("For a member. An administrator may do everything.")
	msgBotsToAsk    = i18n.Message("Bots of yours that they may ask")
	msgBotOf        = i18n.Message("%s, of %s")
	msgForEverybody = i18n.Message("shared with everybody")
	msgNoBotsYet    = i18n.Message("There are no bots to share yet.")
	msgAddBot       = i18n.Message("Add a bot")
	msgSharedOnly   = i18n.Message("Uses only what is shared")
	msgSharedTip    = i18n.Message("They add no bots, tool servers, nodes, programs or keys.")
	msgQuestions    = i18n.Message("Questions in a day")
	msgQuestionsTip = i18n.Message("Empty: no limit. The day begins at midnight in their time zone.")
	msgOwns         = i18n.Message("bots: %d, devices: %d")
	msgAskedOf      = i18n.Message("questions today: %d of %d")
	msgAskedToday   = i18n.Message("Today: %d of %d questions.")
	msgToolLimits   = i18n.Message("Tools that may be used")
	msgOnlyTools    = i18n.Message("Only these tools")
	msgOnlyToolsTip = i18n.Message("Names, and patterns with *, with commas between. Empty: all that they have.")
	msgToolsFit     = i18n.Message("Fit now: %s")
	msgToolsFitMore = i18n.Message("Fit now: %s, and %d more")
	msgNoToolFits   = i18n.Message("None of your tools, or of theirs, fits this now.")
	msgNoCameras    = i18n.Message("No cameras of devices")
	msgNoCamerasTip = i18n.Message("Denies tools with “camera” or “photo” in their names, or “_video” at the end. Pictures can be sent in a chat all the same.")
	msgNeverTools   = i18n.Message("Never these tools")
	msgNeverTip     = i18n.Message("Such as *_camera*. Bots do not call them for this person either.")
	msgSaveLimits   = i18n.Message("Save")

	msgInviteTitle   = i18n.Message("Invitation, or a new password")
	msgInviteTold    = i18n.Message("Make a link with which %s chooses a password, once: the first one, or a new one if it was forgotten.")
	msgInviteOpen    = i18n.Message("A link is open until %s. A new one makes it useless.")
	msgInvite        = i18n.Message("Make a link")
	msgWithdraw      = i18n.Message("Withdraw it")
	msgIsUninvited   = i18n.Message("The link is useless now.")
	msgSendLink      = i18n.Message("Send this link to %s, or let them scan the code. Whoever opens it within seven days chooses the password, once. It is not shown again.")
	msgLink          = i18n.Message("Link")
	msgLinkHere      = i18n.Message("This address works where yours does: perhaps only in your home. With a public address of this server it works everywhere.")
	msgLinkLocal     = i18n.Message("This link works on this computer only, because you opened the console at %s. Open it at the address by which others reach this computer, and make the link again.")
	msgReach         = i18n.Message("How to be reachable from everywhere")
	msgLinkQR        = i18n.Message("QR code of the link")
	msgInvitedTag    = i18n.Message("invited")
	msgByLink        = i18n.Message("With a link that you send them")
	msgByPassword    = i18n.Message("With a first password")
	msgHowSignIn     = i18n.Message("How they sign in first")
	msgPause         = i18n.Message("account\x04Pause")
	msgPauseTold     = i18n.Message("A paused account keeps everything and does nothing: browsers are signed out, keys and programs refused, devices told so when they ask.")
	msgPausedTag     = i18n.Message("paused")
	msgPausedSince   = i18n.Message("Paused since %s.")
	msgPauseNow      = i18n.Message("Pause %s")
	msgResume        = i18n.Message("End the pause")
	msgIsPaused      = i18n.Message("%s is paused.")
	msgIsResumed     = i18n.Message("%s is not paused any more.")
	msgLimitQuestion = i18n.Message("Questions in a day are a number above 0. To stop all questions, pause the account.")
)

// limitsForm holds what a person may do, as a form shows it.
type limitsForm struct {
	store.PersonLimits
	Chosen []string // numbers of bots in a submitted form; nil: none was
	Bots   []control.PersonBot
	wrong  bool // the number of questions is none
	// OnlyFit and NeverFit name the tools that fit the two fields with patterns, and CamerasFit
	// those of the box.
	OnlyFit, NeverFit, CamerasFit string
}

// readLimits reads a submitted form.
func readLimits(v *page.Visit) limitsForm {
	v.ParseForm() //nolint:errcheck // a form that cannot be read is empty, and was refused before
	f := limitsForm{Chosen: append([]string{}, v.PostForm["bots"]...), PersonLimits: store.PersonLimits{
		SharedOnly: v.FormValue("shared_only") != "", AllowTools: settings.SplitList(v.FormValue("allow_tools")),
		DenyTools: settings.SplitList(v.FormValue("deny_tools"))}}
	if v.FormValue("no_cameras") != "" {
		for _, p := range cameraTools {
			if !slices.Contains(f.DenyTools, p) {
				f.DenyTools = append(f.DenyTools, p)
			}
		}
	}
	if text := strings.TrimSpace(v.FormValue("questions")); text != "" {
		var err error
		f.Questions, err = strconv.Atoi(text)
		f.wrong = err != nil || f.Questions < 1 // 0 would be no limit
	}
	return f
}

// cameraTools match the tools that take pictures: of boards (take_photo of the camera, video), and
// of nodes (camera.snap, camera.clip).
var cameraTools = []string{"*camera*", "*photo*", "*_video"}

// splitCameras reports whether all tools that take pictures are among patterns, and returns the
// other patterns.
func splitCameras(patterns []string) (none bool, others []string) {
	isCamera := func(p string) bool { return slices.Contains(cameraTools, p) }
	for _, p := range cameraTools {
		if !slices.Contains(patterns, p) {
			return false, patterns
		}
	}
	return true, slices.DeleteFunc(slices.Clone(patterns), isCamera)
}

// chosen returns the bots that the form names.
func (f *limitsForm) chosen() []string { return f.Chosen }

// questions is the content of the field.
func (f *limitsForm) questions() string {
	if f.Questions == 0 {
		return ""
	}
	return strconv.Itoa(f.Questions)
}

// addBots adds the bots that a person may ask or could.
func (p pages) addBots(v *page.Visit, who control.PersonRef, f *limitsForm) (err error) {
	f.Bots, err = p.BotsToShare(v.Context(), v.Operator(), who)
	if f.Chosen != nil {
		for i := range f.Bots {
			b := &f.Bots[i]
			b.Shared = b.Everybody || slices.Contains(f.Chosen, strconv.FormatInt(b.ID, 10))
		}
	}
	return err
}

// maxToolsNamed is how many of the tools that fit patterns are named.
const maxToolsNamed = 8

// addMatches adds which tools the patterns of a form fit.
func (p pages) addMatches(v *page.Visit, person string, f *limitsForm) error {
	_, denied := splitCameras(f.DenyTools)
	for _, list := range []struct {
		patterns []string
		text     *string
	}{{f.AllowTools, &f.OnlyFit}, {denied, &f.NeverFit}, {cameraTools, &f.CamerasFit}} {
		if len(list.patterns) == 0 {
			continue
		}
		names, err := p.MatchingTools(v.Operator(), person, list.patterns)
		if err != nil {
			return err
		}
		switch n := len(names); {
		case n == 0:
			*list.text = v.Text(msgNoToolFits)
		case n > maxToolsNamed:
			*list.text = v.Text(msgToolsFitMore, strings.Join(names[:maxToolsNamed], ", "), n-maxToolsNamed)
		default:
			*list.text = v.Text(msgToolsFit, strings.Join(names, ", "))
		}
	}
	return nil
}

func (p pages) setLimits(v *page.Visit) {
	f := readLimits(v)
	if f.wrong {
		p.showPerson(v, http.StatusUnprocessableEntity, personForm{WrongLimits: v.Text(msgLimitQuestion), MayDo: f})
		return
	}
	bots := f.chosen()
	_, err := p.ChangePerson(v.Context(), v.Operator(), control.PersonChange{PersonRef: ref(v), Limits: &f.PersonLimits,
		Bots: &bots})
	if err != nil {
		if wrong, status := v.Wrong(err); wrong != "" {
			p.showPerson(v, status, personForm{WrongLimits: wrong, MayDo: f})
		}
		return
	}
	v.Redirect("/settings/people/" + v.PathValue("person") + "?saved=1")
}

func (p pages) pause(v *page.Visit) {
	paused := v.FormValue("paused") == "true"
	_, err := p.ChangePerson(v.Context(), v.Operator(), control.PersonChange{PersonRef: ref(v), Paused: &paused})
	if err != nil {
		if wrong, status := v.Wrong(err); wrong != "" {
			p.showPerson(v, status, personForm{WrongPause: wrong})
		}
		return
	}
	done := "?resumed=1"
	if paused {
		done = "?paused=1"
	}
	v.Redirect("/settings/people/" + v.PathValue("person") + done)
}

// invite makes the link with which a person chooses a password, and shows it.
func (p pages) invite(v *page.Visit) {
	who, err := p.Member(v.Context(), v.Operator(), ref(v))
	if err != nil {
		v.Fail(err)
		return
	}
	link, err := p.InvitePerson(v.Context(), v.Operator(), ref(v))
	if err != nil {
		v.Fail(err)
		return
	}
	p.showInvitation(v, "", who.Person, link)
}

func (p pages) withdraw(v *page.Visit) {
	if _, err := p.WithdrawInvitation(v.Context(), v.Operator(), ref(v)); err != nil {
		v.Fail(err)
		return
	}
	v.Redirect("/settings/people/" + v.PathValue("person") + "?uninvited=1")
}

// invited is the data of the page that shows a link.
type invited struct {
	control.PersonInvitation
	Done i18n.Message // what was done before; empty: nothing
	Who  control.PersonRef
	Name string
	Code *qr.Code
}

// showInvitation shows the link of a person, once.
func (p pages) showInvitation(v *page.Visit, done i18n.Message, who store.Person, link control.PersonInvitation) {
	link.URL = v.BaseURL() + link.Path
	code, err := qr.Encode(link.URL)
	if err != nil {
		v.Fail(err)
		return
	}
	v.Render(http.StatusOK, invitationPage(v, invited{link, done, control.PersonRef{Person: who.ID}, who.Name, code}))
}
