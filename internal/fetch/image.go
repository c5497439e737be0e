package fetch

import (
	"bytes"
	"encoding/base64"
	"image"
	"image/gif"
	"image/jpeg"
	"image/png"
	"io"
	"net/url"
	"strings"

	"golang.org/x/image/webp"
)

// MaxPixels bounds a picture: whoever unpacks 40 megapixels as RGBA needs 160 MB
// for them.
const MaxPixels = 40_000_000

// Image is a picture that was checked: its bytes begin as such a picture does,
// and its size is known. Data may be shared with others and is read-only.
type Image struct {
	// MIME is image/webp, image/jpeg, image/png or image/gif.
	MIME string
	// Data is the encoded picture.
	Data []byte
	// Width and Height are in pixels.
	Width, Height int
}

// format is a kind of picture that we know.
type format struct {
	mime   string
	magic  string // "?" stands for any byte
	config func(io.Reader) (image.Config, error)
}

var formats = []format{
	{"image/webp", "RIFF????WEBPVP8", webp.DecodeConfig},
	{"image/jpeg", "\xff\xd8\xff", jpeg.DecodeConfig},
	{"image/png", "\x89PNG\r\n\x1a\n", png.DecodeConfig},
	{"image/gif", "GIF87a", gif.DecodeConfig},
	{"image/gif", "GIF89a", gif.DecodeConfig},
}

// maxMagic is the longest magic, in bytes.
const maxMagic = 15

func (f *format) matches(data []byte) bool {
	if len(data) < len(f.magic) {
		return false
	}
	for i := range len(f.magic) {
		if f.magic[i] != '?' && f.magic[i] != data[i] {
			return false
		}
	}
	return true
}

// sniff finds the format of something from its first bytes.
func sniff(data []byte) *format {
	for i := range formats {
		if formats[i].matches(data) {
			return &formats[i]
		}
	}
	return nil
}

// NewImage checks an encoded picture that came from somewhere else: that it is
// WebP, JPEG, PNG or GIF, and that it has no more than [MaxPixels]. It keeps
// data. It does not unpack it, so the picture may still turn out to be broken.
// The error is an *[Error].
func NewImage(data []byte) (*Image, error) {
	f := sniff(data)
	if f == nil {
		return nil, fail(NotAnImage, "%d bytes of something else", len(data))
	}
	conf, err := f.config(bytes.NewReader(data))
	if err != nil {
		return nil, &Error{Reason: NotAnImage, Err: err}
	}
	if conf.Width < 1 || conf.Height < 1 {
		return nil, fail(NotAnImage, "%d×%d pixels", conf.Width, conf.Height)
	}
	if int64(conf.Width)*int64(conf.Height) > MaxPixels {
		return nil, fail(TooLarge, "%d×%d pixels", conf.Width, conf.Height)
	}
	return &Image{MIME: f.mime, Data: data, Width: conf.Width, Height: conf.Height}, nil
}

// IsDataURI reports whether an address carries its content in itself.
func IsDataURI(raw string) bool {
	return len(raw) >= 5 && strings.EqualFold(raw[:5], "data:")
}

// DataURI reads a picture out of an address of the form
// data:image/…;base64,…. It may have up to maxBytes (0 means [DefaultMaxBytes])
// and is checked like any other: what it says it is does not count. The error is
// an *[Error].
func DataURI(raw string, maxBytes int64) (*Image, error) {
	if maxBytes <= 0 {
		maxBytes = DefaultMaxBytes
	}
	if !IsDataURI(raw) {
		return nil, fail(BadAddress, "not a data: address")
	}
	head, body, ok := strings.Cut(raw[len("data:"):], ",")
	if !ok || len(head) > 200 {
		return nil, fail(BadAddress, "data: address without content")
	}
	head = strings.ToLower(head)
	if !strings.HasPrefix(head, "image/") || !strings.HasSuffix(head, ";base64") {
		return nil, fail(BadAddress, "data: address is not a picture in base64")
	}
	// Escapes triple the length of a byte at the most.
	if int64(len(body)) > 3*(maxBytes/3*4+4) {
		return nil, fail(TooLarge, "more than %d bytes", maxBytes)
	}
	if strings.Contains(body, "%") {
		plain, err := url.PathUnescape(body)
		if err != nil {
			return nil, fail(BadAddress, "bad escape in data: address")
		}
		body = plain
	}
	body = strings.TrimRight(body, "=")
	if int64(base64.RawStdEncoding.DecodedLen(len(body))) > maxBytes {
		return nil, fail(TooLarge, "more than %d bytes", maxBytes)
	}
	data, err := base64.RawStdEncoding.DecodeString(body)
	if err != nil {
		return nil, fail(BadAddress, "bad base64 in data: address")
	}
	return NewImage(data)
}
