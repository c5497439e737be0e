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

	"patchbay/internal/plug/learn"
	"patchbay/internal/plug/learn/transfer"
	"patchbay/internal/talk"
)

type learnImportCmd struct {
	File       string `arg:"" help:"The file; - is standard input."`
	Format     string `help:"What it is: json, rows (of the service that Learn follows), csv, md or apkg (Anki); without it, that is found out." enum:",json,rows,csv,md,apkg" default:"" placeholder:"FORMAT"`
	Deck       string `help:"Deck of what names none." placeholder:"DECK"`
	DryRun     bool   `help:"Only say what would happen."`
	SkipBad    bool   `help:"Import the rest of a file in which something is wrong."`
	learnFlags `embed:""`
}

// Help is the command's examples.
func (learnImportCmd) Help() string {
	return `All of a file is imported or nothing. What was imported before is known again: its text and tags become those of the file, and its plan and history stay.

Examples:

    patchbay learn import words.csv --deck German
    patchbay learn import collection.apkg --dry-run
    patchbay learn import notes.md --skip-bad
    cat backup.json | patchbay learn import - --format json`
}

var (
	sayImported    = talk.Say{Zh: "已导入（%s）：新增 %d，更改 %d，未变 %d。", En: "Imported (%s): %d added, %d changed, %d as they were."}
	sayWouldImport = talk.Say{Zh: "将导入（%s）：新增 %d，更改 %d，未变 %d。", En: "It would import (%s): %d added, %d changed, %d as they were."}
	sayDecksMade   = talk.Say{Zh: "新的牌组：%s", En: "New decks: %s"}
	sayImportRow   = talk.Say{Zh: "第 %d 条：%s", En: "row %d: %s"}
	sayImportMore  = talk.Say{Zh: "……另有 %d 处。", En: "… and %d more."}
)

// badMost is how many bad rows are shown; --json has them all.
const badMost = 20

// Run imports.
func (c *learnImportCmd) Run(ctx context.Context, sh *shell) error {
	far, err := c.far(sh)
	if err != nil {
		return err
	}
	out, err := c.bring(ctx, sh, far)
	sh.barEnds()
	if err != nil {
		return err
	}
	if err := sh.result(out, func() { sh.imported(out, c.DryRun) }); err != nil {
		return err
	}
	switch {
	case out.Done || c.DryRun:
		return nil
	case len(out.Bad) > 0 && !c.SkipBad:
		return talk.Say{Zh: "没有导入任何内容，因为有 %d 处不对；请改正，或用 --skip-bad 略过", En: "nothing was imported, as something is wrong in %d places; mend them, or leave them out with --skip-bad"}.Wrong(len(out.Bad))
	}
	return talk.Say{Zh: "没有导入任何内容", En: "nothing was imported"}.Wrong()
}

// bring takes the file to where the points are.
func (c *learnImportCmd) bring(ctx context.Context, sh *shell, far *learnFar) (*learn.Imported, error) {
	if far != nil && c.File == "-" {
		return far.importFile(ctx, sh, c, sh.stdin, -1)
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
	if far != nil {
		return far.importFile(ctx, sh, c, f, size)
	}
	var out *learn.Imported
	err = c.learnWith(ctx, sh, func(s *learn.Service, person string) error {
		out, err = s.Import(ctx, person, learn.ImportFile{
			Name: c.name(), Format: c.Format, Deck: c.Deck, Reader: f, Size: size, DryRun: c.DryRun, SkipBad: c.SkipBad, Progress: sh.bar,
		})
		return err
	})
	return out, err
}

// name helps to find the format.
func (c *learnImportCmd) name() string {
	if c.File == "-" {
		return ""
	}
	return filepath.Base(c.File)
}

// file opens the file. Standard input is put into one, as its beginning is read
// before the rest, and of some formats the end. Done lets go of it.
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
		os.Remove(f.Name()) //nolint:errcheck // the system tidies up
	}
	n, err := io.Copy(f, io.LimitReader(sh.stdin, transfer.MaxSize+1))
	if err == nil && n > transfer.MaxSize {
		err = talk.Say{Zh: "标准输入超过 %d MiB", En: "standard input has more than %d MiB"}.Wrong(transfer.MaxSize >> 20)
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
		return 0, talk.Say{Zh: "%s 是文件夹", En: "%s is a folder"}.Wrong(f.Name())
	}
	return info.Size(), nil
}

// imported tells what became of a file.
func (sh *shell) imported(out *learn.Imported, dry bool) {
	switch {
	case dry:
		sh.say(sayWouldImport, out.Format, out.Added, out.Changed, out.Unchanged)
	case out.Done:
		sh.say(sayImported, out.Format, out.Added, out.Changed, out.Unchanged)
	}
	if len(out.Decks) > 0 && (out.Done || dry) {
		sh.say(sayDecksMade, plain(join(out.Decks)))
	}
	for i, bad := range out.Bad {
		if i == badMost {
			sh.say(sayImportMore, len(out.Bad)-badMost)
			break
		}
		text := bad.In(sh.lang)
		if bad.What != "" {
			text = short(bad.What, maxHeading) + ": " + text
		}
		sh.say(sayImportRow, bad.Row, oneLine(plain(text)))
	}
}

// bar tells how far long work is, where somebody looks.
func (sh *shell) bar(done, total int) {
	if _, ok := terminal(sh.stderr); !ok {
		return
	}
	text := strconv.Itoa(done)
	if total > 0 {
		text = fmt.Sprintf("%d %%", min(100, int64(done)*100/int64(total)))
	}
	fmt.Fprint(sh.stderr, wipeLine+text)
}

// barEnds makes room for the result.
func (sh *shell) barEnds() { sh.progressEnds() }

// learnPath is where a server takes and gives files.
const learnPath = "/api/v1/learn/"

// importFile sends a file to the server. A size below 0 is not known.
func (l *learnFar) importFile(ctx context.Context, sh *shell, c *learnImportCmd, from io.Reader, size int64) (*learn.Imported, error) {
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
	resp, err := l.file(ctx, http.MethodPost, "import", query, &counted{from: from, size: size, told: sh.bar}, size)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var out learn.Imported
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxReply)).Decode(&out); err != nil {
		return nil, talk.Say{Zh: "%s 的回答不像 Patchbay 服务器", En: "%s does not answer as a Patchbay server does"}.Wrong(l.url)
	}
	return &out, nil
}

// counted tells how much was read.
type counted struct {
	from       io.Reader
	size, done int64
	told       func(done, total int)
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.from.Read(b)
	c.done += int64(n)
	c.told(int(c.done>>10), int(c.size>>10))
	return n, err
}

// file makes a call whose body, or answer, is a file.
func (l *learnFar) file(ctx context.Context, method, what string, query url.Values, body io.Reader, size int64) (*http.Response, error) {
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
		return nil, talk.Say{Zh: "无法连接 %s：%v", En: "%s cannot be reached: %v"}.Wrong(l.url, unwrapURL(err))
	}
	if resp.StatusCode == http.StatusOK || resp.StatusCode == http.StatusUnprocessableEntity {
		return resp, nil // the second says in the same form what is wrong with a file
	}
	defer resp.Body.Close()
	return nil, learnRefusal(l.refusal(resp))
}
