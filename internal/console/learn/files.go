package learn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/a-h/templ"

	"patchbay/internal/console/page"
	"patchbay/internal/control"
	learning "patchbay/internal/plug/learn"
	"patchbay/internal/plug/learn/transfer"
	"patchbay/internal/problem"
)

const (
	// transferTime is the timeout of an upload or a download.
	transferTime = 30 * time.Minute
	// fieldMost is the maximum size of the other form fields, in bytes.
	fieldMost = 1 << 10
	// badMost is how many invalid rows are shown.
	badMost = 100
)

// formats are the formats of imports; the first means detection.
var formats = []choiceSay{
	{"", msgFindOut}, {transfer.CSV, msgFormatCSV}, {transfer.Anki, msgFormatAnki}, {transfer.Colpkg, msgFormatColpkg},
	{transfer.Markdown, msgFormatMarkdown}, {transfer.JSON, msgFormatJSON}, {transfer.Rows, msgFormatRows},
}

// written maps the formats of exports to content types and file name extensions.
var written = map[string][2]string{
	transfer.JSON: {"application/json", "json"}, transfer.CSV: {"text/csv; charset=utf-8", "csv"},
	transfer.Markdown: {"text/markdown; charset=utf-8", "md"}, transfer.Anki: {"application/apkg", "apkg"},
	transfer.Colpkg: {"application/colpkg", "colpkg"},
}

// upload is a file to import, with the form's options.
type upload struct {
	Learner *learning.Learner
	Format  string
	Deck    string
	DryRun  bool
	SkipBad bool

	name string
	file *os.File
	size int64
	now  bool

	Result *learning.ImportResult
	Wrong  string
}

// importPage shows the form for imports, and links to exports.
func (p *pages) importPage(v *page.Visit) {
	l, err := p.Points.Learner(v.Context(), personID(v))
	if err != nil {
		v.Fail(err)
		return
	}
	v.Render(ok, filesPage(v, &upload{Learner: l}, p.Largest>>20))
}

// uploadFile imports a file and shows the progress to the script. If the browser disconnects, the
// import is canceled and nothing is imported.
func (p *pages) uploadFile(v *page.Visit) {
	limits := http.NewResponseController(v.W)
	limits.SetWriteDeadline(time.Now().Add(transferTime)) //nolint:errcheck // otherwise the server's timeout applies
	l, err := p.Points.Learner(v.Context(), personID(v))
	if err != nil {
		v.Fail(err)
		return
	}
	u := &upload{Learner: l}
	release, free := p.Points.ReserveImport()
	if !free {
		p.imported(v, u, errNoRoom)
		return
	}
	defer release()
	defer u.close()
	if err := p.receive(v, u); err != nil {
		p.imported(v, u, err)
		return
	}
	if !v.IsPartial() {
		err := p.runImport(v.Context(), v, u, nil)
		p.imported(v, u, err)
		return
	}
	v.Live(func(ctx context.Context, send page.Send) error {
		report := throttledProgress(send, func(done, total int) templ.Component {
			return importingPart(v, done,
				total)
		})
		report(0, int(u.size))
		err := p.runImport(ctx, v, u, report)
		if err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			u.Wrong, _ = v.Wrong(err)
		}
		return send(importedPart(v, u))
	})
}

// imported shows the result of an import.
func (p *pages) imported(v *page.Visit, u *upload, err error) {
	status := ok
	if err != nil {
		if u.Wrong, status = v.Wrong(err); u.Wrong == "" {
			return
		}
	}
	if v.IsPartial() {
		v.Render(status, importResult(v, u))
		return
	}
	v.Render(status, filesPage(v, u, p.Largest>>20))
}

func (u *upload) close() {
	if u.file != nil {
		u.file.Close()
		os.Remove(u.file.Name()) //nolint:errcheck // otherwise the system cleans up
	}
}

// receive reads the form and stores its file temporarily.
func (p *pages) receive(v *page.Visit, u *upload) error {
	v.Body = http.MaxBytesReader(v.W, v.Body, p.Largest+64<<10)
	parts, err := v.MultipartReader()
	if err != nil {
		return problem.New(problem.Invalid, msgNoFile)
	}
	for {
		part, err := parts.NextPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = p.part(u, part)
		}
		if _, large := errors.AsType[*http.MaxBytesError](err); large {
			return problem.New(problem.TooLarge, msgFileTooLarge, p.Largest>>20)
		}
		if control.AsError(err) != nil {
			return err
		}
		if err != nil {
			return problem.New(problem.Invalid, msgBrokeOff).Because(err)
		}
	}
	u.DryRun = u.DryRun && !u.now
	if u.file == nil || u.size == 0 {
		return problem.New(problem.Invalid, msgNoFile)
	}
	return nil
}

// part reads one part of the form.
func (p *pages) part(u *upload, part *multipart.Part) error {
	if part.FormName() == "file" {
		if u.file != nil || part.FileName() == "" {
			return nil
		}
		file, err := os.CreateTemp("", "patchbay-import-*")
		if err != nil {
			return err
		}
		u.file, u.name = file, part.FileName()
		u.size, err = io.Copy(file, io.LimitReader(part, p.Largest+1))
		if err == nil && u.size > p.Largest {
			err = problem.New(problem.TooLarge, msgFileTooLarge, p.Largest>>20)
		}
		return err
	}
	text, err := io.ReadAll(io.LimitReader(part, fieldMost))
	if err != nil {
		return err
	}
	value := strings.TrimSpace(string(text))
	switch part.FormName() {
	case "format":
		u.Format = value
	case "deck":
		u.Deck = value
	case "dry":
		u.DryRun = value != ""
	case "now": // of the button below a preview, whose form still says "dry"
		u.now = true
	case "skip":
		u.SkipBad = value != ""
	}
	return nil
}

// runImport imports the received file.
func (p *pages) runImport(ctx context.Context, v *page.Visit, u *upload, report func(done, total int)) error {
	take := func() (err error) {
		u.Result, err = p.Points.Import(ctx, personID(v), learning.ImportFile{
			Name: u.name, Format: u.Format, Deck: u.Deck, Reader: u.file, Size: u.size, DryRun: u.DryRun,
			SkipBadRows: u.SkipBad, Progress: report,
		})
		return fileError(err)
	}
	var err error
	if u.DryRun {
		err = take()
	} else {
		err = changeAudited(v, control.LearnImport, imports{u.name, u.size, u.Format, u.Deck, u.SkipBad}, take)
	}
	if err == nil {
		return nil
	}
	u.Result = nil
	return learnError(err)
}

// imports is the audit record of an import.
type imports struct {
	Name    string `json:"name"`
	Bytes   int64  `json:"bytes"`
	Format  string `json:"format,omitempty"`
	Deck    string `json:"deck,omitempty"`
	SkipBad bool   `json:"skip_bad,omitempty"`
}

// fileError returns the message about an error of the whole file.
func fileError(err error) error {
	var tooMany *transfer.TooManyError
	var unreadable *transfer.UnreadableError
	switch {
	case errors.As(err, &tooMany):
		return problem.New(problem.TooLarge, msgTooManyItems, tooMany.Max)
	case errors.Is(err, transfer.ErrFormat):
		return problem.New(problem.Invalid, msgNoFormat)
	case errors.As(err, &unreadable):
		return problem.New(problem.Invalid, msgUnreadable, unreadable.Why)
	}
	return err
}

// exportFile exports a person's points.
func (p *pages) exportFile(v *page.Visit) {
	format := v.FormValue("format")
	kind, known := written[format]
	if !known {
		v.Fail(problem.New(problem.Invalid, msgNoFormat))
		return
	}
	http.NewResponseController(v.W).SetWriteDeadline(time.Now().Add(transferTime)) //nolint:errcheck // otherwise the server's timeout applies
	// The file is written to disk first: an error in the middle of the response could not be
	// reported.
	file, err := os.CreateTemp("", "patchbay-export-*")
	if err != nil {
		v.Fail(fmt.Errorf("export points: %w", err))
		return
	}
	defer os.Remove(file.Name())
	defer file.Close()
	if _, err := p.Points.Export(v.Context(), personID(v), learning.ExportOptions{Format: format,
		Deck: v.FormValue("deck"), Newest: v.FormValue("newest") != "", NoMedia: v.FormValue("no_media") != ""}, file); err != nil {
		v.Fail(learnError(err))
		return
	}
	h := v.W.Header()
	h.Set("Content-Type", kind[0])
	h.Set("Content-Disposition", `attachment; filename="patchbay-learn.`+kind[1]+`"`)
	http.ServeContent(v.W, v.Request, "", time.Time{}, file)
}
