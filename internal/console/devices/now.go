package devices

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"patchbay/internal/board"
	"patchbay/internal/console/page"
	"patchbay/internal/console/schemaform"
	"patchbay/internal/control"
	"patchbay/internal/talk"
	"patchbay/internal/tool"
)

// askLimit is how long a device may take to say how it is.
const askLimit = 8 * time.Second

// now is how a device is at this moment.
type now struct {
	status
	Info    info
	Trouble *tool.Error // why it did not say how it is
}

// status is what the tool status says.
type status struct {
	State   string    `json:"state"` // asleep, idle, listening or speaking
	Via     string    `json:"via"`
	Since   time.Time `json:"since"`
	Waiting int       `json:"waiting"`
	Talk    *sounds   `json:"conversation"`
	Last    *sounds   `json:"last_conversation"`

	Listeners []ear `json:"listeners"`
	Listened  *ear  `json:"last_listener"`
}

// ear is somebody who hears or sees what is near a device.
type ear struct {
	Name  string    `json:"name"`
	What  string    `json:"what"` // listen, record or photo
	Since time.Time `json:"since"`
	Until time.Time `json:"until"`
}

// What somebody does who hears or sees what is near a device, and did.
var (
	sayEars   = map[string]talk.Say{"listen": sayEarsLive, "record": sayEarsFile, "photo": sayEarsPhoto}
	sayNoEars = map[string]talk.Say{"listen": sayHeardLive, "record": sayHeardFile, "photo": sayHeardPhoto}
)

// sounds are how the sound of a conversation has travelled.
type sounds struct {
	Began   time.Time `json:"began"`
	Seconds float64   `json:"seconds"`
	Up      struct {
		Packets int     `json:"packets"`
		Missing int     `json:"missing"`
		Gaps    int     `json:"gaps"`
		Jitter  float64 `json:"jitter_p99_ms"`
	} `json:"from_board"`
	Down struct {
		Answers int     `json:"answers"`
		Packets int     `json:"packets"`
		Late    int     `json:"late"`
		Jitter  float64 `json:"jitter_p99_ms"`
	} `json:"to_board"`
}

// info is what a board's own tool says, as far as we know it; firmwares differ.
type info struct {
	Speaker struct {
		Volume *int `json:"volume"`
	} `json:"audio_speaker"`
	Screen struct {
		Brightness *int   `json:"brightness"`
		Theme      string `json:"theme"`
	} `json:"screen"`
	Battery *struct {
		Level    int  `json:"level"`
		Charging bool `json:"charging"`
	} `json:"battery"`
	Network struct {
		Type   string `json:"type"`
		SSID   string `json:"ssid"`
		Signal string `json:"signal"`
	} `json:"network"`
	Chip struct {
		Temperature *float64 `json:"temperature"`
	} `json:"chip"`
}

var sayStates = map[string]talk.Say{
	"asleep": sayAsleep, "idle": sayIdle, "listening": sayListening, "speaking": saySpeaking,
}

// now shows how a device is.
func (p *pages) now(v *page.Visit) {
	d, ok := p.find(v)
	if !ok {
		return
	}
	if !v.Partial() {
		v.To(d.path("?now"))
		return
	}
	n := p.ask(v, &d)
	d.Now = &n
	v.Show(http.StatusOK, nowPart(v, &d))
}

// ask asks a device how it is: Patchbay, how its connection is, and itself, if it is
// awake, how loud and how bright.
func (p *pages) ask(v *page.Visit, d *view) (n now) {
	ctx, cancel := context.WithTimeout(v.Context(), askLimit)
	defer cancel()
	for _, q := range []struct {
		tool  string
		awake bool
		into  any
	}{{toolStatus, false, &n.status}, {toolInfo, true, &n.Info}} {
		if q.awake && !d.Online || !usable(d.tool(q.tool)) {
			continue
		}
		res, err := p.control.CallDevice(ctx, v.Caller(), d.Device.Device, control.DeviceCall{Tool: q.tool, Door: "console", Agent: v.UserAgent()})
		if err != nil {
			n.Trouble = tool.AsError(err)
			continue
		}
		text := []byte(res.Structured)
		if len(text) == 0 {
			text = []byte(res.Words())
		}
		json.Unmarshal(text, q.into) //nolint:errcheck // what it does not say is not shown
	}
	return n
}

// usable says whether there is a tool, and it may be called.
func usable(l *board.Listing) bool { return l != nil && l.State == control.ToolAllowed }

// slider is something of a device that has a size.
type slider struct {
	ID, Label string
	Tool      *board.Listing
	Field     *schemaform.Field
	Value     string // empty: not known
}

// sliders are what of a device has a size that can be set.
func sliders(v *page.Visit, d *view) (out []slider) {
	for _, s := range []struct {
		id, tool, arg string
		say           talk.Say
		value         *int
	}{
		{"volume", toolVolume, "volume", sayVolume, d.Now.Info.Speaker.Volume},
		{"brightness", toolBrightness, "brightness", sayBrightness, d.Now.Info.Screen.Brightness},
	} {
		l := d.tool(s.tool)
		if !usable(l) || !d.Online {
			continue
		}
		f := schemaform.Read(l.Input).Get(s.arg)
		if f == nil {
			continue
		}
		// Firmware says from where to where, as a rule.
		if f.Min == "" || f.Max == "" {
			f.Min, f.Max = "0", "100"
		}
		x := slider{ID: s.id, Label: v.Say(s.say), Tool: l, Field: f}
		if s.value != nil {
			x.Value = strconv.Itoa(*s.value)
		}
		out = append(out, x)
	}
	return out
}

// shown is where a slider stands: in the middle, if nobody knows.
func (s *slider) shown() string {
	if s.Value != "" {
		return s.Value
	}
	low, _ := strconv.ParseFloat(s.Field.Min, 64)  // they were read as numbers
	high, _ := strconv.ParseFloat(s.Field.Max, 64) // the same
	return strconv.Itoa(int(low+high) / 2)
}
