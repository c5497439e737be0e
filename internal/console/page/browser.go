package page

import (
	"strings"

	"patchbay/internal/i18n"
)

const (
	msgAgentOn      = i18n.Message("%[1]s on %[2]s")
	msgAgentUnknown = i18n.Message("Unknown browser")
)

// browserNames and systemNames are tokens of the User-Agent header, the most specific first: most
// browsers also claim to be others.
var (
	browserNames = [][2]string{
		{"MicroMessenger/", "WeChat"}, {"Edg", "Edge"}, {"OPR/", "Opera"}, {"SamsungBrowser/", "Samsung Internet"},
		{"Firefox/", "Firefox"}, {"FxiOS/", "Firefox"},
		{"CriOS/", "Chrome"}, {"Chrome/", "Chrome"}, {"Safari/", "Safari"}, {"curl/", "curl"},
	}
	systemNames = [][2]string{
		{"iPhone", "iPhone"}, {"iPad", "iPad"}, {"Android", "Android"}, {"HarmonyOS", "HarmonyOS"},
		{"Windows", "Windows"}, {"Mac OS X", "macOS"}, {"CrOS", "ChromeOS"}, {"Linux", "Linux"},
	}
)

// BrowserName describes a browser by its User-Agent header.
func (v *Visit) BrowserName(text string) string {
	find := func(list [][2]string) string {
		for _, x := range list {
			if strings.Contains(text, x[0]) {
				return x[1]
			}
		}
		return ""
	}
	name, on := find(browserNames), find(systemNames)
	switch {
	case name != "" && on != "":
		return v.Text(msgAgentOn, name, on)
	case name != "" || on != "":
		return name + on
	case text != "":
		first, _, _ := strings.Cut(text, " ")
		return first
	}
	return v.Text(msgAgentUnknown)
}
