package xiaozhi_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/plug/xiaozhi"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// A board uploads a photo, and gets its description.
func TestPhoto(t *testing.T) {
	photo, _ := snapshot(t)
	var mu sync.Mutex
	var got xiaozhi.Photo
	c := newCamera(t, func(_ context.Context, p xiaozhi.Photo) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		got = p
		return "一只“猫” & a \"dog\" 🐕", nil
	}, nil)
	d := c.board(1)
	form := func(s string) string {
		return strings.Replace(filePart(photo), `name="file"; filename="camera.jpg"`, s, 1)
	}
	tests := []struct{ name, body, question string }{
		{"as a board", questionPart("这是什么?") + filePart(photo) + lastPart, "这是什么?"},
		{"without a question", filePart(photo) + lastPart, ""},
		{"the question last", filePart(photo) + questionPart("what?") + lastPart, "what?"},
		{"two files, two questions",
			questionPart("what?") + filePart(photo) + filePart("x") + questionPart("where?") + lastPart, "what?"},
		{"another name", questionPart("what?") + form(`name="image"; filename="x.bin"`) + lastPart, "what?"},
		{"no file name", questionPart("what?") + form(`name="file"`) + lastPart, "what?"},
		{"eight parts", strings.Repeat(questionPart("what?"), 7) + filePart(photo) + lastPart, "what?"},
		{"something after the end", questionPart("what?") + filePart(photo) + lastPart + "more", "what?"},
		{"no text", questionPart("wh\xffat?") + filePart(photo) + lastPart, "what?"},
		{"the longest question", questionPart(strings.Repeat("x", 4096)) + filePart(photo) + lastPart,
			strings.Repeat("x", 4096)},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			mu.Lock()
			got = xiaozhi.Photo{}
			mu.Unlock()
			said := c.dial(t, d, c.token(d)).chunks(test.body).end().words()
			if want := (photoReply{true, "一只“猫” & a \"dog\" 🐕", ""}); said != want {
				t.Errorf("%+v", said)
			}
			mu.Lock()
			defer mu.Unlock()
			if got.Question != test.question || string(got.JPEG) != photo || got.Session != "session-1" ||
				got.Device.Number != d.Number || got.Device.Owner != c.person {
				t.Errorf("%d bytes of %d, %q about it, in session %q", len(got.JPEG), len(photo), got.Question,
					got.Session)
			}
		})
	}
	c.outcomes(map[string]int{"answered": len(tests)})
	for _, secret := range []string{"这是什么", "what?", "猫", "session-1", c.token(d)} {
		if strings.Contains(c.log.String(), secret) {
			t.Errorf("the log has %q", secret)
		}
	}
}

// A client without a valid token is refused before it sends the photo.
func TestPhotoToken(t *testing.T) {
	c := newCamera(t, func(context.Context, xiaozhi.Photo) (string, error) {
		t.Error("somebody looks at a stranger's photo")
		return "", nil
	}, nil)
	d, other, erased := c.board(1), c.board(2), c.board(3)
	good := c.token(d)
	old := c.token(erased)
	must(t, c.db.Devices.Revoke(ctx, erased.Number))
	device, client, form := "Device-Id: "+d.Hardware, "Client-Id: "+
		d.Client, "Content-Type: multipart/form-data; boundary="+boundary
	bearer := func(token string) string { return "Authorization: Bearer " + token }
	for i, test := range []struct {
		name, method string
		header       []string
		status       int
		outcome      string
	}{
		{"none", "POST", []string{device, client, form}, 401, "token"},
		{"empty", "POST", []string{device, client, form, bearer("")}, 401, "token"},
		{"made up", "POST", []string{device, client, form, bearer("abc.99999999999.session-1")}, 401, "token"},
		{"no bearer", "POST", []string{device, client, form, "Authorization: Basic " + good}, 401, "token"},
		{"of another session", "POST", []string{device, client, form,
			bearer(strings.Replace(good, "session-1", "session-2", 1))}, 401, "token"},
		{"of another board", "POST", []string{device, client, form, bearer(c.token(other))}, 401, "token"},
		{"expired", "POST", []string{device, client, form, bearer(c.accounts.VisionToken(d,
			"session-1", -time.Second))}, 401, "token"},
		{"of the socket", "POST", []string{device, client, form, bearer(c.accounts.SocketToken(d))}, 401, "token"},
		{"revoked", "POST", []string{"Device-Id: " + erased.Hardware, "Client-Id: " + erased.Client, form, bearer(old)},
			401, "token"},
		{"no such board", "POST", []string{"Device-Id: 00:00:00:00:00:01", client, form, bearer(good)}, 401, "token"},
		{"another client", "POST", []string{device, "Client-Id: " + uuid2, form, bearer(good)}, 401, "token"},
		{"no device", "POST", []string{client, form, bearer(good)}, 400, "nobody"},
		{"no client", "POST", []string{device, form, bearer(good)}, 400, "nobody"},
		{"not posted", "GET", []string{device, client, form, bearer(good)}, 405, "method"},
	} {
		t.Run(test.name, func(t *testing.T) {
			counter := func() float64 { return c.value(test.outcome) }
			before := counter()
			at := netip.AddrFrom4([4]byte{192, 0, 2, byte(10 + i)})
			a := c.dialAs(t, test.method, append(test.header, "X-From: "+at.String())...).answer()
			if a.status != test.status || counter() != before+1 {
				t.Errorf("status %d, counted %v: %s", a.status, counter()-before, a.body)
			}
			if test.status == 401 && a.header.Get("WWW-Authenticate") != "Bearer" ||
				test.status == 405 && a.header.Get("Allow") != "POST" {
				t.Errorf("%v", a.header)
			}
		})
	}
	for i := range 7 {
		a := c.dialAs(t, "POST", device, client, form, bearer("guess")).answer()
		if tooMany := i >= 5; (a.status == 429) != tooMany || (a.header.Get("Retry-After") != "") != tooMany ||
			!tooMany && a.status != 401 {
			t.Errorf("guess %d: status %d", i+1, a.status)
		}
	}
	if log := c.log.String(); strings.Contains(log, good) || strings.Contains(log, old) ||
		strings.Contains(log, "guess") {
		t.Error("a token is in the log")
	}
}

// An invalid upload is refused, in words if a board's model can do something about it.
func TestNoPhoto(t *testing.T) {
	photo, asPNG := snapshot(t)
	c := newCamera(t, func(context.Context, xiaozhi.Photo) (string, error) {
		t.Error("somebody looks at what is no photo")
		return "", nil
	}, func(o *xiaozhi.PhotosOptions) { o.PerMinute = 1000 })
	d := c.board(1)
	for _, test := range []struct {
		name, body string
		status     int
		message    string
		outcome    string
	}{
		{"no file", questionPart("what?") + lastPart, 400, "", "unreadable"},
		{"nothing", "", 400, "", "unreadable"},
		{"no form", `{"question":"what?"}`, 400, "", "unreadable"},
		{"no end", questionPart("what?") + filePart(photo), 400, "", "unreadable"},
		{"many parts", strings.Repeat(questionPart("what?"), 8) + filePart(photo) + lastPart, 400, "", "unreadable"},
		{"too large", questionPart("what?") + filePart(photo+strings.Repeat("x", 5<<20-len(photo))) + lastPart, 413, "",
			"too_large"},
		{"too large a head", "--" + boundary + "\r\nX-Long: " + strings.Repeat("x", 5<<20), 413, "", "too_large"},
		{"too large after the end", questionPart("what?") + filePart(photo) + lastPart + strings.Repeat("x", 5<<20),
			413, "", "too_large"},
		{"an empty file", questionPart("what?") + filePart("") + lastPart, 200, "摄像头发来的照片是空的，请再拍一次。", "empty"},
		{"PNG", questionPart("what?") + filePart(asPNG) + lastPart, 200, "摄像头发来的不是 JPEG 照片，而是 image/png，无法识别。",
			"no_jpeg"},
		{"WebP", filePart("RIFF\x10\x00\x00\x00WEBPVP8 ......") + lastPart, 200, "摄像头发来的不是 JPEG 照片，而是 image/webp，无法识别。",
			"no_jpeg"},
		{"pixels", filePart("\xff\xd8\xfe\x00\x01\x02\x03") + lastPart, 200,
			"摄像头发来的不是 JPEG 照片，而是 application/octet-stream，无法识别。", "no_jpeg"},
		{"a long question", questionPart(strings.Repeat("x", 4097)) + filePart(photo) + lastPart, 200,
			"关于照片的问题太长了，请缩短到 4096 字节以内。", "question"},
		{"a very long question", questionPart(strings.Repeat("x", 1<<20)) + filePart(photo) + lastPart, 200,
			"关于照片的问题太长了，请缩短到 4096 字节以内。", "question"},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := c.value(test.outcome)
			u := c.dial(t, d, c.token(d))
			u.chunks(test.body).end()
			if test.status == 200 {
				if said, want := u.words(), (photoReply{Message: test.message}); said != want {
					t.Errorf("%+v", said)
				}
			} else if a := u.answer(); a.status != test.status {
				t.Errorf("status %d: %s", a.status, a.body)
			}
			if c.value(test.outcome) != before+1 {
				t.Errorf("not counted as %s", test.outcome)
			}
		})
	}
}

// The largest photo is one byte shorter than one that is too large.
func TestLargePhoto(t *testing.T) {
	photo, _ := snapshot(t)
	var size atomic.Int64
	c := newCamera(t, func(_ context.Context, p xiaozhi.Photo) (string, error) {
		size.Store(int64(len(p.JPEG)))
		return "large", nil
	}, nil)
	d := c.board(1)
	around := len(filePart("") + lastPart)
	photo += strings.Repeat("x", 5<<20-around-len(photo))
	if said := c.dial(t, d, c.token(d)).chunks(filePart(photo) + lastPart).end().words(); said.Text != "large" ||
		size.Load() != int64(len(photo)) {
		t.Errorf("%+v, %d of %d bytes", said, size.Load(), len(photo))
	}
	u := c.dial(t, d, c.token(d))
	if a := u.chunks(filePart(photo+"x") + lastPart).end().answer(); a.status != 413 {
		t.Errorf("status %d", a.status)
	}
}

// An upload that stalls times out, and the time of the upload does not reduce that of the
// description.
func TestSlowPhoto(t *testing.T) {
	photo, _ := snapshot(t)
	const reading = time.Second
	c := newCamera(t, func(ctx context.Context, _ xiaozhi.Photo) (string, error) {
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(3 * reading / 2):
			return "slow", nil
		}
	}, nil)
	c.photos.SetTimeouts(reading, photoPatience)
	parts := []string{"", "--" + boundary + "\r\nContent-Dis", questionPart("what?"),
		strings.TrimSuffix(filePart(photo), "\r\n"), filePart(photo) + lastPart}
	boards, uploads := make([]store.Device, len(parts)), make([]*upload, len(parts))
	for i := range boards {
		boards[i] = c.board(i)
	}
	for i, part := range parts {
		uploads[i] = c.dial(t, boards[i], c.token(boards[i])).chunks(part)
	}
	for i, u := range uploads {
		if a := u.answer(); a.status != http.StatusRequestTimeout {
			t.Errorf("after %d bytes: status %d: %s", len(parts[i]), a.status, a.body)
		}
	}
	if said := c.dial(t, boards[0], c.token(boards[0])).chunks(filePart(photo) + lastPart).end().
		words(); said.Text != "slow" {
		t.Errorf("%+v", said)
	}
	c.outcomes(map[string]int{"slow": 5, "answered": 1})
}

// If the description is empty, fails or takes too long, the board gets an explanation.
func TestNothingSeen(t *testing.T) {
	photo, _ := snapshot(t)
	var look func(context.Context) (string, error)
	c := newCamera(t, func(ctx context.Context, _ xiaozhi.Photo) (string, error) { return look(ctx) }, nil)
	d := c.board(1)
	for _, test := range []struct {
		name    string
		look    func(context.Context) (string, error)
		code    talk.Code
		outcome string
	}{
		{"late", func(ctx context.Context) (string, error) {
			<-ctx.Done()
			return "half", ctx.Err()
		}, talk.TimedOut, "timeout"},
		{"an error", func(context.Context) (string, error) { return "half", errors.New("secret cause") },
			talk.BotFailed, "failed"},
		{"a failure", func(context.Context) (string, error) {
			return "", fmt.Errorf("asked: %w", talk.Fail(talk.Offline, "", nil))
		}, talk.Offline, "failed"},
		{"nothing", func(context.Context) (string, error) { return " \n\xff", nil }, talk.NoAnswer, "silent"},
	} {
		t.Run(test.name, func(t *testing.T) {
			look = test.look
			looking := photoPatience
			if test.code == talk.TimedOut {
				looking = 50 * time.Millisecond
			}
			c.photos.SetTimeouts(photoPatience, looking)
			said := c.dial(t, d, c.token(d)).chunks(filePart(photo) + lastPart).end().words()
			if want := (photoReply{Message: talk.Fail(test.code, "", nil).Sentence(i18n.Chinese)}); said != want {
				t.Errorf("%+v, want %+v", said, want)
			}
			if c.value(test.outcome) == 0 {
				t.Errorf("not counted as %s", test.outcome)
			}
		})
	}
}

// If a board disconnects, the description is canceled, and the board may send the next photo.
func TestPhotoLeft(t *testing.T) {
	photo, _ := snapshot(t)
	looking, ended := make(chan struct{}), make(chan error, 1)
	first := true
	c := newCamera(t, func(ctx context.Context, _ xiaozhi.Photo) (string, error) {
		if !first {
			return "again", nil
		}
		first = false
		close(looking)
		<-ctx.Done()
		ended <- ctx.Err()
		return "too late", nil
	}, nil)
	gone := make(chan struct{}, 1)
	inner := c.server.Config.Handler
	c.server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		inner.ServeHTTP(w, r)
		gone <- struct{}{}
	})
	d := c.board(1)
	u := c.dial(t, d, c.token(d)).chunks(filePart(photo) + lastPart).end()
	await(t, looking)
	must(t, u.Close())
	if err := await(t, ended); !errors.Is(err, context.Canceled) {
		t.Errorf("the work ended with %v", err)
	}
	await(t, gone)
	if said := c.dial(t, d, c.token(d)).chunks(filePart(photo) + lastPart).end().words(); said.Text != "again" {
		t.Errorf("%+v", said)
	}
	c.outcomes(map[string]int{"gone": 1, "answered": 1})
}

// The number of concurrent photos is limited, and each board has one.
func TestPhotosAtATime(t *testing.T) {
	photo, _ := snapshot(t)
	looking, release := make(chan int64), make(chan struct{})
	c := newCamera(t, func(ctx context.Context, p xiaozhi.Photo) (string, error) {
		select {
		case looking <- p.Device.Number:
		case <-ctx.Done():
			return "", ctx.Err()
		}
		select {
		case <-release:
			return p.Question, nil
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}, nil)
	body := func(n int) string { return questionPart(fmt.Sprint("board ", n)) + filePart(photo) + lastPart }
	boards, uploads := make([]store.Device, xiaozhi.MaxPhotos+1), make([]*upload, xiaozhi.MaxPhotos)
	for i := range boards {
		boards[i] = c.board(i)
	}
	for i := range uploads {
		uploads[i] = c.dial(t, boards[i], c.token(boards[i])).chunks(body(i)).end()
	}
	for range uploads {
		await(t, looking)
	}
	c.clock.add(time.Minute) // sweeps the quotas
	// A second photo of a board is refused before it is sent.
	if a := c.dial(t, boards[0], c.token(boards[0])).answer(); a.status != 429 || a.header.Get("Retry-After") == "" {
		t.Errorf("status %d, %v", a.status, a.header)
	}
	last := boards[xiaozhi.MaxPhotos]
	for range 2 {
		if said := c.dial(t, last, c.token(last)).chunks(body(64)).end().words(); said.Success ||
			said.Message != "现在要看的照片太多了，请稍后再拍一次。" {
			t.Errorf("%+v", said)
		}
	}
	u := c.dial(t, last, c.token(last)).chunks(strings.Repeat("x", 5<<20+1))
	if a := u.answer(); a.status != 413 {
		t.Errorf("status %d", a.status)
	}
	close(release)
	var wg sync.WaitGroup
	for i, u := range uploads {
		wg.Go(func() {
			a := readAnswer(u.t, u.Conn)
			if want := fmt.Sprintf(`{"success":true,"text":"board %d"}`, i); string(a.body) != want {
				t.Errorf("board %d is told %s", i, a.body)
			}
		})
	}
	wg.Wait()
	u = c.dial(t, last, c.token(last)).chunks(body(64)).end()
	await(t, looking)
	if said := u.words(); said.Text != "board 64" {
		t.Errorf("%+v", said)
	}
	c.outcomes(map[string]int{"answered": 65, "busy": 1, "full": 2, "too_large": 1})
}

// The number of photos of a board per minute is limited.
func TestPhotosPerMinute(t *testing.T) {
	photo, _ := snapshot(t)
	c := newCamera(t, func(context.Context, xiaozhi.Photo) (string, error) { return "seen", nil },
		func(o *xiaozhi.PhotosOptions) { o.PerMinute = 3 })
	d, other := c.board(1), c.board(2)
	send := func(d store.Device, n, want int) {
		t.Helper()
		for i := range n {
			said := c.dial(t, d, c.token(d)).chunks(filePart(photo) + lastPart).end().words()
			if said.Success != (i < want) || i >= want && said.Message != "这一分钟拍的照片太多了，请稍等片刻再拍。" {
				t.Errorf("photo %d: %+v", i, said)
			}
		}
	}
	send(d, 5, 3)
	c.clock.add(30 * time.Second)
	send(other, 5, 3)
	send(d, 1, 0)
	c.clock.add(30 * time.Second)
	send(d, 5, 3)
	send(other, 1, 0)
	c.clock.add(30 * time.Second)
	send(other, 5, 3)
	send(d, 1, 0)
	c.clock.add(2 * time.Minute)
	send(d, 1, 1)
	if n := c.photos.Quotas(); n != 1 {
		t.Errorf("%d boards are remembered", n)
	}
	c.outcomes(map[string]int{"answered": 13, "too_many": 11})
}

// However long the description is, a board can read it.
func TestLongPhotoAnswer(t *testing.T) {
	photo, _ := snapshot(t)
	long := strings.Repeat("a \"dog\" 🐕\n", 20<<10/13)
	c := newCamera(t, func(context.Context, xiaozhi.Photo) (string, error) { return long, nil }, nil)
	d := c.board(1)
	u := c.dial(t, d, c.token(d)).chunks(filePart(photo) + lastPart).end()
	said := u.words()
	part, cut := strings.CutSuffix(said.Text, "…")
	if !cut || !strings.HasPrefix(long, part) || len(part) < 6000 {
		t.Errorf("%d bytes that end in %q", len(part), said.Text[max(0, len(said.Text)-20):])
	}
}

// Photos works with the required options alone.
func TestPlainPhotos(t *testing.T) {
	photo, _ := snapshot(t)
	c := newCamera(t, func(context.Context, xiaozhi.Photo) (string, error) { return "seen", nil },
		func(o *xiaozhi.PhotosOptions) { o.Address, o.Guard, o.Now = nil, nil, nil })
	d := c.board(1)
	if a := c.dial(t, d, "guess").answer(); a.status != 401 || !strings.Contains(c.log.String(), "address=127.0.0.1") {
		t.Errorf("status %d: %s", a.status, c.log)
	}
	if said := c.dial(t, d, c.token(d)).chunks(filePart(photo) + lastPart).end().words(); said.Text != "seen" {
		t.Errorf("%+v", said)
	}
}
