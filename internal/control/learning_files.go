package control

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/plug/learn"
	"patchbay/internal/plug/learn/remind"
	"patchbay/internal/plug/learn/transfer"
	"patchbay/internal/problem"
)

const (
	msgImportsBusy = i18n.Message("other files are being imported; try again in a moment")
	msgFileLarge   = i18n.Message("the file is larger than %d MiB (setting learn.import_size)")
	msgFileBroken  = i18n.Message("the file broke off")
	msgGeneration  = i18n.Message("the generation of a package is legacy or newest")
	msgFileFormat  = i18n.Message("the format is json, csv, md, apkg or colpkg")
)

// learnFiles is the channel of files in the audit trail.
const learnFiles = "learn-files"

// Tools that do for one point what a file does for many. The rules for them apply to files.
const (
	toolOfImport   = "create_knowledge_points"
	toolOfExport   = "list_knowledge_points"
	toolOfCalendar = "learning_stats"
)

// owner returns a caller with the person whose points it uses. The operator of this machine names
// one, or means the only one there is.
func (p *Learning) owner(ctx context.Context, c Caller, user, name string) (Caller, error) {
	if c.Person == "" {
		owner, err := p.s.singlePerson(ctx, c, user)
		if err != nil {
			return c, err
		}
		c.Person, c.actor = owner.ID, actorMachine
	} else if user != "" {
		return c, problem.New(problem.Invalid, msgLearnWhose)
	}
	_, err := p.person(c, name)
	c.Program = learnFiles
	return c, err
}

// LearnImportFile describes a file with points.
type LearnImportFile struct {
	User    string `query:"user" json:"-"`                      // whose points, if the operator of this machine names somebody
	Name    string `query:"name" json:"name,omitempty"`         // its name, which helps to detect the format
	Format  string `query:"format" json:"format,omitempty"`     // json, rows, csv, md, apkg, colpkg; empty: detected
	Deck    string `query:"deck" json:"deck,omitempty"`         // for points that name none
	DryRun  bool   `query:"dry_run" json:"dry_run,omitempty"`   // only report what would happen
	SkipBad bool   `query:"skip_bad" json:"skip_bad,omitempty"` // import the rest of a file in which rows are invalid
}

// LearnImported is the result of an import.
type LearnImported = learn.ImportResult

// MsgReadAs says in which encoding a file was read that is not UTF-8.
const MsgReadAs = i18n.Message("The file was read as %s. If characters are wrong, save it as UTF-8.")

// LearnRowError is the error of a row of a file.
type LearnRowError = transfer.RowError

// Import imports a file, all of it or nothing. If rows are invalid, the result lists them.
func (p *Learning) Import(ctx context.Context, c Caller, in LearnImportFile, from io.Reader) (*LearnImported, error) {
	c, err := p.owner(ctx, c, in.User, toolOfImport)
	if err != nil {
		return nil, err
	}
	release, ok := p.points.ReserveImport()
	if !ok {
		return nil, problem.New(problem.Unavailable, msgImportsBusy).RetryIn(10 * time.Second)
	}
	defer release()
	file, err := os.CreateTemp("", "patchbay-import-*")
	if err != nil {
		return nil, err
	}
	defer os.Remove(file.Name())
	defer file.Close()
	size, err := file.ReadFrom(from)
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return nil, problem.New(problem.TooLarge, msgFileLarge, p.s.ImportSize>>20)
	} else if err != nil {
		return nil, problem.New(problem.Invalid, msgFileBroken).Because(err)
	}
	var out *LearnImported
	do := func() (err error) {
		out, err = p.points.Import(ctx, c.Person, learn.ImportFile{Name: in.Name, Format: in.Format, Deck: in.Deck,
			Reader: file, Size: size, DryRun: in.DryRun, SkipBadRows: in.SkipBad})
		return fileError(err)
	}
	if in.DryRun {
		err = LearnError(do())
	} else {
		err = p.recordChange(c, LearnImport, in, do)
	}
	if err != nil {
		return nil, err
	}
	out.Localize(c.Lang)
	return out, nil
}

// fileError converts an error of a whole file.
func fileError(err error) error {
	var tooMany *transfer.TooManyError
	if errors.Is(err, transfer.ErrUnreadable) || errors.Is(err, transfer.ErrFormat) || errors.As(err, &tooMany) {
		return InputProblem(problem.Invalid, err)
	}
	return err
}

// LearnExport selects the points of a file.
type LearnExport struct {
	User   string `query:"user"`   // whose points, if the operator of this machine names somebody
	Format string `query:"format"` // json, csv, md, apkg, colpkg; empty: json
	Deck   string `query:"deck"`   // name; empty: all
	// Generation is which programs read a package of Anki: legacy, all of them; newest, Anki since
	// 2.1.50. Empty: legacy.
	Generation string `query:"generation"`
	NoMedia    bool   `query:"no_media"` // leave out pictures and sounds
}

// Generations of packages of Anki.
const (
	GenerationLegacy = "legacy"
	GenerationNewest = "newest"
)

// fileTypes are the media types and extensions of files, by format.
var fileTypes = map[string][2]string{
	transfer.JSON: {"application/json", "json"}, transfer.CSV: {"text/csv; charset=utf-8", "csv"},
	transfer.Markdown: {"text/markdown; charset=utf-8", "md"}, transfer.Anki: {"application/apkg", "apkg"},
	transfer.Colpkg: {"application/colpkg", "colpkg"},
}

// LearnFile describes a written file.
type LearnFile struct {
	Name, Kind string // Kind is its media type
	Points     int
}

// Export writes points to a file.
func (p *Learning) Export(ctx context.Context, c Caller, in LearnExport, to io.Writer) (f LearnFile, err error) {
	if c, err = p.owner(ctx, c, in.User, toolOfExport); err != nil {
		return f, err
	}
	if in.Format == "" {
		in.Format = transfer.JSON
	}
	kind, known := fileTypes[in.Format]
	if !known {
		return f, problem.New(problem.Invalid, msgFileFormat)
	}
	if in.Generation != "" && in.Generation != GenerationLegacy && in.Generation != GenerationNewest {
		return f, problem.New(problem.Invalid, msgGeneration)
	}
	began := time.Now()
	f = LearnFile{Name: "patchbay-learn." + kind[1], Kind: kind[0]}
	f.Points, err = p.points.Export(ctx, c.Person, learn.ExportOptions{Format: in.Format, Deck: in.Deck,
		Newest: in.Generation == GenerationNewest, NoMedia: in.NoMedia}, to)
	p.s.Hub.RecordCall(c.by(), learn.ProviderRef(), learnExport, nil, nil, err, began)
	return f, LearnError(err)
}

// Calendar returns the reviews due on the coming days as iCalendar, and when that was so.
func (p *Learning) Calendar(ctx context.Context, c Caller) (ics []byte, at time.Time, err error) {
	person, err := p.person(c, toolOfCalendar)
	if err != nil {
		return nil, at, err
	}
	lang := i18n.Chinese
	if owner, err := p.s.Hub.Store.People.ByID(ctx, person); err == nil {
		lang = i18n.ParseLang(owner.Lang, i18n.Chinese)
	}
	feed, err := remind.NewFeed(ctx, p.points, person, lang)
	if err != nil {
		return nil, at, err
	}
	return remind.ICS(feed), feed.Now, nil
}
