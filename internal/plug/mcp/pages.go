package mcp

import (
	"context"
	"encoding/json"
	"strings"

	"patchbay/internal/hub"
	"patchbay/internal/jsonrpc"
	"patchbay/internal/plug/mcp/apps"
	"patchbay/internal/tool"
)

// Programs that show pages of tools (MCP Apps) find the address of a tool's page in its list entry,
// and read it like a resource. Other programs see no trace of them, which keeps lists short.

// declaresApps reports whether a client's extensions have pages of our type.
func declaresApps(extensions json.RawMessage) bool {
	var settings struct {
		Types []string `json:"mimeTypes"`
	}
	raw := jsonrpc.Member(extensions, apps.Extension)
	if !isObject(raw) || json.Unmarshal(raw, &settings) != nil {
		return false
	}
	for _, t := range settings.Types {
		if t == apps.MIME {
			return true
		}
	}
	return len(settings.Types) == 0
}

// withApps returns what the endpoint reports to a client that shows pages: that there are some, and
// resources, which they are read as.
func (f serverInfo) withApps(can tool.Capabilities) serverInfo {
	if !can.Apps {
		return f
	}
	all := json.RawMessage(f.capabilities)
	if jsonrpc.Member(all, "resources") == nil {
		all = jsonrpc.With(all, "resources", []byte("{}"))
	}
	f.capabilities = string(jsonrpc.With(all, "extensions", []byte(`{"`+apps.Extension+`":{}}`)))
	return f
}

// pageURI returns the address of the page of a tool, or "" if it has none.
func pageURI(t *hub.RegisteredTool) string {
	view, _ := apps.Of(t.Provider().Kind, t.Tool.Name)
	if view == "" {
		return ""
	}
	uri := apps.Prefix + string(view)
	if slug := t.Provider().Slug; slug != "" {
		uri += "/" + slug
	}
	return uri
}

// listEntry returns the tool as in the result of tools/list, with its page for clients that show
// it.
func (x *exchange) listEntry(t *hub.RegisteredTool) []byte {
	entry := t.ListEntry()
	if !x.abilities.Apps || x.plain {
		return entry
	}
	uri := pageURI(t)
	if uri == "" {
		return entry
	}
	meta := jsonrpc.Member(entry, "_meta")
	if !isObject(meta) {
		meta = json.RawMessage("{}")
	}
	return jsonrpc.With(entry, "_meta", jsonrpc.With(meta, "ui", encode(map[string]string{"resourceUri": uri})))
}

// withPages adds the pages of the tools that the caller sees to the resources. Only clients that
// show them find them in the list; hosts read them by the addresses of the tools.
func (x *exchange) withPages(v *hub.View, sets []hub.ResourceSet) []hub.ResourceSet {
	own := []hub.ResourceSet{{ProviderRef: hub.ProviderRef{ID: pagesID}, ResourceProvider: pages{v}}}
	switch {
	case x.msg.Method != "resources/list":
		return append(own, sets...) // no other provider can answer for an address of ours
	case x.abilities.Apps:
		return append(sets, own...)
	}
	return sets
}

// pagesID is the id of the pages among the resources of providers. It is the last: lists are in
// order of the ids.
const pagesID = "~pages"

// pages are the pages for one caller, as resources.
type pages struct{ view *hub.View }

// page is one of them, with the names of its tools by their roles.
type page struct {
	view  apps.View
	uri   string
	title string // of the provider
	tools map[string]string
}

// list returns the pages that the caller's tools have, in the order of the tools.
func (p pages) list() []*page {
	var list []*page
	byURI := map[string]*page{}
	for _, t := range p.view.Tools {
		uri := pageURI(t)
		if uri == "" {
			continue
		}
		view, role := apps.Of(t.Provider().Kind, t.Tool.Name)
		one := byURI[uri]
		if one == nil {
			one = &page{view, uri, t.Provider().Title, map[string]string{}}
			byURI[uri] = one
			list = append(list, one)
		}
		if one.tools[role] == "" {
			one.tools[role] = t.Name
		}
	}
	return list
}

// Resources implements [tool.ResourceProvider].
func (p pages) Resources(context.Context, tool.Caller, string) ([]tool.Resource, string, error) {
	list := []tool.Resource{}
	for _, one := range p.list() {
		list = append(list, tool.Resource{URI: one.uri, Name: strings.TrimPrefix(one.uri, apps.Prefix),
			Title: one.view.Title(), MIME: apps.MIME, Meta: json.RawMessage(apps.ResourceMeta)})
	}
	return list, "", nil
}

// Templates implements [tool.ResourceProvider].
func (p pages) Templates(context.Context, tool.Caller) ([]tool.Template, error) { return nil, nil }

// Read implements [tool.ResourceProvider].
func (p pages) Read(_ context.Context, _ tool.Caller, uri string) ([]tool.Contents, error) {
	if !strings.HasPrefix(uri, apps.Prefix) {
		return nil, tool.ErrNotFound
	}
	for _, one := range p.list() {
		if one.uri == uri {
			html := apps.Page(one.view, one.title, one.tools)
			meta := json.RawMessage(apps.ResourceMeta)
			return []tool.Contents{{URI: uri, MIME: apps.MIME, Text: &html, Meta: meta}}, nil
		}
	}
	return nil, tool.ErrNotFound
}
