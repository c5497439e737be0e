package cli

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"
	"time"

	"patchbay/internal/app"
	"patchbay/internal/control"
	"patchbay/internal/store"
	"patchbay/internal/voice/engines/openai/openaitest"
	"patchbay/internal/voice/ogg"
	"patchbay/internal/voice/opus"
)

// TestRecordingsFromBoardToPage has a board talk with its bot, and hears, exports and deletes the
// recording by the page, /api/v1 and the command line.
func TestRecordingsFromBoardToPage(t *testing.T) {
	speech := openaitest.New(t)
	speech.Transcript = func([]int16) string { return "Good morning!" }
	d, s := withBoards(t, "--speech-url", speech.URL, "--speech-key", openaitest.Key, "--speech-format", "wav")
	board := []string{"simulate", "xiaozhi", "--url", s.URL, "--mode", "manual", "--slack", "30s", "--say", word(t),
		"--mac", "02:00:00:aa:bb:cc"}
	d.ok(board...) // before it is recorded; the demo approves it
	d.env = append(d.env, "PATCHBAY_DATA="+s.Data)
	d.ok("device", "voice", "02:00:00:aa:bb:cc", "--set", "record=7")
	if got := d.ok(board...); !strings.Contains(got, "This conversation is recorded.") {
		t.Errorf("the board shows %s", got)
	}
	var list control.Recordings
	for len(list.Recordings) == 0 && t.Context().Err() == nil { // it is stored after the answer
		d.json(&list, "device", "recordings", "02:00:00:aa:bb:cc")
	}
	r := list.Recordings[0]
	if len(list.Recordings) != 1 || r.Question != "Good morning!" || r.Answer != "Good morning!" {
		t.Fatalf("recorded are %+v", list.Recordings)
	}

	var key struct{ Key string }
	d.json(&key, "key", "add", "--user", app.DemoPerson, "--name", "ears", "--scope", "operator")
	b := &listener{t: t, url: s.URL, key: key.Key}
	b.signIn()
	path := fmt.Sprintf("/devices/%d/recordings", list.Device)
	turn := "/activity/turns/" + r.Turn
	if page := string(b.get(path)); !strings.Contains(page, `src="`+turn+`/sound/question"`) ||
		!strings.Contains(page, `src="`+turn+`/sound/answer"`) || strings.Count(page, "<audio") != 2 {
		t.Errorf("the page is %s", page)
	}
	if page := string(b.get("/activity?recorded=on")); strings.Count(page, `href="`+turn+`"`) != 1 ||
		strings.Count(page, `class="record-turn"`) != 1 {
		t.Errorf("the turns with a recording are %s", page)
	}
	sounds := map[string][]byte{}
	for part, length := range map[string]time.Duration{store.PartQuestion: r.QuestionLength,
		store.PartAnswer: r.AnswerLength} {
		sounds[part] = b.get(turn + "/sound/" + part)
		if got, loudest := decodeOgg(t, sounds[part]); got != length || length < time.Second/2 || loudest < 1000 {
			t.Errorf("the %s lasts %s, not %s; its loudest sample is %d", part, got, length, loudest)
		}
		if api := b.get("/api/v1/turns/" + r.Turn + "/sound/" + part); !bytes.Equal(api, sounds[part]) {
			t.Errorf("the %s of /api/v1 has %d bytes, not %d", part, len(api), len(sounds[part]))
		}
	}
	archive := b.get(path + "/export")
	z, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil || len(z.File) != 3 {
		t.Fatalf("the archive is %+v, %v", z, err)
	}
	for _, f := range z.File[:2] {
		part := strings.TrimSuffix(f.Name[strings.LastIndexByte(f.Name, '-')+1:], ".ogg")
		file, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(file); err != nil || len(got) == 0 || !bytes.Equal(got, sounds[part]) {
			t.Errorf("%s has %d bytes, %v", f.Name, len(got), err)
		}
	}
	d.ok("device", "recordings", "02:00:00:aa:bb:cc", "--delete", "--yes")
	if page := string(b.get(path)); strings.Contains(page, "<audio") {
		t.Errorf("after that, the page is %s", page)
	}
	if status, _ := b.do(turn + "/sound/question"); status != http.StatusNotFound {
		t.Errorf("after that, the question is answered %d", status)
	}
}

// decodeOgg returns the length of a sound and its loudest sample.
func decodeOgg(t *testing.T, file []byte) (length time.Duration, loudest int16) {
	t.Helper()
	const rate = 16000
	decoder, err := opus.NewDecoder(rate)
	if err != nil {
		t.Fatal(err)
	}
	pcm := make([]int16, decoder.Samples(opus.MaxDuration))
	for r := ogg.NewReader(bytes.NewReader(file)); ; {
		p, err := r.Next()
		if errors.Is(err, io.EOF) {
			return length, loudest
		}
		if err != nil {
			t.Fatal(err)
		}
		n, err := decoder.Decode(p.Data, pcm)
		if err != nil {
			t.Fatal(err)
		}
		length += time.Duration(n) * time.Second / rate
		for _, v := range pcm[:n] {
			loudest = max(loudest, v)
		}
	}
}

// listener is a browser that is signed in, and a program with a key.
type listener struct {
	t        *testing.T
	url, key string
	browser  *http.Client
}

func (b *listener) signIn() {
	b.t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		b.t.Fatal(err)
	}
	b.browser = &http.Client{Jar: jar, Timeout: limit}
	resp, err := b.browser.PostForm(b.url+"/signin", url.Values{"name": {app.DemoPerson},
		"password": {app.DemoPassword}})
	if err != nil {
		b.t.Fatal(err)
	}
	resp.Body.Close()
}

// get returns what is at a path.
func (b *listener) get(path string) []byte {
	b.t.Helper()
	status, body := b.do(path)
	if status != http.StatusOK {
		b.t.Fatalf("%s is answered %d: %.500s", path, status, body)
	}
	return body
}

func (b *listener) do(path string) (status int, body []byte) {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.t.Context(), http.MethodGet, b.url+path, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	if strings.HasPrefix(path, "/api/") {
		req.Header.Set("Authorization", "Bearer "+b.key)
	}
	resp, err := b.browser.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err = io.ReadAll(resp.Body); err != nil {
		b.t.Fatal(err)
	}
	return resp.StatusCode, body
}
