package xiaozhi

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"
	"unicode/utf8"

	"patchbay/internal/plug/xiaozhi/wire"
)

// MaxPhotos exports maxPhotos for tests.
const MaxPhotos = maxPhotos

// SetTimeouts shortens the timeouts of receiving and describing photos, for tests.
func (p *Photos) SetTimeouts(reading, looking time.Duration) {
	p.readTimeout, p.describeTimeout = reading, looking
}

// Quotas returns the number of boards that are remembered.
func (p *Photos) Quotas() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.quotas)
}

// Any body is parsed alike, whole or in small pieces, and read to its end, and the result is part
// of the body.
func FuzzPhotoForm(f *testing.F) {
	const boardForm = "multipart/form-data; boundary=----ESP32_CAMERA_BOUNDARY"
	const b = "--" + "----ESP32_CAMERA_BOUNDARY"
	question := b + "\r\nContent-Disposition: form-data; name=\"question\"\r\n\r\nwhat is it?\r\n"
	file := b + "\r\nContent-Disposition: form-data; name=\"file\"; filename=\"camera.jpg\"\r\nContent-Type: image/jpeg\r\n\r\n\xff\xd8\xff\xe0 seen\r\n"
	for _, body := range []string{
		question + file + b + "--\r\n", file + b + "--", file + question + b + "--\r\n\r\nmore", question + b +
			"--\r\n", file, "", b, b + "--", "\r\n" + b + "\r\n\r\n" + b + "--",
		strings.Repeat(b+"\r\n\r\n\r\n", 20) + b + "--", strings.Replace(question, "what", strings.Repeat("what", 2000),
			1) + file + b + "--\r\n",
		strings.ReplaceAll(question+file+b+"--\r\n", "\r\n", "\n"),
		b + "\r\nContent-Disposition: form-data; name=\"file\"\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n=FF=D8\r\n" + b + "--",
	} {
		f.Add(boardForm, []byte(body))
	}
	f.Add("multipart/form-data; boundary=\"a b\"",
		[]byte("--a b\r\nContent-Disposition: form-data; name=file\r\n\r\nx\r\n--a b--"))
	f.Add("multipart/form-data; boundary="+strings.Repeat("x", 71), []byte("x"))
	f.Add("application/json", []byte("{}"))
	f.Add("multipart/mixed; boundary=x", []byte("--x--"))
	f.Fuzz(func(t *testing.T, contentType string, body []byte) {
		r := bytes.NewReader(body)
		got, err := readPhotoForm(contentType, r)
		slow, slowErr := readPhotoForm(contentType, iotest.OneByteReader(bytes.NewReader(body)))
		if err == nil {
			switch {
			case slowErr != nil:
				t.Fatalf("in pieces: %v", slowErr)
			case got.question != slow.question || !bytes.Equal(got.file, slow.file):
				t.Fatalf("in pieces: %q and not %q", slow, got)
			case r.Len() > 0:
				t.Fatalf("%d bytes are left", r.Len())
			case got.file == nil || !bytes.Contains(body, got.file):
				t.Fatalf("the file is %q", got.file)
			case len(got.question) > maxPhotoQuestion+1 || !bytes.Contains(body, []byte(got.question)):
				t.Fatalf("the question is %q", got.question)
			}
		}
		// An upload that breaks off fails.
		broke := errors.New("broke off")
		if _, err := readPhotoForm(contentType, io.MultiReader(bytes.NewReader(body),
			iotest.ErrReader(broke))); err == nil {
			t.Fatal("nobody noticed that the sender broke off")
		}
	})
}

// Whatever the description is, a board survives the response, which has as much of it as fits.
func FuzzPhotoAnswer(f *testing.F) {
	for _, s := range []string{"", "a cat", "\"\\\n\x00\u2028<&>", "\xff", strings.Repeat("x", 8159),
		strings.Repeat("x", 8160), strings.Repeat("x", 8161), strings.Repeat("👩‍👩‍👧\"", 1000),
		strings.Repeat("\x01", 8192)} {
		f.Add(true, s, 1)
		f.Add(false, s, 3)
	}
	f.Fuzz(func(t *testing.T, success bool, text string, times int) {
		text = strings.Repeat(text, min(max(times, 1), 50))
		b := photoAnswer(success, text)
		var got struct {
			Success       *bool
			Text, Message string
		}
		if err := json.Unmarshal(b, &got); err != nil || len(b) >= wire.MaxHTTPBody || !utf8.Valid(b) ||
			got.Success == nil || *got.Success != success {
			t.Fatalf("%d bytes, %v: %s", len(b), err, b)
		}
		told, other := got.Text, got.Message
		if !success {
			told, other = other, told
		}
		want := strings.ToValidUTF8(text, "")
		if other != "" {
			t.Fatalf("both: %s", b)
		}
		if told == want {
			return
		}
		part, cut := strings.CutSuffix(told, "…")
		if !cut || !strings.HasPrefix(want, part) {
			t.Fatalf("%q is told as %q", want, told)
		}
		_, next := utf8.DecodeRuneInString(want[len(part):])
		if longer := marshalPhotoAnswer(success, want[:len(part)+next]+"…"); len(longer) < wire.MaxHTTPBody {
			t.Fatalf("%d bytes, and %d would do", len(b), len(longer))
		}
		if whole := marshalPhotoAnswer(success, want); len(whole) < wire.MaxHTTPBody {
			t.Fatalf("%d bytes, and all %d would do", len(b), len(whole))
		}
	})
}
