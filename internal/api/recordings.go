package api

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"reflect"
	"strconv"
	"time"

	"patchbay/internal/control"
	"patchbay/internal/i18n"
	"patchbay/internal/problem"
)

const (
	recordingsPath = "/api/v1/devices/{device}/recordings/export"
	// turnsHeader has the number of turns in an archive.
	turnsHeader = "Patchbay-Turns"
)

// recordingFiles adds the operations on recordings whose responses are files.
func (s *Server) recordingFiles() {
	s.handle(Operation{Method: http.MethodGet, Path: recordingsPath, Kind: "application/zip",
		Summary: "Export what is recorded of a device: sounds, texts and tool calls",
		In:      reflect.TypeFor[control.RecordingQuery]()}, s.exportRecordings)
	s.handle(Operation{Method: http.MethodGet, Path: "/api/v1/turns/{turn}/sound/{part}", Kind: "audio/ogg",
		Summary: "Return the question or the answer of a recorded turn as Ogg Opus",
		In:      reflect.TypeFor[control.TurnSoundRef]()}, s.turnSound)
}

// turnSound sends a sound of a turn.
func (s *Server) turnSound(w http.ResponseWriter, r *http.Request, c control.Caller) {
	file, err := s.TurnSound(r.Context(), c, control.TurnSoundRef{Turn: r.PathValue("turn"), Part: r.PathValue("part")})
	if err != nil {
		s.fails(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "audio/ogg")
	w.Header().Set("Cache-Control", "private, no-store")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(file))
}

// exportRecordings sends an archive, which is written whole first, as by [Server.exportPoints].
func (s *Server) exportRecordings(w http.ResponseWriter, r *http.Request, c control.Caller) {
	var in control.RecordingQuery
	if _, err := readAddress(r, r.URL.Query(), reflect.ValueOf(&in).Elem()); err != nil {
		fail(w, problem.Invalid, i18n.Localize(err, lang(r)))
		return
	}
	// If it cannot be set, the server's deadline applies.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(transferTime))
	file, err := os.CreateTemp("", "patchbay-recordings-*")
	if err != nil {
		s.fails(w, r, err)
		return
	}
	defer os.Remove(file.Name())
	defer file.Close()
	turns, err := s.ExportRecordings(r.Context(), c, in, file)
	if err != nil {
		s.fails(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "application/zip")
	w.Header().Set("Content-Disposition", `attachment; filename="recordings.zip"`)
	w.Header().Set("Cache-Control", "private, no-store")
	w.Header().Set(turnsHeader, strconv.Itoa(turns))
	http.ServeContent(w, r, "", time.Time{}, file)
}

// ExportRecordings returns an archive of recordings, which has to be closed, and the number of its
// turns.
func (c *Client) ExportRecordings(ctx context.Context, in control.RecordingQuery) (file io.ReadCloser, turns int,
	err error) {
	req, err := c.fileRequest(ctx, http.MethodGet, recordingsPath, in, nil)
	if err != nil {
		return nil, 0, err
	}
	resp, err := c.Do(req)
	if err != nil {
		return nil, 0, err
	}
	turns, _ = strconv.Atoi(resp.Header.Get(turnsHeader)) //nolint:errcheck // 0 if it is missing
	return resp.Body, turns, nil
}
