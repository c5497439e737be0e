package devices

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"patchbay/internal/console/page"
	"patchbay/internal/console/schemaform"
	"patchbay/internal/control"
	"patchbay/internal/hub"
	"patchbay/internal/i18n"
	"patchbay/internal/tool"
)

// stateTimeout is how long a device may take to report its state.
const stateTimeout = 8 * time.Second

// liveState is the current state of a device.
type liveState struct {
	status
	Info    info
	Problem *tool.Error // why the state could not be read
}

// status is the result of the tool status.
type status struct {
	State   string             `json:"state"` // asleep, idle, listening or speaking
	Via     string             `json:"via"`
	Since   time.Time          `json:"since"`
	Waiting int                `json:"waiting"`
	Talk    *conversationStats `json:"conversation"`
	Last    *conversationStats `json:"last_conversation"`

	Listeners []activeListener `json:"listeners"`
	Listened  *activeListener  `json:"last_listener"`
}

// activeListener is somebody who listens to or views a device's surroundings.
type activeListener struct {
	Name  string    `json:"name"`
	What  string    `json:"what"` // listen, record, photo or video
	Since time.Time `json:"since"`
	Until time.Time `json:"until"`
}

// Texts for what a listener does or did, by kind.
var (
	msgEars = map[string]i18n.Message{"listen": msgEarsLive, "record": msgEarsFile, "photo": msgEarsPhoto,
		"video": msgEarsVideo}
	msgNoEars = map[string]i18n.Message{"listen": msgHeardLive, "record": msgHeardFile, "photo": msgHeardPhoto,
		"video": msgHeardVideo}
)

// conversationStats are the audio statistics of a conversation.
type conversationStats struct {
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

// info is the result of the board's own info tool, as far as known; firmwares differ.
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

var msgStates = map[string]i18n.Message{
	"asleep": msgAsleep, "idle": msgIdle, "listening": msgListening, "speaking": msgSpeaking,
}

// showState shows the current state of a device.
func (p *pages) showState(v *page.Visit) {
	d, ok := p.find(v)
	if !ok {
		return
	}
	if !v.IsPartial() {
		v.Redirect(d.path("?now"))
		return
	}
	n := p.readState(v, &d)
	d.Now = &n
	v.Render(http.StatusOK, statePart(v, &d))
}

// readState reads the state of a device: its connection from Patchbay and, if it is awake, volume
// and brightness from the device itself.
func (p *pages) readState(v *page.Visit, d *view) (n liveState) {
	ctx, cancel := context.WithTimeout(v.Context(), stateTimeout)
	defer cancel()
	for _, q := range []struct {
		tool  string
		awake bool
		into  any
	}{{toolStatus, false, &n.status}, {toolInfo, true, &n.Info}} {
		if q.awake && !d.Online || !isUsable(d.tool(q.tool)) {
			continue
		}
		if e := p.ask(ctx, v, d, q.tool, q.into); e != nil {
			n.Problem = e
		}
	}
	return n
}

// ask calls a tool without arguments, and reads its result as far as possible.
func (p *pages) ask(ctx context.Context, v *page.Visit, d *view, name string, into any) *tool.Error {
	res, err := p.control.CallDevice(ctx, v.Caller(), d.Device.Device,
		control.DeviceCall{Tool: name, Channel: "console", Agent: v.UserAgent()})
	if err != nil {
		return tool.AsError(err)
	}
	text := []byte(res.Structured)
	if len(text) == 0 {
		text = []byte(res.PlainText())
	}
	json.Unmarshal(text, into) //nolint:errcheck // missing fields are not shown
	return nil
}

// isUsable reports whether a tool exists and may be called.
func isUsable(l *hub.Listing) bool { return l != nil && l.State == control.ToolAllowed }

// slider is a numeric setting of a device.
type slider struct {
	ID, Label string
	Tool      *hub.Listing
	Field     *schemaform.Field
	Value     string // empty if unknown
}

// sliders returns the numeric settings of a device.
func sliders(v *page.Visit, d *view) (out []slider) {
	for _, s := range []struct {
		id, tool, arg string
		say           i18n.Message
		value         *int
	}{
		{"volume", toolVolume, "volume", msgVolume, d.Now.Info.Speaker.Volume},
		{"brightness", toolBrightness, "brightness", msgBrightness, d.Now.Info.Screen.Brightness},
	} {
		l := d.tool(s.tool)
		if !isUsable(l) || !d.Online {
			continue
		}
		f := schemaform.Read(l.Input).Get(s.arg)
		if f == nil {
			continue
		}
		// Most firmwares specify the range.
		if f.Min == "" || f.Max == "" {
			f.Min, f.Max = "0", "100"
		}
		x := slider{ID: s.id, Label: v.Text(s.say), Tool: l, Field: f}
		if s.value != nil {
			x.Value = strconv.Itoa(*s.value)
		}
		out = append(out, x)
	}
	return out
}

// shown returns the position of a slider: the middle if the value is unknown.
func (s *slider) shown() string {
	if s.Value != "" {
		return s.Value
	}
	low, _ := strconv.ParseFloat(s.Field.Min, 64)  // both were parsed as numbers before
	high, _ := strconv.ParseFloat(s.Field.Max, 64) // see above
	return strconv.Itoa(int(low+high) / 2)
}
