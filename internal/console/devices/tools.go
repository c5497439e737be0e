package devices

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"net/http"
	"strconv"
	"strings"

	"patchbay/internal/console/page"
	"patchbay/internal/console/schemaform"
	"patchbay/internal/console/toolresult"
	"patchbay/internal/console/toolwords"
	"patchbay/internal/control"
	"patchbay/internal/hub"
	"patchbay/internal/problem"
	"patchbay/internal/tool"
)

// Tools for which the page of a device has special controls.
const (
	toolStatus     = "status"
	toolShow       = "show"
	toolAlert      = "alert"
	toolSay        = "say"
	toolPlay       = "play"
	toolStop       = "stop"
	toolRecord     = "record"
	toolReboot     = "reboot"
	toolInfo       = "self.get_device_status"
	toolVolume     = "self.audio_speaker.set_volume"
	toolBrightness = "self.screen.set_brightness"
	toolTheme      = "self.screen.set_theme"
	toolPhoto      = "self.camera.take_photo"

	toolPlayMusic    = "play_music"
	toolControlMusic = "control_music"

	toolTimerSet, toolTimerList, toolTimerCancel = "timer_set", "timer_list", "timer_cancel"
)

// argLater is the argument that queues a call until the device wakes.
const argLater = "later"

// outcome is the result of a call.
type outcome struct {
	Tool          *hub.Listing // nil if the device has no such tool
	Form          *schemaform.Form
	HasFormErrors bool // the fields hold the errors
	Result        *tool.Result
	Err           *tool.Error
	Told          string // what has been done, if the result says only that it was
	Refused       string // why nothing was called
	// Online means that the device was connected.
	Online bool
}

// errorText returns why a call failed. A device that is connected but unreachable waits until
// somebody talks to it.
func (o *outcome) errorText(v *page.Visit) string {
	switch {
	case o.Err.Code != tool.Offline || !o.Online:
	case o.Tool != nil && o.Tool.Tool.Name == toolRecord:
		return v.Text(msgNobodyTalked)
	case o.Tool != nil && !isFirmwareTool(o.Tool):
		return v.Text(msgOnlyInTalk)
	}
	return toolresult.ErrorText(v.Lang, o.Err)
}

// canCallLater reports whether the call can be queued until the device wakes, and was not queued.
func (o *outcome) canCallLater() bool {
	if o.Err == nil || o.Err.Code != tool.Offline || o.Form == nil {
		return false
	}
	f := o.Form.Get(argLater)
	return f != nil && f.Value != "true"
}

// toolID returns the prefix of the element IDs of a tool's form.
func toolID(name string) string {
	h := fnv.New32a()
	h.Write([]byte(name)) //nolint:errcheck // it never fails
	return fmt.Sprintf("t%08x", h.Sum32())
}

// title returns the name of a tool.
func title(v *page.Visit, l *hub.Listing) string {
	return cmp.Or(toolwords.Translate(v.Lang, l.Title), l.Tool.Name)
}

// isFirmwareTool reports whether the device itself announced a tool.
func isFirmwareTool(l *hub.Listing) bool { return strings.Contains(l.Tool.Name, ".") }

// formOf returns the form of a tool. The firmware does not list the themes that it has.
func formOf(v *page.Visit, l *hub.Listing) *schemaform.Form {
	f := schemaform.Read(l.Input).Localize(v.Lang)
	if x := f.Get("theme"); l.Tool.Name == toolTheme && x != nil && x.Kind == schemaform.Line {
		x.Kind, x.Options = schemaform.Choice, []schemaform.Option{{Label: v.Text(msgThemeLight), Value: themeLight},
			{Label: v.Text(msgThemeDark), Value: themeDark}}
	}
	return f
}

// Themes of the firmware, as JSON.
const themeLight, themeDark = `"light"`, `"dark"`

func (p *pages) tools(v *page.Visit) {
	d, ok := p.find(v)
	if !ok {
		return
	}
	v.Render(http.StatusOK, toolsPage(v, &d))
}

// call calls a tool with the submitted form.
func (p *pages) call(v *page.Visit) {
	d, ok := p.find(v)
	if !ok {
		return
	}
	if err := v.ParseForm(); err != nil {
		v.Fail(problem.New(problem.TooLarge, msgFormLarge))
		return
	}
	o := outcome{Form: schemaform.Read(nil), Online: d.Online}
	if o.Tool = d.tool(v.PathValue("tool")); o.Tool != nil {
		o.Form = formOf(v, o.Tool)
	}
	confirmed := o.Tool != nil && needsConfirmation(v, &d, o.Tool)
	if confirmed && !v.RequireConfirmation(d.path("/tools")) {
		return
	}
	if asksStep(v, &o) {
		if err := p.readStep(v, &d, &o); err != nil {
			p.showFormError(v, &d, err)
			return
		}
		if o.Err != nil {
			p.showOutcome(v, &d, &o)
			return
		}
	}
	args, good := o.Form.Parse(v.Lang, v.PostForm)
	if o.HasFormErrors = !good; good {
		p.callTool(v, &d, control.DeviceCall{Tool: v.PathValue("tool"), Args: args, Confirmed: confirmed}, &o)
	}
	p.showOutcome(v, &d, &o)
}

// toolsMark changes with the tools of a device, and what may be done with each.
func (d *view) toolsMark() string {
	h := fnv.New64a()
	for _, l := range d.Tools {
		fmt.Fprintln(h, l.Tool.Name, l.State, l.Title, l.Description, string(l.Input))
	}
	return strconv.FormatUint(h.Sum64(), 36)
}

// needsConfirmation reports whether a person may call a tool of their device that they have not
// allowed to programs and bots, once they have typed their password.
func needsConfirmation(v *page.Visit, d *view, l *hub.Listing) bool {
	return l.State == control.ToolDangerous && d.Owner == v.Session.Person.ID
}

// mayRun reports whether a person may call a tool of a device, perhaps with their password.
func mayRun(v *page.Visit, d *view, l *hub.Listing) bool {
	return isUsable(l) || needsConfirmation(v, d, l)
}

// callTool calls a tool of a device.
func (p *pages) callTool(v *page.Visit, d *view, q control.DeviceCall, o *outcome) {
	q.Channel, q.Agent = "console", v.UserAgent()
	res, err := p.control.CallDevice(v.Context(), v.Caller(), d.Device.Device, q)
	o.Result, o.Err = res, tool.AsError(err)
}

// showOutcome responds with the result of a call: as a part of the device's page, as a card of the
// tools page, or as a page.
func (p *pages) showOutcome(v *page.Visit, d *view, o *outcome) {
	switch status := http.StatusOK; {
	case v.Context().Err() != nil: // the browser has disconnected
	case !v.IsPartial():
		if o.HasFormErrors {
			status = http.StatusUnprocessableEntity
		}
		v.Render(status, resultPage(v, d, o))
	case v.FormValue("as") == "tile":
		v.Render(status, toldPart(v, d, o))
	case v.FormValue("as") == "brief":
		v.Render(status, briefPart(v, o))
	default:
		v.Render(status, cardParts(v, o))
	}
}

// failureText returns the errors of the form as one text, for places without room beside the
// fields.
func (o *outcome) failureText() string {
	for _, f := range o.Form.Fields {
		if f.Wrong != "" {
			return f.Label + ": " + f.Wrong
		}
	}
	if o.Form.Rest != nil {
		return o.Form.Rest.Wrong
	}
	return ""
}
