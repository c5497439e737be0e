// Package tools is the pages about what programs and bots can call: the tools, where they
// come from, who may use them, and the servers that they come from.
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

// Routes are the pages below /tools.
func Routes() []page.Route {
	return []page.Route{
		{Pattern: "GET /tools", Serve: list},
		{Pattern: "GET /tools/rules", Serve: rules},
		{Pattern: "POST /tools/rules", Access: page.Fresh, Serve: addRule},
		{Pattern: "GET /tools/{name}", Serve: show},
		{Pattern: "POST /tools/{name}/rule", Access: page.Fresh, Serve: decide},
		{Pattern: "POST /tools/{name}/call", Serve: try},
		{Pattern: "GET /tools/upstreams", Serve: upstreams},
		{Pattern: "GET /tools/upstreams/live", Serve: upstreamsLive},
		{Pattern: "GET /tools/upstreams/new", Access: page.Fresh, Serve: newUpstream},
		{Pattern: "POST /tools/upstreams/look", Access: page.Fresh, Serve: lookAtNew},
		{Pattern: "POST /tools/upstreams", Access: page.Fresh, Serve: addUpstream},
		{Pattern: "GET /tools/upstreams/{upstream}", Serve: upstreamPage},
		{Pattern: "GET /tools/upstreams/{upstream}/live", Serve: upstreamLive},
		{Pattern: "GET /tools/upstreams/{upstream}/edit", Access: page.Fresh, Serve: editUpstream},
		{Pattern: "POST /tools/upstreams/{upstream}/look", Access: page.Fresh, Serve: lookAtChanged},
		{Pattern: "POST /tools/upstreams/{upstream}/change", Access: page.Fresh, Serve: changeUpstream},
		{Pattern: "POST /tools/upstreams/{upstream}/rotate", Access: page.Fresh, Serve: rotateUpstream},
		{Pattern: "POST /tools/upstreams/{upstream}/remove", Serve: removeUpstream},
	}
}

// pageSize is how many tools, rules or servers are on a page.
const pageSize = 50

// group are tools that come from the same place.
type group struct {
	ID, Kind, Title string
	Tools           []control.Tool
}

// grouped puts tools, which are sorted by where they come from, into groups.
func grouped(v *page.Visit, list []control.Tool) (out []group) {
	for _, t := range list {
		if len(out) == 0 || out[len(out)-1].ID != t.Provider {
			out = append(out, group{ID: t.Provider, Kind: t.Kind, Title: providerName(v, t)})
		}
		g := &out[len(out)-1]
		g.Tools = append(g.Tools, t)
	}
	return out
}

// providerName is where a tool comes from, in words.
func providerName(v *page.Visit, t control.Tool) string {
	switch t.Kind {
	case "learn":
		return v.Say(sayLearn)
	case "bots":
		return v.Say(sayBots)
	}
	if t.ProviderName == "" {
		return t.Provider
	}
	return t.ProviderName
}

// providerKind is what it is that a tool comes from, and the page about it, if it has one.
func providerKind(v *page.Visit, t control.Tool) (kind, link string) {
	name, number, _ := strings.Cut(t.Provider, ":")
	switch {
	case t.Kind == "upstream":
		return v.Say(sayToolServer), "/tools/upstreams/" + number
	case name == "board":
		return v.Say(sayBoard), "/devices/" + number
	case name == "node":
		return v.Say(sayNode), "/gateway"
	case t.Kind == "learn":
		return v.Say(sayPart), "/learn"
	case t.Kind == "bots":
		return v.Say(sayPart), "/bots"
	}
	return t.Kind, ""
}

// filter reads what somebody wants to see.
func filter(v *page.Visit) control.ToolFilter {
	q := v.URL.Query()
	f := control.ToolFilter{Text: strings.TrimSpace(q.Get("q")), From: q.Get("from"), State: q.Get("state"), Limit: pageSize}
	f.After, _ = strconv.Atoi(q.Get("after"))
	if f.State != control.ToolWaiting && f.State != control.ToolDenied {
		f.State = ""
	}
	return f
}

// listURL is the list with another filter.
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
	f.Shown = func(text string) string { return toolwords.In(v.Lang, text) }
	p, err := v.House.Control.BrowseTools(v.Context(), v.Caller(), f)
	if err != nil {
		v.Fail(err)
		return
	}
	if v.Partial() {
		v.Show(http.StatusOK, found(v, f, &p))
		return
	}
	v.Show(http.StatusOK, listPage(v, f, &p))
}

func toolURL(name string) string { return "/tools/" + url.PathEscape(name) }

// trial is a tool that somebody tries.
type trial struct {
	Form   *schemaform.Form
	Result *tool.Result
	Failed error  // of the call
	Wrong  string // with what was typed
}

func show(v *page.Visit) {
	t, err := v.House.Control.FindTool(v.Context(), v.Caller(), v.PathValue("name"))
	if err != nil {
		v.Fail(err)
		return
	}
	showTool(v, http.StatusOK, t, trial{Form: schemaform.Read(t.Input)})
}

func showTool(v *page.Visit, status int, t control.Tool, tr trial) {
	users, err := v.House.Control.ToolUsers(v.Context(), v.Caller(), t)
	if err != nil {
		v.Fail(err)
		return
	}
	v.Show(status, toolPage(v, t, users, tr))
}

// decide allows or denies a tool, or takes that back.
func decide(v *page.Visit) {
	name := v.PathValue("name")
	if _, err := v.House.Control.DecideTool(v.Context(), v.Caller(), control.ToolDecision{Name: name, Rule: v.FormValue("rule")}); err != nil {
		v.Fail(err)
		return
	}
	if v.FormValue("back") == "rules" {
		v.To("/tools/rules")
		return
	}
	v.To(toolURL(name))
}

// try calls a tool with what was typed.
func try(v *page.Visit) {
	t, err := v.House.Control.FindTool(v.Context(), v.Caller(), v.PathValue("name"))
	if err != nil {
		v.Fail(err)
		return
	}
	tr := trial{Form: schemaform.Read(t.Input)}
	v.FormValue("") // parses the form
	status := http.StatusOK
	args, ok := tr.Form.Parse(v.Lang, v.PostForm)
	if !ok {
		status, tr.Wrong = http.StatusUnprocessableEntity, v.Say(sayLookAgain)
	} else if tr.Result, err = v.House.Control.TryTool(v.Context(), v.Caller(), t.Name, args, nil); err != nil {
		if v.Context().Err() != nil {
			return
		}
		if tr.Result = nil; control.AsError(err) != nil {
			tr.Wrong, status = v.Wrong(err)
		} else {
			tr.Failed, status = err, http.StatusBadGateway
		}
	}
	if v.Partial() {
		v.Show(http.StatusOK, trialForm(v, t, tr)) // which says itself how it went
		return
	}
	showTool(v, status, t, tr)
}

// stateWords is what a state means for programs and bots.
func stateWords(v *page.Visit, state string) string {
	switch state {
	case control.ToolDenied:
		return v.Say(sayDenied)
	case control.ToolDangerous:
		return v.Say(sayDangerous)
	case control.ToolPersonal:
		return v.Say(sayPersonal)
	}
	return v.Say(sayAllowed)
}

// stateLight is a state as a light.
func stateLight(state string) page.State {
	switch state {
	case control.ToolAllowed:
		return page.On
	case control.ToolDenied:
		return page.Off
	}
	return page.Wait
}

// stateTold is what a state means, in a sentence.
func stateTold(v *page.Visit, state string) string {
	switch state {
	case control.ToolDenied:
		return v.Say(sayTellDenied)
	case control.ToolDangerous:
		return v.Say(sayTellDangerous)
	case control.ToolPersonal:
		return v.Say(sayTellPersonal)
	}
	return v.Say(sayTellAllowed)
}

// titleOf is what a tool is called on its page.
func titleOf(v *page.Visit, t control.Tool) string { return cmp.Or(inWords(v, t, t.Title), t.Name) }

// about is what a tool does, in the reader's language if the tool is ours.
func about(v *page.Visit, t control.Tool) string { return inWords(v, t, t.Description) }

// inWords is a text of a tool. What a server of somebody else's says stays as it is, though
// it may say what ours do.
func inWords(v *page.Visit, t control.Tool, text string) string {
	if t.Kind == "upstream" {
		return text
	}
	return toolwords.In(v.Lang, text)
}
