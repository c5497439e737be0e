package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

type learnImportCmd struct {
	File       string `arg:"" help:"The file; - is standard input."`
	Format     string `help:"Format: json, rows (of the service that Learn is compatible with), csv, md, apkg or colpkg (Anki); default: detected." enum:",json,rows,csv,md,apkg,colpkg" default:"" placeholder:"FORMAT"`
	Deck       string `help:"Deck for knowledge points without a deck." placeholder:"DECK"`
	DryRun     bool   `help:"Dry run: only show what would be imported."`
	SkipBad    bool   `help:"Skip invalid rows and import the others."`
	learnFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (learnImportCmd) Help() string {
	return `A file is imported completely or not at all. Knowledge points that were imported before are updated: their texts and tags are replaced, their schedules and history are kept. A package of Anki brings its notes, pictures and sounds along; cards without a question or an answer are left out.

Examples:

    patchbay learn import words.csv --deck German
    patchbay learn import collection.apkg --dry-run
    patchbay learn import notes.md --skip-bad
    cat backup.json | patchbay learn import - --format json`
}

const (
	msgImported    = i18n.Message("Imported (%s): %d added, %d changed, %d unchanged.")
	msgWouldImport = i18n.Message("Would import (%s): %d added, %d changed, %d unchanged.")
	msgDecksMade   = i18n.Message("New decks: %s")
	msgImportRow   = i18n.Message("row %d: %s")
	msgMediaMade   = i18n.Message("New pictures and sounds: %d")
	msgLeftOut     = i18n.Message("Left out: %s")
	msgImportMore  = i18n.Message("… and %d more.")
)

// maxRowErrors is how many invalid rows are printed; --json prints all.
const maxRowErrors = 20

// Run imports the file.
func (c *learnImportCmd) Run(ctx context.Context, sh *shell) error {
	var out *control.LearnImported
	err := c.open(ctx, sh, func(l learnCaller) (err error) {
		out, err = c.send(ctx, l)
		return err
	})
	sh.clearProgress()
	if err != nil {
		return err
	}
	if err := sh.result(out, func() { sh.showImported(out, c.DryRun) }); err != nil {
		return err
	}
	switch {
	case out.Done || c.DryRun:
		return nil
	case len(out.RowErrors) > 0 && !c.SkipBad:
		return i18n.Message("nothing was imported because of %d errors; fix them, or skip them with --skip-bad").Errorf(len(out.RowErrors))
	}
	return i18n.Message("nothing was imported").Errorf()
}

// send imports the file. The size of standard input is not known.
func (c *learnImportCmd) send(ctx context.Context, l learnCaller) (*control.LearnImported, error) {
	in := control.LearnImportFile{User: l.user, Format: c.Format, Deck: c.Deck, DryRun: c.DryRun, SkipBad: c.SkipBad}
	from := &progressReader{from: l.sh.stdin, size: -1, report: l.sh.showProgress}
	if c.File != "-" {
		f, err := os.Open(c.File)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		if from.size, err = sizeOf(f); err != nil {
			return nil, err
		}
		from.from, in.Name = f, filepath.Base(c.File)
	}
	return l.ImportPoints(ctx, in, from, from.size)
}

func sizeOf(f *os.File) (int64, error) {
	info, err := f.Stat()
	switch {
	case err != nil:
		return 0, err
	case info.IsDir():
		return 0, i18n.Message("%s is a folder").Errorf(f.Name())
	}
	return info.Size(), nil
}

// showImported prints the result of an import.
func (sh *shell) showImported(out *control.LearnImported, dry bool) {
	switch {
	case dry:
		sh.say(msgWouldImport, out.Format, out.Added, out.Changed, out.Unchanged)
	case out.Done:
		sh.say(msgImported, out.Format, out.Added, out.Changed, out.Unchanged)
	}
	if out.Encoding != "" {
		sh.say(control.MsgReadAs, out.Encoding)
	}
	for _, p := range out.Preview {
		sh.printf("  %s — %s\n", singleLine(plain(short(p.Question, maxHeading))),
			singleLine(plain(short(p.Answer, maxHeading))))
	}
	if len(out.Decks) > 0 && (out.Done || dry) {
		sh.say(msgDecksMade, plain(join(out.Decks)))
	}
	if out.Media > 0 && (out.Done || dry) {
		sh.say(msgMediaMade, out.Media)
	}
	sh.showRows(out.RowErrors)
	sh.showRows(out.Warnings)
}

// showRows prints the errors of rows.
func (sh *shell) showRows(rows []control.LearnRowError) {
	for i, bad := range rows {
		if i == maxRowErrors {
			sh.say(msgImportMore, len(rows)-maxRowErrors)
			break
		}
		text := bad.In(sh.lang)
		if bad.What != "" {
			text = short(bad.What, maxHeading) + ": " + text
		}
		if text = singleLine(plain(text)); bad.Row == 0 {
			sh.say(msgLeftOut, text)
			continue
		}
		sh.say(msgImportRow, bad.Row, text)
	}
}

// showProgress prints the progress on a terminal.
func (sh *shell) showProgress(done, total int) {
	if _, ok := terminal(sh.stderr); !ok {
		return
	}
	text := strconv.Itoa(done)
	if total > 0 {
		text = fmt.Sprintf("%d %%", min(100, int64(done)*100/int64(total)))
	}
	fmt.Fprint(sh.stderr, wipeLine+text)
}

// progressReader reports how much was read.
type progressReader struct {
	from       io.Reader
	size, done int64
	report     func(done, total int)
}

func (c *progressReader) Read(b []byte) (int, error) {
	n, err := c.from.Read(b)
	c.done += int64(n)
	c.report(int(c.done>>10), int(c.size>>10))
	return n, err
}
