package devices

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"

	"patchbay/internal/console/page"
	"patchbay/internal/console/schemaform"
	"patchbay/internal/control"
	"patchbay/internal/problem"
	"patchbay/internal/tool"
	"patchbay/internal/voice/engine"
)

const (
	// maxSound is the maximum size of a sound file, in bytes. It keeps the call below its limit of
	// 4 MiB.
	maxSound = 2 << 20
	// maxSoundForm is the maximum size of the form with such a file.
	maxSoundForm = maxSound + 64<<10
	// maxAddress and maxCaption are the maximum lengths of the other fields.
	maxAddress, maxCaption = 2000, 500
)

// play plays a file, or the sound at a URL.
func (p *pages) play(v *page.Visit) {
	d, ok := p.find(v)
	if !ok {
		return
	}
	v.Body = http.MaxBytesReader(v.W, v.Body, maxSoundForm)
	args, err := readSound(v)
	name := toolPlay
	if args.Music {
		name = toolPlayMusic
	}
	o := outcome{Form: schemaform.Read(nil), Tool: d.tool(name), Online: d.Online}
	if o.Tool != nil {
		o.Form = formOf(v, o.Tool)
	}
	if v.MultipartForm != nil {
		defer v.MultipartForm.RemoveAll() //nolint:errcheck // at worst a temporary file stays
	}
	if err != nil {
		p.showFormError(v, &d, err)
		return
	}
	text, err := json.Marshal(args)
	if err != nil {
		v.Fail(err)
		return
	}
	if f := o.Form.Get(argLater); f != nil && args.Later {
		f.Value = "true"
	}
	p.callTool(v, &d, control.DeviceCall{Tool: name, Args: text}, &o)
	p.showOutcome(v, &d, &o)
}

// showFormError shows why a form cannot be carried out.
func (p *pages) showFormError(v *page.Visit, d *view, err error) {
	text, status := v.Wrong(err)
	switch {
	case text == "": // the browser has disconnected
	case v.IsPartial() && v.FormValue("as") == "tile":
		v.Render(http.StatusOK, toldPart(v, d, &outcome{Refused: text}))
	case v.IsPartial():
		v.Render(http.StatusOK, page.Note("bad", text))
	default:
		v.Render(status, wrongPage(v, d, text))
	}
}

// sound is what to play: a file, encoded as base64 in JSON, or a URL.
type sound struct {
	Sound []byte `json:"sound,omitempty"`
	URL   string `json:"url,omitempty"`
	Text  string `json:"text,omitempty"`
	Title string `json:"title,omitempty"` // of music
	Later bool   `json:"later,omitempty"`
	Music bool   `json:"-"`
}

// readSound reads the form.
func readSound(v *page.Visit) (s sound, err error) {
	if err := v.ParseMultipartForm(maxSoundForm); err != nil && !errors.Is(err, http.ErrNotMultipart) {
		return s, problem.New(problem.TooLarge, msgSoundLarge, maxSound>>20)
	}
	s.URL, s.Text, s.Later = strings.TrimSpace(v.FormValue("arg.url")), strings.TrimSpace(v.FormValue("arg.text")),
		v.FormValue("arg.later") == "true"
	if len(s.URL) > maxAddress || len(s.Text) > maxCaption {
		return s, problem.New(problem.Invalid, msgFormLarge)
	}
	if s.Music = v.FormValue("music") == "true"; s.Music {
		s.Title, s.Text = s.Text, ""
	}
	f, head, err := v.FormFile("file")
	switch {
	case errors.Is(err, http.ErrMissingFile), errors.Is(err, http.ErrNotMultipart), err == nil && head.Size == 0:
		if s.URL == "" {
			return s, problem.New(problem.Invalid, msgNoSound)
		}
		return s, nil
	case err != nil:
		return s, err
	}
	defer f.Close()
	s.Sound, err = io.ReadAll(io.LimitReader(f, maxSound+1))
	switch {
	case err != nil:
		return s, err
	case len(s.Sound) > maxSound:
		return s, problem.New(problem.TooLarge, msgSoundLarge, maxSound>>20)
	case engine.FormatOf(s.Sound) == 0:
		return s, problem.New(problem.Invalid, msgWrongSound)
	}
	s.URL = "" // a file takes precedence
	return s, nil
}

// listening shows or removes the player for listening.
func (p *pages) listening(v *page.Visit) {
	d, ok := p.find(v)
	if !ok {
		return
	}
	on := v.FormValue("on") != ""
	if on {
		if err := p.control.MayListen(v.Context(), v.Caller(), d.Device.Device); err != nil {
			v.Fail(err)
			return
		}
	}
	if v.IsPartial() {
		v.Render(http.StatusOK, listenPart(v, &d, on))
		return
	}
	v.Render(http.StatusOK, listenPage(v, &d, on))
}

// listen streams the device's microphone.
func (p *pages) listen(v *page.Visit) {
	d, ok := p.find(v)
	if !ok {
		return
	}
	begun, err := p.control.StreamSound(v.W, v.Request, v.Caller(), d.Device.Device, control.SoundWAV)
	switch e, recent := errors.AsType[*tool.Error](err); {
	case err != nil && begun:
		panic(http.ErrAbortHandler) // the browser must not take this for the end of the stream
	case recent:
		v.Fail(problem.New(problem.Unavailable, msgNotHeard, e.Told))
	case err != nil:
		v.Fail(err)
	}
}
