package gateway

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"patchbay/internal/console/page"
	"patchbay/internal/control"
)

// shimForm is what was typed about a gateway, but for the token.
type shimForm struct {
	ID      int64 // 0: a new one
	Name    string
	URL     string
	One     bool // all boards are one node
	Title   string
	Devices string // a name or pattern on each line
	Notices bool
	Tokened bool // it has a token
	Wrong   string
}

func shimURL(id int64) string { return "/gateway/shims/" + strconv.FormatInt(id, 10) }

// shim finds the gateway that a page is about. If not, the browser was told.
func shim(v *page.Visit, ctx context.Context) (d control.UpstreamDetail, err error) {
	id, err := strconv.ParseInt(v.PathValue("shim"), 10, 64)
	if err == nil {
		d, err = v.House.Control.ShowUpstream(ctx, v.Caller(), control.UpstreamRef{Upstream: id})
		if err == nil && d.Kind != control.KindShim {
			err = control.Fail(control.Missing, sayNoShim)
		}
		return d, err
	}
	return d, control.Fail(control.Missing, sayNoShim)
}

func shimPage(v *page.Visit) {
	d, err := shim(v, v.Context())
	if err != nil {
		v.Fail(err)
		return
	}
	v.Show(http.StatusOK, shimView(v, &d))
}

func shimLive(v *page.Visit) {
	v.Keep(lookEvery, func(ctx context.Context, send page.Parts) error {
		d, err := shim(v, ctx)
		if err != nil {
			return err
		}
		return send("#shim", shimState(v, &d.Upstream))
	})
}

func newShim(v *page.Visit) { v.Show(http.StatusOK, shimFormPage(v, shimForm{})) }

// typed reads the form of a gateway, and the settings that it makes.
func typed(v *page.Visit) (f shimForm, set map[string]json.RawMessage) {
	f = shimForm{
		Name: strings.TrimSpace(v.FormValue("name")), URL: strings.TrimSpace(v.FormValue("url")), One: v.FormValue("mode") == "one",
		Title: strings.TrimSpace(v.FormValue("title")), Devices: v.FormValue("devices"), Notices: v.FormValue("notices") != "",
	}
	set = map[string]json.RawMessage{}
	put := func(name string, value any, given bool) {
		set[name] = json.RawMessage("null")
		if given {
			set[name], _ = json.Marshal(value)
		}
	}
	put("url", f.URL, true)
	put("mode", "one", f.One)
	put("title", f.Title, f.One && f.Title != "")
	devices := strings.Fields(strings.ReplaceAll(f.Devices, ",", " "))
	put("devices", devices, len(devices) > 0)
	put("notices", true, f.Notices)
	switch token := strings.TrimSpace(v.FormValue("token")); {
	case token != "":
		put("token", token, true)
	case v.FormValue("untoken") != "":
		put("token", nil, false)
	}
	return f, set
}

func addShim(v *page.Visit) {
	f, set := typed(v)
	added, err := v.House.Control.AddUpstream(v.Context(), v.Caller(), control.NewUpstream{Name: f.Name, Kind: control.KindShim, Settings: set})
	if err != nil {
		again(v, f, err)
		return
	}
	v.To(shimURL(added.ID))
}

// again shows the form with what is wrong.
func again(v *page.Visit, f shimForm, err error) {
	var status int
	if f.Wrong, status = v.Wrong(err); f.Wrong != "" {
		v.Show(status, shimFormPage(v, f))
	}
}

func editShim(v *page.Visit) {
	d, err := shim(v, v.Context())
	if err != nil {
		v.Fail(err)
		return
	}
	var kept struct {
		URL     string
		Token   string
		Mode    string
		Title   string
		Devices []string
		Notices bool
	}
	text, err := json.Marshal(d.Settings)
	if err == nil {
		err = json.Unmarshal(text, &kept)
	}
	if err != nil {
		v.Fail(err)
		return
	}
	v.Show(http.StatusOK, shimFormPage(v, shimForm{
		ID: d.Number, Name: d.Slug, URL: kept.URL, One: kept.Mode == "one", Title: kept.Title, Devices: strings.Join(kept.Devices, "\n"),
		Notices: kept.Notices, Tokened: kept.Token != "",
	}))
}

func changeShim(v *page.Visit) {
	d, err := shim(v, v.Context())
	if err != nil {
		v.Fail(err)
		return
	}
	f, set := typed(v)
	f.ID, f.Name, f.Tokened = d.Number, d.Slug, d.Settings["token"] != nil
	if strings.Contains(f.URL, "•") { // as it was shown: what is behind its ? is hidden
		delete(set, "url")
	}
	changed, err := v.House.Control.ChangeUpstream(v.Context(), v.Caller(), control.UpstreamChange{Upstream: d.Number, Settings: set})
	if err != nil {
		again(v, f, err)
		return
	}
	if changed.Notice != "" { // it is about this change, so only this answer shows it
		v.Show(http.StatusOK, shimView(v, &changed))
		return
	}
	v.To(shimURL(d.Number))
}

func removeShim(v *page.Visit) {
	d, err := shim(v, v.Context())
	if err == nil {
		_, err = v.House.Control.RemoveUpstream(v.Context(), v.Caller(), control.UpstreamRef{Upstream: d.Number})
	}
	if err != nil {
		v.Fail(err)
		return
	}
	v.To("/gateway")
}

// gatewayState is how a gateway is, as a light.
func gatewayState(v *page.Visit, u *control.Upstream) (page.State, string) {
	if n := slices.IndexFunc(u.Nodes, func(n control.ShimNode) bool {
		return n.State == control.NodePairing || n.State == control.NodeApproval
	}); n >= 0 {
		return shimNodeState(v, u.Nodes[n].State)
	}
	return shimNodeState(v, u.State)
}

// shimNodeState is how a node at a gateway is, as a light.
func shimNodeState(v *page.Visit, state string) (page.State, string) {
	switch state {
	case control.UpstreamReady:
		return page.On, v.Say(sayReady)
	case control.UpstreamConnecting:
		return page.Wait, v.Say(sayConnecting)
	case control.UpstreamWaiting:
		return page.Wait, v.Say(sayTriesAgain)
	case control.UpstreamFailed:
		return page.Off, v.Say(sayTrouble)
	case control.UpstreamElsewhere:
		return "away", v.Say(sayElsewhere)
	case control.NodePairing:
		return page.Wait, v.Say(sayToBeLetIn)
	case control.NodeApproval:
		return page.Wait, v.Say(sayToBeApproved)
	}
	return "away", v.Say(sayUnknown)
}

// readyNodes counts the nodes at a gateway that are ready.
func readyNodes(u *control.Upstream) (n int) {
	for _, node := range u.Nodes {
		if node.State == control.UpstreamReady {
			n++
		}
	}
	return n
}

func (f *shimForm) title(v *page.Visit) string {
	if f.ID == 0 {
		return v.Say(sayJoin)
	}
	return v.Say(sayEditShim, f.Name)
}

func (f *shimForm) action() string {
	if f.ID == 0 {
		return "/gateway/shims"
	}
	return shimURL(f.ID) + "/change"
}
