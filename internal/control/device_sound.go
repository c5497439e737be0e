package control

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"patchbay/internal/hub"
	"patchbay/internal/i18n"
	"patchbay/internal/problem"
	"patchbay/internal/store"
	"patchbay/internal/tool"
)

// recordTool is the tool with which a device records sound near it.
const recordTool = "record"

const (
	msgNoEars     = i18n.Message("this server has no devices that can be listened to")
	msgMayNotHear = i18n.Message("the tool %s of this device is not allowed here, which listening needs")
	msgSilent     = i18n.Message("the device sent no sound")
)

// MayListen returns why the caller may not listen to a device, or nil.
func (s *Service) MayListen(ctx context.Context, c Caller, d store.Device) error {
	if s.Listen == nil {
		return problem.New(problem.NotFound, msgNoEars)
	}
	list, err := s.DeviceTools(ctx, c, d)
	if err != nil {
		return err
	}
	// The right to listen is the right to record.
	if slices.ContainsFunc(list, func(l hub.Listing) bool {
		return l.Tool.Name == recordTool &&
			l.State != "allowed"
	}) {
		return problem.New(problem.Denied, msgMayNotHear, recordTool)
	}
	return nil
}

// Media types for [Service.StreamSound].
const (
	SoundOgg = "audio/ogg" // Opus, for programs and files
	SoundWAV = "audio/wav" // for browsers
)

// StreamSound responds with what a device hears, in a format, until the client disconnects or the
// device ends it. If it returns an error before the response has begun, the caller has to report
// it: an *[Error], a *[tool.Error] of the device, or an internal error. After that, the caller has
// to abort the response, which would look complete otherwise.
func (s *Service) StreamSound(w http.ResponseWriter, r *http.Request, c Caller, d store.Device,
	kind string) (begun bool, err error) {
	if err := s.MayListen(r.Context(), c, d); err != nil {
		return false, err
	}
	s.Logger.InfoContext(r.Context(), "somebody listens to a device", "device", d.Number, "person", c.Person,
		"key", c.Key)
	began := time.Now()
	who := tool.Caller{
		Person: d.Owner, Actor: c.ActsFor(d.Owner), Address: c.Address, Key: c.Key, OnlyBot: c.Only, Channel: c.Program,
		Program: c.Agent, Lang: string(c.Lang),
	}
	s.recordListening(c, who, d, began)
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	out := &soundWriter{w: w, kind: kind, control: http.NewResponseController(w), gone: cancel}
	opens := time.AfterFunc(silenceLimit, out.open)
	defer opens.Stop()
	listen := s.Listen
	if kind == SoundWAV {
		listen = s.Hear
	}
	err = listen(ctx, d.Number, who, out)
	begun = out.end()
	switch {
	case ctx.Err() != nil, err == nil && begun: // the client has disconnected, or the device has ended it
		return begun, nil
	case err == nil:
		return false, problem.New(problem.Conflict, msgSilent)
	case begun:
		s.Logger.WarnContext(r.Context(), "listening to a device broke off", "device", d.Number, "error", err)
		return true, err
	}
	if e, told := errors.AsType[*tool.Error](err); told {
		return false, e
	}
	return false, err
}

// recordListening records in the audit trail that somebody begins to listen, so that the owner sees
// it at once.
func (s *Service) recordListening(c Caller, who tool.Caller, d store.Device, began time.Time) {
	provider, _, _ := s.Hub.FindProvider(hub.DeviceProviderID(d.Number))
	name := listenAction
	if provider.Slug != "" {
		name = provider.Slug + "_" + name
	}
	s.Hub.RecordCall(hub.Access{Rules: c.Rules, Caller: who}, provider, name, nil, nil, nil, began)
}

// listenAction is the name of listening in the audit trail.
const listenAction = "listen"

const (
	// soundLimit limits the time to write a piece of sound. A client that does not read for that
	// long is disconnected.
	soundLimit = 10 * time.Second
	// silenceLimit is how long the response waits for the first sound. Then its header is sent
	// without: a device may be silent for hours, and the client must not take that for a server
	// that does not respond.
	silenceLimit = time.Second
)

// soundWriter writes sound as it arrives, and cancels when the client does not read.
type soundWriter struct {
	control *http.ResponseController
	gone    context.CancelFunc
	kind    string

	mu    sync.Mutex
	w     http.ResponseWriter
	begun bool
	over  bool
}

// open sends the header, if it is not sent.
func (o *soundWriter) open() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.over || o.begun {
		return
	}
	o.begin()
	if o.control.Flush() != nil {
		o.gone()
	}
}

// begin sends the header. Requires mu.
func (o *soundWriter) begin() {
	o.begun = true
	o.w.Header().Set("Content-Type", o.kind)
	o.w.Header().Set("Cache-Control", "no-store")
	o.w.Header().Set("X-Accel-Buffering", "no")
}

// end closes the writer, and reports whether anything was written.
func (o *soundWriter) end() (begun bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.over = true
	return o.begun
}

func (o *soundWriter) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.over {
		return 0, io.ErrClosedPipe
	}
	if !o.begun {
		o.begin()
	}
	o.control.SetWriteDeadline(time.Now().Add(soundLimit)) //nolint:errcheck // not every connection supports deadlines
	n, err := o.w.Write(b)
	if err == nil {
		err = o.control.Flush()
	}
	if err != nil {
		o.gone()
	}
	return n, err
}
