package xiaozhi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"image"
	"image/jpeg"
	"image/png"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"patchbay/internal/account"
	"patchbay/internal/plug/xiaozhi"
	"patchbay/internal/plug/xiaozhi/wire"
	"patchbay/internal/store"
)

const photoPatience = 20 * time.Second

// camera is a server for photos.
type camera struct {
	*rig
	photos *xiaozhi.Photos
	server *httptest.Server
}

func newCamera(t *testing.T, taken func(context.Context, xiaozhi.Photo) (string, error),
	change func(*xiaozhi.PhotosOptions)) *camera {
	t.Helper()
	c := &camera{rig: newRig(t, func(o *xiaozhi.DiscoveryOptions) { o.AutoOwner, o.CallsPerMinute = "me", 1000 })}
	o := xiaozhi.PhotosOptions{
		Accounts: c.accounts, Logger: slog.New(slog.NewTextHandler(c.log,
			&slog.HandlerOptions{Level: slog.LevelDebug})), Registerer: c.metrics,
		Address: from, Guard: account.NewGuard(5, c.clock.now), Describe: taken, Now: c.clock.now,
	}
	if change != nil {
		change(&o)
	}
	c.photos = xiaozhi.NewPhotos(o)
	mux := http.NewServeMux()
	mux.Handle(xiaozhi.VisionPath, c.photos)
	c.server = httptest.NewServer(mux)
	t.Cleanup(c.server.Close)
	return c
}

// board makes an approved board.
func (c *camera) board(n int) store.Device {
	c.t.Helper()
	mac := fmt.Sprintf("aa:bb:cc:dd:ee:%02x", n)
	c.call(headers(mac, uuid1), strings.ReplaceAll(full, "aa:bb:cc:dd:ee:ff", mac))
	d, err := c.db.Devices.ByHardware(ctx, xiaozhi.Kind, mac)
	must(c.t, err)
	return d
}

// token returns a vision token that is valid for an hour.
func (c *camera) token(d store.Device) string {
	return c.accounts.VisionToken(d, "session-1", time.Hour)
}

// outcomes compares the counters of outcomes.
func (c *camera) outcomes(want map[string]int) {
	c.t.Helper()
	const name = "patchbay_xiaozhi_photos_total"
	var text strings.Builder
	fmt.Fprintf(&text, "# HELP %s Photos of voice boards, by what became of them.\n# TYPE %s counter\n", name, name)
	for outcome, n := range want {
		fmt.Fprintf(&text, "%s{outcome=%q} %d\n", name, outcome, n)
	}
	if err := testutil.GatherAndCompare(c.metrics, strings.NewReader(text.String()), name); err != nil {
		c.t.Error(err)
	}
}

// upload is a connection on which a photo is sent as firmware does it.
type upload struct {
	t testing.TB
	net.Conn
}

const boundary = "----ESP32_CAMERA_BOUNDARY"

// dial connects and sends the headers of an upload.
func (c *camera) dial(t testing.TB, d store.Device, token string) *upload {
	t.Helper()
	return c.dialAs(t, http.MethodPost, "Device-Id: "+d.Hardware, "Client-Id: "+d.Client,
		"Authorization: Bearer "+token, "Content-Type: multipart/form-data; boundary="+boundary, "Connection: close")
}

func (c *camera) dialAs(t testing.TB, method string, header ...string) *upload {
	t.Helper()
	conn, err := net.Dial("tcp", c.server.Listener.Addr().String())
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	must(t, conn.SetDeadline(time.Now().Add(photoPatience)))
	u := &upload{t, conn}
	u.write(method + " " + xiaozhi.VisionPath + " HTTP/1.1\r\nHost: board.example.org\r\n" +
		strings.Join(header, "\r\n") + "\r\nTransfer-Encoding: chunked\r\n\r\n")
	return u
}

func (u *upload) write(s string) {
	u.t.Helper()
	_, err := u.Conn.Write([]byte(s))
	must(u.t, err)
}

// chunks sends a text in chunks of at most 512 bytes, as long as the server accepts them.
func (u *upload) chunks(text string) *upload {
	for len(text) > 0 {
		n := min(512, len(text))
		if _, err := fmt.Fprintf(u.Conn, "%x\r\n%s\r\n", n, text[:n]); err != nil {
			return u
		}
		text = text[n:]
	}
	return u
}

// end sends the last chunk.
func (u *upload) end() *upload {
	_, _ = u.Conn.Write([]byte("0\r\n\r\n")) // the server may have closed the connection
	return u
}

func (u *upload) answer() answered {
	u.t.Helper()
	return readAnswer(u.t, u.Conn)
}

// photoReply is a response with status 200.
type photoReply struct {
	Success       bool
	Text, Message string
}

// words reads a response for a board's model, and checks what boards require.
func (u *upload) words() photoReply {
	u.t.Helper()
	a := u.answer()
	var said photoReply
	if err := json.Unmarshal(a.body, &said); err != nil || a.status != http.StatusOK ||
		a.length != int64(len(a.body)) || len(a.body) >= wire.MaxHTTPBody || !utf8.Valid(a.body) {
		u.t.Fatalf("status %d, %d bytes announced, %d came, %v: %s", a.status, a.length, len(a.body), err, a.body)
	}
	return said
}

func questionPart(text string) string {
	return "--" + boundary + "\r\nContent-Disposition: form-data; name=\"question\"\r\n\r\n" + text + "\r\n"
}

func filePart(file string) string {
	return "--" + boundary +
		"\r\nContent-Disposition: form-data; name=\"file\"; filename=\"camera.jpg\"\r\nContent-Type: image/jpeg\r\n\r\n" + file + "\r\n"
}

const lastPart = "--" + boundary + "--\r\n"

// snapshot returns an image as JPEG and as PNG.
func snapshot(t testing.TB) (asJPEG, asPNG string) {
	t.Helper()
	im := image.NewGray(image.Rect(0, 0, 320, 240))
	for i := range im.Pix {
		im.Pix[i] = byte(i * i >> 3)
	}
	var a, b bytes.Buffer
	must(t, jpeg.Encode(&a, im, &jpeg.Options{Quality: 80}))
	must(t, png.Encode(&b, im))
	return a.String(), b.String()
}

// value returns the counter of an outcome.
func (c *camera) value(outcome string) float64 {
	c.t.Helper()
	families, err := c.metrics.Gather()
	must(c.t, err)
	for _, f := range families {
		for _, m := range f.Metric {
			if f.GetName() == "patchbay_xiaozhi_photos_total" && m.Label[0].GetValue() == outcome {
				return m.Counter.GetValue()
			}
		}
	}
	return 0
}

func await[T any](t testing.TB, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(photoPatience):
		t.Fatal("nothing happens")
	}
	return v
}
