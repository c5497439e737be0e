package apkg

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// The databases of a package, newest first (rslib/src/import_export/package/meta.rs,
// collection_filename). A newer one comes with an old one that only contains the note “please
// update” (rslib/src/import_export/package/colpkg/export.rs, write_dummy_collection).
var collections = []string{"collection.anki21b", "collection.anki21", "collection.anki2"}

// databaseHead is the header of every SQLite database (SQLite file format §1.3).
const databaseHead = "SQLite format 3\x00"

// IsDatabase reports whether a file that begins with head is an SQLite database, which [Read]
// accepts without an archive.
func IsDatabase(head []byte) bool { return bytes.HasPrefix(head, []byte(databaseHead)) }

// archive is an open package.
type archive struct {
	files map[string]*zip.File // nil: the file is itself a database
	// compressed is true for packages of the newest generation, in which the list of media and the
	// media are compressed too.
	compressed bool
}

// unpack copies the newest database of a package, or a file that is itself a database, into a
// temporary file, which the caller removes.
func unpack(ctx context.Context, r io.ReaderAt, size int64, temp string) (a *archive, path string, err error) {
	head := make([]byte, min(size, int64(len(databaseHead))))
	if _, err := r.ReadAt(head, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, "", err
	}
	if IsDatabase(head) {
		path, err = copyOut(ctx, io.NewSectionReader(r, 0, size), "collection.anki2", temp, maxDatabase)
		return &archive{}, path, err
	}
	list := &limitedReaderAt{r: r, remaining: maxContents}
	z, err := zip.NewReader(list, size)
	switch {
	case errors.Is(err, zip.ErrFormat):
		return nil, "", broken(msgNoZIP)
	case err != nil:
		return nil, "", msgWhy.Errorf(ErrBroken, err)
	}
	list.remaining = -1
	a = &archive{}
	file, err := a.findCollection(z)
	if err != nil {
		return nil, "", err
	}
	in, err := file.Open()
	if err != nil {
		return nil, "", broken(msgInside, file.Name, err)
	}
	defer in.Close()
	var data io.Reader = in
	if a.compressed {
		z, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxDatabase),
			zstd.WithDecoderMaxWindow(128<<20))
		if err != nil {
			return nil, "", broken(msgInside, file.Name, err)
		}
		defer z.Close()
		data = z
	}
	path, err = copyOut(ctx, data, file.Name, temp, maxDatabase)
	return a, path, err
}

// copyOut copies at most limit bytes into a temporary file.
func copyOut(ctx context.Context, data io.Reader, name, temp string, limit int64) (string, error) {
	out, err := os.CreateTemp(temp, "patchbay-anki-*.db")
	if err != nil {
		return "", fmt.Errorf("unpack %s: %w", name, err)
	}
	n, err := io.Copy(out, &contextReader{ctx, io.LimitReader(data, limit+1)})
	if closing := out.Close(); err == nil {
		err = closing
	}
	switch {
	case ctx.Err() != nil:
		err = ctx.Err()
	case n > limit:
		err = broken(msgLarge, name, limit>>20)
	case err != nil:
		err = broken(msgInside, name, err)
	}
	if err != nil {
		_ = os.Remove(out.Name())
		return "", err
	}
	return out.Name(), nil
}

// contextReader is a reader that fails once its context ends.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (s *contextReader) Read(p []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	return s.r.Read(p)
}

func (a *archive) findCollection(z *zip.Reader) (*zip.File, error) {
	a.files = make(map[string]*zip.File, len(z.File))
	for _, f := range z.File {
		if strings.ContainsAny(f.Name, `\:`) || strings.HasPrefix(f.Name, "/") || strings.Contains(f.Name, "..") {
			return nil, broken(msgElsewhere, cut(f.Name, 100))
		}
		if a.files[f.Name] != nil {
			return nil, broken(msgTwice, cut(f.Name, 100))
		}
		a.files[f.Name] = f
	}
	for _, name := range collections {
		if f := a.files[name]; f != nil {
			if f.UncompressedSize64 > maxDatabase {
				return nil, broken(msgLarge, name, maxDatabase>>20)
			}
			a.compressed = strings.HasSuffix(name, "b")
			return f, nil
		}
	}
	return nil, broken(msgNoCollection)
}

// limitedReaderAt limits how much of the archive's directory is read into memory, whatever size the
// archive claims.
type limitedReaderAt struct {
	r         io.ReaderAt
	remaining int // bytes; negative: no limit
}

func (m *limitedReaderAt) ReadAt(p []byte, at int64) (int, error) {
	if m.remaining >= 0 {
		if m.remaining < len(p) {
			return 0, msgContents.Errorf(maxContents >> 20)
		}
		m.remaining -= len(p)
	}
	return m.r.ReadAt(p, at)
}
