// Package tools serves the pages about the tools that programs and bots can call: the list, the
// rules about who may call them, and the servers that provide them.
package tools

import (
	"cmp"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"patchbay/internal/console/page"
	"patchbay/internal/console/schemaform"
	"patchbay/internal/console/toolwords"
	"patchbay/internal/control"
	"patchbay/internal/tool"
)

// Routes returns the pages below /tools.
func Routes() []page.Route {
	return []page.Route{
		{Pattern: "GET /tools", Serve: list},
		{Pattern: "GET /tools/rules", Serve: rules},
		{Pattern: "GET /tools/sets", Serve: sets},
		{Pattern: "POST /tools/sets", Access: page.Confirmed, Serve: saveSet},
		{Pattern: "POST /tools/sets/{set}/remove", Access: page.Confirmed, Serve: removeSet},
		{Pattern: "POST /tools/rules", Access: page.Confirmed, Serve: addRule},
		{Pattern: "GET /tools/{name}", Serve: show},
		{Pattern: "POST /tools/{name}/rule", Access: page.Confirmed, Serve: decide},
		{Pattern: "POST /tools/{name}/words", Access: page.Confirmed, Serve: reword},
		{Pattern: "POST /tools/{name}/call", Serve: try},
		{Pattern: "GET /tools/upstreams", Serve: upstreams},
		{Pattern: "GET /tools/upstreams/live", Serve: upstreamsLive},
		{Pattern: "GET /tools/upstreams/new", Access: page.Confirmed, Serve: newUpstream},
		{Pattern: "POST /tools/upstreams/look", Access: page.Confirmed, Serve: checkNew},
		{Pattern: "POST /tools/upstreams", Access: page.Confirmed, Serve: addUpstream},
		{Pattern: "GET /tools/upstreams/registry", Serve: searchRegistry},
		{Pattern: "GET /tools/upstreams/registry/add", Access: page.Confirmed, Serve: registryForm},
		{Pattern: "POST /tools/upstreams/registry/add", Access: page.Confirmed, Serve: addFromRegistry},
		{Pattern: "GET /tools/upstreams/{upstream}", Serve: upstreamPage},
		{Pattern: "GET /tools/upstreams/{upstream}/live", Serve: upstreamLive},
		{Pattern: "GET /tools/upstreams/{upstream}/edit", Access: page.Confirmed, Serve: editUpstream},
		{Pattern: "POST /tools/upstreams/{upstream}/look", Access: page.Confirmed, Serve: checkChanged},
		{Pattern: "POST /tools/upstreams/{upstream}/change", Access: page.Confirmed, Serve: changeUpstream},
		{Pattern: "POST /tools/upstreams/{upstream}/rotate", Access: page.Confirmed, Serve: rotateUpstream},
		{Pattern: "POST /tools/upstreams/{upstream}/approve", Access: page.Confirmed, Serve: approveUpstream},
		{Pattern: "POST /tools/upstreams/{upstream}/share", Access: page.Confirmed, Serve: shareUpstream},
		{Pattern: "POST /tools/upstreams/{upstream}/signin", Access: page.Confirmed, Serve: startSignIn},
		{Pattern: "POST /tools/upstreams/{upstream}/signin/answer", Access: page.Confirmed, Serve: answerSignIn},
		{Pattern: "POST /tools/upstreams/{upstream}/signout", Serve: forgetSignIn},
		{Pattern: "GET /oauth/upstream", Serve: returned},
		{Pattern: "POST /tools/upstreams/{upstream}/remove", Serve: removeUpstream},
	}
}

const (
	// pageSize is the number of rules, servers, or found tools on a page.
	pageSize = 50
	// overviewProviders and overviewTools limit a page of all tools, where those of a provider are
	// closed. Where it has not all of them, there is a link to the rest.
	overviewProviders, overviewTools = 50, 100
)

// group holds the tools of one provider, as far as they are on the page.
type group struct {
	control.ToolGroup
	Title string
	Tools []control.Tool
}

// groupTools groups tools by provider.
func groupTools(v *page.Visit, p *control.ToolPage) []group {
	out := make([]group, len(p.Groups))
	at := map[string]*group{}
	for i, g := range p.Groups {
		out[i] = group{ToolGroup: g, Title: providerName(v, g.Tool)}
		at[g.Tool.Provider] = &out[i]
	}
	for _, t := range p.Tools {
		g := at[t.Provider]
		g.Tools = append(g.Tools, t)
	}
	return out
}

// fewTools is how many tools are shown open if there is only one provider.
const fewTools = 12

// isOpen reports whether the group is shown with its tools: somebody looks for them, or there are
// few.
func (g *group) isOpen(f control.ToolFilter, p *control.ToolPage) bool {
	return !f.IsOverview() || f.After == 0 && len(p.Groups) == 1 && g.Count <= fewTools
}

// providerName returns the displayed name of a tool's provider.
func providerName(v *page.Visit, t control.Tool) string {
	switch t.Kind {
	case "learn":
		return v.Text(msgLearn)
	case "bots":
		return v.Text(msgBots)
	}
	if t.ProviderName == "" {
		return t.Provider
	}
	return t.ProviderName
}

// providerKind returns the kind of a tool's provider, and the path of its page, if it has one.
func providerKind(v *page.Visit, t control.Tool) (kind, link string) {
	name, number, _ := strings.Cut(t.Provider, ":")
	number, _, _ = strings.Cut(number, ":") // of one that is shared, the person follows
	switch {
	case t.Kind == "upstream":
		return v.Text(msgToolServer), "/tools/upstreams/" + number
	case name == "board":
		return v.Text(msgBoard), "/devices/" + number
	case name == "node":
		return v.Text(msgNode), "/gateway"
	case t.Kind == "learn":
		return v.Text(msgPart), "/learn"
	case t.Kind == "bots":
		return v.Text(msgPart), "/bots"
	}
	return t.Kind, ""
}

// filter reads the filter from the URL.
func filter(v *page.Visit) control.ToolFilter {
	q := v.URL.Query()
	f := control.ToolFilter{Text: strings.TrimSpace(q.Get("q")), From: q.Get("from"), State: q.Get("state"),
		Limit: pageSize, Providers: overviewProviders}
	f.After, _ = strconv.Atoi(q.Get("after"))
	if f.State != control.ToolWaiting && f.State != control.ToolDenied {
		f.State = ""
	}
	if f.IsOverview() {
		f.Limit = overviewTools
	}
	return f
}

// listURL returns the URL of the list with a filter.
func listURL(f control.ToolFilter) string {
	q := url.Values{}
	for name, value := range map[string]string{"q": f.Text, "from": f.From, "state": f.State} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if f.After > 0 {
		q.Set("after", strconv.Itoa(f.After))
	}
	if len(q) == 0 {
		return "/tools"
	}
	return "/tools?" + q.Encode()
}

func list(v *page.Visit) {
	f := filter(v)
	f.Shown = func(text string) string { return toolwords.Translate(v.Lang, text) }
	p, err := v.Instance.Control.BrowseTools(v.Context(), v.Caller(), f)
	if err != nil {
		v.Fail(err)
		return
	}
	if v.IsPartial() {
		v.Render(http.StatusOK, found(v, f, &p))
		return
	}
	v.Render(http.StatusOK, listPage(v, f, &p))
}

func toolURL(name string) string { return "/tools/" + url.PathEscape(name) }

// trial is a call of a tool from its page.
type trial struct {
	Form   *schemaform.Form
	Result *tool.Result
	Failed error  // error of the call
	Wrong  string // error of the input
	// Words are what was submitted about its name and texts; nil: nothing.
	Words *wordsForm
}

func show(v *page.Visit) {
	t, err := v.Instance.Control.FindTool(v.Context(), v.Caller(), v.PathValue("name"))
	if err != nil {
		v.Fail(err)
		return
	}
	showTool(v, http.StatusOK, t, trial{Form: formOf(v, t)})
}

func showTool(v *page.Visit, status int, t control.Tool, tr trial) {
	users, err := v.Instance.Control.ToolUsers(v.Context(), v.Caller(), t)
	if err != nil {
		v.Fail(err)
		return
	}
	if tr.Words == nil {
		f, err := wordsOf(v, t)
		if err != nil {
			v.Fail(err)
			return
		}
		tr.Words = &f
	}
	v.Render(status, toolPage(v, t, users, tr))
}

// decide sets or removes the rule of a tool.
func decide(v *page.Visit) {
	name := v.PathValue("name")
	if _, err := v.Instance.Control.DecideTool(v.Context(), v.Caller(),
		control.ToolDecision{Name: name, Rule: v.FormValue("rule")}); err != nil {
		v.Fail(err)
		return
	}
	if v.FormValue("back") == "rules" {
		v.Redirect("/tools/rules")
		return
	}
	v.Redirect(toolURL(name))
}

// try calls a tool with the submitted arguments.
func try(v *page.Visit) {
	t, err := v.Instance.Control.FindTool(v.Context(), v.Caller(), v.PathValue("name"))
	if err != nil {
		v.Fail(err)
		return
	}
	tr := trial{Form: formOf(v, t)}
	v.FormValue("") // parses the form
	status := http.StatusOK
	args, ok := tr.Form.Parse(v.Lang, v.PostForm)
	if !ok {
		status, tr.Wrong = http.StatusUnprocessableEntity, v.Text(msgLookAgain)
	} else if tr.Result, err = v.Instance.Control.TryTool(v.Context(), v.Caller(), t.Name, args, nil); err != nil {
		if v.Context().Err() != nil {
			return
		}
		if tr.Result = nil; control.AsError(err) != nil {
			tr.Wrong, status = v.Wrong(err)
		} else {
			tr.Failed, status = err, http.StatusBadGateway
		}
	}
	if v.IsPartial() {
		v.Render(http.StatusOK, trialForm(v, t, tr)) // shows the result or the error
		return
	}
	showTool(v, status, t, tr)
}

// stateWords returns the name of a state.
func stateWords(v *page.Visit, state string) string {
	switch state {
	case control.ToolDenied:
		return v.Text(msgDenied)
	case control.ToolDangerous:
		return v.Text(msgDangerous)
	case control.ToolHeld:
		return v.Text(msgHeld)
	case control.ToolPersonal:
		return v.Text(msgPersonal)
	}
	return v.Text(msgAllowed)
}

// stateLight returns the status light of a state.
func stateLight(state string) page.State {
	switch state {
	case control.ToolAllowed:
		return page.On
	case control.ToolDenied:
		return page.Off
	}
	return page.Wait
}

// stateDescription describes a state in a sentence.
func stateDescription(v *page.Visit, state string) string {
	switch state {
	case control.ToolDenied:
		return v.Text(msgTellDenied)
	case control.ToolDangerous:
		return v.Text(msgTellDangerous)
	case control.ToolHeld:
		return v.Text(msgTellHeld)
	case control.ToolPersonal:
		return v.Text(msgTellPersonal)
	}
	return v.Text(msgTellAllowed)
}

// formOf returns the form of a tool. Arguments of boards, nodes and Patchbay itself have
// translations, those of other people's servers have none.
func formOf(v *page.Visit, t control.Tool) *schemaform.Form {
	f := schemaform.Read(t.Input)
	if t.Kind != "upstream" {
		f.Localize(v.Lang)
	}
	return f
}

// titleOf returns the title of a tool's page.
func titleOf(v *page.Visit, t control.Tool) string {
	return cmp.Or(toolwords.Own(v.Lang, t.Kind, t.Title), t.Name)
}

// about returns the description of a tool, localized if the tool is Patchbay's own.
func about(v *page.Visit, t control.Tool) string { return toolwords.Own(v.Lang, t.Kind, t.Description) }
