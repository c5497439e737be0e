package api

import (
	"encoding/json"
	"net/http"
	"time"

	"patchbay/internal/board"
	"patchbay/internal/control"
)

// NoticeLine is one line of the answer of /api/v1/notices: what a device or another
// provider has told by itself, or nothing but a sign of life.
type NoticeLine struct {
	Notice *board.Notice `json:"notice,omitempty"`
}

type noticesOf struct {
	Device string `query:"device"` // number, name or hardware address of the only one; empty: all
}

// aliveEvery is how often whoever waits for notices is sent a sign of life, so that
// proxies, and the server, notice who has gone.
const aliveEvery = 20 * time.Second

// notices streams what the caller's devices tell by themselves, a JSON object a line,
// until the caller leaves: those of one device, if the query names it.
func (s *Server) notices(w http.ResponseWriter, r *http.Request, c control.Caller) {
	if c.Only != 0 {
		fail(w, http.StatusForbidden, "this key is for one bot, and not for devices")
		return
	}
	only := ""
	if ref := r.URL.Query().Get("device"); ref != "" {
		r.SetPathValue("device", ref)
		d, ok := s.device(w, r, c)
		if !ok {
			return
		}
		only = board.DeviceOutlet(d.Number)
	}
	told, forget := s.Board.Notices(c.Owner())
	defer forget()
	alive := time.NewTicker(aliveEvery)
	defer alive.Stop()
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("X-Accel-Buffering", "no")
	control := http.NewResponseController(w)
	lines := json.NewEncoder(w)
	lines.SetEscapeHTML(false)
	line := NoticeLine{} // the first says that it has begun
	for {
		control.SetWriteDeadline(time.Now().Add(lineLimit)) //nolint:errcheck // not every connection has one
		if lines.Encode(line) != nil || control.Flush() != nil {
			return
		}
		for waiting := true; waiting; {
			select {
			case n, open := <-told:
				if !open {
					return
				}
				line, waiting = NoticeLine{&n}, only != "" && n.Outlet != only
			case <-alive.C:
				line, waiting = NoticeLine{}, false
			case <-r.Context().Done():
				return
			}
		}
	}
}
