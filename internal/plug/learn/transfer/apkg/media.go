package apkg

import (
	"archive/zip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// Limits of media when reading.
const (
	// maxMedia limits the files of a package.
	maxMedia = 200_000
	// maxMediaMap limits the unpacked list of their names, in bytes, and maxMediaName a name: file
	// systems allow 255 bytes.
	maxMediaMap  = 32 << 20
	maxMediaName = 255
	// MaxMediaFile limits the content of a file, in bytes.
	MaxMediaFile = 64 << 20
)

// ErrMediaLarge is returned by a reader of [Media.Open] at [MaxMediaFile].
var ErrMediaLarge = msgMediaLarge.Errorf(MaxMediaFile >> 20)

// mediaList reads the list of media of a package. Those of which the archive has no file, and those
// without a usable name, are left out, the latter with a warning.
func (a *archive) mediaList(warn func(name string, why error)) ([]Media, error) {
	file := a.files["media"]
	if file == nil {
		return nil, nil
	}
	list, err := a.readSmall(file)
	if err != nil {
		return nil, err
	}
	names, err := a.mediaNames(list)
	if err != nil {
		return nil, err
	}
	if len(names) > maxMedia {
		return nil, broken(msgManyMedia, maxMedia)
	}
	var media []Media
	seen := map[string]bool{}
	for _, at := range slices.Sorted(maps.Keys(names)) {
		file, name := a.files[strconv.Itoa(at)], CleanMediaName(names[at])
		switch {
		case file == nil: // exported without media
			continue
		case name == "" || len(name) > maxMediaName:
			warn(cut(names[at], 100), msgMediaName.Errorf())
			continue
		case !file.Mode().IsRegular(): // a symbolic link, whose target would be taken for its content
			warn(cut(names[at], 100), msgNoFile.Errorf())
			continue
		case seen[name]:
			return nil, broken(msgTwice, name)
		}
		seen[name] = true
		media = append(media, Media{Name: name, Size: a.mediaSize(file), Open: func() (io.ReadCloser, error) {
			return a.openMedia(file)
		}})
	}
	return media, nil
}

// mediaSize returns the size of a file; compressed ones do not tell it.
func (a *archive) mediaSize(file *zip.File) int64 {
	if a.compressed || file.UncompressedSize64 > MaxMediaFile {
		return -1
	}
	return int64(file.UncompressedSize64)
}

// mediaNames reads the names by the names of the files in the archive, which are numbers: JSON, or
// MediaEntries of proto/anki/import_export.proto.
func (a *archive) mediaNames(list []byte) (map[int]string, error) {
	names := map[int]string{}
	if !a.compressed {
		var old map[string]string
		if err := json.Unmarshal(list, &old); err != nil {
			return nil, broken(msgInside, "media", err)
		}
		for at, name := range old {
			if n, err := strconv.Atoi(at); err == nil && n >= 0 {
				names[n] = name
			}
		}
		return names, nil
	}
	next := 0
	err := protoFields(list, func(v protoValue) error {
		if v.field != 1 || v.wire != wireBytes {
			return nil
		}
		_, name, err := protoField(v.data, 1)
		if err != nil {
			return err
		}
		at := next
		next++
		if old, _, _ := protoField(v.data, 255); old > 0 { // legacy_zip_filename
			at = int(min(old, maxMedia))
		}
		names[at] = string(name)
		if next > maxMedia {
			return msgManyMedia.Errorf(maxMedia)
		}
		return nil
	})
	if err != nil {
		return nil, broken(msgInside, "media", err)
	}
	return names, nil
}

// CleanMediaName returns the name under which a file is kept: without folders and control
// characters; empty if nothing is left.
func CleanMediaName(name string) string {
	name = strings.ToValidUTF8(name, "")
	name = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == '/' || r == '\\' || r == ':' {
			return -1
		}
		return r
	}, name)
	if strings.Trim(name, ". ") == "" {
		return ""
	}
	return name
}

// readSmall reads a file of the archive that is not large.
func (a *archive) readSmall(file *zip.File) ([]byte, error) {
	in, err := a.open(file)
	if err != nil {
		return nil, broken(msgInside, file.Name, err)
	}
	defer in.Close()
	data, err := io.ReadAll(io.LimitReader(in, maxMediaMap+1))
	switch {
	case err != nil:
		return nil, broken(msgInside, file.Name, err)
	case len(data) > maxMediaMap:
		return nil, broken(msgLarge, file.Name, maxMediaMap>>20)
	}
	return data, nil
}

// openMedia opens a file whose reader fails at MaxMediaFile.
func (a *archive) openMedia(file *zip.File) (io.ReadCloser, error) {
	in, err := a.open(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file.Name, err)
	}
	return &mediaReader{in, MaxMediaFile}, nil
}

// mediaReader is a reader that fails when more was read than is left.
type mediaReader struct {
	io.ReadCloser
	left int64
}

func (m *mediaReader) Read(p []byte) (int, error) {
	n, err := m.ReadCloser.Read(p)
	if m.left -= int64(n); m.left < 0 {
		return 0, ErrMediaLarge
	}
	return n, err
}

// open opens a file, uncompressed.
func (a *archive) open(file *zip.File) (io.ReadCloser, error) {
	in, err := file.Open()
	if err != nil || !a.compressed {
		return in, err
	}
	z, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(MaxMediaFile+1<<20),
		zstd.WithDecoderMaxWindow(128<<20), zstd.WithDecoderLowmem(true))
	if err != nil {
		return nil, errors.Join(err, in.Close())
	}
	return &compressedFile{z, in}, nil
}

// compressedFile closes a decoder and its source.
type compressedFile struct {
	*zstd.Decoder
	in io.Closer
}

func (c *compressedFile) Close() error {
	c.Decoder.Close()
	return c.in.Close()
}
