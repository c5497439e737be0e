package api

import (
	"context"
	"errors"
	"net/http"

	"patchbay/internal/control"
	"patchbay/internal/tool"
)

type deviceCall struct {
	control.DeviceRef
	Tool string `path:"tool"` // its name at the device, or its full name
	ToolCall
}

// callDevice calls a tool of a device, by its own or its full name, for the device's owner.
func (s *Server) callDevice(w http.ResponseWriter, r *http.Request, c control.Caller) {
	d, ok := s.device(w, r, c)
	if !ok {
		return
	}
	q, ok := readToolCall(w, r)
	if !ok {
		return
	}
	s.streamCall(w, r, func(ctx context.Context, progress func(tool.Progress)) (*tool.Result, error) {
		return s.CallDevice(ctx, c, d, control.DeviceCall{Tool: r.PathValue("tool"), Args: q.Arguments, Channel: "cli",
			Agent: r.UserAgent(), Progress: progress})
	})
}

// listen streams what a device hears as audio/ogg, until the client disconnects.
func (s *Server) listen(w http.ResponseWriter, r *http.Request, c control.Caller) {
	d, ok := s.device(w, r, c)
	if !ok {
		return
	}
	begun, err := s.StreamSound(w, r, c, d, control.SoundOgg)
	switch {
	case err != nil && begun:
		panic(http.ErrAbortHandler) // so that the response does not look complete
	case err != nil:
		s.listenFails(w, r, err)
	}
}

// listenFails responds to a client that cannot listen.
func (s *Server) listenFails(w http.ResponseWriter, r *http.Request, err error) {
	e, told := errors.AsType[*tool.Error](err)
	if !told {
		s.fails(w, r, err)
		return
	}
	status := http.StatusBadGateway
	switch e.Code {
	case tool.Offline, tool.Busy:
		status = http.StatusConflict
	case tool.Stopping:
		status = http.StatusServiceUnavailable
	case tool.Denied:
		status = http.StatusForbidden
	}
	respond(w, status, Failure{Message: e.Told, Code: string(e.Code)})
}
