package devices

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"net/http"
	"strings"

	"patchbay/internal/board"
	"patchbay/internal/console/page"
	"patchbay/internal/console/schemaform"
	"patchbay/internal/console/toolresult"
	"patchbay/internal/console/toolwords"
	"patchbay/internal/control"
	"patchbay/internal/talk"
	"patchbay/internal/tool"
)

// The tools that the page of a device has something of its own for.
const (
	toolStatus     = "status"
	toolShow       = "show"
	toolAlert      = "alert"
	toolPlay       = "play"
	toolStop       = "stop"
	toolRecord     = "record"
	toolReboot     = "reboot"
	toolInfo       = "self.get_device_status"
	toolVolume     = "self.audio_speaker.set_volume"
	toolBrightness = "self.screen.set_brightness"
	toolTheme      = "self.screen.set_theme"
	toolPhoto      = "self.camera.take_photo"
)

// argLater is the argument by which something is kept until a device wakes.
const argLater = "later"

// outcome is what came of a call.
type outcome struct {
	Tool   *board.Listing // nil: the device has no such tool
	Form   *schemaform.Form
	Bad    bool // the form says what is wrong
	Result *tool.Result
	Err    *tool.Error
	// Online says that the device was connected.
	Online bool
}

// why is why a call brought nothing. A device that is connected and cannot be reached
// waits for somebody to talk to it.
func (o *outcome) why(v *page.Visit) string {
	switch {
	case o.Err.Code != tool.Offline || !o.Online:
	case o.Tool != nil && o.Tool.Tool.Name == toolRecord:
		return v.Say(sayNobodyTalked)
	case o.Tool != nil && !itsOwn(o.Tool):
		return v.Say(sayOnlyInTalk)
	}
	return toolresult.Why(v.Lang, o.Err)
}

// canWait says that it can be kept until the device wakes, and was not asked to be.
func (o *outcome) canWait() bool {
	if o.Err == nil || o.Err.Code != tool.Offline || o.Form == nil {
		return false
	}
	f := o.Form.Get(argLater)
	return f != nil && f.Value != "true"
}

// toolID begins the ids of a tool's form.
func toolID(name string) string {
	h := fnv.New32a()
	h.Write([]byte(name)) //nolint:errcheck // it never fails
	return fmt.Sprintf("t%08x", h.Sum32())
}

// sayTool is what people call the tools that boards have, as a rule.
var sayTool = map[string]talk.Say{
	toolStatus: sayToolStatus, toolShow: sayShowText, "emotion": sayToolEmotion, toolAlert: sayAlert, toolPlay: sayPlay, toolStop: sayStop,
	toolRecord: sayRecord, "audio": sayToolAudio, toolReboot: sayRebootIt,
	toolInfo: sayToolInfo, toolVolume: sayVolume, toolBrightness: sayBrightness, toolTheme: sayTheme, toolPhoto: sayPhoto,
	"self.get_system_info": sayToolSystem, "self.reboot": sayRebootIt, "self.upgrade_firmware": sayToolUpgrade, "self.screen.get_info": sayToolScreen,
	"self.screen.snapshot": sayToolSnapshot, "self.screen.preview_image": sayToolPreview, "self.assets.set_download_url": sayToolAssets,
}

// title is what a tool is called.
func title(v *page.Visit, l *board.Listing) string {
	if say, known := sayTool[l.Tool.Name]; known {
		return v.Say(say)
	}
	return cmp.Or(toolwords.In(v.Lang, l.Title), l.Tool.Name)
}

// itsOwn says whether a tool is one that the device itself has told of.
func itsOwn(l *board.Listing) bool { return strings.Contains(l.Tool.Name, ".") }

func (p *pages) tools(v *page.Visit) {
	d, ok := p.find(v)
	if !ok {
		return
	}
	v.Show(http.StatusOK, toolsPage(v, &d))
}

// call calls a tool with what was typed into its form.
func (p *pages) call(v *page.Visit) {
	d, ok := p.find(v)
	if !ok {
		return
	}
	if err := v.ParseForm(); err != nil {
		v.Fail(control.Fail(control.TooLarge, sayFormLarge))
		return
	}
	o := outcome{Form: schemaform.Read(nil), Online: d.Online}
	if o.Tool = d.tool(v.PathValue("tool")); o.Tool != nil {
		o.Form = schemaform.Read(o.Tool.Input)
	}
	args, good := o.Form.Parse(v.Lang, v.PostForm)
	if o.Bad = !good; good {
		p.do(v, &d, v.PathValue("tool"), args, &o)
	}
	p.tell(v, &d, &o)
}

// do calls a tool of a device.
func (p *pages) do(v *page.Visit, d *view, name string, args []byte, o *outcome) {
	res, err := p.control.CallDevice(v.Context(), v.Caller(), d.Device.Device, control.DeviceCall{
		Tool: name, Args: args, Door: "console", Agent: v.UserAgent(),
	})
	o.Result, o.Err = res, tool.AsError(err)
}

// tell answers with what came of a call: for the place that is meant for it on the page
// of the device, for a card of the page of its tools, or as a page.
func (p *pages) tell(v *page.Visit, d *view, o *outcome) {
	switch status := http.StatusOK; {
	case v.Context().Err() != nil: // the browser has gone
	case !v.Partial():
		if o.Bad {
			status = http.StatusUnprocessableEntity
		}
		v.Show(status, resultPage(v, d, o))
	case v.FormValue("as") == "brief":
		v.Show(status, briefPart(v, o))
	default:
		v.Show(status, cardParts(v, o))
	}
}

// complaint is what is wrong with what was typed, where there is no room beside it.
func (o *outcome) complaint() string {
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
