package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"patchbay/internal/board"
	"patchbay/internal/control"
	"patchbay/internal/store"
	"patchbay/internal/tool"
)

// DeviceTool is a tool of a device as /api/v1/devices/{device}/tools lists it.
type DeviceTool struct {
	// Own is the tool's name at its device, such as self.audio_speaker.set_volume.
	Own string `json:"own_name"`
	Tool
}

// recordTool is the tool with which a device records what is said near it.
const recordTool = "record"

// awake says whether a device is connected: then some instance holds it.
func (s *Server) awake(number int64) bool {
	_, held, _ := s.Board.Plugged(board.DeviceOutlet(number))
	return held
}

const (
	// plugLimit is how long a call waits for a device to be plugged in that was
	// approved freshly: the server looks for such devices every second.
	plugLimit = 3 * time.Second
	fresh     = 10 * time.Second
)

// awaitPlug waits until a device is plugged in that was approved a moment ago.
func (s *Server) awaitPlug(ctx context.Context, d store.Device) {
	if time.Since(d.Approved) > fresh {
		return
	}
	changes, forget := s.Board.Watch()
	defer forget()
	over := time.NewTimer(plugLimit)
	defer over.Stop()
	for {
		if _, _, tools := s.Board.Plugged(board.DeviceOutlet(d.Number)); len(tools) > 0 {
			return
		}
		select {
		case <-changes:
		case <-over.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// toolsOf lists a device's tools by their own names, with what its owner and the
// rules of a key (as kept) say about them.
func (s *Server) toolsOf(ctx context.Context, d store.Device, rules string) ([]board.Listing, error) {
	s.awaitPlug(ctx, d)
	list, err := s.Board.Inventory(d.Owner, rules)
	id := board.DeviceOutlet(d.Number)
	list = slices.DeleteFunc(list, func(l board.Listing) bool { return l.Outlet().ID != id })
	slices.SortFunc(list, func(a, b board.Listing) int { return cmp.Compare(a.Tool.Name, b.Tool.Name) })
	return list, err
}

// deviceTools lists a device's tools, with ?schemas=true their schemas too.
func (s *Server) deviceTools(w http.ResponseWriter, r *http.Request, c control.Caller) {
	d, ok := s.device(w, r, c)
	if !ok {
		return
	}
	list, err := s.toolsOf(r.Context(), d, c.Rules)
	if err != nil {
		s.broken(w, r, err)
		return
	}
	people, err := s.names(r.Context())
	if err != nil {
		s.broken(w, r, err)
		return
	}
	owner := store.Person{ID: d.Owner, Name: people[d.Owner]}
	out := make([]DeviceTool, len(list))
	for i, l := range list {
		out[i] = DeviceTool{l.Tool.Name, row(l, owner, r.URL.Query().Get("schemas") == "true")}
	}
	reply(w, map[string]any{"tools": out})
}

// callDevice calls a tool of a device by the name that it has there, or by its full
// one, on behalf of the device's owner.
func (s *Server) callDevice(w http.ResponseWriter, r *http.Request, c control.Caller) {
	d, ok := s.device(w, r, c)
	if !ok {
		return
	}
	q, ok := readToolCall(w, r)
	if !ok {
		return
	}
	// Not the owner's inventory, which can be that of thousands of devices: the board
	// decides what may be called.
	s.awaitPlug(r.Context(), d)
	name := r.PathValue("tool")
	o := s.findTool(r.Context(), d, name)
	if o == nil {
		newToolLines(w).end(nil, s.noTool(d, name))
		return
	}
	s.stream(w, r, access(r, c, d.Owner), o.Name, q.Arguments)
}

// learnLimit is how long a call waits for a device that woke a moment ago to tell
// which tools it has: it is asked when it connects for the first time.
const learnLimit = 3 * time.Second

// findTool finds a tool of a device, by the name that it has there or by its full one.
func (s *Server) findTool(ctx context.Context, d store.Device, name string) *board.Offered {
	changes, forget := s.Board.Watch()
	defer forget()
	over := time.NewTimer(learnLimit)
	defer over.Stop()
	for {
		_, held, list := s.Board.Plugged(board.DeviceOutlet(d.Number))
		i := slices.IndexFunc(list, func(o *board.Offered) bool { return o.Tool.Name == name })
		if i < 0 {
			i = slices.IndexFunc(list, func(o *board.Offered) bool { return o.Name == name })
		}
		if i >= 0 {
			return list[i]
		}
		if !held || slices.ContainsFunc(list, itsOwn) {
			return nil // it sleeps, or has told
		}
		select {
		case <-changes:
		case <-over.C:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

// itsOwn says whether a tool is one that the device itself has told of: those have
// dots in their names.
func itsOwn(o *board.Offered) bool { return strings.Contains(o.Tool.Name, ".") }

// noTool says why a device has no such tool. What one can do that has not been awake
// yet is not known.
func (s *Server) noTool(d store.Device, name string) *tool.Error {
	if !s.awake(d.Number) {
		return tool.Fail(tool.Offline, fmt.Sprintf("The device %s is asleep, and no tool %s of it is known.", d.Name, name), nil)
	}
	return tool.Fail(tool.Unknown, fmt.Sprintf("The device %s has no tool %s.", d.Name, name), nil)
}

// listen streams what a device hears, as audio/ogg, until the caller leaves.
func (s *Server) listen(w http.ResponseWriter, r *http.Request, c control.Caller) {
	d, ok := s.device(w, r, c)
	if !ok {
		return
	}
	if s.Listen == nil {
		fail(w, http.StatusNotFound, "this server has no devices that can be listened to")
		return
	}
	list, err := s.toolsOf(r.Context(), d, c.Rules)
	if err != nil {
		s.broken(w, r, err)
		return
	}
	// Who may not record may not listen either.
	if slices.ContainsFunc(list, func(l board.Listing) bool { return l.Tool.Name == recordTool && l.State != ToolAllowed }) {
		fail(w, http.StatusForbidden, fmt.Sprintf("the tool %s of this device is not allowed here, which listening needs", recordTool))
		return
	}
	s.Logger.InfoContext(r.Context(), "somebody listens to a device", "device", d.Number, "person", c.Person, "key", c.Key)
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	out := &soundWriter{w: w, control: http.NewResponseController(w), gone: cancel}
	opens := time.AfterFunc(silenceLimit, out.open)
	defer opens.Stop()
	err = s.Listen(ctx, d.Number, out)
	begun := out.end()
	switch {
	case ctx.Err() != nil, err == nil && begun: // the caller has gone, or the device has ended it
	case begun:
		s.Logger.WarnContext(r.Context(), "listening to a device broke off", "device", d.Number, "error", err)
		panic(http.ErrAbortHandler) // the caller is not to take it for the end
	case err == nil:
		fail(w, http.StatusConflict, "the device sent no sound")
	default:
		s.listenFails(w, r, err)
	}
}

// listenFails answers who cannot listen.
func (s *Server) listenFails(w http.ResponseWriter, r *http.Request, err error) {
	e, told := errors.AsType[*tool.Error](err)
	if !told {
		s.broken(w, r, err)
		return
	}
	status := http.StatusBadGateway
	switch e.Code {
	case tool.Offline, tool.Busy:
		status = http.StatusConflict
	case tool.Denied:
		status = http.StatusForbidden
	}
	fail(w, status, e.Told)
}

// silenceLimit is how long the answer to somebody who listens may wait for the first
// sound. Then it begins without: a device may be silent for hours, and nobody is to
// take it for a server that does not answer.
const silenceLimit = time.Second

// soundWriter sends sound as it comes, and calls it off when nobody reads.
type soundWriter struct {
	control *http.ResponseController
	gone    context.CancelFunc

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
	o.w.Header().Set("Content-Type", "audio/ogg")
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
	o.control.SetWriteDeadline(time.Now().Add(lineLimit)) //nolint:errcheck // not every connection has one
	n, err := o.w.Write(b)
	if err == nil {
		err = o.control.Flush()
	}
	if err != nil {
		o.gone()
	}
	return n, err
}
