package transfer

import (
	"bytes"
	"context"
	"errors"
	"io"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/unicode"
)

// maxDecoded limits a file of text that is not UTF-8, in bytes: as UTF-8 it is held in memory.
const maxDecoded = 32 << 20

// toUTF8 returns a file of text as UTF-8, before anything is imported: the file itself, or what it
// is in the encodings that spreadsheets write, and the name of the encoding. Where the encoding is
// only a guess, most characters have to be frequent ones.
func toUTF8(ctx context.Context, r io.ReaderAt, size int64) (_ io.ReaderAt, _ int64, name string, _ error) {
	at, err := notUTF8(ctx, r, size)
	if err != nil || at < 0 {
		return r, size, "", err
	}
	e := encodingOf(sampleAt(r, size, at))
	switch {
	case e == nil:
		return nil, 0, "", unreadable(msgNoUTF8, msgSaveAsUTF8)
	case size > maxDecoded:
		return nil, 0, "", unreadable(msgLargeCoded, maxDecoded>>20, msgSaveAsUTF8)
	}
	text, err := io.ReadAll(e.NewDecoder().Reader(io.NewSectionReader(r, 0, size)))
	if err != nil {
		return nil, 0, "", err
	}
	if bytes.ContainsRune(text, utf8.RuneError) {
		return nil, 0, "", unreadable(msgNoUTF8, msgSaveAsUTF8)
	}
	if name = "GB18030"; e != simplifiedchinese.GB18030 {
		name = "UTF-16"
	}
	return bytes.NewReader(text), int64(len(text)), name, nil
}

// notUTF8 returns a place in a file shortly before the first bytes that are not UTF-8, or −1.
func notUTF8(ctx context.Context, r io.ReaderAt, size int64) (int64, error) {
	buf := make([]byte, 256<<10)
	kept := 0 // bytes of a character that the end of the buffer split
	for at := int64(0); at < size; {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		n, err := r.ReadAt(buf[kept:min(int64(len(buf)), size-at+int64(kept))], at)
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		if n == 0 {
			return 0, io.ErrUnexpectedEOF
		}
		at += int64(n)
		part := buf[:kept+n]
		whole := part
		if at < size {
			whole = part[:lastRuneStart(part)]
		}
		if !utf8.Valid(whole) {
			return at - int64(len(part)), nil
		}
		kept = copy(buf, part[len(whole):])
	}
	return -1, nil
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

// sampleAt returns the beginning of a file, or if that is UTF-8, whole lines after a place.
func sampleAt(r io.ReaderAt, size, at int64) []byte {
	sample := make([]byte, min(size, 64<<10))
	n, _ := r.ReadAt(sample, 0)
	sample = sample[:n]
	if !utf8.Valid(sample[:lastRuneStart(sample)]) {
		return sample
	}
	n, _ = r.ReadAt(sample, min(at, size-int64(len(sample))))
	sample = sample[:n]
	if i := bytes.IndexByte(sample, '\n'); at > 0 && i >= 0 {
		sample = sample[i+1:]
	}
	return sample
}

// encodingOf returns the encoding of a text that is not UTF-8, or nil if it is not known.
func encodingOf(sample []byte) encoding.Encoding {
	switch {
	case bytes.HasPrefix(sample, []byte("\xff\xfe")) || bytes.HasPrefix(sample, []byte("\xfe\xff")):
		return unicode.UTF16(unicode.BigEndian, unicode.ExpectBOM)
	case !utf8.Valid(sample[:lastRuneStart(sample)]) && looksLikeGB18030(sample):
		return simplifiedchinese.GB18030
	}
	return nil
}

// looksLikeGB18030 reports whether all non-ASCII bytes form characters of two or four bytes in
// GB18030, and nine of ten are of GB2312, which has nearly all that people write. Western texts
// have single such bytes between letters: "für" would be of two bytes, but not of GB2312.
func looksLikeGB18030(b []byte) bool {
	between := func(i int, low, high byte) bool { return i >= len(b) || b[i] >= low && b[i] <= high }
	found, frequent := 0, 0
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
			if between(i, 0xa1, 0xf7) && between(i+1, 0xa1, 0xfe) {
				frequent++
			}
			i, found = i+2, found+1
		default:
			return false
		}
	}
	return found > 0 && frequent*10 >= found*9
}
