// Package qr reads QR codes out of photos and draws them.
package qr

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	_ "image/gif" // the containers that photos come in
	_ "image/jpeg"
	_ "image/png"
	"io"
	"time"

	_ "golang.org/x/image/webp"
)

// Limits of what [Decode] takes. A photo of the glasses has 12 megapixels at the
// most and well under 4 MiB.
const (
	// MaxBytes is the largest encoded picture.
	MaxBytes = 8 << 20
	// MaxPixels and MaxSide bound the memory that a small file can ask for: 24
	// megapixels take 96 MB as RGBA, and up to four times that while a
	// progressive JPEG or a PNG of 16 bits is unpacked.
	MaxPixels = 24_000_000
	MaxSide   = 12_000
	// Budget is the longest time spent on one picture, apart from the first and
	// simplest way of looking at it, which is always taken.
	Budget = 2500 * time.Millisecond
	// maxConcurrent is how many pictures are unpacked and searched at the same time; it
	// bounds memory. More wait for their turn.
	maxConcurrent = 2
)

// Reasons why [Decode] finds nothing.
var (
	// ErrNotImage means that the bytes are not a complete WebP, JPEG, PNG or GIF.
	ErrNotImage = errors.New("qr: not a picture that can be read")
	// ErrTooLarge means more than [MaxBytes], [MaxPixels] or [MaxSide].
	ErrTooLarge = errors.New("qr: picture is too large")
	// ErrNoCode means that no QR code was found within [Budget].
	ErrNoCode = errors.New("qr: no code found")
)

var decodeSlots = make(chan struct{}, maxConcurrent)

// budget is Budget. Tests of what can be read have more, as they may run on a
// busy machine and under the race detector.
var budget = Budget

// Decode reads the QR codes in a photo: WebP (not animated), JPEG, PNG or the
// first picture of a GIF. The code may be turned, tilted, dark, blurred,
// inverted or a small part of the photo. The texts come without repeats; there
// is at least one unless err is set. A photo with several codes yields those
// that are readable in the same way as the first one found.
//
// It gives up after [Budget], which starts when one of a few turns is free, or
// when ctx ends. The error is or wraps [ErrNotImage], [ErrTooLarge], [ErrNoCode]
// or the context's. It is safe for concurrent use and never panics.
func Decode(ctx context.Context, data []byte) (texts []string, err error) {
	defer func() {
		// The last resort: no photo is worth the program.
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

// unpack decodes the container after checking what it asks for.
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

// cancelableReader ends reading when the context does. The decoders know no contexts, and
// a few megabytes of progressive JPEG can keep one busy for minutes: a scan over
// all of the picture takes 33 bytes. It hands out pieces of about that size so
// that decoders come back after each scan.
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
