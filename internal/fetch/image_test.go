package fetch

import (
	"encoding/base64"
	"net/url"
	"strings"
	"testing"
)

func TestDataURI(t *testing.T) {
	data := pngBytes(t)
	b64 := base64.StdEncoding.EncodeToString(data)
	for _, good := range []string{
		"data:image/png;base64," + b64,
		"DATA:image/png;Base64," + b64,
		"data:image/webp;base64," + b64, // wrong on purpose
		"data:image/png;charset=x;base64," + strings.TrimRight(b64, "="),
		"data:image/png;base64," + url.QueryEscape(b64),
	} {
		m, err := DataURI(good, 0)
		if err != nil {
			t.Errorf("%.40s…: %v", good, err)
		} else if m.MIME != "image/png" || m.Width != 12 || m.Height != 7 || string(m.Data) != string(data) {
			t.Errorf("%.40s…: got %s %d×%d", good, m.MIME, m.Width, m.Height)
		}
	}
	big := base64.StdEncoding.EncodeToString(make([]byte, 5000))
	for _, bad := range []struct {
		uri    string
		max    int64
		reason Reason
	}{
		{"http://example.com/", 0, BadAddress},
		{"data", 0, BadAddress},
		{"data:", 0, BadAddress},
		{"data:image/png;base64", 0, BadAddress},
		{"data:image/png," + b64, 0, BadAddress},
		{"data:text/html;base64," + b64, 0, BadAddress},
		{"data:;base64," + b64, 0, BadAddress},
		{"data:image/png;base64,***", 0, BadAddress},
		{"data:image/png;base64,%zz", 0, BadAddress},
		{"data:image/png;base64,", 0, NotAnImage},
		{"data:image/png;base64," + base64.StdEncoding.EncodeToString([]byte("<svg/>")), 0, NotAnImage},
		{"data:image/png;base64," + base64.StdEncoding.EncodeToString(hugePNG(t)), 0, TooLarge},
		{"data:image/png;base64," + b64, int64(len(data)) - 1, TooLarge},
		{"data:image/png;base64," + big, 1000, TooLarge},
		{"data:image/png;base64," + strings.Repeat(" ", 100_000), 1000, TooLarge},
	} {
		_, err := DataURI(bad.uri, bad.max)
		wantReason(t, err, bad.reason)
	}
	if _, err := DataURI("data:image/png;base64,"+b64, int64(len(data))); err != nil {
		t.Errorf("a picture of the largest size: %v", err)
	}
}

func FuzzDataURI(f *testing.F) {
	f.Add("data:image/png;base64," + base64.StdEncoding.EncodeToString(pngBytes(f)))
	f.Add("data:image/webp;base64," + base64.StdEncoding.EncodeToString(webpBytes(f)))
	f.Add("data:image/gif;base64,R0lGODdhAQABAIAAAP///////ywAAAAAAQABAAACAkQBADs=")
	f.Add("data:image/jpeg;base64,/9j/4AAQSkZJRg%3D%3D")
	f.Add("data:,")
	f.Fuzz(func(t *testing.T, raw string) {
		const most = 4096
		m, err := DataURI(raw, most)
		if (m == nil) == (err == nil) {
			t.Fatalf("got %v and %v", m, err)
		}
		if m == nil {
			return
		}
		if len(m.Data) > most || int64(m.Width)*int64(m.Height) > MaxPixels || m.Width < 1 || m.Height < 1 {
			t.Errorf("%d bytes, %d×%d pixels", len(m.Data), m.Width, m.Height)
		}
	})
}
