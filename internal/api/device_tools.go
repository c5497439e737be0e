package api

import (
	"context"
	"errors"
	"net/http"

	"patchbay/internal/control"
	"patchbay/internal/store"
	"patchbay/internal/tool"
)

// DeviceTool is a tool of a device in /api/v1/devices/{device}/tools.
type DeviceTool struct {
	// Own is the tool's name at its device, such as self.audio_speaker.set_volume.
	Own string `json:"own_name"`
	Tool
}

// DeviceTools are the tools of a device.
type DeviceTools struct {
	Tools []DeviceTool `json:"tools"`
}

type deviceToolsOf struct {
	control.DeviceRef
	Schemas bool `query:"schemas"` // include their schemas
}

// deviceTools lists a device's tools, with ?schemas=true their schemas too.
func (s *Server) deviceTools(w http.ResponseWriter, r *http.Request, c control.Caller) {
	d, ok := s.device(w, r, c)
	if !ok {
		return
	}
	list, err := s.DeviceTools(r.Context(), c, d)
	if err != nil {
		s.internalError(w, r, err)
		return
	}
	people, err := s.names(r.Context())
	if err != nil {
		s.internalError(w, r, err)
		return
	}
	owner := store.Person{ID: d.Owner, Name: people[d.Owner]}
	out := make([]DeviceTool, len(list))
	for i, l := range list {
		out[i] = DeviceTool{l.Tool.Name, control.ToolRow(l, owner, r.URL.Query().Get("schemas") == "true")}
	}
	reply(w, DeviceTools{out})
}

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
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	lines := newToolLines(w)
	res, err := s.CallDevice(ctx, c, d, control.DeviceCall{
		Tool: r.PathValue("tool"), Args: q.Arguments, Channel: "cli", Agent: r.UserAgent(),
		Progress: func(p tool.Progress) {
			if lines.write(ToolLine{Progress: &p}) != nil {
				cancel() // the client has disconnected
			}
		},
	})
	lines.end(res, err)
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
	fail(w, status, e.Told)
}
