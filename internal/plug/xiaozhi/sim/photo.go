package sim

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"patchbay/internal/netx"
	"patchbay/internal/plug/xiaozhi/wire"
)

const (
	// photoChunk is the chunk size of an upload, in bytes (xiaozhi-esp32
	// main/boards/common/esp_video.cc, comment in EspVideo::Explain), and photoTime the minimum
	// time of encoding and sending.
	photoChunk = 512
	photoTime  = 500 * time.Millisecond
)

// Boundaries of the forms (xiaozhi-esp32 main/boards/common/esp32_camera.cc, Esp32Camera::Explain;
// main/mcp_server.cc, self.screen.snapshot).
const (
	cameraBoundary = "----ESP32_CAMERA_BOUNDARY"
	screenBoundary = "----ESP32_SCREEN_SNAPSHOT_BOUNDARY"
)

// takePhoto uploads a photo to the vision URL while the loop is blocked, and returns the response
// body.
func (b *Board) takePhoto(ctx context.Context, args Args) (string, error) {
	b.mu.Lock()
	to := b.vision
	b.mu.Unlock()
	if to.url == "" {
		return "", toolError("Image explain URL or token is not set")
	}
	header := b.identity()
	if to.token != "" {
		header = append(header, [2]string{"Authorization", "Bearer " + to.token})
	}
	header = append(header, [2]string{"Content-Type", "multipart/form-data; boundary=" + cameraBoundary})
	question, _ := args["question"].(string)
	parts := [][]byte{
		[]byte("--" + cameraBoundary + "\r\nContent-Disposition: form-data; name=\"question\"\r\n\r\n" + question +
			"\r\n"),
		[]byte("--" + cameraBoundary +
			"\r\nContent-Disposition: form-data; name=\"file\"; filename=\"camera.jpg\"\r\nContent-Type: image/jpeg\r\n\r\n"),
	}
	res, err := b.upload(ctx, to.url, header, parts, b.opt.Picture, cameraBoundary)
	switch {
	case err != nil && ctx.Err() == nil:
		b.reportViolation("C17", "a photo cannot be sent: %v", err)
		return "", toolError("Failed to connect to explain URL")
	case err != nil:
		return "", err
	case res.status != http.StatusOK:
		b.reportViolation("C17", "the answer to a photo has the status %d", res.status)
		return "", toolError("Failed to upload photo")
	case len(res.body) >= wire.MaxHTTPBody:
		b.reportViolation("C17", "the answer to a photo has %d bytes: boards hang", len(res.body))
		return "", errors.New("the board hangs")
	}
	b.mu.Lock()
	b.report.Photos++
	b.mu.Unlock()
	return string(res.body), nil
}

// upload uploads a form with a file in small chunks.
func (b *Board) upload(ctx context.Context, url string, header [][2]string, parts [][]byte, file []byte,
	boundary string) (response, error) {
	return b.do(ctx, request{method: http.MethodPost, url: url, header: header, limit: wire.VisionTimeout,
		chunks: func(write func([]byte) error) error {
			for _, p := range parts {
				if err := write(p); err != nil {
					return err
				}
			}
			pause := photoTime / time.Duration(len(file)/photoChunk+1)
			for rest := file; len(rest) > 0; {
				n := min(photoChunk, len(rest))
				if err := write(rest[:n]); err != nil {
					return err
				}
				rest = rest[n:]
				if netx.Wait(ctx, pause) != nil {
					return context.Cause(ctx)
				}
			}
			return write([]byte("\r\n--" + boundary + "--\r\n"))
		}})
}

// snapshot uploads the display's content to any URL, without headers that identify the board.
func (b *Board) snapshot(ctx context.Context, args Args) (string, error) {
	url, _ := args["url"].(string)
	part := []byte("--" + screenBoundary +
		"\r\nContent-Disposition: form-data; name=\"file\"; filename=\"screenshot.jpg\"\r\nContent-Type: image/jpeg\r\n\r\n")
	file := b.opt.Picture
	if file == nil {
		file = append([]byte{0xff, 0xd8, 0xff, 0xe0}, bytes.Repeat([]byte{0x42}, 2000)...)
	}
	header := [][2]string{{"Content-Type", "multipart/form-data; boundary=" + screenBoundary}}
	res, err := b.upload(ctx, url, header, [][]byte{part}, file, screenBoundary)
	if err != nil {
		return "", toolError("Failed to open URL: " + url)
	}
	if res.status != http.StatusOK {
		return "", toolError("Unexpected status code: " + strconv.Itoa(res.status))
	}
	return "true", nil
}

// preview downloads a picture and shows it. The response needs a Content-Length.
func (b *Board) preview(ctx context.Context, args Args) (string, error) {
	url, _ := args["url"].(string)
	res, err := b.do(ctx, request{method: http.MethodGet, url: url, limit: wire.VisionTimeout})
	if err != nil || res.status != http.StatusOK {
		return "", toolError("Failed to open URL: " + url)
	}
	if res.length <= 0 {
		b.reportViolation("", "a picture for the display has no Content-Length")
		return "", toolError("Failed to allocate memory for image")
	}
	b.update(func() { b.shown.text = "picture" })
	return "true", nil
}

// notify downloads a notification and plays it, without listening afterwards.
func (b *Board) notify(ctx context.Context, m wire.Message) {
	res, err := b.do(ctx, request{method: http.MethodGet, url: m.AudioURL, limit: wire.VisionTimeout})
	if ctx.Err() != nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case err != nil:
		b.violate("", "a notification cannot be fetched: %v", err)
		return
	case res.status < 200 || res.status > 299:
		b.violate("", "a notification has the status %d", res.status)
		return
	}
	head := bytes.Index(res.body, []byte("OpusHead"))
	if !bytes.HasPrefix(res.body, []byte("OggS")) || head < 0 || len(res.body) < head+10 || res.body[head+9] != 1 {
		b.violate("", "a notification is no Ogg file with one channel of Opus")
		return
	}
	var words []string
	for _, s := range m.Subtitles {
		words = append(words, s.Text)
	}
	b.shown.text = strings.Join(words, " ")
	b.report.Notifications++
	b.event(EventNotification, b.shown.text)
}
