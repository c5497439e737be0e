package tools

import (
	"strings"

	"patchbay/internal/console/page"
	"patchbay/internal/i18n"
)

func (f *serverForm) title(v *page.Visit) string {
	if f.ID != 0 {
		return v.Text(msgChangeServer, f.Name)
	}
	return v.Text(map[string]i18n.Message{byURL: msgByURL, byCommand: msgByCommand, byEndpoint: msgByEndpoint,
		byCloud: msgByCloud}[f.Way])
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
