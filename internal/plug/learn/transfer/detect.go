package transfer

import (
	"bytes"
	"context"
	"errors"
	"io"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"patchbay/internal/i18n"
	"patchbay/internal/plug/learn/transfer/apkg"
)

// ankiNames are the file name extensions of Anki's packages and databases.
var ankiNames = []string{".apkg", ".colpkg", ".anki2", ".anki21"}

var byteOrderMark = []byte("\ufeff")

// Detect determines the format of a file by its name, which may be empty, and by its first bytes;
// 64 KiB are enough. It returns "" for unknown formats.
func Detect(name string, head []byte) string {
	ext := strings.ToLower(path.Ext(strings.ReplaceAll(name, `\`, "/")))
	head = bytes.TrimPrefix(head, byteOrderMark)
	trimmed := bytes.TrimSpace(head)
	switch {
	case bytes.HasPrefix(head, []byte("PK\x03\x04")) || apkg.IsDatabase(head), slices.Contains(ankiNames, ext):
		return Anki
	case bytes.HasPrefix(head, []byte("\xfe\xff")) || bytes.HasPrefix(head, []byte("\xff\xfe")):
		return CSV // its reader reports the error
	case len(trimmed) > 0 && (trimmed[0] == '{' || trimmed[0] == '['), ext == ".json":
		return detectJSON(trimmed)
	case ext == ".md" || ext == ".markdown":
		return Markdown
	case bytes.IndexByte(head, 0) >= 0 || len(trimmed) == 0 && ext == "":
		return ""
	}
	return detectText(ext, trimmed)
}

// detectJSON distinguishes our JSON from rows by columns that ours does not have. A row's
// embedding, which is long, comes after most of them.
func detectJSON(head []byte) string {
	if bytes.Contains(head, []byte(`"patchbay_learn"`)) {
		return JSON
	}
	for _, column := range []string{"knowledge_points", "knowledge_point_id", "review_schedules", "is_in_review_plan",
		"embedding", "user_id"} {
		if bytes.Contains(head, []byte(`"`+column+`"`)) {
			return Rows
		}
	}
	return JSON
}

func detectText(ext string, head []byte) string {
	first, _, _ := bytes.Cut(head, []byte("\n"))
	header := parseHeader(splitLoosely(string(first)))
	switch {
	case header.index("knowledge_point_id") >= 0 || header.index("user_id") >= 0 && header.question() >= 0:
		return Rows
	case ext == ".csv" || ext == ".tsv" || header.question() >= 0 && header.answer() >= 0:
		return CSV
	}
	if top := (&ankiText{}); top.line(strings.TrimSpace(string(first))) {
		return CSV
	}
	markdown := 0
	for line := range strings.SplitSeq(string(head), "\n") {
		line = strings.TrimSpace(line)
		switch {
		case line == marker || strings.HasPrefix(line, "# ") || strings.HasPrefix(line, "## ") || isQuestion(line) ||
			strings.Contains(line, "::"):
			markdown++
		}
	}
	if markdown > 0 {
		return Markdown
	}
	if bytes.ContainsAny(first, ",;\t") {
		return CSV
	}
	return ""
}

// checkText returns an error if a file is not UTF-8, naming its probable encoding, before anything
// is imported.
func checkText(ctx context.Context, r io.ReaderAt, size int64) error {
	buf := make([]byte, 256<<10)
	kept := 0 // bytes of a character that the end of the buffer split
	for at := int64(0); at < size; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := r.ReadAt(buf[kept:min(int64(len(buf)), size-at+int64(kept))], at)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if n == 0 {
			return io.ErrUnexpectedEOF
		}
		at += int64(n)
		part := buf[:kept+n]
		whole := part
		if at < size {
			whole = part[:lastRuneStart(part)]
		}
		if !utf8.Valid(whole) {
			return unreadable(encodingOf(r, size, at-int64(len(part))), msgSaveAsUTF8)
		}
		kept = copy(buf, part[len(whole):])
	}
	return nil
}

// lastRuneStart returns the start of the last character of b if it may continue after b, and len(b)
// otherwise.
func lastRuneStart(b []byte) int {
	for i := len(b) - 1; i >= 0 && i >= len(b)-utf8.UTFMax; i-- {
		if utf8.RuneStart(b[i]) {
			if utf8.FullRune(b[i:]) {
				return len(b)
			}
			return i
		}
	}
	return len(b)
}

// encodingOf names the probable encoding of a file, in a message with a placeholder for the remedy.
func encodingOf(r io.ReaderAt, size, at int64) i18n.Message {
	sample := make([]byte, min(size, 64<<10))
	n, _ := r.ReadAt(sample, 0)
	sample = sample[:n]
	if bytes.HasPrefix(sample, []byte("\xff\xfe")) || bytes.HasPrefix(sample, []byte("\xfe\xff")) {
		return msgUTF16
	}
	// The bytes that are not UTF-8 may be far into the file.
	if utf8.Valid(sample[:lastRuneStart(sample)]) {
		n, _ = r.ReadAt(sample, min(at, size-int64(len(sample))))
		sample = sample[:n]
		if i := bytes.IndexByte(sample, '\n'); at > 0 && i >= 0 {
			sample = sample[i+1:]
		}
	}
	if looksLikeGB18030(sample) {
		return msgGB18030
	}
	return msgNoUTF8
}

// looksLikeGB18030 reports whether all non-ASCII bytes form valid characters of two or four bytes
// in GB18030.
func looksLikeGB18030(b []byte) bool {
	between := func(i int, low, high byte) bool { return i >= len(b) || b[i] >= low && b[i] <= high }
	found := 0
	for i := 0; i < len(b); {
		switch {
		case b[i] < 0x80:
			i++
		case b[i] == 0x80 || b[i] == 0xff:
			return false
		case i+1 < len(b) && between(i+1, '0', '9'):
			if !between(i+2, 0x81, 0xfe) || !between(i+3, '0', '9') {
				return false
			}
			i, found = i+4, found+1
		case between(i+1, 0x40, 0xfe) && (i+1 >= len(b) || b[i+1] != 0x7f):
			i, found = i+2, found+1
		default:
			return false
		}
	}
	return found > 0
}
