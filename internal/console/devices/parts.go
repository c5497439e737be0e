package devices

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/a-h/templ"

	"patchbay/internal/console/page"
	"patchbay/internal/console/toolwords"
	"patchbay/internal/control"
	"patchbay/internal/hub"
	"patchbay/internal/store"
	"patchbay/internal/tool"
)

// about describes a device in one line.
func about(v *page.Visit, d *control.Device) string {
	parts := []string{modelName(d)}
	if d.Version != "" {
		parts = append(parts, v.Text(msgFirmware, d.Version))
	}
	if d.BotName != "" {
		parts = append(parts, v.Text(msgAnswers, d.BotName))
	}
	return strings.Join(parts, " · ")
}

// described links a field to its hint and its error.
func described(id, wrong string) templ.Attributes {
	if wrong == "" {
		return templ.Attributes{"aria-describedby": id + "-hint"}
	}
	return templ.Attributes{"aria-describedby": id + "-hint " + id + "-wrong", "aria-invalid": "true"}
}

// currentAttr marks the tab of the current page.
func currentAttr(is bool) templ.Attributes {
	if !is {
		return nil
	}
	return templ.Attributes{"aria-current": "page"}
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// transport returns the name of a transport as shown in the settings.
func transport(v *page.Visit, name string) string {
	switch name {
	case store.TransportSocket, store.TransportMQTT:
		return transportName(v, name)
	}
	return v.Text(msgServerChooses)
}

// features returns what a device says about itself.
func features(d *view) string {
	var b bytes.Buffer
	if string(d.Features) == "{}" || json.Indent(&b, d.Features, "", "  ") != nil {
		return ""
	}
	return b.String()
}

// shortResult returns the result of a call as one short text, if that is enough.
func shortResult(v *page.Visit, r *tool.Result) (text string, plain bool) {
	var how struct {
		Delivered *bool `json:"delivered"`
		Waits     bool  `json:"waits"`
	}
	if len(r.Structured) > 0 && json.Unmarshal(r.Structured, &how) == nil && how.Delivered != nil && !r.IsError {
		switch {
		case *how.Delivered:
			return v.Text(msgDelivered), true
		case how.Waits:
			return v.Text(msgKept), true
		}
	}
	if text, known := spokenText(v, r); known {
		return text, true
	}
	switch strings.TrimSpace(r.PlainText()) {
	case `{"stopped":true}`:
		return v.Text(msgStopped), true
	case `{"stopped":false}`:
		return v.Text(msgWasQuiet), true
	case "", "true", "null", "{}":
		return v.Text(msgDone), !r.IsError
	}
	return "", false
}

// spokenResult returns a result without the parts meant for programs: JSON beside text, and the
// JSON around the answer to a question about a photo.
func spokenResult(r *tool.Result) *tool.Result {
	out := *r
	var blocks []map[string]json.RawMessage
	if len(r.Content) == 0 || json.Unmarshal(r.Content, &blocks) != nil || len(blocks) == 0 {
		return r
	}
	out.Structured = nil
	for _, b := range blocks {
		var text string
		var inside map[string]any
		if json.Unmarshal(b["text"], &text) != nil || json.Unmarshal([]byte(text), &inside) != nil ||
			!isAboutPhoto(inside) {
			continue
		}
		said, _ := inside["text"].(string)
		message, _ := inside["message"].(string)
		if words := cmp.Or(said, message); words != "" {
			b["text"], _ = json.Marshal(words) // a string always encodes
		}
	}
	if content, err := json.Marshal(blocks); err == nil {
		out.Content = content
	}
	return &out
}

// isAboutPhoto reports whether an object is what the firmware returns for a photo: other results
// have more members than these.
func isAboutPhoto(result map[string]any) bool {
	for name := range result {
		if !slices.Contains([]string{"success", "text", "message"}, name) {
			return false
		}
	}
	return true
}

// groups splits tools into those of the device itself and those that every device has.
func groups(list []hub.Listing) (own, all []hub.Listing) {
	for i := range list {
		if isFirmwareTool(&list[i]) {
			own = append(own, list[i])
		} else {
			all = append(all, list[i])
		}
	}
	return own, all
}

// isRisky reports whether a tool must not be called by accident.
func isRisky(l *hub.Listing) bool {
	return l.Dangerous || l.Hints.Destructive != nil && *l.Hints.Destructive
}

// requestTimeoutAttr is the timeout of a form: boards record and play for minutes.
const requestTimeoutAttr = `{"timeout":"400s"}`

// postAttrs makes a form call a tool of a device. The response replaces target; if target is empty,
// the response names its own target.
func postAttrs(d *view, name, target string) templ.Attributes {
	path := d.path("/tools/" + url.PathEscape(name))
	a := templ.Attributes{"action": path, "hx-post": path, "hx-config": requestTimeoutAttr, "hx-swap": "innerHTML",
		"hx-target": target, "hx-sync": "this:drop"}
	if target == "" {
		a["hx-swap"] = "none"
		delete(a, "hx-target")
	}
	return a
}

// inputAttrs is like postAttrs for inputs that are dragged: of rapid changes only the last counts.
func inputAttrs(d *view, name, target string) templ.Attributes {
	a := postAttrs(d, name, target)
	a["hx-sync"] = "this:queue last"
	return a
}

// confirmAttrs makes a form ask for confirmation with a text, if there is one.
func confirmAttrs(text string) templ.Attributes {
	if text == "" {
		return nil
	}
	return templ.Attributes{"data-confirm": text}
}

// confirmToolAttrs makes the form of a risky tool ask for confirmation.
func confirmToolAttrs(v *page.Visit, l *hub.Listing) templ.Attributes {
	if !isRisky(l) {
		return nil
	}
	return confirmAttrs(v.Text(msgCallSure, title(v, l)))
}

// toolPage returns the path of the page where the owner sets the rules of a tool.
func toolPage(l *hub.Listing) string { return "/tools/" + url.PathEscape(l.Name) }

// network describes a network in one line.
func network(v *page.Visit, i info) string {
	var parts []string
	for _, s := range []string{i.Network.Type, i.Network.SSID, toolwords.Word(v.Lang, i.Network.Signal)} {
		if s != "" {
			parts = append(parts, s)
		}
	}
	return strings.Join(parts, " · ")
}
