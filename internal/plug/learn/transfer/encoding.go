package transfer

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/unicode"
)

// maxDecoded limits a file of text that is not UTF-8, in bytes: as UTF-8 it is held in memory.
const maxDecoded = 32 << 20

// toUTF8 returns a file of text as UTF-8, before anything is imported: the file itself, or what it
// is in the encodings that spreadsheets write, and the name of the encoding.
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
	text, err := decode(ctx, e.NewDecoder().Reader(io.NewSectionReader(r, 0, size)), size)
	if err != nil {
		return nil, 0, "", err
	}
	if name = "GBK (GB18030)"; e != simplifiedchinese.GB18030 {
		name = "UTF-16"
	}
	return bytes.NewReader(text), int64(len(text)), name, nil
}

// decode reads what a decoder returns of a file of a size, up to the first bytes that are no
// characters.
func decode(ctx context.Context, r io.Reader, size int64) ([]byte, error) {
	text := make([]byte, 0, size*3/2+1) // Chinese characters have two bytes before and three after
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		text = slices.Grow(text, 4<<10)
		n, err := r.Read(text[len(text) : len(text)+4<<10])
		if text = text[:len(text)+n]; bytes.ContainsRune(text[len(text)-n:], utf8.RuneError) {
			return nil, unreadable(msgNoUTF8, msgSaveAsUTF8)
		}
		if errors.Is(err, io.EOF) {
			return text, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// notUTF8 returns the place of the first bytes that are not UTF-8, or −1.
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
		if good := validUTF8(whole); good < len(whole) {
			return at - int64(len(part)-good), nil
		}
		kept = copy(buf, part[len(whole):])
	}
	return -1, nil
}

// validUTF8 returns how many bytes at the beginning of b are UTF-8.
func validUTF8(b []byte) int {
	if utf8.Valid(b) {
		return len(b)
	}
	good := 0
	for good < len(b) {
		r, size := utf8.DecodeRune(b[good:])
		if r == utf8.RuneError && size == 1 {
			break
		}
		good += size
	}
	return good
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

// sampleAt returns 64 KiB of a file: its beginning if a place is in there, and otherwise what
// follows the place, from the beginning of the line.
func sampleAt(r io.ReaderAt, size, at int64) []byte {
	sample := make([]byte, min(size, 64<<10))
	from := int64(0)
	if at >= int64(len(sample)) {
		from = at - 4<<10
	}
	n, _ := r.ReadAt(sample, from)
	if sample = sample[:n]; from > 0 {
		line := bytes.LastIndexByte(sample[:min(n, 4<<10)], '\n')
		sample = sample[max(line+1, 0):]
	}
	return sample
}

// encodingOf returns the encoding of a text that is not UTF-8, or nil if it is not known.
func encodingOf(sample []byte) encoding.Encoding {
	switch {
	case bytes.HasPrefix(sample, []byte("\xff\xfe")) || bytes.HasPrefix(sample, []byte("\xfe\xff")):
		return unicode.UTF16(unicode.BigEndian, unicode.ExpectBOM)
	case bytes.HasPrefix(sample, byteOrderMark) || mostlyUTF8(sample) || !looksLikeGB18030(sample):
		return nil
	}
	return simplifiedchinese.GB18030
}

// mostlyUTF8 reports whether a text has at least as many characters of UTF-8 beyond ASCII as bytes
// that are none: it is UTF-8 with errors.
func mostlyUTF8(b []byte) bool {
	good, bad := 0, 0
	for len(b) > 0 {
		r, size := utf8.DecodeRune(b)
		switch b = b[size:]; {
		case r == utf8.RuneError && size == 1:
			bad++
		case size > 1:
			good++
		}
	}
	return good >= bad
}

// looksLikeGB18030 reports whether all non-ASCII bytes form characters of GB18030, and they are
// distributed as in Chinese texts. Four of five are punctuation or frequent characters, whose first
// bytes are 0xB0 to 0xD7. Western texts have single such bytes between letters, and the small
// letters of Greek and Cyrillic are above. Japanese kana, in EUC-JP too, begin with 0xA4 and 0xA5.
// Korean syllables end at 0xC8, where Chinese has the second half of its alphabet.
func looksLikeGB18030(b []byte) bool {
	between := func(i int, low, high byte) bool { return i >= len(b) || b[i] >= low && b[i] <= high }
	found, frequent, late, kana := 0, 0, 0, 0
	for i := 0; i < len(b); {
		switch {
		case b[i] <= 0x80: // 0x80 is the euro sign
			i++
		case b[i] == 0xff:
			return false
		case i+1 < len(b) && between(i+1, '0', '9'):
			if !between(i+2, 0x81, 0xfe) || !between(i+3, '0', '9') {
				return false
			}
			i, found = i+4, found+1
		case between(i+1, 0x40, 0xfe) && (i+1 >= len(b) || b[i+1] != 0x7f):
			if between(i+1, 0xa1, 0xfe) {
				switch lead := b[i]; {
				case lead == 0xa4 || lead == 0xa5:
					kana++
				case lead >= 0xc9 && lead <= 0xd7:
					late++
					frequent++
				case lead >= 0xa1 && lead <= 0xa3, lead >= 0xb0 && lead <= 0xd7:
					frequent++
				}
			}
			i, found = i+2, found+1
		default:
			return false
		}
	}
	korean := found >= 12 && late*20 < found
	return found > 0 && frequent*5 >= found*4 && kana*10 <= found && !korean
}
