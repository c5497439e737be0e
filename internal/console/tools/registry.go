package tools

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"patchbay/internal/console/page"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
	"patchbay/internal/mcpregistry"
	"patchbay/internal/problem"
)

const (
	msgByRegistry    = i18n.Message("From the registry")
	msgByRegistryTip = i18n.Message("Search the public registry of MCP servers. What it says of a server is what its publisher says.")
	msgSearchWords   = i18n.Message("Words of its name")
	msgSearchServers = i18n.Message("Search")
	msgSearchNothing = i18n.Message("The registry has no server with these words.")
	msgSearchMore    = i18n.Message("There are more; add a word.")
	msgPublishedBy   = i18n.Message("published by %s")
	msgDeprecated    = i18n.Message("deprecated")
	msgAddBy         = i18n.Message("Add: %s")
	msgOnlyAdmins    = i18n.Message("%s: only administrators may add commands")
	msgCommandAdmin  = i18n.Message("This runs a command on the server's machine, so only an administrator may add it.")
	msgWouldContact  = i18n.Message("It would contact this address:")
	msgWouldSend     = i18n.Message("and send these headers there:")
	msgWouldSet      = i18n.Message("with these variables:")
	msgWouldRun      = i18n.Message("On the server's machine, it would run:")
	msgClaimTold     = i18n.Message("That is what its publisher says. The registry checks only that the name %s is the publisher's.")
	msgAddTitle      = i18n.Message("Add %s")
	msgOtherwise     = i18n.Message("If this is empty: %s")
	msgNoSuchWay     = i18n.Message("The registry's entry has changed. Search again.")
)

// registryResult is the result of a search in the registry.
type registryResult struct {
	Words string
	List  control.RegistryList
	Wrong string
}

func searchRegistry(v *page.Visit) {
	f := registryResult{Words: strings.TrimSpace(v.URL.Query().Get("q"))}
	status := http.StatusOK
	if f.Words != "" {
		var err error
		if f.List, err = v.Instance.Control.SearchRegistry(v.Context(), v.Caller(),
			control.RegistryQuery{Search: f.Words}); err != nil {
			if f.Wrong, status = v.Wrong(err); f.Wrong == "" {
				return
			}
		}
	}
	v.Render(status, registryPage(v, &f))
}

// choice is a server of the registry and one of the ways in which it is reached.
type choice struct {
	Server mcpregistry.Server
	Way    *mcpregistry.Way
	Nth    int // of its ways, from 1
	Name   string
	// Given are the values that were submitted, without secrets.
	Given map[string]string
	Wrong string
}

// findChoice returns the server and the way that a request names.
func findChoice(v *page.Visit) (c choice, err error) {
	c.Server, err = v.Instance.Control.ShowRegistryServer(v.Context(), v.Caller(),
		control.RegistryRef{Name: v.FormValue("server"), Version: v.FormValue("version")})
	if err != nil {
		return c, err
	}
	c.Nth, _ = strconv.Atoi(v.FormValue("nth"))
	if c.Nth < 1 || c.Nth > len(c.Server.Ways) || c.Server.Ways[c.Nth-1].Reason != "" {
		return c, problem.New(problem.NotFound, msgNoSuchWay)
	}
	c.Way, c.Given = &c.Server.Ways[c.Nth-1], map[string]string{}
	_, c.Name, _ = strings.Cut(c.Server.Name, "/")
	c.Name = slugOf(c.Name)
	return c, nil
}

// slugOf suggests a name for an upstream.
func slugOf(text string) string {
	slug := strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || '0' <= r && r <= '9' || r == '-' {
			return r
		}
		return '-'
	}, strings.ToLower(text))
	return strings.Trim(slug[:min(len(slug), 32)], "-")
}

// told returns headers or variables, one a line, with the values that the publisher gives.
func told(list []mcpregistry.Named, sep string) string {
	var lines []string
	for i := range list {
		lines = append(lines, list[i].Told(sep))
	}
	return strings.Join(lines, "\n")
}

func registryForm(v *page.Visit) {
	c, err := findChoice(v)
	if err != nil {
		v.Fail(err)
		return
	}
	v.Render(http.StatusOK, choicePage(v, &c))
}

func addFromRegistry(v *page.Visit) {
	c, err := findChoice(v)
	if err != nil {
		v.Fail(err)
		return
	}
	c.Name = strings.TrimSpace(v.FormValue("name"))
	given := map[string]string{}
	for i, in := range c.Way.Inputs {
		value := strings.TrimSpace(v.FormValue("input" + strconv.Itoa(i)))
		if given[in.Name] = value; !in.Secret {
			c.Given[in.Name] = value
		}
	}
	set, err := c.Way.Settings(given)
	if err != nil {
		err = control.InputProblem(problem.Invalid, err)
	}
	var added control.AddedUpstream
	if err == nil {
		added, err = v.Instance.Control.AddUpstream(v.Context(), v.Caller(),
			control.NewUpstream{Name: c.Name, Kind: control.KindServer, Settings: set})
	}
	if err != nil {
		var status int
		if c.Wrong, status = v.Wrong(err); c.Wrong != "" {
			v.Render(status, choicePage(v, &c))
		}
		return
	}
	v.Redirect(upstreamURL(added.ID))
}

// wayName names a way for a link.
func wayName(w *mcpregistry.Way) string {
	if w.Kind == mcpregistry.Remote {
		return w.String()
	}
	return w.Kind + " " + w.Package
}

// choiceURL returns the path of the form that adds a server.
func choiceURL(s *mcpregistry.Server, nth int) string {
	return "/tools/upstreams/registry/add?" + url.Values{"server": {s.Name}, "version": {s.Version},
		"nth": {strconv.Itoa(nth)}}.Encode()
}
