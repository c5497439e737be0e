package devices

import (
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"patchbay/internal/console/page"
	"patchbay/internal/control"
)

// exportTime is how long the download of an archive may take.
const exportTime = 30 * time.Minute

// recordingList is a page of what is recorded of a device.
type recordingList struct {
	control.Recordings
	Text  string // search text
	After string
}

// address returns the URL of a page below the recordings with the search text and a place.
func (l *recordingList) address(d *view, rest, after string) string {
	q := url.Values{}
	if l.Text != "" {
		q.Set("text", l.Text)
	}
	if after != "" {
		q.Set("after", after)
	}
	path := d.path("/recordings" + rest)
	if len(q) == 0 {
		return path
	}
	return path + "?" + q.Encode()
}

// recordingQuery returns what the request asks for.
func (d *view) recordingQuery(v *page.Visit) control.RecordingQuery {
	return control.RecordingQuery{Device: strconv.FormatInt(d.Number, 10), Limit: perPage,
		Text: strings.TrimSpace(v.FormValue("text")), After: v.FormValue("after")}
}

func (p *pages) recordings(v *page.Visit) {
	d, ok := p.find(v)
	if !ok {
		return
	}
	q := d.recordingQuery(v)
	list, err := p.control.Recordings(v.Context(), v.Caller(), q)
	if err != nil {
		v.Fail(err)
		return
	}
	v.Render(http.StatusOK, recordingsPage(v, &d, &recordingList{list, q.Text, q.After}))
}

// exportRecordings sends an archive. All of it is written first, because an error in its middle
// could not be reported.
func (p *pages) exportRecordings(v *page.Visit) {
	d, ok := p.find(v)
	if !ok {
		return
	}
	// If it cannot be set, the server's deadline applies.
	_ = http.NewResponseController(v.W).SetWriteDeadline(time.Now().Add(exportTime))
	file, err := os.CreateTemp("", "patchbay-recordings-*")
	if err != nil {
		v.Fail(err)
		return
	}
	defer os.Remove(file.Name())
	defer file.Close()
	if _, err := p.control.ExportRecordings(v.Context(), v.Caller(), d.recordingQuery(v), file); err != nil {
		v.Fail(err)
		return
	}
	h := v.W.Header()
	h.Set("Content-Type", "application/zip")
	h.Set("Content-Disposition", `attachment; filename="recordings.zip"`)
	http.ServeContent(v.W, v.Request, "", time.Time{}, file)
}

func (p *pages) removeRecordings(v *page.Visit) {
	d, ok := p.find(v)
	if !ok {
		return
	}
	ref := control.DeviceRef{Device: strconv.FormatInt(d.Number, 10)}
	if _, err := p.control.RemoveRecordings(v.Context(), v.Caller(), ref); err != nil {
		v.Fail(err)
		return
	}
	v.Redirect(d.path("/recordings?removed"))
}
