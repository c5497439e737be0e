package tools

import (
	"strings"

	"patchbay/internal/console/page"
	"patchbay/internal/talk"
)

func (f *serverForm) title(v *page.Visit) string {
	if f.ID != 0 {
		return v.Say(sayChangeServer, f.Name)
	}
	return v.Say(map[string]talk.Say{byURL: sayByURL, byCommand: sayByCommand, byEndpoint: sayByEndpoint,
		byCloud: sayByCloud}[f.Way])
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
		return v.Say(sayAddressKept)
	case f.Way == byCloud:
		return v.Say(sayCloudTip)
	}
	return v.Say(sayAddressTip)
}

func secretTip(v *page.Visit, kept bool) string {
	if kept {
		return v.Say(saySecretKept)
	}
	return v.Say(sayTokenTip)
}

// pairsTip returns the hint of the field with named secrets; kept are the names of stored ones.
func pairsTip(v *page.Visit, tip talk.Say, kept []string) string {
	if len(kept) > 0 {
		return v.Say(sayNamesKept, strings.Join(kept, ", "))
	}
	return v.Say(tip)
}
