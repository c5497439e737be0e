package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"

	"patchbay/internal/i18n"
	"patchbay/internal/plug/learn"
	"patchbay/internal/plug/learn/transfer"
)

type learnImportCmd struct {
	File       string `arg:"" help:"The file; - is standard input."`
	Format     string `help:"What it is: json, rows (of the service that Learn follows), csv, md or apkg (Anki); without it, that is found out." enum:",json,rows,csv,md,apkg" default:"" placeholder:"FORMAT"`
	Deck       string `help:"Deck of what names none." placeholder:"DECK"`
	DryRun     bool   `help:"Only say what would happen."`
	SkipBad    bool   `help:"Import the rest of a file in which something is wrong."`
	learnFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (learnImportCmd) Help() string {
	return `All of a file is imported or nothing. What was imported before is known again: its text and tags become those of the file, and its plan and history stay.

Examples:

    patchbay learn import words.csv --deck German
    patchbay learn import collection.apkg --dry-run
    patchbay learn import notes.md --skip-bad
    cat backup.json | patchbay learn import - --format json`
}

const (
	msgImported    = i18n.Message("Imported (%s): %d added, %d changed, %d as they were.")
	msgWouldImport = i18n.Message("It would import (%s): %d added, %d changed, %d as they were.")
	msgDecksMade   = i18n.Message("New decks: %s")
	msgImportRow   = i18n.Message("row %d: %s")
	msgImportMore  = i18n.Message("… and %d more.")
)

// maxRowErrors is how many invalid rows are printed; --json prints all.
const maxRowErrors = 20

// Run imports the file.
func (c *learnImportCmd) Run(ctx context.Context, sh *shell) error {
	remoteLearn, err := c.remoteServer(sh)
	if err != nil {
		return err
	}
	out, err := c.runImport(ctx, sh, remoteLearn)
	sh.endProgress()
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
		return i18n.Message("nothing was imported, as something is wrong in %d places; mend them, or leave them out with --skip-bad").Errorf(len(out.RowErrors))
	}
	return i18n.Message("nothing was imported").Errorf()
}

// runImport imports the file where the points are.
func (c *learnImportCmd) runImport(ctx context.Context, sh *shell,
	remoteLearn *learnRemote) (*learn.ImportResult, error) {
	if remoteLearn != nil && c.File == "-" {
		return remoteLearn.importFile(ctx, sh, c, sh.stdin, -1)
	}
	f, done, err := c.file(sh)
	if err != nil {
		return nil, err
	}
	defer done()
	size, err := sizeOf(f)
	if err != nil {
		return nil, err
	}
	if remoteLearn != nil {
		return remoteLearn.importFile(ctx, sh, c, f, size)
	}
	var out *learn.ImportResult
	err = c.learnWith(ctx, sh, func(s *learn.Service, person string) error {
		out, err = s.Import(ctx, person, learn.ImportFile{
			Name: c.name(), Format: c.Format, Deck: c.Deck, Reader: f, Size: size, DryRun: c.DryRun,
			SkipBadRows: c.SkipBad, Progress: sh.showProgress,
		})
		return err
	})
	return out, err
}

// name returns the file name, from which the format is detected.
func (c *learnImportCmd) name() string {
	if c.File == "-" {
		return ""
	}
	return filepath.Base(c.File)
}

// file opens the file. Standard input is copied to a temporary file, since the beginning and, for
// some formats, the end is read first. done releases it.
func (c *learnImportCmd) file(sh *shell) (f *os.File, done func(), err error) {
	if c.File != "-" {
		f, err = os.Open(c.File)
		return f, func() { f.Close() }, err
	}
	if f, err = os.CreateTemp("", "patchbay-import-*"); err != nil {
		return nil, nil, err
	}
	done = func() {
		f.Close()
		os.Remove(f.Name()) //nolint:errcheck // otherwise the system cleans up
	}
	n, err := io.Copy(f, io.LimitReader(sh.stdin, transfer.MaxSize+1))
	if err == nil && n > transfer.MaxSize {
		err = i18n.Message("standard input has more than %d MiB").Errorf(transfer.MaxSize >> 20)
	}
	if err != nil {
		done()
	}
	return f, done, err
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
func (sh *shell) showImported(out *learn.ImportResult, dry bool) {
	switch {
	case dry:
		sh.say(msgWouldImport, out.Format, out.Added, out.Changed, out.Unchanged)
	case out.Done:
		sh.say(msgImported, out.Format, out.Added, out.Changed, out.Unchanged)
	}
	if len(out.Decks) > 0 && (out.Done || dry) {
		sh.say(msgDecksMade, plain(join(out.Decks)))
	}
	for i, bad := range out.RowErrors {
		if i == maxRowErrors {
			sh.say(msgImportMore, len(out.RowErrors)-maxRowErrors)
			break
		}
		text := bad.In(sh.lang)
		if bad.What != "" {
			text = short(bad.What, maxHeading) + ": " + text
		}
		sh.say(msgImportRow, bad.Row, singleLine(plain(text)))
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

// endProgress clears the progress line.
func (sh *shell) endProgress() { sh.clearProgress() }

// learnPath is the path for imports and exports on a server.
const learnPath = "/api/v1/learn/"

// importFile uploads a file to the server. A negative size means unknown.
func (l *learnRemote) importFile(ctx context.Context, sh *shell, c *learnImportCmd, from io.Reader,
	size int64) (*learn.ImportResult, error) {
	query := url.Values{}
	for name, value := range map[string]string{"format": c.Format, "deck": c.Deck, "name": c.name()} {
		if value != "" {
			query.Set(name, value)
		}
	}
	for name, yes := range map[string]bool{"dry_run": c.DryRun, "skip_bad": c.SkipBad} {
		if yes {
			query.Set(name, "true")
		}
	}
	resp, err := l.file(ctx, http.MethodPost, "import", query,
		&progressReader{from: from, size: size, report: sh.showProgress}, size)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var out learn.ImportResult
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxReply)).Decode(&out); err != nil {
		return nil, i18n.Message("%s does not answer as a Patchbay server does").Errorf(l.url)
	}
	return &out, nil
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

// file sends a request whose body or response is a file.
func (l *learnRemote) file(ctx context.Context, method, what string, query url.Values, body io.Reader,
	size int64) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, l.url+learnPath+what+"?"+query.Encode(), body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+l.key)
	req.Header.Set("Accept-Language", l.lang)
	req.Header.Set("User-Agent", "patchbay")
	if body != nil {
		req.Header.Set("Content-Type", "application/octet-stream")
		req.ContentLength = size
		if size == 0 {
			req.Body = http.NoBody
		}
	}
	resp, err := l.client.Do(req)
	if err != nil {
		return nil, i18n.Message("%s cannot be reached: %v").Errorf(l.url, unwrapURL(err))
	}
	if resp.StatusCode == http.StatusOK || resp.StatusCode == http.StatusUnprocessableEntity {
		return resp, nil // the body of the second has the error of the file in the same format
	}
	defer resp.Body.Close()
	return nil, learnRefusal(l.refusal(resp))
}
