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

// MaxPixels is the maximum number of pixels of an image: decoding 40 megapixels as RGBA takes 160
// MB.
const MaxPixels = 40_000_000

// Image is a validated image: its first bytes are those of its type, and its dimensions are known.
// Data may be shared with others and is read-only.
type Image struct {
	// MIME is image/webp, image/jpeg, image/png or image/gif.
	MIME string
	// Data is the encoded image.
	Data []byte
	// Width and Height are in pixels.
	Width, Height int
}

// format is a supported file format.
type format struct {
	mime   string
	magic  string // "?" matches any byte
	config func(io.Reader) (image.Config, error)
}

// The magic numbers: WebP, RFC 9649 §2.4; JPEG, ITU-T T.81 §B.1.1.3 (SOI, and the first byte of the
// next marker); PNG, RFC 2083 §3.1; GIF, the GIF89a specification §17.
var formats = []format{
	{"image/webp", "RIFF????WEBPVP8", webp.DecodeConfig},
	{"image/jpeg", "\xff\xd8\xff", jpeg.DecodeConfig},
	{"image/png", "\x89PNG\r\n\x1a\n", png.DecodeConfig},
	{"image/gif", "GIF87a", gif.DecodeConfig},
	{"image/gif", "GIF89a", gif.DecodeConfig},
}

// maxMagic is the length of the longest magic number, in bytes.
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

// sniff detects the format from the first bytes.
func sniff(data []byte) *format {
	for i := range formats {
		if formats[i].matches(data) {
			return &formats[i]
		}
	}
	return nil
}

// NewImage validates an encoded image from another source: it has to be WebP, JPEG, PNG or GIF, and
// may have at most [MaxPixels]. It keeps data. It reads only the header, so the image may still be
// corrupt. The error is an *[Error].
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

// IsDataURI reports whether an address is a data URI (RFC 2397).
func IsDataURI(raw string) bool {
	return len(raw) >= 5 && strings.EqualFold(raw[:5], "data:")
}

// DataURI decodes an image from an address of the form data:image/…;base64,… (RFC 2397). It may
// have up to maxBytes (0 means [DefaultMaxBytes]) and is validated like any other; its media type
// is ignored. The error is an *[Error].
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
	// Percent-encoding at most triples the length.
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
