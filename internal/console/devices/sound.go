package devices

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"

	"patchbay/internal/console/page"
	"patchbay/internal/console/schemaform"
	"patchbay/internal/control"
	"patchbay/internal/tool"
)

const (
	// maxSound is how large a file may be that is played, in bytes. It protects the
	// call, which has a limit of 4 MiB, from what it would be refused for.
	maxSound = 2 << 20
	// maxSoundForm is that with what is around it.
	maxSoundForm = maxSound + 64<<10
	// maxAddress and maxCaption bound what is typed beside it.
	maxAddress, maxCaption = 2000, 500
)

// play plays a file, or what is at an address.
func (p *pages) play(v *page.Visit) {
	d, ok := p.find(v)
	if !ok {
		return
	}
	v.Body = http.MaxBytesReader(v.W, v.Body, maxSoundForm)
	o := outcome{Form: schemaform.Read(nil), Tool: d.tool(toolPlay), Online: d.Online}
	if o.Tool != nil {
		o.Form = schemaform.Read(o.Tool.Input)
	}
	args, err := readSound(v)
	if v.MultipartForm != nil {
		defer v.MultipartForm.RemoveAll() //nolint:errcheck // nothing is left but a temporary file
	}
	if err != nil {
		p.soundFails(v, &d, err)
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
	p.do(v, &d, toolPlay, text, &o)
	p.tell(v, &d, &o)
}

// soundFails says what is wrong with what is to be played.
func (p *pages) soundFails(v *page.Visit, d *view, err error) {
	text, status := v.Wrong(err)
	switch {
	case text == "": // the browser has gone
	case v.Partial():
		v.Show(http.StatusOK, page.Note("bad", text))
	default:
		v.Show(status, wrongPage(v, d, text))
	}
}

// sound is what is to be played: a file, in base64 as JSON has it, or an address.
type sound struct {
	Sound []byte `json:"sound,omitempty"`
	URL   string `json:"url,omitempty"`
	Text  string `json:"text,omitempty"`
	Later bool   `json:"later,omitempty"`
}

// readSound reads what is to be played.
func readSound(v *page.Visit) (s sound, err error) {
	if err := v.ParseMultipartForm(maxSoundForm); err != nil && !errors.Is(err, http.ErrNotMultipart) {
		return s, control.Fail(control.TooLarge, saySoundLarge, maxSound>>20)
	}
	s.URL, s.Text, s.Later = strings.TrimSpace(v.FormValue("arg.url")), strings.TrimSpace(v.FormValue("arg.text")), v.FormValue("arg.later") == "true"
	if len(s.URL) > maxAddress || len(s.Text) > maxCaption {
		return s, control.Fail(control.Invalid, sayFormLarge)
	}
	f, head, err := v.FormFile("file")
	switch {
	case errors.Is(err, http.ErrMissingFile), errors.Is(err, http.ErrNotMultipart), err == nil && head.Size == 0:
		if s.URL == "" {
			return s, control.Fail(control.Invalid, sayNoSound)
		}
		return s, nil
	case err != nil:
		return s, err
	}
	defer f.Close()
	s.Sound, err = io.ReadAll(io.LimitReader(f, maxSound+1))
	wav := bytes.HasPrefix(s.Sound, []byte("RIFF")) && len(s.Sound) >= 12 && string(s.Sound[8:12]) == "WAVE"
	switch {
	case err != nil:
		return s, err
	case len(s.Sound) > maxSound:
		return s, control.Fail(control.TooLarge, saySoundLarge, maxSound>>20)
	case !wav && !bytes.HasPrefix(s.Sound, []byte("OggS")):
		return s, control.Fail(control.Invalid, sayWrongSound)
	}
	s.URL = "" // the file goes before it
	return s, nil
}

// listening shows the player with which somebody listens, or takes it away.
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
	if v.Partial() {
		v.Show(http.StatusOK, listenPart(v, &d, on))
		return
	}
	v.Show(http.StatusOK, listenPage(v, &d, on))
}

// listen streams what a device hears.
func (p *pages) listen(v *page.Visit) {
	d, ok := p.find(v)
	if !ok {
		return
	}
	begun, err := p.control.StreamSound(v.W, v.Request, v.Caller(), d.Device.Device, control.SoundWAV)
	switch e, told := errors.AsType[*tool.Error](err); {
	case err != nil && begun:
		panic(http.ErrAbortHandler) // the browser is not to take it for the end
	case told:
		v.Fail(control.Fail(control.Away, sayNotHeard, e.Told))
	case err != nil:
		v.Fail(err)
	}
}
