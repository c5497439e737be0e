package devices

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/url"
	"strings"
	"time"

	"github.com/a-h/templ"

	"patchbay/internal/board"
	"patchbay/internal/console/page"
	"patchbay/internal/control"
	"patchbay/internal/store"
	"patchbay/internal/tool"
)

// about is a device in one line.
func about(v *page.Visit, d *control.Device) string {
	parts := []string{what(d)}
	if d.Version != "" {
		parts = append(parts, v.Say(sayFirmware, d.Version))
	}
	if d.BotName != "" {
		parts = append(parts, v.Say(sayAnswers, d.BotName))
	}
	return strings.Join(parts, " · ")
}

// described ties a field to its hint and to what is wrong with it.
func described(id, wrong string) templ.Attributes {
	if wrong == "" {
		return templ.Attributes{"aria-describedby": id + "-hint"}
	}
	return templ.Attributes{"aria-describedby": id + "-hint " + id + "-wrong", "aria-invalid": "true"}
}

// current marks the tab of the page that is shown.
func current(is bool) templ.Attributes {
	if !is {
		return nil
	}
	return templ.Attributes{"aria-current": "page"}
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// transport is a way to connect as its owner chooses it.
func transport(v *page.Visit, name string) string {
	switch name {
	case store.TransportSocket, store.TransportMQTT:
		return via(v, name)
	}
	return v.Say(sayServerChooses)
}

// features is what a device says of itself.
func features(d *view) string {
	var b bytes.Buffer
	if string(d.Features) == "{}" || json.Indent(&b, d.Features, "", "  ") != nil {
		return ""
	}
	return b.String()
}

// inShort is what a call brought, if a word is enough for it.
func inShort(v *page.Visit, r *tool.Result) (text string, plain bool) {
	var how struct {
		Delivered *bool `json:"delivered"`
		Waits     bool  `json:"waits"`
	}
	if len(r.Structured) > 0 && json.Unmarshal(r.Structured, &how) == nil && how.Delivered != nil && !r.IsError {
		switch {
		case *how.Delivered:
			return v.Say(sayDelivered), true
		case how.Waits:
			return v.Say(sayKept), true
		}
	}
	switch strings.TrimSpace(r.Words()) {
	case `{"stopped":true}`:
		return v.Say(sayStopped), true
	case `{"stopped":false}`:
		return v.Say(sayWasQuiet), true
	case "", "true", "null", "{}":
		return v.Say(sayDone), !r.IsError
	}
	return "", false
}

// said is a result without what is in it for programs: JSON beside words, and around
// what a device was asked about a photo.
func said(r *tool.Result) *tool.Result {
	out := *r
	var blocks []map[string]json.RawMessage
	if len(r.Content) == 0 || json.Unmarshal(r.Content, &blocks) != nil || len(blocks) == 0 {
		return r
	}
	out.Structured = nil
	for _, b := range blocks {
		var text string
		var inside struct {
			Text    string `json:"text"`
			Message string `json:"message"`
		}
		if json.Unmarshal(b["text"], &text) != nil || json.Unmarshal([]byte(text), &inside) != nil {
			continue
		}
		if words := cmp.Or(inside.Text, inside.Message); words != "" {
			b["text"], _ = json.Marshal(words) // a text
		}
	}
	if content, err := json.Marshal(blocks); err == nil {
		out.Content = content
	}
	return &out
}

// groups are tools of the device itself, and those that every device has.
func groups(list []board.Listing) (own, all []board.Listing) {
	for i := range list {
		if itsOwn(&list[i]) {
			own = append(own, list[i])
		} else {
			all = append(all, list[i])
		}
	}
	return own, all
}

// risky says that a tool is not to be called by a slip of the finger.
func risky(l *board.Listing) bool {
	return l.Dangerous || l.Hints.Destructive != nil && *l.Hints.Destructive
}

// patience is how long a form waits for its answer: boards record and play for minutes.
const patience = `{"timeout":"400s"}`

// sends has a form call a tool of a device. The answer goes to target, or says itself
// where it belongs if that is empty.
func sends(d *view, name, target string) templ.Attributes {
	path := d.path("/tools/" + url.PathEscape(name))
	a := templ.Attributes{"action": path, "hx-post": path, "hx-config": patience, "hx-swap": "innerHTML", "hx-target": target, "hx-sync": "this:drop"}
	if target == "" {
		a["hx-swap"] = "none"
		delete(a, "hx-target")
	}
	return a
}

// sets is that for what is set by moving it: of what comes too fast, the last one counts.
func sets(d *view, name, target string) templ.Attributes {
	a := sends(d, name, target)
	a["hx-sync"] = "this:queue last"
	return a
}

// confirms has a form ask before it is sent, if there is something to ask.
func confirms(text string) templ.Attributes {
	if text == "" {
		return nil
	}
	return templ.Attributes{"data-confirm": text}
}

// asks has the form of a tool that can do harm ask first.
func asks(v *page.Visit, l *board.Listing) templ.Attributes {
	if !risky(l) {
		return nil
	}
	return confirms(v.Say(sayCallSure, title(v, l)))
}

// toolPage is where its owner decides about a tool.
func toolPage(l *board.Listing) string { return "/tools/" + url.PathEscape(l.Name) }

// network is a network in one line.
func network(i info) string {
	var parts []string
	for _, s := range []string{i.Network.Type, i.Network.SSID, i.Network.Signal} {
		if s != "" {
			parts = append(parts, s)
		}
	}
	return strings.Join(parts, " · ")
}
