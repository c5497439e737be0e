// Package qr reads QR codes (ISO/IEC 18004) from photos and draws them.
package qr

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	_ "image/gif" // the formats of photos
	_ "image/jpeg"
	_ "image/png"
	"io"
	"time"

	_ "golang.org/x/image/webp"
)

// Limits of [Decode]. A photo of the glasses has at most 12 megapixels and well under 4 MiB.
const (
	// MaxBytes is the maximum size of an encoded image.
	MaxBytes = 8 << 20
	// MaxPixels and MaxSide bound the memory that a small file can demand: 24 megapixels take 96 MB
	// as RGBA, and up to four times that while a progressive JPEG or a PNG of 16 bits is decoded.
	MaxPixels = 24_000_000
	MaxSide   = 12_000
	// Budget is the maximum time for one image, except for the first step of the plan, which always
	// runs.
	Budget = 2500 * time.Millisecond
	// maxConcurrent is the maximum number of images that are decoded and searched at the same time;
	// it bounds memory. More wait.
	maxConcurrent = 2
)

// Errors of [Decode].
var (
	// ErrNotImage means that the data is not a complete WebP, JPEG, PNG or GIF.
	ErrNotImage = errors.New("qr: not a picture that can be read")
	// ErrTooLarge means more than [MaxBytes], [MaxPixels] or [MaxSide].
	ErrTooLarge = errors.New("qr: picture is too large")
	// ErrNoCode means that no QR code was found within [Budget].
	ErrNoCode = errors.New("qr: no code found")
)

var decodeSlots = make(chan struct{}, maxConcurrent)

// budget is Budget. Tests increase it, because they may run on a busy machine and under the race
// detector.
var budget = Budget

// Decode reads the QR codes in a photo: WebP (not animated), JPEG, PNG or the first frame of a GIF.
// A code may be rotated, tilted, dark, blurred, inverted or a small part of the photo. The texts
// are unique; there is at least one unless err is set. Of several codes, Decode returns those that
// are readable in the same step as the first one found.
//
// It gives up when ctx ends or after [Budget], which does not include the wait for other images.
// The error is or wraps [ErrNotImage], [ErrTooLarge], [ErrNoCode] or the error of ctx. It is safe
// for concurrent use and never panics.
func Decode(ctx context.Context, data []byte) (texts []string, err error) {
	defer func() {
		// The last resort: an image must not end the program.
		if p := recover(); p != nil {
			texts, err = nil, fmt.Errorf("%w: %v", ErrNoCode, p)
		}
	}()
	select {
	case decodeSlots <- struct{}{}:
		defer func() { <-decodeSlots }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	budgetCtx, cancel := context.WithTimeout(ctx, budget)
	defer cancel()
	texts, err = decode(ctx, budgetCtx, data)
	if err != nil && ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return texts, err
}

func decode(ctx, budgetCtx context.Context, data []byte) ([]string, error) {
	m, err := unpack(budgetCtx, data)
	if err != nil {
		return nil, err
	}
	if texts := search(ctx, budgetCtx, toGrey(m)); len(texts) > 0 {
		return texts, nil
	}
	return nil, ErrNoCode
}

// unpack checks the dimensions and decodes the image.
func unpack(ctx context.Context, data []byte) (m image.Image, err error) {
	defer func() {
		if p := recover(); p != nil {
			m, err = nil, fmt.Errorf("%w: %v", ErrNotImage, p)
		}
	}()
	if len(data) > MaxBytes {
		return nil, fmt.Errorf("%w: %d bytes", ErrTooLarge, len(data))
	}
	conf, _, err := image.DecodeConfig(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotImage, err)
	}
	if conf.Width < 1 || conf.Height < 1 {
		return nil, fmt.Errorf("%w: %d×%d pixels", ErrNotImage, conf.Width, conf.Height)
	}
	if max(conf.Width, conf.Height) > MaxSide || conf.Width*conf.Height > MaxPixels {
		return nil, fmt.Errorf("%w: %d×%d pixels", ErrTooLarge, conf.Width, conf.Height)
	}
	m, _, err = image.Decode(&cancelableReader{ctx: ctx, r: bytes.NewReader(data)})
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("%w: unpacking took too long", ErrNoCode)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrNotImage, err)
	case m.Bounds().Empty():
		return nil, fmt.Errorf("%w: empty", ErrNotImage)
	}
	return m, nil
}

// cancelableReader ends a read when its context ends. The decoders take no context, and a few
// megabytes of progressive JPEG can take minutes: a scan of the whole image needs only 33 bytes.
// Each read returns about that many bytes, so that the decoder reads again after each scan.
type cancelableReader struct {
	ctx context.Context
	r   io.Reader
}

func (h *cancelableReader) Read(p []byte) (int, error) {
	if err := h.ctx.Err(); err != nil {
		return 0, err
	}
	return h.r.Read(p[:min(len(p), 64)])
}
