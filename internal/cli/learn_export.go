package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

type learnExportCmd struct {
	File       string `arg:"" optional:"" help:"The file; - or none: standard output."`
	Format     string `help:"Format: json (all data), csv, md, apkg (Anki) or colpkg (a whole collection of Anki); default: by the file name." enum:",json,csv,md,apkg,colpkg" default:"" placeholder:"FORMAT"`
	Deck       string `help:"Only this deck." placeholder:"DECK"`
	Generation string `help:"Which programs read a package of Anki: legacy (all of them) or newest (Anki since 2.1.50)." enum:"legacy,newest" default:"legacy" placeholder:"GENERATION"`
	NoMedia    bool   `help:"Leave out pictures and sounds."`
	learnFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (learnExportCmd) Help() string {
	return `JSON contains all data: texts, schedules and history; patchbay learn import can read it. An existing file is replaced only when the new file is complete.

Examples:

    patchbay learn export backup.json
    patchbay learn export german.apkg --deck German
    patchbay learn export everything.colpkg --generation newest
    patchbay learn export --format csv | less`
}

const msgExported = i18n.Message("Written to %s: %d knowledge points.")

// Run exports the points.
func (c *learnExportCmd) Run(ctx context.Context, sh *shell) error {
	toOutput := c.File == "" || c.File == "-"
	format, err := c.format(toOutput)
	if err != nil {
		return err
	}
	write := func(w io.Writer) (n int, err error) {
		err = c.open(ctx, sh, func(l learnCaller) (err error) {
			n, err = l.export(ctx, control.LearnExport{User: c.User, Format: format, Deck: c.Deck,
				Generation: c.Generation, NoMedia: c.NoMedia}, w)
			return err
		})
		return n, err
	}
	if toOutput {
		if _, ok := terminal(sh.stdout); ok && strings.HasSuffix(format, "pkg") {
			return usage(i18n.Message("an Anki package cannot be written to a terminal; give a file name"))
		}
		_, err := write(sh.stdout)
		sh.clearProgress()
		return err
	}
	n, err := writeWhole(c.File, write)
	sh.clearProgress()
	if err != nil {
		return err
	}
	return sh.result(map[string]any{"file": c.File, "format": format, "points": n},
		func() { sh.say(msgExported, c.File, n) })
}

// format returns the export format.
func (c *learnExportCmd) format(toOutput bool) (string, error) {
	if c.Format != "" {
		return c.Format, nil
	}
	if toOutput {
		return "json", nil
	}
	switch ext := strings.ToLower(filepath.Ext(c.File)); ext {
	case ".json", ".csv", ".md", ".apkg", ".colpkg":
		return ext[1:], nil
	case ".markdown":
		return "md", nil
	}
	return "", usage(i18n.Message("the name %s does not indicate a format; give --format json, csv, md, apkg or colpkg"),
		c.File)
}

// export writes a file of the server, and returns the number of its points.
func (l learnCaller) export(ctx context.Context, in control.LearnExport, w io.Writer) (int, error) {
	file, size, n, err := l.ExportPoints(ctx, in)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	if _, err := io.Copy(w, &progressReader{from: file, size: max(0, size), report: l.sh.showProgress}); err != nil {
		return 0, i18n.Message("the file was not received completely: %v").Errorf(err)
	}
	return n, nil
}

// writeWhole writes a temporary file beside the target and renames it when it is complete.
func writeWhole(name string, write func(io.Writer) (int, error)) (n int, err error) {
	if real, err := filepath.EvalSymlinks(name); err == nil {
		name = real
	}
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
		return writeInto(name, write)
	}
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+"-*")
	if err != nil {
		return 0, err
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name()) //nolint:errcheck // the earlier error matters more
		}
	}()
	n, err = write(f)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return n, err
	}
	return n, os.Rename(f.Name(), name)
}

// writeNew writes a file that must not be there yet. After an error, it is not there either.
func writeNew(name string, write func(io.Writer) error) error {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	if err = errors.Join(write(f), f.Close()); err != nil {
		os.Remove(name) //nolint:errcheck // the earlier error matters more
	}
	return err
}

// writeInto writes to something that is not a regular file, such as a pipe.
func writeInto(name string, write func(io.Writer) (int, error)) (n int, err error) {
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return 0, err
	}
	n, err = write(f)
	return n, errors.Join(err, f.Close())
}
