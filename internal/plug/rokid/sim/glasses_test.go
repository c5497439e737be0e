package sim

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// fakeServer answers with a script and records the requests.
type fakeServer struct {
	*httptest.Server
	mu      sync.Mutex
	bodies  []string
	headers []http.Header
}

func newFakeServer(t *testing.T, script http.HandlerFunc) *fakeServer {
	d := &fakeServer{}
	d.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		d.mu.Lock()
		d.bodies = append(d.bodies, string(body))
		d.headers = append(d.headers, r.Header.Clone())
		d.mu.Unlock()
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		script(w, r)
	}))
	t.Cleanup(d.Close)
	return d
}

func (d *fakeServer) request(i int) (body string, header http.Header) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.bodies[i], d.headers[i]
}

func glasses(t *testing.T, opt Options) *Glasses {
	g := New(opt)
	t.Cleanup(g.Close)
	return g
}

// says returns a script that sends a text.
func says(text string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, text) }
}

func TestAsk_sendsWhatThePlatformSends(t *testing.T) {
	d := newFakeServer(t, says(""))
	g := glasses(t, Options{
		URL: d.URL + "/sse/rokid", Key: "sesame", UserID: "0123456789ABCDEF0123456789ABCDEF",
		AgentID: "0123456789abcdef0123456789abcdef",
	})
	session := g.MessageID()
	before := time.Now().Truncate(time.Second)
	if _, err := g.Ask(t.Context(), "帮我看看 <日程> & \"more\"", nil); err != nil {
		t.Fatal(err)
	}
	body, header := d.request(0)
	var sent struct {
		Metadata struct {
			CurrentTime string `json:"currentTime"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal([]byte(body), &sent); err != nil {
		t.Fatal(err)
	}
	at, err := time.ParseInLocation("2006-01-02 15:04:05", sent.Metadata.CurrentTime, time.Local)
	if err != nil || at.Before(before) || at.After(time.Now()) {
		t.Errorf("currentTime is %q", sent.Metadata.CurrentTime)
	}
	want := `{"metadata":{"lang":"zh-CN","location":"杭州市西湖区","company_id":1,"latitude":"30.25","longitude":"120.13","currentTime":"` + sent.Metadata.CurrentTime +
		`","weather":"今天:晴 12~20℃\n明天:多云\n后天:小雨","battery":"28","runningApp":""},` +
		`"agent_id":"0123456789abcdef0123456789abcdef","user_id":"0123456789ABCDEF0123456789ABCDEF","message_id":"` +
		session + `",` +
		`"message":[{"role":"user","type":"text","text":"帮我看看 <日程> & \"more\"","image_url":null}]}`
	if body != want {
		t.Errorf("sent %s\nwant %s", body, want)
	}
	for name, want := range map[string]string{
		"Authorization": "Bearer sesame", "Content-Type": "application/json", "User-Agent": "ReactorNetty/1.1.13",
		"Accept":          "*/*",
		"Accept-Encoding": "", "Content-Length": strconv.Itoa(len(body)),
	} {
		if got := header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if !regexp.MustCompile(`^00-[0-9a-f]{32}-[0-9a-f]{16}-01$`).MatchString(header.Get("Traceparent")) {
		t.Errorf("traceparent: %q", header.Get("Traceparent"))
	}
}

func TestNew_invents(t *testing.T) {
	a, b := glasses(t, Options{}), glasses(t, Options{})
	if !regexp.MustCompile(`^[0-9A-F]{32}$`).MatchString(a.UserID) ||
		!regexp.MustCompile(`^[0-9a-f]{32}$`).MatchString(a.AgentID) {
		t.Errorf("user %q, agent %q", a.UserID, a.AgentID)
	}
	if a.UserID == b.UserID || a.AgentID == b.AgentID {
		t.Error("two pairs of glasses have the same ids")
	}
}

func TestSession_isKeptUntilAnotherIsOpened(t *testing.T) {
	d := newFakeServer(t, says(hello+last+done))
	g := glasses(t, Options{URL: d.URL})
	first := g.MessageID()
	if at, err := strconv.ParseInt(first, 10, 64); err != nil || len(first) != 13 ||
		time.Since(time.UnixMilli(at)).Abs() > time.Minute {
		t.Errorf("message_id %q is not the time in milliseconds", first)
	}
	for range 2 {
		g.Ask(t.Context(), "x", nil)
	}
	g.PhotoURL(t.Context(), "https://example.com/x.webp", nil)
	second := g.NewSession()
	g.Ask(t.Context(), "x", nil)
	if third := g.NewSession(); first == second || second == third || third != g.MessageID() {
		t.Errorf("sessions %s, %s, %s", first, second, third)
	}
	for i, want := range []string{first, first, first, second} {
		if body, _ := d.request(i); !strings.Contains(body, `"message_id":"`+want+`"`) {
			t.Errorf("turn %d: %s", i, body)
		}
	}
}

var photos = map[string]string{
	"image/webp": "RIFF\x04\x00\x00\x00WEBPVP8 ", "image/png": "\x89PNG\r\n\x1a\n…", "image/jpeg": "\xff\xd8\xff…",
	"image/gif": "GIF89a…",
}

func TestPhoto_asDataURI(t *testing.T) {
	d := newFakeServer(t, says(""))
	g := glasses(t, Options{URL: d.URL})
	i := 0
	for mime, data := range photos {
		if _, err := g.Photo(t.Context(), []byte(data), nil); err != nil {
			t.Fatal(err)
		}
		want := `"message":[{"role":"user","type":"image","text":null,"image_url":"data:` + mime + `;base64,` +
			base64.StdEncoding.EncodeToString([]byte(data)) + `"}]}`
		if body, _ := d.request(i); !strings.HasSuffix(body, want) {
			t.Errorf("sent %s, want %s", body, want)
		}
		i++
	}
}

func TestPhoto_served(t *testing.T) {
	type fetched struct{ mime, data string }
	got := make(chan fetched, 1)
	var address string
	d := newFakeServer(t, func(http.ResponseWriter, *http.Request) {})
	d.Config.Handler = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var body struct {
			Message []struct {
				ImageURL string `json:"image_url"`
			} `json:"message"`
		}
		if json.NewDecoder(r.Body).Decode(&body) != nil || len(body.Message) != 1 {
			t.Error("no message")
			return
		}
		address = body.Message[0].ImageURL
		resp, err := http.Get(address)
		if err != nil {
			t.Error(err)
			return
		}
		defer resp.Body.Close()
		data, _ := io.ReadAll(resp.Body)
		got <- fetched{resp.Header.Get("Content-Type"), string(data)}
	})
	g := glasses(t, Options{URL: d.URL, ServeImages: true})
	for mime, data := range photos {
		if _, err := g.Photo(t.Context(), []byte(data), nil); err != nil {
			t.Fatal(err)
		}
		if f := <-got; f.mime != mime || f.data != data {
			t.Errorf("fetched %q of type %s, want %q of %s", f.data, f.mime, data, mime)
		}
	}
	if !regexp.MustCompile(`^http://127\.0\.0\.1:\d+/basecloud/prod/coze/image/[0-9a-f]{32}\.(webp|png|jpg|gif)$`).
		MatchString(address) {
		t.Errorf("address %q", address)
	}
	for range maxImages {
		g.serveImage([]byte("x"))
	}
	if resp, err := http.Get(address); err != nil || resp.StatusCode != http.StatusNotFound {
		t.Errorf("an old photo: %v, %v", resp, err)
	}
	g.Close()
	if _, err := http.Get(address); err == nil {
		t.Error("photos are served after Close")
	}
}

func TestDocumented(t *testing.T) {
	for want, body := range map[string][]byte{
		`{"message_id":"1021","agent_id":"1","message":[{"role":"user","type":"text","text":"你好"}]}`:                             DocumentedText("1021", "1", "你好"),
		`{"message_id":"1022","agent_id":"1","message":[{"role":"user","type":"image","text":"https://example.com/image.jpg"}]}`: DocumentedImage("1022", "1", "https://example.com/image.jpg"),
		`{"message_id":"1021","agent_id":"1","user_id":"user_123","metadata":{"context":{"location":"杭州市西湖区世贸中心","latitude":"39.9088","longitude":"116.3975",` +
			`"currentTime":"2025-03-11 11:22:41","weather":"晴天","battery":"85%"}},"message":[{"role":"user","type":"text","text":"若琪帮我写一首诗"}]}`: DocumentedContext("1021", "1", "user_123", "若琪帮我写一首诗"),
	} {
		if string(body) != want {
			t.Errorf("body %s\nwant %s", body, want)
		}
	}
}

func TestGlasses_severalTurnsAtOnce(t *testing.T) {
	here := make(chan struct{}) // the two turns run at the same time
	d := newFakeServer(t, func(w http.ResponseWriter, r *http.Request) {
		select {
		case here <- struct{}{}:
		case <-here:
		}
		io.WriteString(w, last+done)
	})
	g := glasses(t, Options{URL: d.URL})
	var turns sync.WaitGroup
	for range 2 {
		turns.Go(func() {
			if _, err := g.Ask(t.Context(), "x", nil); err != nil {
				t.Error(err)
			}
			g.NewSession()
		})
	}
	turns.Wait()
}
