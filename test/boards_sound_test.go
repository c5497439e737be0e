package test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"patchbay/internal/plug/xiaozhi/sim"
	"patchbay/internal/voice/ogg"
	"patchbay/internal/voice/opus"
	"patchbay/internal/voice/pcm"
)

// sounds returns files to play on boards: a spoken good morning, and two seconds of a tone.
func sounds(t *testing.T) (speech, tone string) {
	t.Helper()
	folder := t.TempDir()
	speech, tone = filepath.Join(folder, "speech.ogg"), filepath.Join(folder, "tone.wav")
	var file bytes.Buffer
	w, err := ogg.NewWriter(&file, ogg.WriterOptions{Channels: 1, InputRate: 16000, Vendor: "test"})
	must(t, err)
	for _, packet := range sim.GoodMorning() {
		must(t, w.Write(packet))
	}
	must(t, w.Close())
	must(t, os.WriteFile(speech, file.Bytes(), 0o600))
	samples := make([]int16, 2*toneRate)
	for i := range samples {
		samples[i] = int16(8000 * math.Sin(2*math.Pi*toneHertz*float64(i)/toneRate))
	}
	file.Reset()
	must(t, pcm.WriteWAV(&file, toneRate, samples))
	must(t, os.WriteFile(tone, file.Bytes(), 0o600))
	return speech, tone
}

const toneRate, toneHertz = 16000, 440

// pitch returns the frequency of a sound in hertz, and its length.
func pitch(t *testing.T, packets [][]byte) (hertz float64, length time.Duration) {
	t.Helper()
	d, err := opus.NewDecoder(toneRate)
	must(t, err)
	var sound []int16
	buf := make([]int16, d.Samples(opus.MaxDuration))
	for _, p := range packets {
		n, err := d.Decode(p, buf)
		must(t, err)
		sound = append(sound, buf[:n]...)
	}
	middle, up := sound[len(sound)/4:len(sound)*3/4], 0
	for i := 1; i < len(middle); i++ {
		if middle[i-1] < 0 && middle[i] >= 0 {
			up++
		}
	}
	return float64(up) * toneRate / float64(len(middle)), time.Duration(len(sound)) * time.Second / toneRate
}

// recorded returns the packets of an Ogg file, and checks that players can play it.
func recorded(t *testing.T, file string, whole bool) (packets [][]byte) {
	t.Helper()
	f, err := os.Open(file)
	must(t, err)
	defer f.Close()
	for r := ogg.NewReader(f); ; {
		p, err := r.Next()
		if errors.Is(err, io.EOF) || !whole && errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
		must(t, err)
		packets = append(packets, slices.Clone(p.Data))
	}
	if program, err := exec.LookPath("opusdec"); err == nil {
		out, err := exec.CommandContext(t.Context(), program, "--quiet", "--rate", "16000", file,
			filepath.Join(t.TempDir(), "out.wav")).CombinedOutput()
		if err != nil {
			t.Errorf("opusdec: %v: %s", err, out)
		}
	}
	return packets
}

// inOrder returns how many of the packets that were said are in a recording, in order. Late packets
// leave silence between them.
func inOrder(recorded, said [][]byte) int {
	most := make([]int, len(said)+1) // per prefix of said: the longest match so far
	for _, packet := range recorded {
		before := 0
		for i := range said {
			so := most[i+1]
			if slices.Equal(packet, said[i]) {
				most[i+1] = max(so, before+1)
			}
			most[i+1] = max(most[i+1], most[i])
			before = so
		}
	}
	return most[len(said)]
}

// Boards play sound completely and in time, during a conversation and outside, and what they record
// reaches their owner.
func TestBoardSound(t *testing.T) {
	h := newBoardServer(t, "PATCHBAY_FETCH_ALLOW_NETS=127.0.0.1/32")
	limit := limited(t, 60*time.Second)
	speech, tone := sounds(t)
	files := httptest.NewServer(http.FileServer(http.Dir(filepath.Dir(speech))))
	defer files.Close()

	kitchen := h.online(limit, "Kitchen", "websocket", sim.Options{Steady: true, KeepAudio: true})
	bath := h.online(limit, "Bath", "mqtt", sim.Options{Profile: sim.FW25, Steady: true, KeepAudio: true})
	// The board is idle, and its firmware fetches the URLs it gets.
	for i, source := range []string{speech, tone, files.URL + "/speech.ogg"} {
		h.run(t, "device", "play", "Bath", source, "--text", "The bell")
		v, err := bath.Await(limit, func(v sim.View) bool { return v.Notifications == i+1 })
		must(t, err)
		if v.State != sim.Idle || v.Displayed != "The bell" {
			t.Errorf("%s: it is %s and shows %q", source, v.State, v.Displayed)
		}
	}
	if n := bath.Report().Hellos; n != 0 {
		t.Errorf("notifications began %d conversations", n)
	}
	h.fails("asleep", "device", "play", "Kitchen", speech)

	for b, source := range map[*sim.Board]string{kitchen: speech, bath: files.URL + "/speech.ogg"} {
		must(t, b.Wake(limit))
		h.plays(t, b, source, tone)
		must(t, hangUp(limit, b))
	}
	must(t, kitchen.Wake(limit))
	h.fails("could not be fetched", "device", "play", "Kitchen", "http://127.0.0.2:1/speech.ogg") // a private address
	h.fails("404", "device", "play", "Kitchen", files.URL+"/nothing.ogg")
	must(t, hangUp(limit, kitchen))
	h.records(t, kitchen, "Kitchen")
	h.listens(t, kitchen, "Kitchen")
	pleased(t, kitchen)
	pleased(t, bath)
}

// plays plays a file on a board that is in a conversation.
func (h *boardServer) plays(t *testing.T, b *sim.Board, speech, tone string) {
	limit := limited(t, 40*time.Second)
	play := func(source string, atLeast time.Duration) sim.Answer {
		t.Helper()
		before, began := b.View().Answers, time.Now()
		h.says("Played ", "device", "play", b.MAC(), source, "--text", "Listen")
		if took := time.Since(began); took < atLeast || took > atLeast+5*time.Second {
			t.Errorf("%s took %v", source, took)
		}
		_, err := b.Await(limit, func(v sim.View) bool { return v.Answers == before+1 && v.State == sim.Listening })
		must(t, err)
		a := b.LastAnswer()
		if !slices.Equal(a.Sentences, []string{"Listen"}) {
			t.Errorf("%s says %q", source, a.Sentences)
		}
		return a
	}
	said := sim.GoodMorning()
	a := play(speech, 2400*time.Millisecond)
	if n := same(a.Audio, said); n != len(said) || a.Packets != len(said) {
		t.Errorf("%s: %d packets were heard, %d of them as they are in the file, which has %d", speech, a.Packets, n,
			len(said))
	}
	a = play(tone, 1900*time.Millisecond)
	if hertz, length := pitch(t, a.Audio); math.Abs(hertz-toneHertz) > 10 || length < 2*time.Second ||
		length > 2100*time.Millisecond {
		t.Errorf("heard were %v of %.0f Hz, want %v of %d Hz", length, hertz, 2*time.Second, toneHertz)
	}

	// stop ends the playback.
	before := b.View().Answers
	stopped := make(chan string, 1)
	go func() { out, _ := h.try("device", "play", b.MAC(), speech); stopped <- out }()
	_, err := b.Await(limit, is(sim.Speaking))
	must(t, err)
	h.run(t, "device", "stop", b.MAC())
	_, err = b.Await(limit, func(v sim.View) bool { return v.State == sim.Listening })
	must(t, err)
	if out := <-stopped; !strings.Contains(out, "interrupted") {
		t.Errorf("what is stopped says %q", out)
	}
	if a := b.LastAnswer(); b.View().Answers > before && a.Packets > len(said)/2 {
		t.Errorf("%d packets were heard", a.Packets)
	}
}

// records records speech at a board that was asleep when the recording began.
func (h *boardServer) records(t *testing.T, b *sim.Board, name string) {
	limit := limited(t, 40*time.Second)
	file := filepath.Join(t.TempDir(), "recorded.ogg")
	cmd := h.command("device", "record", name, "--out", file, "--seconds", "4", "--wait", "30s")
	told, err := cmd.StderrPipe()
	must(t, err)
	must(t, cmd.Start())
	defer cmd.Process.Kill()
	lines := bufio.NewReader(told)
	if line, err := lines.ReadString('\n'); err != nil || !strings.Contains(line, "is asleep; waiting") {
		t.Fatalf("it says %q (%v)", line, err)
	}
	h.run(t, "device", "show", name) // earlier calls have been handled by now
	before := b.View().Answers
	must(t, tells(limit, b))
	more, err := io.ReadAll(lines)
	must(t, err)
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v: %s", err, more)
	}
	if n := inOrder(recorded(t, file, true), sim.GoodMorning()); n != len(sim.GoodMorning()) {
		t.Errorf("of %d packets, %d were recorded", len(sim.GoodMorning()), n)
	}
	_, err = b.Await(limit, func(v sim.View) bool { return v.Answers == before+1 && v.State == sim.Idle })
	must(t, err)
	must(t, b.Lose(sim.Dropped))
}

// tells speaks with the button held down, so that all of it is recorded.
func tells(ctx context.Context, b *sim.Board) error {
	if err := b.Hold(ctx); err != nil {
		return err
	}
	if err := b.Talk(ctx, sim.GoodMorning()); err != nil {
		return err
	}
	return b.Release(ctx)
}

// leaves interrupts the answer and disconnects.
func leaves(ctx context.Context, b *sim.Board) error {
	_, err := b.Await(ctx, is(sim.Speaking))
	if err == nil {
		err = b.Abort(ctx)
	}
	if err == nil {
		_, err = b.Await(ctx, is(sim.Idle))
	}
	if err == nil {
		err = b.Lose(sim.Dropped)
	}
	return err
}

// listens listens to a board during two conversations.
func (h *boardServer) listens(t *testing.T, b *sim.Board, name string) {
	limit := limited(t, 40*time.Second)
	file := filepath.Join(t.TempDir(), "heard.ogg")
	cmd := h.command("device", "listen", name, "--out", file)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	must(t, cmd.Start())
	defer cmd.Process.Kill()
	h.until("somebody listens", func() bool { return h.metric("patchbay_xiaozhi_listeners") == 1 })
	size := int64(0)
	for range 2 {
		must(t, tells(limit, b))
		before := size
		h.until("it is heard while it is said", func() bool {
			if about, err := os.Stat(file); err == nil {
				size = about.Size()
			}
			return size > before+2000
		})
		must(t, leaves(limit, b))
	}
	said := slices.Concat(sim.GoodMorning(), sim.GoodMorning())
	h.until("all of it is written", func() bool { return inOrder(recorded(t, file, false), said) == len(said) })
	must(t, cmd.Process.Signal(os.Interrupt))
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ends with %v: %s", err, &out)
	}
	if n := inOrder(recorded(t, file, false), said); n != len(said) {
		t.Errorf("of %d packets, %d were heard", len(said), n)
	}
	h.until("nobody listens", func() bool { return h.metric("patchbay_xiaozhi_listeners") == 0 })
}
