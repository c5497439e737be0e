package tools

import (
	"strings"

	"patchbay/internal/console/page"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

func (f *serverForm) title(v *page.Visit) string {
	if f.ID != 0 {
		return v.Text(msgChangeServer, f.Name)
	}
	return v.Text(map[string]i18n.Message{byURL: msgByURL, byAPI: msgByAPI, byCommand: msgByCommand,
		byEndpoint: msgByEndpoint,
		byCloud:    msgByCloud}[f.Way])
}

// back returns the path of the page that the form was opened from.
func (f *serverForm) back() string {
	if f.ID != 0 {
		return upstreamURL(f.ID)
	}
	return "/tools/upstreams/new"
}

// addressTip returns the hint of the URL field.
func addressTip(v *page.Visit, f *serverForm) string {
	switch {
	case f.HasHiddenQuery || f.Way == byCloud && f.ID != 0:
		return v.Text(msgAddressKept)
	case f.Way == byCloud:
		return v.Text(msgCloudTip)
	}
	return v.Text(msgAddressTip)
}

// foundText says what a check has found.
func foundText(v *page.Visit, f *control.UpstreamFound) string {
	name := strings.TrimSpace(f.Server + " " + f.Version)
	if f.Transport == byAPI {
		return v.Text(msgReadAPI, name, f.Protocol, len(f.Tools))
	}
	return v.Text(msgLookedAt, name, f.Protocol, f.Transport, len(f.Tools))
}

// documentTip returns the hint of the address of an OpenAPI document.
func documentTip(v *page.Visit, f *serverForm) string {
	if f.HasHiddenQuery {
		return v.Text(msgAddressKept)
	}
	return v.Text(msgDocumentTip)
}

func documentTextTip(v *page.Visit, f *serverForm) string {
	if f.DocumentKept != "" {
		return v.Text(msgDocumentKept, f.DocumentKept)
	}
	return v.Text(msgDocumentTextTip)
}

func basicTip(v *page.Visit, f *serverForm) string {
	if f.HasBasic {
		return v.Text(msgSecretKept)
	}
	return v.Text(msgBasicTip)
}

func secretTip(v *page.Visit, kept bool) string {
	if kept {
		return v.Text(msgSecretKept)
	}
	return v.Text(msgTokenTip)
}

// pairsTip returns the hint of the field with named secrets; kept are the names of stored ones.
func pairsTip(v *page.Visit, tip i18n.Message, kept []string) string {
	if len(kept) > 0 {
		return v.Text(msgNamesKept, strings.Join(kept, ", "))
	}
	return v.Text(tip)
}
