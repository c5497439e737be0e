package qr

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"image"
	"image/color"
	"image/draw"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// scenes are photos that must be readable. Random ones, and how many of them are read, are in
// TestRandomScenes.
var scenes = []scene{
	{name: "plain"},
	{name: "turned 7", turn: 7},
	{name: "turned 30", turn: 30},
	{name: "turned 45", turn: 45},
	{name: "turned 90", turn: 90},
	{name: "turned 133", turn: 133},
	{name: "turned 180", turn: 180},
	{name: "turned 270", turn: 270},
	{name: "leaning back", pitch: 35},
	{name: "leaning aside", yaw: -40},
	{name: "leaning and turned", pitch: 25, yaw: 30, turn: 20},
	{name: "dark", bright: 0.15},
	{name: "dark and noisy", bright: 0.15, noise: 4},
	{name: "dark, noisy, turned", bright: 0.15, noise: 3, turn: 133},
	{name: "low contrast", black: 0.7},
	{name: "dark and low contrast", bright: 0.3, black: 0.6},
	{name: "noisy", noise: 25},
	{name: "very noisy", noise: 45},
	{name: "blurred", blur: 3},
	{name: "blurred and tilted", blur: 2.5, pitch: 20, yaw: 20, turn: 7},
	{name: "moiré", moire: 0.35},
	{name: "moiré and noise", moire: 0.3, noise: 12, turn: 30},
	{name: "gradient", fall: 0.8},
	{name: "glare", glare: 0.8},
	{name: "glare and gradient", glare: 0.6, fall: 0.5, turn: 7},
	{name: "dark mode", dark: true},
	{name: "dark mode, turned", dark: true, turn: 30},
	{name: "dark mode, dim, noisy", dark: true, bright: 0.25, noise: 4},
	{name: "dark mode, tilted", dark: true, pitch: 25, yaw: -25, turn: 45},
	{name: "dark mode, gradient", dark: true, fall: 0.6, turn: 90},
	{name: "small", side: 130},
	{name: "small and turned 30", side: 130, turn: 30},
	{name: "small and turned 45", side: 130, turn: 45},
	{name: "small, dim, noisy", side: 130, bright: 0.4, noise: 4},
	{name: "small, off the middle", side: 140, offX: -420, offY: 300, turn: 7},
	{name: "small in dark mode", side: 140, dark: true, turn: 133},
	{name: "fills the photo", side: 820},
	{name: "fills the photo, turned 45", side: 640, turn: 45},
	{name: "JPEG quality 30", encode: asJPEG(30)},
	{name: "JPEG quality 30, small, turned", side: 180, turn: 30, encode: asJPEG(30)},
	{name: "JPEG quality 30, dark, tilted", bright: 0.2, pitch: 20, yaw: 10, encode: asJPEG(30)},
	{name: "PNG", encode: asPNG, turn: 7},
	{name: "GIF", encode: asGIF, turn: 7},
	{name: "portrait", w: 960, h: 1280, turn: 90},
	{name: "thumbnail", w: 320, h: 240, side: 150},
	{name: "bare token", text: "3qk9VYxT0cM7hJwLr2uZ8A", side: 110, turn: 30},
	{name: "12 megapixels", w: 4000, h: 3000, side: 1200, turn: 12, noise: 8},
	{name: "12 megapixels, small in the middle", w: 4000, h: 3000, side: 260, turn: 30, noise: 3},
	{name: "12 megapixels, small, dark mode", w: 4000, h: 3000, side: 320, dark: true, noise: 3, offX: 500, offY: -300},
	{name: "everything a little", turn: 23, pitch: 15, yaw: -15, bright: 0.5, noise: 6, blur: 1, moire: 0.15, fall: 0.3,
		glare: 0.3},
	{name: "everything a little, dark mode", dark: true, turn: 203, pitch: 15, yaw: -15, bright: 0.5, noise: 6, blur: 1,
		moire: 0.15, fall: 0.3},
}

// TestScenes runs the whole plan, however slow the machine: the results must not depend on the
// budget.
func TestScenes(t *testing.T) {
	for i, s := range scenes {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			if raceDetector && i > 0 {
				t.Skip("one goroutine and much arithmetic: takes minutes with the race detector")
			}
			s.seed = uint64(i)
			s = s.defaults()
			got, err := decode(context.Background(), context.Background(), s.photo(t))
			if err != nil || len(got) != 1 || got[0] != s.text {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

// TestRandomScenes decodes a fixed sample of scenes, from easy to hopeless. The plan must not get
// worse at it.
func TestRandomScenes(t *testing.T) {
	const scenes, mustRead = 40, 35
	switch {
	case os.Getenv("CHECK_ALL") == "":
		t.Skip("more scenes, at random: go run ./test/check -all")
	case raceDetector:
		t.Skip("takes minutes with the race detector")
	}
	read := make(chan string, scenes)
	t.Run("all", func(t *testing.T) {
		for i := range scenes {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				s := randomScene(uint64(i)).defaults()
				got, err := decode(context.Background(), context.Background(), s.photo(t))
				if err == nil && (len(got) != 1 || got[0] != s.text) {
					t.Errorf("read %q instead of %q", got, s.text)
				}
				if err == nil {
					read <- s.text
				} else {
					t.Logf("not read: %+v", s)
				}
			})
		}
	})
	if len(read) < mustRead {
		t.Errorf("read %d of %d, want %d", len(read), scenes, mustRead)
	}
	t.Logf("read %d of %d", len(read), scenes)
}

// TestEXIF checks photos with an EXIF orientation, which makes no difference.
func TestEXIF(t *testing.T) {
	photo := scene{turn: 90}.photo(t)
	exif := "\xff\xe1\x00\x22Exif\x00\x00MM\x00\x2a\x00\x00\x00\x08\x00\x01\x01\x12\x00\x03\x00\x00\x00\x01\x00\x06\x00\x00\x00\x00\x00\x00"
	photo = slices.Concat(photo[:2], []byte(exif), photo[2:])
	if got, err := Decode(t.Context(), photo); err != nil || got[0] != sceneText {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestSeveralCodes(t *testing.T) {
	sheet := image.NewGray(image.Rect(0, 0, 900, 500))
	draw.Draw(sheet, sheet.Bounds(), image.White, image.Point{}, draw.Src)
	texts := []string{"https://patchbay.example/b/one", "https://patchbay.example/b/two"}
	for i, text := range []string{texts[0], texts[1], texts[0]} {
		c, err := Encode(text)
		if err != nil {
			t.Fatal(err)
		}
		draw.Draw(sheet, image.Rect(20+i*300, 100, 900, 500), c.Image(6), image.Point{}, draw.Src)
	}
	got, err := Decode(t.Context(), asPNG(t, sheet))
	slices.Sort(got)
	if err != nil || !slices.Equal(got, texts) {
		t.Errorf("got %q, %v, want each of %q once", got, err, texts)
	}
}

// TestPixelFormats decodes every image type of the standard library.
func TestPixelFormats(t *testing.T) {
	c, err := Encode(sceneText)
	if err != nil {
		t.Fatal(err)
	}
	from := c.Image(5)
	b := from.Bounds()
	y := func(x, y int) uint8 { return color.GrayModel.Convert(from.At(x, y)).(color.Gray).Y }
	ycc := image.NewYCbCr(b, image.YCbCrSubsampleRatio420)
	nycc := image.NewNYCbCrA(b, image.YCbCrSubsampleRatio444) // black that is opaque where dark
	for i := range b.Dx() * b.Dy() {
		px, py := i%b.Dx(), i/b.Dx()
		ycc.Y[ycc.YOffset(px, py)] = y(px, py)
		nycc.A[nycc.AOffset(px, py)] = 255 - y(px, py)
	}
	glass := image.NewRGBA(b)
	draw.Draw(glass, b, onGlass(from), image.Point{}, draw.Src)
	pictures := map[string]image.Image{"Paletted": from, "YCbCr": ycc, "NYCbCrA": nycc, "NRGBA": onGlass(from),
		"RGBA, transparent": glass}
	for name, m := range map[string]draw.Image{
		"Gray": image.NewGray(b), "Gray16": image.NewGray16(b), "RGBA": image.NewRGBA(b), "RGBA64": image.NewRGBA64(b),
		"NRGBA64": image.NewNRGBA64(b), "CMYK": image.NewCMYK(b),
	} {
		draw.Draw(m, b, from, image.Point{}, draw.Src)
		pictures[name] = m
	}
	part := image.Rect(15, 15, b.Dx()-15, b.Dy()-15) // less quiet zone, and other bounds
	for name, m := range pictures {
		type subber interface {
			SubImage(image.Rectangle) image.Image
		}
		for _, m := range []image.Image{m, m.(subber).SubImage(part)} {
			if got := search(t.Context(), t.Context(), toGrey(m)); len(got) != 1 || got[0] != sceneText {
				t.Errorf("%s %v: got %q", name, m.Bounds(), got)
			}
		}
	}
}

// withPNGSize changes the dimensions in the header of a PNG.
func withPNGSize(data []byte, w, h uint32) []byte {
	data = bytes.Clone(data)
	binary.BigEndian.PutUint32(data[16:], w)
	binary.BigEndian.PutUint32(data[20:], h)
	binary.BigEndian.PutUint32(data[29:], crc32.ChecksumIEEE(data[12:29]))
	return data
}

func TestRefused(t *testing.T) {
	small := asPNG(t, image.NewGray(image.Rect(0, 0, 30, 30)))
	lossy, err := os.ReadFile(filepath.Join("testdata", "lossy.webp"))
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		data []byte
		want error
	}{
		{"nothing", nil, ErrNotImage},
		{"text", []byte("not a picture at all, but a sentence"), ErrNotImage},
		{"svg", []byte(`<svg xmlns="http://www.w3.org/2000/svg"/>`), ErrNotImage},
		{"half a PNG", small[:40], ErrNotImage},
		{"half a WebP", lossy[:len(lossy)/4], ErrNotImage},
		{"empty GIF", []byte("GIF89a\x00\x00\x00\x00\x00\x00\x00;"), ErrNotImage},
		{"too many bytes", append(small, make([]byte, MaxBytes)...), ErrTooLarge},
		{"too many pixels", withPNGSize(small, 5000, 4801), ErrTooLarge},
		{"too wide", withPNGSize(small, MaxSide+1, 1), ErrTooLarge},
		{"enormous", withPNGSize(small, 1<<31-1, 1<<31-1), ErrNotImage}, // rejected by the decoder
		{"one pixel", asPNG(t, image.NewGray(image.Rect(0, 0, 1, 1))), ErrNoCode},
		{"a line", asPNG(t, image.NewGray(image.Rect(0, 0, 5000, 1))), ErrNoCode},
		{"a column", asPNG(t, image.NewGray(image.Rect(0, 0, 1, 5000))), ErrNoCode},
		{"black", asPNG(t, image.NewGray(image.Rect(0, 0, 300, 300))), ErrNoCode},
		{"a page without a code", scene{w: 320, h: 240, side: -100}.photo(t), ErrNoCode},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Decode(t.Context(), tt.data)
			if !errors.Is(err, tt.want) || len(got) != 0 {
				t.Errorf("got %q, %v, want %v", got, err, tt.want)
			}
		})
	}
}

func TestContextEnds(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("the wearer went away")
	cancel(why)
	if _, err := Decode(ctx, scene{}.photo(t)); !errors.Is(err, why) {
		t.Errorf("got %v, want the cause", err)
	}
	past, stop := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer stop()
	if _, err := Decode(past, scene{}.photo(t)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want a deadline", err)
	}
}

// endless is an image that takes too long to decode: a progressive JPEG whose scans, a few bytes
// each, cover 24 megapixels again and again.
func endless(t testing.TB) []byte {
	t.Helper()
	var b bytes.Buffer
	segment := func(marker byte, body ...byte) {
		b.Write([]byte{0xff, marker, byte((len(body) + 2) >> 8), byte(len(body) + 2)})
		b.Write(body)
	}
	b.Write([]byte{0xff, 0xd8})
	segment(0xdb, append([]byte{0}, bytes.Repeat([]byte{1}, 64)...)...)
	segment(0xc2, 8, 0x0f, 0xa0, 0x17, 0x70, 1, 1, 0x11, 0) // 6000×4000, one component
	// One Huffman code of one bit: 0 is a run of 2^14 blocks (EOB14, ITU-T T.81 §G.1.2.2), with 14
	// more bits.
	segment(0xc4, append(append([]byte{0x10}, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0), 0xe0)...)
	const blocks = 750 * 500
	var bits strings.Builder
	for n := 0; n < blocks; n += 1<<15 - 1 {
		bits.WriteString("0" + strings.Repeat("1", 14))
	}
	for bits.Len()%8 != 0 {
		bits.WriteString("1")
	}
	var scan []byte
	for s := bits.String(); s != ""; s = s[8:] {
		v := byte(0)
		for i := range 8 {
			v = v<<1 | s[i]&1
		}
		if scan = append(scan, v); v == 0xff {
			scan = append(scan, 0)
		}
	}
	for b.Len() < MaxBytes-200 {
		segment(0xda, 1, 1, 0, 1, 63, 0)
		b.Write(scan)
	}
	b.Write([]byte{0xff, 0xd9})
	return b.Bytes()
}

func TestUnpackingIsCutShort(t *testing.T) {
	data := endless(t)
	budgetCtx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	start := time.Now()
	_, err := unpack(budgetCtx, data)
	if !errors.Is(err, ErrNoCode) {
		t.Fatalf("got %v, want it to be cut short", err)
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
}

// TestTurns checks that images wait for others, and stop waiting when their context ends.
func TestTurns(t *testing.T) {
	for range maxConcurrent {
		decodeSlots <- struct{}{}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := Decode(ctx, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want to have waited in vain", err)
	}
	for range maxConcurrent {
		<-decodeSlots
	}
	photo := scene{w: 320, h: 240, side: 150}.photo(t)
	var all sync.WaitGroup
	for range 4 * maxConcurrent {
		all.Go(func() {
			if got, err := Decode(t.Context(), photo); err != nil || got[0] != sceneText {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
	all.Wait()
	if len(decodeSlots) != 0 {
		t.Errorf("%d turns are still taken", len(decodeSlots))
	}
}
