package bots

import (
	"net/http"
	"slices"

	"patchbay/internal/console/page"
	"patchbay/internal/control"
	"patchbay/internal/hub"
)

// kinds returns the kinds of bots that can be added, the best known first.
func kinds(v *page.Visit) []string {
	there := v.Instance.Control.Kinds()
	var out []string
	for _, name := range kindOrder {
		if slices.Contains(there, name) {
			out = append(out, name)
		}
	}
	for _, name := range there {
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// addPage shows the choice of kinds, or the form for a new bot of one kind.
func addPage(v *page.Visit) {
	if !v.RequireAdding() {
		return
	}
	kind := v.FormValue("kind")
	if kind == "" {
		v.Render(http.StatusOK, kindsPage(v, kinds(v)))
		return
	}
	list, ok := describe(v, kind)
	if !ok || !isKindAllowed(v, kind) {
		return
	}
	f := newForm(list, nil)
	f.TakesRole, f.Role = control.TakesRole(list), v.FormValue("role")
	if f.TakesRole && f.Role != "" {
		r, set, err := v.Instance.Control.Role(v.Caller(), f.Role, v.FormValue("lang"), list)
		if err != nil {
			v.NotFound()
			return
		}
		f.Name, f.Description = r.Name, r.About
		f.fill(set)
	}
	if err := f.fillFound(v, kind); err != nil {
		v.Fail(err)
		return
	}
	v.Render(http.StatusOK, newPage(v, kind, f))
}

// fillFound fills in what is known of something that was found on the machine or in the network.
// The address in the query has to be one of these, so that no link fills in another one.
func (f *form) fillFound(v *page.Visit, kind string) error {
	address := v.FormValue("found")
	if address == "" || !v.IsAdmin() {
		return nil
	}
	list, err := v.Instance.Control.Discover(v.Context(), v.Operator(), control.Empty{})
	for _, d := range list.Found {
		if k, set := d.BotSettings(); k == kind && d.Address == address {
			f.fill(set)
			f.Name = d.Name
		}
	}
	return err
}

// describe returns the settings of a kind of bot. If the kind does not exist, it has responded and
// returns false.
func describe(v *page.Visit, kind string) ([]hub.Setting, bool) {
	list, err := v.Instance.Control.KindSettings(kind)
	if err != nil {
		v.NotFound()
		return nil, false
	}
	return list, true
}

// isKindAllowed reports whether the visitor may add a bot of a kind now. An inbound bot has a
// token, which is shown, so the password must have been entered recently. If not, it has redirected
// the browser.
func isKindAllowed(v *page.Visit, kind string) bool {
	return !v.Instance.Control.IsInbound(kind) || v.RequireConfirmation("/bots/new?kind="+kind)
}

// add adds a bot.
func add(v *page.Visit) {
	kind := v.FormValue("kind")
	list, ok := describe(v, kind)
	if !ok {
		return
	}
	f := newForm(list, nil)
	set := f.readValues(v)
	b, err := v.Instance.Control.AddBot(v.Context(), v.Caller(),
		control.NewBot{Name: f.Name, Kind: kind, Description: f.Description, Settings: set})
	switch {
	case err != nil:
		wrong(v, err, func(status int, text string) {
			f.setError(v, text)
			v.Render(status, newPage(v, kind, f))
		})
	case b.SDKToken != "":
		v.Render(http.StatusOK, tokenPage(v, b.BotStatus, b.SDKToken, v.Text(msgAdded, b.Name)))
	default:
		v.Redirect(botPath(b.BotStatus, "") + "?done=added")
	}
}
