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
	"patchbay/internal/problem"
)

// shimForm holds the submitted form of a gateway, without the token.
type shimForm struct {
	ID       int64 // 0 means a new one
	Name     string
	URL      string
	Pin      string // fingerprint of the gateway's certificate
	Single   bool   // all boards together are one node
	Title    string
	Devices  string // one name or pattern per line
	Notices  bool
	HasToken bool // a token is stored
	Wrong    string
}

func shimURL(id int64) string { return "/gateway/shims/" + strconv.FormatInt(id, 10) }

// shim returns the gateway that the path names. On an error it has responded.
func shim(v *page.Visit, ctx context.Context) (d control.UpstreamDetail, err error) {
	id, err := strconv.ParseInt(v.PathValue("shim"), 10, 64)
	if err == nil {
		d, err = v.Instance.Control.ShowUpstream(ctx, v.Caller(), control.UpstreamOf{Upstream: id})
		if err == nil && d.Kind != control.KindShim {
			err = problem.New(problem.NotFound, msgNoShim)
		}
		return d, err
	}
	return d, problem.New(problem.NotFound, msgNoShim)
}

func shimPage(v *page.Visit) {
	d, err := shim(v, v.Context())
	if err != nil {
		v.Fail(err)
		return
	}
	v.Render(http.StatusOK, shimView(v, &d))
}

func shimLive(v *page.Visit) {
	v.LiveRefresh(refreshInterval, func(ctx context.Context, send page.SendPart) error {
		d, err := shim(v, ctx)
		if err != nil {
			return err
		}
		return send("#shim", shimState(v, &d.Upstream))
	})
}

func newShim(v *page.Visit) { v.Render(http.StatusOK, shimFormPage(v, shimForm{})) }

// readShimForm reads the form, and returns it with the settings that it stands for.
func readShimForm(v *page.Visit) (f shimForm, set control.SettingTexts) {
	f = shimForm{
		Name: strings.TrimSpace(v.FormValue("name")), URL: strings.TrimSpace(v.FormValue("url")),
		Pin:    strings.TrimSpace(v.FormValue("tls_fingerprint")),
		Single: v.FormValue("mode") == "one",
		Title:  strings.TrimSpace(v.FormValue("title")), Devices: v.FormValue("devices"),
		Notices: v.FormValue("notices") != "",
	}
	set = control.SettingTexts{}
	put := func(name string, value any, given bool) {
		set[name] = ""
		if given {
			set[name] = control.SettingText(value)
		}
	}
	put("url", f.URL, true)
	put("tls_fingerprint", f.Pin, f.Pin != "")
	put("mode", "one", f.Single)
	put("title", f.Title, f.Single && f.Title != "")
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
	f, set := readShimForm(v)
	added, err := v.Instance.Control.AddUpstream(v.Context(), v.Caller(),
		control.NewUpstream{Name: f.Name, Kind: control.KindShim, Settings: set})
	if err != nil {
		showShimForm(v, f, err)
		return
	}
	v.Redirect(shimURL(added.ID))
}

// showShimForm shows the form with an error.
func showShimForm(v *page.Visit, f shimForm, err error) {
	var status int
	if f.Wrong, status = v.Wrong(err); f.Wrong != "" {
		v.Render(status, shimFormPage(v, f))
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
		Pin     string `json:"tls_fingerprint"`
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
	v.Render(http.StatusOK, shimFormPage(v, shimForm{
		ID: d.Number, Name: d.Slug, URL: kept.URL, Pin: kept.Pin, Single: kept.Mode == "one",
		Title: kept.Title, Devices: strings.Join(kept.Devices, "\n"),
		Notices: kept.Notices, HasToken: kept.Token != "",
	}))
}

func changeShim(v *page.Visit) {
	d, err := shim(v, v.Context())
	if err != nil {
		v.Fail(err)
		return
	}
	f, set := readShimForm(v)
	f.ID, f.Name, f.HasToken = d.Number, d.Slug, d.Settings["token"] != nil
	if strings.Contains(f.URL, "•") { // masked as displayed: the query is hidden
		delete(set, "url")
	}
	changed, err := v.Instance.Control.ChangeUpstream(v.Context(), v.Caller(),
		control.UpstreamChange{Upstream: d.Number, Settings: set})
	if err != nil {
		showShimForm(v, f, err)
		return
	}
	if changed.Notice != "" { // the notice is about this change, so only this response shows it
		v.Render(http.StatusOK, shimView(v, &changed))
		return
	}
	v.Redirect(shimURL(d.Number))
}

// acceptCertificate pins the certificate whose fingerprint the visitor was shown.
func acceptCertificate(v *page.Visit) {
	d, err := shim(v, v.Context())
	if err == nil {
		_, err = v.Instance.Control.ChangeUpstream(v.Context(), v.Caller(), control.UpstreamChange{Upstream: d.Number,
			Settings: control.SettingTexts{"tls_fingerprint": v.FormValue("fingerprint")}})
	}
	if err != nil {
		v.Fail(err)
		return
	}
	v.Redirect(shimURL(d.Number))
}

// refusedNode returns a node that does not accept the certificate of its gateway, or nil.
func refusedNode(u *control.Upstream) *control.ShimNode {
	for i := range u.Nodes {
		if u.Nodes[i].Certificate != nil {
			return &u.Nodes[i]
		}
	}
	return nil
}

func removeShim(v *page.Visit) {
	d, err := shim(v, v.Context())
	if err == nil {
		_, err = v.Instance.Control.RemoveUpstream(v.Context(), v.Caller(), control.UpstreamRef{Upstream: d.Number})
	}
	if err != nil {
		v.Fail(err)
		return
	}
	v.Redirect("/gateway")
}

// gatewayState returns the status light of a gateway and its text.
func gatewayState(v *page.Visit, u *control.Upstream) (page.State, string) {
	if n := slices.IndexFunc(u.Nodes, func(n control.ShimNode) bool {
		return n.State == control.NodePairing || n.State == control.NodeApproval || n.Certificate != nil
	}); n >= 0 {
		return shimNodeState(v, u.Nodes[n].State)
	}
	return shimNodeState(v, u.State)
}

// shimNodeState returns the status light of a node at a gateway and its text.
func shimNodeState(v *page.Visit, state string) (page.State, string) {
	switch state {
	case control.UpstreamReady:
		return page.On, v.Text(msgReady)
	case control.UpstreamConnecting:
		return page.Wait, v.Text(msgConnecting)
	case control.UpstreamWaiting:
		return page.Wait, v.Text(msgTriesAgain)
	case control.UpstreamFailed:
		return page.Off, v.Text(msgNeedsAction)
	case control.UpstreamElsewhere:
		return "away", v.Text(msgElsewhere)
	case control.NodePairing:
		return page.Wait, v.Text(msgToBeLetIn)
	case control.NodeApproval:
		return page.Wait, v.Text(msgToBeApproved)
	case control.NodeUntrusted:
		return page.Bad, v.Text(page.MsgUntrusted)
	case control.NodeChanged:
		return page.Bad, v.Text(page.MsgCertChanged)
	}
	return "away", v.Text(msgUnknown)
}

// readyNodes returns the number of nodes at a gateway that are ready.
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
		return v.Text(msgJoin)
	}
	return v.Text(msgEditShim, f.Name)
}

func (f *shimForm) action() string {
	if f.ID == 0 {
		return "/gateway/shims"
	}
	return shimURL(f.ID) + "/change"
}
