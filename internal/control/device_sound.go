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
	"patchbay/internal/store"
	"patchbay/internal/talk"
	"patchbay/internal/tool"
)

// recordTool is the tool with which a device records what is said near it.
const recordTool = "record"

var (
	sayNoEars     = talk.Say{Zh: "这台服务器没有可以收听的设备。", En: "this server has no devices that can be listened to"}
	sayMayNotHear = talk.Say{Zh: "这里不允许使用这个设备的工具 %s，而收听需要它。",
		En: "the tool %s of this device is not allowed here, which listening needs"}
	saySilent = talk.Say{Zh: "设备没有传来声音。", En: "the device sent no sound"}
)

// MayListen says why somebody cannot listen to a device, if so.
func (s *Service) MayListen(ctx context.Context, c Caller, d store.Device) error {
	if s.Listen == nil {
		return Fail(Missing, sayNoEars)
	}
	list, err := s.DeviceTools(ctx, c, d)
	if err != nil {
		return err
	}
	// Who may not record may not listen either.
	if slices.ContainsFunc(list, func(l hub.Listing) bool {
		return l.Tool.Name == recordTool &&
			l.State != "allowed"
	}) {
		return Fail(Refused, sayMayNotHear, recordTool)
	}
	return nil
}

// The kinds of sound that [Service.StreamSound] knows.
const (
	SoundOgg = "audio/ogg" // Opus, for programs and files
	SoundWAV = "audio/wav" // for browsers
)

// StreamSound answers a request with what a device hears, of a kind, until whoever
// asked leaves or the device ends it. If there is an error and nothing has begun, it is
// to be told: it is an *[Error], a *[tool.Error] of the device, or our own fault. If it
// has begun, the answer is to be broken off, or it would look whole.
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
	case ctx.Err() != nil, err == nil && begun: // the caller has gone, or the device has ended it
		return begun, nil
	case err == nil:
		return false, Fail(Conflict, saySilent)
	case begun:
		s.Logger.WarnContext(r.Context(), "listening to a device broke off", "device", d.Number, "error", err)
		return true, err
	}
	if e, told := errors.AsType[*tool.Error](err); told {
		return false, e
	}
	return false, err
}

// recordListening writes into the audit trail that somebody listens, when they begin: the
// owner is to see it at once.
func (s *Service) recordListening(c Caller, who tool.Caller, d store.Device, began time.Time) {
	provider, _, _ := s.Hub.FindProvider(hub.DeviceProviderID(d.Number))
	name := listenAction
	if provider.Slug != "" {
		name = provider.Slug + "_" + name
	}
	s.Hub.RecordCall(hub.Access{Rules: c.Rules, Caller: who}, provider, name, nil, nil, nil, began)
}

// listenAction is how listening is called in the audit trail.
const listenAction = "listen"

const (
	// soundLimit is how long somebody may take to receive a piece of sound: who reads
	// no more is taken for gone.
	soundLimit = 10 * time.Second
	// silenceLimit is how long the answer to somebody who listens may wait for the first
	// sound. Then it begins without: a device may be silent for hours, and nobody is to
	// take it for a server that does not answer.
	silenceLimit = time.Second
)

// soundWriter sends sound as it comes, and calls it off when nobody reads.
type soundWriter struct {
	control *http.ResponseController
	gone    context.CancelFunc
	kind    string

	mu    sync.Mutex
	w     http.ResponseWriter
	begun bool
	over  bool
}

// open begins the answer, if nothing else has.
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

// begin says what comes. With mu held.
func (o *soundWriter) begin() {
	o.begun = true
	o.w.Header().Set("Content-Type", o.kind)
	o.w.Header().Set("Cache-Control", "no-store")
	o.w.Header().Set("X-Accel-Buffering", "no")
}

// end says that nothing more is written, and whether anything was.
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
	o.control.SetWriteDeadline(time.Now().Add(soundLimit)) //nolint:errcheck // not every connection has one
	n, err := o.w.Write(b)
	if err == nil {
		err = o.control.Flush()
	}
	if err != nil {
		o.gone()
	}
	return n, err
}
