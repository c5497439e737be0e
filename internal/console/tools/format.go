package tools

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"patchbay/internal/console/page"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

// seconds formats a duration for the form.
func seconds(text string) string {
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return ""
	}
	return strconv.Itoa(int(d / time.Second))
}

// orEmpty formats a number for the form; 0 is empty.
func orEmpty(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

func names(values map[string]string) []string { return slices.Sorted(maps.Keys(values)) }

// indented formats JSON for reading.
func indented(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Indent(&b, raw, "", "  ") != nil {
		return string(raw)
	}
	return b.String()
}

// endpoint returns the URL that a tool server connects to, with its token.
func endpoint(v *page.Visit, token string) string {
	return "ws" + strings.TrimPrefix(v.BaseURL(), "http") + "/mcp_endpoint/mcp/?token=" + token
}

// aboutLength is how many characters of a tool's description a list shows.
const aboutLength = 160

// setting is one displayed setting of a server.
type setting struct{ Name, Value string }

// settingNames are the displayed settings, in their order.
var settingNames = []struct {
	name string
	say  i18n.Message
}{
	{"command", msgCommand}, {"args", msgArgs}, {"dir", msgDir}, {"env", msgEnv}, {"token", msgToken},
	{"client_id", msgClientID}, {"client_secret", msgClientSecret}, {"private_key", msgPrivateKey}, {"key_id",
		msgKeyID},
	{"oauth_scope", msgScope},
	{"headers", msgHeaders}, {"transport", msgTransport},
	{"allow", msgOnly}, {"deny", msgNot}, {"timeout", msgTimeout}, {"concurrent", msgConcurrent},
	{"max_tools", msgMaxTools}, {"pass", msgPass}, {"roots", msgRoots}, {"pin", msgPinSetting}, {"most", msgMost},
}

// settingList returns the settings of a server for display, with masked secrets.
func settingList(v *page.Visit, d *control.UpstreamDetail) (out []setting) {
	for _, s := range settingNames {
		raw := d.Settings[s.name]
		if raw == nil {
			continue
		}
		if s.name == "allow" && d.Kind == control.KindCloud {
			s.say = msgOffer
		}
		out = append(out, setting{v.Text(s.say), readable(s.name, raw)})
	}
	return out
}

// readable formats a value for reading.
func readable(name string, raw json.RawMessage) string {
	var text string
	var list []string
	var values map[string]string
	switch {
	case json.Unmarshal(raw, &text) == nil && name == "timeout":
		return seconds(text)
	case json.Unmarshal(raw, &text) == nil:
		return text
	case json.Unmarshal(raw, &list) == nil:
		return strings.Join(list, " ")
	case json.Unmarshal(raw, &values) == nil:
		return strings.Join(names(values), ", ")
	}
	return string(raw)
}
