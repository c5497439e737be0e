package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"
)

// entry is a file, or a folder, of an archive or an image.
type entry struct {
	name   string // with slashes; a folder's ends with one
	data   []byte
	mode   fs.FileMode // 0: 0644, of a folder 0755
	uid    int         // and group
	sticky bool        // as /tmp
}

func byName(a, b entry) int { return strings.Compare(a.name, b.name) }

// archive writes the archive of a platform: .zip for Windows, .tar.gz for all others. Everything is
// in one folder, named as the archive.
func (r *build) archive(b binary) error {
	program, err := os.ReadFile(b.path)
	if err != nil {
		return err
	}
	folder := r.name(b.target) + "/"
	entries := []entry{{name: folder}, {name: folder + b.program(), data: program, mode: 0o755}}
	for _, d := range r.documents {
		d.name = folder + d.name
		entries = append(entries, d)
	}
	var out bytes.Buffer
	name := r.name(b.target) + ".tar.gz"
	if b.os == "windows" {
		name = r.name(b.target) + ".zip"
		err = writeZip(&out, entries, r.time)
	} else {
		err = compressed(&out, r.gzip, func(w io.Writer) error { return writeTar(w, entries, r.time) })
	}
	if err != nil {
		return err
	}
	r.progress("%s", name)
	return r.write(name, out.Bytes())
}

// compressed compresses what write writes. The header has no time, so that equal contents make
// equal files.
func compressed(w io.Writer, level int, write func(io.Writer) error) error {
	if level == 0 {
		level = gzip.BestCompression
	}
	z, err := gzip.NewWriterLevel(w, level)
	if err == nil {
		err = write(z)
	}
	if err != nil {
		return err
	}
	return z.Close()
}

func writeTar(w io.Writer, entries []entry, at time.Time) error {
	t := tar.NewWriter(w)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Typeflag: tar.TypeReg, Size: int64(len(e.data)), Mode: int64(e.mode.Perm()),
			ModTime: at, Uid: e.uid, Gid: e.uid, Format: tar.FormatUSTAR}
		if strings.HasSuffix(e.name, "/") {
			h.Typeflag = tar.TypeDir
		}
		switch {
		case h.Mode == 0 && h.Typeflag == tar.TypeDir:
			h.Mode = 0o755
		case h.Mode == 0:
			h.Mode = 0o644
		}
		if e.sticky {
			h.Mode |= 0o1000
		}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		if _, err := t.Write(e.data); err != nil {
			return err
		}
	}
	return t.Close()
}

func writeZip(w io.Writer, entries []entry, at time.Time) error {
	z := zip.NewWriter(w)
	for _, e := range entries {
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate, Modified: at}
		h.SetMode(0o644)
		switch {
		case strings.HasSuffix(e.name, "/"):
			h.Method = zip.Store
			h.SetMode(0o755 | fs.ModeDir)
		case e.mode != 0:
			h.SetMode(e.mode)
		}
		f, err := z.CreateHeader(h)
		if err != nil {
			return err
		}
		if _, err := f.Write(e.data); err != nil {
			return err
		}
	}
	return z.Close()
}
