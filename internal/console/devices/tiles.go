package devices

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	"github.com/a-h/templ"

	"patchbay/internal/console/page"
	"patchbay/internal/console/schemaform"
	"patchbay/internal/control"
	"patchbay/internal/hub"
	"patchbay/internal/problem"
	"patchbay/internal/tool"
)

// room is the devices of a page of the list that are in one room.
type room struct {
	Name    string // empty: not known
	Devices []view
}

// inRooms sorts devices into rooms, in alphabetical order; those without a room are last.
func inRooms(v *page.Visit, list []view) (rooms []room) {
	for _, d := range list {
		i := slices.IndexFunc(rooms, func(r room) bool { return r.Name == d.Room })
		if i < 0 {
			i = len(rooms)
			rooms = append(rooms, room{Name: d.Room})
		}
		rooms[i].Devices = append(rooms[i].Devices, d)
	}
	slices.SortFunc(rooms, func(a, b room) int {
		switch {
		case a.Name == "":
			return 1
		case b.Name == "":
			return -1
		}
		return v.Lang.Compare(a.Name, b.Name)
	})
	return rooms
}

// quickTools returns the tools that a tile offers, two at most: what one does most with a device
// that is awake, and what can be asked of one that is asleep.
func (d *view) quickTools() (quick []*hub.Listing) {
	choices := [][]string{{toolPhoto, toolVolume}, {toolSay, toolShow}}
	if !d.Online { // these wait until it wakes
		choices = [][]string{{toolSay, toolShow}, {toolTimerSet}}
	}
	for _, names := range choices {
		i := slices.IndexFunc(names, func(name string) bool { return isUsable(d.tool(name)) })
		if i >= 0 {
			quick = append(quick, d.tool(names[i]))
		}
	}
	return quick
}

// tileID returns the prefix of the element IDs of a device's tile.
func (d *view) tileID() string { return "d" + strconv.FormatInt(d.Number, 10) }

// tileAttrs makes a form of a tile call a tool.
func tileAttrs(v *page.Visit, d *view, l *hub.Listing) templ.Attributes {
	a := postAttrs(d, l.Tool.Name, "#told")
	if l.Tool.Name == toolVolume {
		a["hx-sync"] = "this:queue all" // each step counts
	}
	maps.Copy(a, confirmToolAttrs(v, l))
	return a
}

// volumeStep is by how much Quieter and Louder change the volume, in percent.
const volumeStep = 10

// asksStep reports whether a form changes the volume by a step, instead of setting it.
func asksStep(v *page.Visit, o *outcome) bool {
	return o.Tool != nil && o.Tool.Tool.Name == toolVolume && v.PostForm.Has("by")
}

// readStep reads the volume of a device, and fills in the field of the form with what it is to be.
func (p *pages) readStep(v *page.Visit, d *view, o *outcome) error {
	var n info
	by, err := strconv.Atoi(v.PostForm.Get("by"))
	f := o.Form.Get("volume")
	if err != nil || f == nil || by < -100 || by > 100 {
		return problem.New(problem.Invalid, msgVolumeUnknown)
	}
	if isUsable(d.tool(toolInfo)) {
		if e := p.ask(v.Context(), v, d, toolInfo, &n); e != nil {
			o.Err = e
			return nil
		}
	}
	if n.Speaker.Volume == nil {
		return problem.New(problem.Unavailable, msgVolumeUnknown)
	}
	low, high := volumeRange(f)
	next := min(max(*n.Speaker.Volume+by, low), high)
	v.PostForm.Set(f.Name, strconv.Itoa(next))
	o.Told = v.Text(msgVolumeNow, next)
	return nil
}

// volumeRange returns the range of the volume, which most firmwares specify.
func volumeRange(f *schemaform.Field) (low, high int) {
	low, err := strconv.Atoi(f.Min)
	high, err2 := strconv.Atoi(f.Max)
	if err != nil || err2 != nil || low > high {
		return 0, 100
	}
	return low, high
}

// spokenText says what became of a text that a device was to say, if the result is of that.
func spokenText(v *page.Visit, r *tool.Result) (text string, known bool) {
	var how struct {
		Spoken      *bool `json:"spoken"`
		Interrupted bool  `json:"interrupted"`
	}
	if r.IsError || json.Unmarshal(r.Structured, &how) != nil || how.Spoken == nil {
		return "", false
	}
	switch {
	case *how.Spoken:
		return v.Text(msgSaid), true
	case how.Interrupted:
		return v.Text(msgSaidPart), true
	}
	return "", false
}

// tiles adds their tools to the devices of a page of the list.
func (p *pages) tiles(v *page.Visit, list []control.Device) ([]view, error) {
	out := make([]view, len(list))
	for i, d := range list {
		var err error
		if out[i], err = p.withTools(v, d); err != nil {
			return nil, err
		}
	}
	return out, nil
}
