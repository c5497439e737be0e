package learn

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"patchbay/internal/i18n"
	"patchbay/internal/plug/learn/transfer"
	"patchbay/internal/plug/learn/transfer/apkg"
	"patchbay/internal/store"
)

// maxImportMedia limits the pictures and sounds of a file together, in bytes.
const maxImportMedia = 1 << 30

const (
	msgMediaTotal = i18n.Message("its pictures and sounds are larger than %d MiB together")
	msgMediaLimit = i18n.Message("its pictures and sounds would be more than the %d MiB that each person may have (setting learn.media_size)")
	msgMediaTaken = i18n.Message("there is another picture or sound with this name, which stays")
)

// mediaImport is the media of an import in progress.
type mediaImport struct {
	hashes map[string]string // of what the person has, by name; nil: not read yet
	size   int64             // of what the person has, in bytes
	total  int64             // of the file
	added  []string          // names that the import has added
	// renamed are the new names of those whose name another file has.
	renamed map[string]string
	// replace are those that belong to templates and replace the person's, once the import is done.
	replace []transfer.Media
}

// load reads what the person has.
func (m *mediaImport) load(ctx context.Context, l store.Learn, person string) error {
	if m.hashes != nil {
		return nil
	}
	m.hashes, m.renamed = map[string]string{}, map[string]string{}
	for after := ""; ; {
		list, err := l.MediaList(ctx, person, after, mediaPage)
		if err != nil {
			return err
		}
		for _, f := range list {
			m.hashes[f.Name], after = f.Hash, f.Name
			m.size += f.Size
		}
		if len(list) < mediaPage {
			return nil
		}
	}
}

// media takes a picture or sound of the file. Under a name that the person has for something else
// it gets another name, except in files in which that cannot be changed in the notes.
func (in *importRun) media(ctx context.Context, f transfer.Media) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m := &in.mediaRun
	if err := m.load(ctx, in.s.Store.Learn, in.l.Person); err != nil {
		return fmt.Errorf("look up pictures and sounds: %w", err)
	}
	data, err := readMedia(f)
	if m.total += int64(len(data)); m.total > maxImportMedia { // what cannot be used was unpacked, too
		return &transfer.UnreadableError{Why: msgMediaTotal.Errorf(maxImportMedia >> 20)}
	}
	switch {
	case errors.Is(err, apkg.ErrMediaLarge), err != nil && ctx.Err() == nil:
		in.warn(0, f.Name, err)
		return nil
	case err != nil:
		return err
	}
	hash := store.MediaHash(data)
	name := f.Name
	switch there := m.hashes[name]; {
	case there == hash:
		return nil
	case there != "" && !transfer.IsPackage(in.f.Format):
		in.warn(0, name, msgMediaTaken.Errorf())
		return nil
	case there != "" && strings.HasPrefix(name, "_"):
		m.replace = append(m.replace, f)
		return nil
	case there != "":
		ext := path.Ext(name)
		name = strings.TrimSuffix(name, ext) + "-" + hash[:8] + ext
		m.renamed[f.Name] = name
		if m.hashes[name] == hash {
			return nil
		}
	}
	return in.saveMedia(ctx, name, hash, data)
}

func (in *importRun) saveMedia(ctx context.Context, name, hash string, data []byte) error {
	m := &in.mediaRun
	if limit := in.s.mediaTotal(); m.size+int64(len(data)) > limit {
		return &transfer.UnreadableError{Why: msgMediaLimit.Errorf(limit >> 20)}
	}
	in.result.Media++
	m.hashes[name] = hash
	m.size += int64(len(data))
	if in.f.DryRun {
		return nil
	}
	file := store.MediaFile{Name: name, Type: mediaTypeOf(name, data), Added: in.l.Now}
	if err := in.s.Store.Learn.SaveMedia(ctx, in.l.Person, &file, data); err != nil {
		return fmt.Errorf("save a picture or sound: %w", err)
	}
	m.added = append(m.added, name)
	return nil
}

// readMedia reads a picture or sound.
func readMedia(f transfer.Media) ([]byte, error) {
	in, err := f.Open()
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	_, err = io.Copy(&b, in)
	return b.Bytes(), errors.Join(err, in.Close())
}

// replaceMedia replaces files of templates, after the import.
func (in *importRun) replaceMedia(ctx context.Context) error {
	for _, f := range in.mediaRun.replace {
		data, err := readMedia(f)
		if err != nil {
			return err
		}
		file := store.MediaFile{Name: f.Name, Type: mediaTypeOf(f.Name, data), Added: in.l.Now}
		if err := in.s.Store.Learn.SaveMedia(ctx, in.l.Person, &file, data); err != nil {
			return err
		}
	}
	return nil
}

// mediaTypeOf returns the media type of a file, by its content. What is no picture, sound, film or
// font is kept, and sent as a download.
func mediaTypeOf(name string, data []byte) string {
	return cmp.Or(MediaType(name, data), "application/octet-stream")
}
