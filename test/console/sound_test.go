package console

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"patchbay/internal/console/browsertest"
	xiaozhi "patchbay/internal/plug/xiaozhi/sim"
	"patchbay/internal/voice/ogg"
	"patchbay/internal/voice/pcm"
)

// A file is played on a board, speech to a board is recorded, and a live listener hears it: the
// sound is what boards record, and Chromium plays it.
func TestBoardIsHeard(t *testing.T) {
	h := newServerWithAda(t)
	board := h.newBoard(xiaozhi.Options{Scale: 0.01, Steady: true, KeepAudio: true, OnEvent: func(e xiaozhi.Event) {
		if e.Kind == xiaozhi.EventCode {
			if out, err := h.command("device", "approve", e.Text, "--user", ada, "--name",
				"Kitchen").CombinedOutput(); err != nil {
				t.Errorf("device approve: %v\n%s", err, out)
			}
		}
	}})
	must(t, board.Boot(h.limit()))
	b := h.adaBrowser(phone)
	h.plays(b, board)
	h.records(b, board)
	h.listens(b, board)
	for _, v := range board.Report().Violations {
		t.Errorf("the board: %v", v)
	}
}

// form selects the form of a tool on the page of a device, and told its result.
func form(action string) string           { return "#doing form[action$='" + action + "']" }
func resultSelector(action string) string { return form(action) + " + .told-here" }

// plays plays a file on a board that is in a conversation.
func (h *testServer) plays(b *browsertest.Browser, board *xiaozhi.Board) {
	h.t.Helper()
	var file bytes.Buffer
	w, err := ogg.NewWriter(&file, ogg.WriterOptions{Channels: 1, InputRate: 16000, Vendor: "test"})
	must(h.t, err)
	for _, packet := range xiaozhi.GoodMorning() {
		must(h.t, w.Write(packet))
	}
	must(h.t, w.Close())
	name := filepath.Join(h.t.TempDir(), "morning.ogg")
	must(h.t, os.WriteFile(name, file.Bytes(), 0o600))

	must(h.t, board.Wake(h.limit()))
	b.Open("/devices/1")
	b.WaitVisible(form("/play"))
	b.Upload(form("/play")+" [name=file]", name)
	b.Fill(form("/play")+" [name='arg.text']", "The bell")
	before := board.View().Answers
	b.Click(form("/play") + " button")
	if _, err := board.Await(h.limit(), func(v xiaozhi.View) bool {
		return v.Answers > before &&
			v.State == xiaozhi.Listening
	}); err != nil {
		h.t.Fatalf("the board plays nothing: %v", err)
	}
	a := board.LastAnswer()
	if n := inOrder(a.Audio, xiaozhi.GoodMorning()); n != len(xiaozhi.GoodMorning()) ||
		!slices.Equal(a.Sentences, []string{"The bell"}) {
		h.t.Errorf("the board heard %d of the file's %d packets, and shows %q", n, len(xiaozhi.GoodMorning()),
			a.Sentences)
	}
	b.WaitText(resultSelector("/play"), "Delivered.")
	must(h.t, board.Lose(xiaozhi.Dropped))
}

// records records speech at a board that was asleep before.
func (h *testServer) records(b *browsertest.Browser, board *xiaozhi.Board) {
	h.t.Helper()
	b.Open("/devices/1")
	b.WaitVisible(form("/tools/record"))
	b.Fill(form("/tools/record")+" [name='arg.seconds']", "4")
	b.Click(form("/tools/record") + " button")
	b.WaitUntil("document.querySelector(\"" + form("/tools/record") +
		"\").matches('.htmx-request, :has(.htmx-request)')")
	h.run("device", "show", "Kitchen") // earlier calls have been handled by now
	must(h.t, says(h, board))
	audio := resultSelector("/tools/record") + " audio"
	b.WaitVisible(audio)
	url := browsertest.Evaluate[string](b, fmt.Sprintf("document.querySelector(%q).src", audio))
	text, ok := strings.CutPrefix(url, "data:audio/ogg;base64,")
	file, err := base64.StdEncoding.DecodeString(text)
	if !ok || err != nil {
		h.t.Fatalf("the recording is %.60s (%v)", url, err)
	}
	if n := inOrder(recorded(h.t, file), xiaozhi.GoodMorning()); n != len(xiaozhi.GoodMorning()) {
		h.t.Errorf("of %d packets, %d were recorded", len(xiaozhi.GoodMorning()), n)
	}
	// Chromium decodes it, and it contains speech.
	b.Script(fmt.Sprintf(`(async () => {
		const bytes = Uint8Array.from(atob(document.querySelector(%q).src.split(",")[1]), c => c.charCodeAt(0));
		const sound = await new OfflineAudioContext(1, 48000, 48000).decodeAudioData(bytes.buffer);
		window.sound = {seconds: sound.duration, loudest: sound.getChannelData(0).reduce((a, x) => Math.max(a, Math.abs(x)), 0)};
	})()`, audio))
	if seconds, loudest := browsertest.Evaluate[float64](b, "sound.seconds"), browsertest.Evaluate[float64](b,
		"sound.loudest"); seconds < 2.4 || seconds > 6 || loudest < 0.05 {
		h.t.Errorf("Chromium hears %.2f s, at most %.3f loud", seconds, loudest)
	}
	h.audible(b, audio)
	if href := browsertest.Evaluate[string](b, fmt.Sprintf("document.querySelector(%q).href",
		resultSelector("/tools/record")+" a[download]")); href != url {
		h.t.Errorf("what is saved is %.60s", href)
	}
	must(h.t, board.Lose(xiaozhi.Dropped))
}

// audible checks that Chromium plays the sound, with the output muted.
func (h *testServer) audible(b *browsertest.Browser, audio string) {
	h.t.Helper()
	b.Script(fmt.Sprintf("window.player = document.querySelector(%q); player.muted = true; void player.play().catch(() => {})", audio))
	b.WaitUntil("player.error || player.readyState >= 2 && player.currentTime > 0.3")
	if e := browsertest.Evaluate[string](b,
		"player.error ? player.error.message || String(player.error.code) : ''"); e != "" {
		h.t.Errorf("Chromium does not play %s: %s", audio, e)
	}
}

// listens opens the live sound of a board, which must arrive while it is spoken, and leaves.
func (h *testServer) listens(b *browsertest.Browser, board *xiaozhi.Board) {
	h.t.Helper()
	key := h.key("metrics", "admin")
	b.Open("/devices/1")
	b.Click("#ear button")
	b.WaitVisible("#ear audio")
	h.await("somebody listens", func() bool { return h.metric(key, "patchbay_xiaozhi_listeners") == 1 })
	// A program with her session hears the same.
	req, err := http.NewRequestWithContext(h.t.Context(), http.MethodGet, h.url+"/devices/1/listen", nil)
	must(h.t, err)
	req.Header.Set("Cookie", "patchbay="+h.token(ada, adaPassword))
	resp, err := http.DefaultClient.Do(req)
	must(h.t, err)
	defer resp.Body.Close()
	if kind := resp.Header.Get("Content-Type"); resp.StatusCode != http.StatusOK || kind != "audio/wav" {
		h.t.Fatalf("listening is %s, %s", resp.Status, kind)
	}
	h.await("two listen", func() bool { return h.metric(key, "patchbay_xiaozhi_listeners") == 2 })
	spoken := make(chan error, 1)
	go func() { // long enough that it is heard during the speech
		for range 3 {
			err := says(h, board)
			if err == nil {
				err = board.Lose(xiaozhi.Dropped) // nobody waits for the answer
			}
			if err != nil {
				spoken <- err
				return
			}
		}
		spoken <- nil
	}()
	h.audible(b, "#ear audio")
	select {
	case err := <-spoken:
		h.t.Errorf("Chromium plays nothing while somebody speaks (%v)", err)
	default:
		must(h.t, <-spoken)
	}
	// The recording is complete, as samples that contain speech.
	file := make([]byte, 44+2*48000*3*len(xiaozhi.GoodMorning())*60/1000)
	if _, err := io.ReadFull(resp.Body, file); err != nil {
		h.t.Fatalf("what is said does not come: %v", err)
	}
	wav, err := pcm.NewWAV(bytes.NewReader(file), 48000)
	must(h.t, err)
	samples, loudest := make([]int16, len(file)/2), int16(0)
	for n := 0; err == nil; {
		for _, x := range samples[:n] {
			loudest = max(loudest, x)
		}
		n, err = wav.Read(samples)
	}
	if loudest < 1000 {
		h.t.Errorf("what is heard is %d loud", loudest)
	}
	resp.Body.Close()
	h.await("one listens", func() bool { return h.metric(key, "patchbay_xiaozhi_listeners") == 1 })
	b.Open("/devices")
	h.await("nobody listens once the page is closed", func() bool {
		return h.metric(key,
			"patchbay_xiaozhi_listeners") == 0
	})
}

// says says good morning to a board with its button held down.
func says(h *testServer, board *xiaozhi.Board) error {
	err := board.Hold(h.limit())
	if err == nil {
		err = board.Talk(h.limit(), xiaozhi.GoodMorning())
	}
	if err == nil {
		err = board.Release(h.limit())
	}
	return err
}

// recorded returns the packets of an Ogg file, which third-party programs can decode too.
func recorded(t testing.TB, file []byte) (packets [][]byte) {
	t.Helper()
	for r := ogg.NewReader(bytes.NewReader(file)); ; {
		p, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		must(t, err)
		packets = append(packets, slices.Clone(p.Data))
	}
	if program, err := exec.LookPath("opusdec"); err == nil {
		cmd := exec.CommandContext(t.Context(), program, "--quiet", "--rate", "16000",
			"-", filepath.Join(t.TempDir(), "out.wav"))
		cmd.Stdin = bytes.NewReader(file)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("opusdec: %v: %s", err, out)
		}
	}
	return packets
}

// inOrder returns how many of the packets that were said were heard, in order.
func inOrder(heard, said [][]byte) (n int) {
	for _, packet := range heard {
		if n < len(said) && bytes.Equal(packet, said[n]) {
			n++
		}
	}
	return n
}

// metric returns a metric of the server.
func (h *testServer) metric(key, name string) float64 {
	h.t.Helper()
	req, err := http.NewRequestWithContext(h.limit(), http.MethodGet, h.url+"/metrics", nil)
	must(h.t, err)
	req.Header.Set("Authorization", "Bearer "+key)
	resp, err := http.DefaultClient.Do(req)
	must(h.t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	must(h.t, err)
	line := regexp.MustCompile(`(?m)^` + name + ` (\S+)$`).FindSubmatch(text)
	if line == nil {
		h.t.Fatalf("there is no metric %s: %s %.200s", name, resp.Status, text)
	}
	var n float64
	_, err = fmt.Sscan(string(line[1]), &n)
	must(h.t, err)
	return n
}
