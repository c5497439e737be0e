// Package find serves what is found in everything at once: pages, actions, bots, devices, tools,
// knowledge points and the manual. The command palette of all pages shows it (assets/palette.js),
// and so does a page of its own, without JavaScript.
package find

import (
	"cmp"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"patchbay/internal/console/manual"
	"patchbay/internal/console/page"
	"patchbay/internal/console/settings"
	"patchbay/internal/console/toolwords"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
	"patchbay/internal/plug/learn/markdown"
)

// Routes returns the pages.
func Routes() []page.Route { return []page.Route{{Pattern: "GET /find", Serve: find}} }

const (
	msgNone      = i18n.Message("Nothing was found")
	msgPage      = i18n.Message("Page")
	msgAction    = i18n.Message("Action")
	msgBot       = i18n.Message("Bot")
	msgDevice    = i18n.Message("Device")
	msgTool      = i18n.Message("Tool")
	msgPoint     = i18n.Message("Knowledge point")
	msgManual    = i18n.Message("Manual")
	msgAddBot    = i18n.Message("Add a bot")
	msgAddKey    = i18n.Message("Create a key")
	msgAddPoint  = i18n.Message("Add a knowledge point")
	msgAddServer = i18n.Message("Add a tool server")
	msgAddPerson = i18n.Message("Add a person")
	msgSetting   = i18n.Message("Settings: %s")
	msgPerson    = i18n.Message("Person")
	msgReview    = i18n.Message("Review now")
	msgTalkWith  = i18n.Message("Talk with %s")
)

// perKind is how many of one kind are listed.
const perKind = 5

// hit is a line of the list.
type hit struct {
	Kind, Name, Path string
}

// actions are what can be done from everywhere.
var actions = []struct {
	name  i18n.Message
	path  string
	adds  bool // for those who may add such things
	admin bool // for administrators
}{
	{msgReview, "/learn/review", false, false}, {msgAddPoint, "/learn/points/new", false, false},
	{msgAddBot, "/bots/new", true, false}, {msgAddServer, "/tools/upstreams/new", true, false},
	{msgAddKey, "/keys/new", true, false}, {msgAddPerson, "/settings/people/new", false, true},
}

func find(v *page.Visit) {
	query := strings.TrimSpace(strings.ToValidUTF8(v.URL.Query().Get("q"), ""))
	if letters := []rune(query); len(letters) > page.MaxSearch {
		query = string(letters[:page.MaxSearch])
	}
	hits, err := search(v, query)
	if err != nil {
		v.Fail(err)
		return
	}
	if v.IsPartial() {
		v.Render(http.StatusOK, options(v, hits))
		return
	}
	v.Render(http.StatusOK, findPage(v, query, hits))
}

// search returns what fits a query: without one the pages and the actions.
func search(v *page.Visit, query string) ([]hit, error) {
	var hits []hit
	add := func(kind i18n.Message, name, path string) { hits = append(hits, hit{v.Text(kind), name, path}) }
	for _, p := range page.Places() {
		if fits(v.Text(p.Name), query) {
			add(msgPage, v.Text(p.Name), p.Path)
		}
	}
	for _, p := range settings.Places(v.IsAdmin()) {
		if name := v.Text(msgSetting, p.Name); query != "" && fits(name, query) {
			add(msgPage, name, p.Path)
		}
	}
	for _, a := range actions {
		if a.adds && !v.MayAdd() || a.admin && !v.IsAdmin() {
			continue
		}
		if fits(v.Text(a.name), query) {
			add(msgAction, v.Text(a.name), a.path)
		}
	}
	if query == "" {
		return hits, nil
	}
	for _, part := range []func(*page.Visit, string, func(i18n.Message, string, string)) error{
		findBots, findDevices, findPeople, findTools, findPoints, findManual} {
		if err := part(v, query, add); err != nil {
			return nil, err
		}
	}
	return hits, nil
}

// fits reports whether a name has all words of a query.
func fits(name, query string) bool {
	name = strings.ToLower(name)
	for word := range strings.FieldsSeq(strings.ToLower(query)) {
		if !strings.Contains(name, word) {
			return false
		}
	}
	return true
}

func findBots(v *page.Visit, query string, add func(i18n.Message, string, string)) error {
	mine, err := v.Instance.Control.BotChoices(v.Context(), v.Caller())
	n := 0
	for _, b := range mine {
		talk := v.Text(msgTalkWith, b.Name)
		if !fits(b.Name, query) && !fits(talk, query) || n == perKind {
			continue
		}
		n++
		path := "/bots/" + strconv.FormatInt(b.Number, 10)
		add(msgBot, b.Name, path)
		add(msgAction, talk, path+"/chat")
	}
	return err
}

func findDevices(v *page.Visit, query string, add func(i18n.Message, string, string)) error {
	found, err := v.Instance.Control.Devices(v.Context(), v.Caller(), control.DeviceQuery{Text: query, Limit: perKind})
	for _, d := range found.Devices {
		add(msgDevice, d.Name, "/devices/"+strconv.FormatInt(d.Number, 10))
	}
	return err
}

// findPeople finds accounts, for administrators.
func findPeople(v *page.Visit, query string, add func(i18n.Message, string, string)) error {
	if !v.IsAdmin() {
		return nil
	}
	list, err := v.Instance.Control.AllPeople(v.Context(), v.Operator())
	n := 0
	for _, p := range list {
		if n < perKind && fits(p.Name, query) {
			add(msgPerson, p.Name, "/settings/people/"+p.ID)
			n++
		}
	}
	return err
}

func findTools(v *page.Visit, query string, add func(i18n.Message, string, string)) error {
	translate := func(text string) string { return toolwords.Translate(v.Lang, text) }
	found, err := v.Instance.Control.BrowseTools(v.Context(), v.Caller(),
		control.ToolFilter{Text: query, Limit: perKind, Shown: translate})
	for _, t := range found.Tools {
		add(msgTool, cmp.Or(toolwords.Own(v.Lang, t.Kind, t.Title), t.Name), "/tools/"+url.PathEscape(t.Name))
	}
	return err
}

// findPoints finds knowledge points by their words: a service for vectors is not asked about each
// letter that is typed. What is no query of Learn's, such as an open parenthesis, finds none.
func findPoints(v *page.Visit, query string, add func(i18n.Message, string, string)) error {
	if v.Instance.Control.Points == nil {
		return nil
	}
	found, err := v.Instance.Control.Learning().Points(v.Context(), v.Caller(),
		control.LearnPointsQuery{Query: query, ByWords: true, Limit: perKind})
	if control.AsError(err) != nil {
		return nil
	}
	for _, p := range found.Points {
		name := cmp.Or(page.FirstLine(markdown.Plain(p.Question), nameLength), page.FirstLine(p.Question, nameLength))
		add(msgPoint, name, "/learn/points/"+url.PathEscape(p.ID))
	}
	return err
}

func findManual(v *page.Visit, query string, add func(i18n.Message, string, string)) error {
	found, err := manual.Search(v.Lang, query, perKind)
	for _, s := range found {
		add(msgManual, s.Name, s.Path)
	}
	return err
}

// nameLength is how many characters of a question a line shows.
const nameLength = 100
