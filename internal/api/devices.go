package api

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"

	"patchbay/internal/control"
	"patchbay/internal/store"
)

// Inputs and outputs of the operations on devices.
type (
	Device       = control.Device
	Devices      = control.Devices
	Waiting      = control.Waiting
	Approval     = control.Approval
	DeviceChange = control.DeviceChange
)

// Values of a [DeviceChange] that reset a field.
const (
	DefaultTransport = control.DefaultTransport
	NoBot            = control.NoBot
)

// maxDeviceBody limits the body of a change of a device, in bytes.
const maxDeviceBody = 64 << 10

// deviceOperations adds the operations on devices, their tools and their notices.
func (s *Server) deviceOperations() {
	type ref = control.DeviceRef
	s.document("GET /api/v1/notices", "Hear what devices tell by themselves", "application/x-ndjson", noticesOf{},
		NoticeLine{}, s.notices)
	s.document("GET /api/v1/devices", "List devices", "", control.DeviceQuery{}, Devices{}, s.devices)
	operate(s, "GET /api/v1/devices/waiting", "List the devices that show a code",
		func(ctx context.Context, c control.Caller, _ struct{}) (Waiting, error) {
			return s.WaitingDevices(ctx, c)
		})
	s.document("POST /api/v1/devices/approve", "Approve the device that shows a code", "", Approval{}, Device{},
		s.approve)
	operate(s, "GET /api/v1/devices/{device}", "Show a device", s.Service.Device)
	s.document("PATCH /api/v1/devices/{device}", "Rename or bind a device, or choose its transport",
		"", deviceChanged{}, Device{}, s.changeDevice)
	operate(s, "DELETE /api/v1/devices/{device}", "Remove a device", s.removeDevice)
	s.document("GET /api/v1/devices/{device}/tools", "List the tools of a device", "", deviceToolsOf{}, DeviceTools{},
		s.deviceTools)
	s.document("POST /api/v1/devices/{device}/tools/{tool}/call", "Call a tool of a device",
		"application/x-ndjson", deviceCall{}, ToolLine{}, s.callDevice)
	s.document("GET /api/v1/devices/{device}/listen", "Listen to a device", "audio/ogg", ref{}, nil, s.listen)
}

// devices lists the caller's devices by number, or everybody's for admins, in pages. Only admins
// choose the length of a page, because one person has few devices.
func (s *Server) devices(w http.ResponseWriter, r *http.Request, c control.Caller) {
	query := r.URL.Query()
	q := control.DeviceQuery{Text: query.Get("text")}
	q.After, _ = strconv.ParseInt(query.Get("after"), 10, 64) // 0 if it is not a number
	if c.Owner() == "" {
		q.Limit, _ = strconv.Atoi(query.Get("limit"))
	}
	out, err := s.Service.Devices(r.Context(), c, q)
	if n := len(out.Devices); n > 0 && n == q.Limit {
		out.Next = out.Devices[n-1].Number // the client learns from the next page whether anything follows
	}
	s.answer(w, r, out, err)
}

// answer responds with the result of an operation.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, out any, err error) {
	if err != nil {
		s.deviceFails(w, r, err)
		return
	}
	reply(w, out)
}

// ShowsCode reports whether a device shows a pairing code now.
func ShowsCode(d store.Device) bool { return control.ShowsCode(d) }

// approve gives the device that shows a pairing code to the caller.
func (s *Server) approve(w http.ResponseWriter, r *http.Request, c control.Caller) {
	var a Approval
	if !readBody(w, r, &a, `{"code":"123456"}`) {
		return
	}
	d, err := s.ApproveDevice(r.Context(), c, a)
	s.answer(w, r, d, err)
}

// deviceChanged is a [DeviceChange] with its device.
type deviceChanged struct {
	control.DeviceRef
	DeviceChange
}

func (s *Server) changeDevice(w http.ResponseWriter, r *http.Request, c control.Caller) {
	d, err := s.FindDevice(r.Context(), c, r.PathValue("device"))
	if err != nil {
		s.deviceFails(w, r, err)
		return
	}
	var change DeviceChange
	if !readBody(w, r, &change, `{"name":"kitchen","bot":"1","transport":"default"}`) {
		return
	}
	changed, err := s.ChangeDevice(r.Context(), c, strconv.FormatInt(d.Number, 10), change)
	s.answer(w, r, changed, err)
}

// ParseTransport parses a transport as owners write it.
func ParseTransport(text string) (string, error) { return control.ParseTransport(text) }

// removed is the response to the removal of a device.
type removed struct {
	ID      int64 `json:"id"`
	Removed bool  `json:"removed"`
}

func (s *Server) removeDevice(ctx context.Context, c control.Caller, in control.DeviceRef) (removed, error) {
	number, err := s.RemoveDevice(ctx, c, in.Device)
	return removed{number, err == nil}, err
}

// device returns the device that a request names. If it returns false, it has responded.
func (s *Server) device(w http.ResponseWriter, r *http.Request, c control.Caller) (store.Device, bool) {
	d, err := s.FindDevice(r.Context(), c, r.PathValue("device"))
	if err != nil {
		s.deviceFails(w, r, err)
		return d, false
	}
	return d, true
}

// deviceFails responds to an error about a device.
func (s *Server) deviceFails(w http.ResponseWriter, r *http.Request, err error) {
	if e := control.AsError(err); e != nil && e.Reason == control.TooMany {
		w.Header().Set("Retry-After", "600")
		fail(w, statusOf[e.Reason], e.In(lang(r)))
		return
	}
	s.fails(w, r, err)
}

// DeviceErrorStatus returns the message and the status for an error of the accounts about a device
// that a person can act on; the status is 0 for all others.
func DeviceErrorStatus(err error) (status int, text string) {
	e := control.DeviceError(err)
	if e == nil {
		return 0, ""
	}
	return statusOf[e.Reason], e.Error()
}

// readBody reads a small JSON body. If it returns false, it has responded.
func readBody(w http.ResponseWriter, r *http.Request, into any, wanted string) bool {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxDeviceBody))
	if err != nil || json.Unmarshal(body, into) != nil {
		fail(w, http.StatusBadRequest, "the body is not what is wanted: "+wanted)
		return false
	}
	return true
}
