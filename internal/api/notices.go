package api

import (
	"encoding/json"
	"net/http"
	"time"

	"patchbay/internal/control"
	"patchbay/internal/hub"
	"patchbay/internal/problem"
)

// NoticeLine is one line of the response of /api/v1/notices: a notification of a device or another
// provider, or an empty line as a heartbeat.
type NoticeLine struct {
	Notice *hub.Notice `json:"notice,omitempty"`
}

type noticesOf struct {
	Device string `query:"device"` // number, name or hardware address; empty: all devices
}

// keepAliveInterval is the interval of heartbeats, by which proxies and the server notice that a
// client has disconnected.
const keepAliveInterval = 20 * time.Second

// notices streams the notifications of the caller's devices, or of one device, as JSON lines until
// the client disconnects.
func (s *Server) notices(w http.ResponseWriter, r *http.Request, c control.Caller) {
	if c.Only != 0 {
		fail(w, problem.Denied, "this key is for one bot, and not for devices")
		return
	}
	only := ""
	if ref := r.URL.Query().Get("device"); ref != "" {
		r.SetPathValue("device", ref)
		d, ok := s.device(w, r, c)
		if !ok {
			return
		}
		only = hub.DeviceProviderID(d.Number)
	}
	told, forget := s.Notices(c)
	defer forget()
	alive := time.NewTicker(keepAliveInterval)
	defer alive.Stop()
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("X-Accel-Buffering", "no")
	control := http.NewResponseController(w)
	lines := json.NewEncoder(w)
	lines.SetEscapeHTML(false)
	line := NoticeLine{} // the first line shows that the stream has begun
	for {
		control.SetWriteDeadline(time.Now().Add(lineLimit)) //nolint:errcheck // not every connection supports deadlines
		if lines.Encode(line) != nil || control.Flush() != nil {
			return
		}
		for waiting := true; waiting; {
			select {
			case n, open := <-told:
				if !open {
					return
				}
				line, waiting = NoticeLine{&n}, only != "" && n.Provider != only
			case <-alive.C:
				line, waiting = NoticeLine{}, false
			case <-r.Context().Done():
				return
			}
		}
	}
}
