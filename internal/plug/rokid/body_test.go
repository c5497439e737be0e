package rokid_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// TestBodiesThatCannotBeUsedAreToldToTheWearer checks that a wearer gets a text, with the ids as
// far as they arrived, when a large photo or a bad network breaks the body.
func TestBodiesThatCannotBeUsedAreToldToTheWearer(t *testing.T) {
	d := newHandlerRig(t, options{})
	for told, body := range map[string]string{
		"说的内容太长了，请说短一点。": turn("1", "", sessionKey, strings.Repeat("x", 1<<20), ""),
		// in the platform's order of keys
		"图片太大了，请再拍一次。": `{"metadata":{"lang":"zh-CN"},"agent_id":"1","user_id":"","message_id":"` + sessionKey +
			`","message":[{"role":"user","type":"image","image_url":"data:image/jpeg;base64,` +
			strings.Repeat("x", 9<<20) + `"}]}`,
	} {
		res := d.post(t, body)
		h := listen(t, res.Body)
		if res.StatusCode != http.StatusOK || h.text != told || len(h.errors) > 0 ||
			h.events[0].data["message_id"] != sessionKey {
			t.Errorf("%s: %d, %+v", told, res.StatusCode, h)
		}
	}
	if h := listen(t, d.post(t, "\ufeff"+turn("1", "", sessionKey, "hello", "")).Body); h.text == "" ||
		len(h.errors) > 0 {
		t.Errorf("a byte-order mark: %+v", h)
	}
}

// TestACutOffBodyIsToldToTheWearer sends a body that is incomplete.
func TestACutOffBodyIsToldToTheWearer(t *testing.T) {
	d := newHandlerRig(t, options{})
	at, err := url.Parse(d.url)
	must(t, err)
	conn, err := net.Dial("tcp", at.Host)
	must(t, err)
	defer conn.Close()
	body := turn("1", "", sessionKey, "hello", "")
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s",
		at.Path, d.key, len(body)+10, body[:len(body)-4])
	must(t, conn.(*net.TCPConn).CloseWrite())
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	must(t, err)
	defer res.Body.Close()
	h := listen(t, res.Body)
	if !strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") || h.text != "网络太慢，问题没能收全，请再试一次。" {
		t.Errorf("%v, %+v", res.Header, h)
	}
}
