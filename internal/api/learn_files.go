package api

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"reflect"
	"strconv"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
	"patchbay/internal/problem"
)

const (
	learnImportPath, learnExportPath = "/api/v1/learn/import", "/api/v1/learn/export"
	// fileKind is the media type of any file.
	fileKind = "application/octet-stream"
	// pointsHeader has the number of points in a file.
	pointsHeader = "Patchbay-Points"
	// transferTime is how long a transfer may take.
	transferTime = 30 * time.Minute
)

// learnFileOperations adds the operations on files with knowledge points.
func (s *Server) learnFileOperations() {
	s.handle(Operation{Method: http.MethodPost, Path: learnImportPath,
		Summary: "Import knowledge points from the uploaded file",
		In:      reflect.TypeFor[control.LearnImportFile](), Out: reflect.TypeFor[control.LearnImported](),
		Takes: fileKind, Scope: account.ScopeLearn}, s.importPoints)
	s.handle(Operation{Method: http.MethodGet, Path: learnExportPath, Summary: "Export knowledge points to a file",
		In: reflect.TypeFor[control.LearnExport](), Kind: fileKind, Scope: account.ScopeLearn}, s.exportPoints)
	s.handle(Operation{Method: http.MethodGet, Path: "/api/v1/learn/calendar.ics",
		Summary: "Return the due counts of the coming days as an iCalendar feed", Kind: "text/calendar", Scope: account.ScopeLearn,
		basic: true}, s.calendar)
}

// importPoints imports the body. The status is 422 if rows are invalid and nothing was imported.
func (s *Server) importPoints(w http.ResponseWriter, r *http.Request, c control.Caller) {
	var in control.LearnImportFile
	if _, err := readAddress(r, r.URL.Query(), reflect.ValueOf(&in).Elem()); err != nil {
		fail(w, problem.Invalid, i18n.Localize(err, lang(r)))
		return
	}
	http.NewResponseController(w).SetWriteDeadline(time.Now().Add(transferTime)) //nolint:errcheck // otherwise the server's deadline applies
	out, err := s.Learning().Import(r.Context(), c, in, http.MaxBytesReader(w, r.Body, s.ImportSize))
	if err != nil {
		s.fails(w, r, err)
		return
	}
	if len(out.RowErrors) > 0 && !out.Done && !in.DryRun {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		w.WriteHeader(http.StatusUnprocessableEntity)
	}
	reply(w, out)
}

// exportPoints sends a file. All of it is written first, because an error in its middle could not
// be reported any more.
func (s *Server) exportPoints(w http.ResponseWriter, r *http.Request, c control.Caller) {
	var in control.LearnExport
	if _, err := readAddress(r, r.URL.Query(), reflect.ValueOf(&in).Elem()); err != nil {
		fail(w, problem.Invalid, i18n.Localize(err, lang(r)))
		return
	}
	http.NewResponseController(w).SetWriteDeadline(time.Now().Add(transferTime)) //nolint:errcheck // otherwise the server's deadline applies
	file, err := os.CreateTemp("", "patchbay-export-*")
	if err != nil {
		s.fails(w, r, err)
		return
	}
	defer os.Remove(file.Name())
	defer file.Close()
	written, err := s.Learning().Export(r.Context(), c, in, file)
	if err != nil {
		s.fails(w, r, err)
		return
	}
	w.Header().Set("Content-Type", written.Kind)
	w.Header().Set("Content-Disposition", `attachment; filename="`+written.Name+`"`)
	w.Header().Set(pointsHeader, strconv.Itoa(written.Points))
	http.ServeContent(w, r, "", time.Time{}, file)
}

// calendar tells calendar programs how much is due on the coming days.
func (s *Server) calendar(w http.ResponseWriter, r *http.Request, c control.Caller) {
	ics, at, err := s.Learning().Calendar(r.Context(), c)
	if err != nil {
		s.fails(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "text/calendar; charset=utf-8")
	w.Header().Set("Cache-Control", "private, max-age=300")
	http.ServeContent(w, r, "", at, bytes.NewReader(ics))
}

// ImportPoints imports a file of a size; negative: unknown. A result that is not Done says why.
func (c *Client) ImportPoints(ctx context.Context, in control.LearnImportFile, file io.Reader,
	size int64) (*control.LearnImported, error) {
	req, err := c.fileRequest(ctx, http.MethodPost, learnImportPath, in, file)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", fileKind)
	if req.ContentLength = size; size == 0 {
		req.Body = http.NoBody
	}
	resp, err := c.Do(req, http.StatusUnprocessableEntity)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var out control.LearnImported
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxReply)).Decode(&out); err != nil {
		return nil, msgNotPatchbay.Errorf(c.URL)
	}
	return &out, nil
}

// ExportPoints returns a file, which has to be closed, its size, negative if unknown, and the
// number of its points.
func (c *Client) ExportPoints(ctx context.Context, in control.LearnExport) (file io.ReadCloser, size int64,
	points int, err error) {
	req, err := c.fileRequest(ctx, http.MethodGet, learnExportPath, in, nil)
	if err != nil {
		return nil, 0, 0, err
	}
	resp, err := c.Do(req)
	if err != nil {
		return nil, 0, 0, err
	}
	points, _ = strconv.Atoi(resp.Header.Get(pointsHeader)) //nolint:errcheck // 0 if it is missing
	return resp.Body, resp.ContentLength, points, nil
}

// fileRequest returns a request of an operation whose input is in the URL.
func (c *Client) fileRequest(ctx context.Context, method, path string, in any, body io.Reader) (*http.Request, error) {
	query := url.Values{}
	path = writeAddress(reflect.ValueOf(in), path, query)
	return http.NewRequestWithContext(ctx, method, c.URL+path+"?"+query.Encode(), body)
}
