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
)

const (
	// transferTime is how long a file may take in either direction.
	transferTime = 30 * time.Minute
	// fieldMost bounds what is typed beside a file, in bytes.
	fieldMost = 1 << 10
	// badMost is how many bad rows a page shows.
	badMost = 100
)

// formats are what can be chosen; the first is found out.
var formats = []choiceSay{
	{"", sayFindOut}, {transfer.CSV, sayFormatCSV}, {transfer.Anki, sayFormatAnki}, {transfer.Markdown, sayFormatMarkdown}, {transfer.JSON, sayFormatJSON}, {transfer.Rows, sayFormatRows},
}

// written are the formats of exports: their content types, and the ends of their names.
var written = map[string][2]string{
	transfer.JSON: {"application/json", "json"}, transfer.CSV: {"text/csv; charset=utf-8", "csv"},
	transfer.Markdown: {"text/markdown; charset=utf-8", "md"}, transfer.Anki: {"application/apkg", "apkg"},
}

// upload is a file that is imported, and what was chosen for it.
type upload struct {
	Learner *learning.Learner
	Format  string
	Deck    string
	DryRun  bool
	SkipBad bool

	name string
	file *os.File
	size int64

	Done  *learning.Imported
	Wrong string
}

// importPage asks for a file, and offers exports.
func (p *pages) importPage(v *page.Visit) {
	l, err := p.Points.Learner(v.Context(), who(v))
	if err != nil {
		v.Fail(err)
		return
	}
	v.Show(ok, filesPage(v, &upload{Learner: l}, p.Largest>>20))
}

// takeFile imports a file. If the script asks, it is told how far that is; a browser
// that leaves meanwhile gives it up, and nothing is imported.
func (p *pages) takeFile(v *page.Visit) {
	limits := http.NewResponseController(v.W)
	limits.SetWriteDeadline(time.Now().Add(transferTime)) //nolint:errcheck // then the server's own holds
	l, err := p.Points.Learner(v.Context(), who(v))
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
	if !v.Partial() {
		err := p.bring(v.Context(), v, u, nil)
		p.imported(v, u, err)
		return
	}
	v.Live(func(ctx context.Context, send page.Send) error {
		report := paced(send, func(done, total int) templ.Component { return importingPart(v, done, total) })
		report(0, int(u.size))
		err := p.bring(ctx, v, u, report)
		if err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			u.Wrong, _ = v.Wrong(err)
		}
		return send(importedPart(v, u))
	})
}

// imported shows what became of a file that the browser waited for.
func (p *pages) imported(v *page.Visit, u *upload, err error) {
	status := ok
	if err != nil {
		if u.Wrong, status = v.Wrong(err); u.Wrong == "" {
			return
		}
	}
	if v.Partial() {
		v.Show(status, importResult(v, u))
		return
	}
	v.Show(status, filesPage(v, u, p.Largest>>20))
}

func (u *upload) close() {
	if u.file != nil {
		u.file.Close()
		os.Remove(u.file.Name()) //nolint:errcheck // the system tidies up
	}
}

// receive reads the form, and puts its file aside.
func (p *pages) receive(v *page.Visit, u *upload) error {
	v.Body = http.MaxBytesReader(v.W, v.Body, p.Largest+64<<10)
	parts, err := v.MultipartReader()
	if err != nil {
		return control.Fail(control.Invalid, sayNoFile)
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
			return control.Fail(control.TooLarge, sayFileTooLarge, p.Largest>>20)
		}
		if control.AsError(err) != nil {
			return err
		}
		if err != nil {
			return &control.Error{Reason: control.Invalid, Say: sayBrokeOff, Cause: err}
		}
	}
	if u.file == nil || u.size == 0 {
		return control.Fail(control.Invalid, sayNoFile)
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
			err = control.Fail(control.TooLarge, sayFileTooLarge, p.Largest>>20)
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
	case "skip":
		u.SkipBad = value != ""
	}
	return nil
}

// bring imports the file that was received.
func (p *pages) bring(ctx context.Context, v *page.Visit, u *upload, report func(done, total int)) error {
	take := func() (err error) {
		u.Done, err = p.Points.Import(ctx, who(v), learning.ImportFile{
			Name: u.name, Format: u.Format, Deck: u.Deck, Reader: u.file, Size: u.size, DryRun: u.DryRun, SkipBad: u.SkipBad, Progress: report,
		})
		return unread(err)
	}
	var err error
	if u.DryRun {
		err = take()
	} else {
		err = did(v, control.LearnImport, imports{u.name, u.size, u.Format, u.Deck, u.SkipBad}, take)
	}
	if err == nil {
		return nil
	}
	u.Done = nil
	return told(err)
}

// imports are what the audit trail has of a file that was imported.
type imports struct {
	Name    string `json:"name"`
	Bytes   int64  `json:"bytes"`
	Format  string `json:"format,omitempty"`
	Deck    string `json:"deck,omitempty"`
	SkipBad bool   `json:"skip_bad,omitempty"`
}

// unread puts into words what is wrong with a file as a whole.
func unread(err error) error {
	var tooMany *transfer.TooManyError
	var unreadable *transfer.UnreadableError
	switch {
	case errors.As(err, &tooMany):
		return control.Fail(control.TooLarge, sayTooManyItems, tooMany.Max)
	case errors.Is(err, transfer.ErrFormat):
		return control.Fail(control.Invalid, sayNoFormat)
	case errors.As(err, &unreadable):
		return control.Fail(control.Invalid, sayUnreadable, unreadable.Why)
	}
	return err
}

// giveFile exports a person's points.
func (p *pages) giveFile(v *page.Visit) {
	format := v.FormValue("format")
	kind, known := written[format]
	if !known {
		v.Fail(control.Fail(control.Invalid, sayNoFormat))
		return
	}
	http.NewResponseController(v.W).SetWriteDeadline(time.Now().Add(transferTime)) //nolint:errcheck // then the server's own holds
	// The file is written first: an error in its middle could not be told any more.
	file, err := os.CreateTemp("", "patchbay-export-*")
	if err != nil {
		v.Fail(fmt.Errorf("export points: %w", err))
		return
	}
	defer os.Remove(file.Name())
	defer file.Close()
	if _, err := p.Points.Export(v.Context(), who(v), learning.ExportOptions{Format: format, Deck: v.FormValue("deck")}, file); err != nil {
		v.Fail(told(err))
		return
	}
	h := v.W.Header()
	h.Set("Content-Type", kind[0])
	h.Set("Content-Disposition", `attachment; filename="patchbay-learn.`+kind[1]+`"`)
	http.ServeContent(v.W, v.Request, "", time.Time{}, file)
}
