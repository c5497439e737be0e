package apkg

import (
	"archive/zip"
	"bytes"
	"crypto/sha1"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/klauspost/compress/zstd"
)

// pack writes the archive.
func (p *Writer) pack() error {
	in, err := os.Open(p.path)
	if err != nil {
		return err
	}
	defer in.Close()
	a := &archiveWriter{p: p, zip: zip.NewWriter(p.w)}
	if p.o.Newest {
		// VERSION_LATEST of PackageMetadata (proto/anki/import_export.proto)
		if err := a.file("meta", bytes.NewReader(appendVarint(nil, 1, 3)), zip.Store); err != nil {
			return err
		}
		if err := a.compressed("collection.anki21b", in); err != nil {
			return err
		}
		if err := a.placeholder(); err != nil {
			return err
		}
	} else if err := a.file("collection.anki2", in, zip.Deflate); err != nil {
		return err
	}
	if p.o.Media != nil {
		if err := p.o.Media(a.media); err != nil {
			return fmt.Errorf("write pictures and sounds: %w", err)
		}
	}
	if err := a.mediaMap(); err != nil {
		return err
	}
	return a.zip.Close()
}

// archiveWriter writes the files of a package.
type archiveWriter struct {
	p     *Writer
	zip   *zip.Writer
	names map[string]string // of media, by number
	list  []byte            // MediaEntries
	count int
}

// create begins a file; pictures and sounds are compressed already.
func (a *archiveWriter) create(name string, method uint16) (io.Writer, error) {
	return a.zip.CreateHeader(&zip.FileHeader{Name: name, Method: method, Modified: a.p.now})
}

func (a *archiveWriter) file(name string, content io.Reader, method uint16) error {
	out, err := a.create(name, method)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, content); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// compressed writes a file compressed with Zstandard.
func (a *archiveWriter) compressed(name string, content io.Reader) error {
	out, err := a.create(name, zip.Store)
	if err != nil {
		return err
	}
	z, err := zstd.NewWriter(out, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20))
	if err != nil {
		return err
	}
	if _, err := io.Copy(z, content); err != nil {
		z.Close() //nolint:errcheck // the earlier error matters more
		return fmt.Errorf("write %s: %w", name, err)
	}
	return z.Close()
}

// media writes a picture or sound.
func (a *archiveWriter) media(name string, content io.Reader) error {
	number := strconv.Itoa(a.count)
	a.count++
	if !a.p.o.Newest {
		if a.names == nil {
			a.names = map[string]string{}
		}
		a.names[number] = name
		return a.file(number, content, zip.Store)
	}
	sum := sha1.New()
	size := &counter{}
	if err := a.compressed(number, io.TeeReader(content, io.MultiWriter(sum, size))); err != nil {
		return err
	}
	entry := appendVarint(appendBytes(nil, 1, name), 2, uint64(size.n))
	a.list = appendBytes(a.list, 1, appendBytes(entry, 3, sum.Sum(nil)))
	return nil
}

// counter counts bytes.
type counter struct{ n int64 }

func (c *counter) Write(p []byte) (int, error) {
	c.n += int64(len(p))
	return len(p), nil
}

func (a *archiveWriter) mediaMap() error {
	if a.p.o.Newest {
		return a.compressed("media", bytes.NewReader(a.list))
	}
	if a.names == nil {
		a.names = map[string]string{}
	}
	list, err := json.Marshal(a.names)
	if err != nil {
		return err
	}
	return a.file("media", bytes.NewReader(list), zip.Deflate)
}

// placeholder writes the collection that programs find that do not know the newest generation
// (rslib/src/import_export/package/colpkg/export.rs, write_dummy_collection).
func (a *archiveWriter) placeholder() error {
	var b bytes.Buffer
	w, err := NewWriter(&b, WriteOptions{Now: a.p.now, Temp: a.p.o.Temp})
	if err != nil {
		return err
	}
	if err := w.Write(Card{GUID: "learn:update", Question: placeholderText, Answer: placeholderText}); err != nil {
		w.Close() //nolint:errcheck // it returns the same error
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	inner, err := zip.NewReader(bytes.NewReader(b.Bytes()), int64(b.Len()))
	if err != nil {
		return err
	}
	in, err := inner.Open("collection.anki2")
	if err != nil {
		return err
	}
	defer in.Close()
	return a.file("collection.anki2", in, zip.Deflate)
}

// placeholderText is for the people who use such a program.
const placeholderText = "This package needs Anki 2.1.50 or newer. Update Anki, or export the package again for older programs."
