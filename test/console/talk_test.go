package console

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"patchbay/internal/console/browsertest"
	chat "patchbay/internal/plug/openai/openaitest"
	xiaozhi "patchbay/internal/plug/xiaozhi/sim"
	speech "patchbay/internal/voice/engines/openai/openaitest"
	"patchbay/internal/voice/opus"
	"patchbay/internal/voice/pcm"
)

// A newcomer talks: from the first start by the guide to the form that sets up a service from its
// key, to the page on which the computer is a board, to a bot that is heard. Then the browser does
// what boards do.
func TestNewcomerTalks(t *testing.T) {
	for _, l := range []look{laptop, {phone.width, "zh", false}} {
		t.Run(l.String(), func(t *testing.T) {
			t.Parallel()
			newcomerTalks(t, l)
		})
	}
}

func newcomerTalks(t *testing.T, l look) {
	// The answer is the same, and after a question a board listens on: a busy machine takes long.
	question := l.in("今天天气怎么样？", "What is the weather today?")
	service := newService(t, question)
	h := newTestServer(t, l.lang, "PATCHBAY_XIAOZHI_SILENCE=10m")
	address := h.says(`http://[^/]+(/setup\?code=[0-9A-Z]{4}-[0-9A-Z]{4})`)
	talker := browsertest.Chromium{Microphone: microphone(t)}
	t.Cleanup(talker.Stop)
	b := talker.Window(t, h.url)
	b.SetWidth(l.width)
	b.Cookie("patchbay-lang", l.lang)
	b.Open(address)
	b.WaitVisible("form[action='/setup']")
	b.Type("[name=name]", ada)
	b.Type("[name=password]", adaPassword)
	b.Press("\r")
	b.Click("main a[href='/settings/voice']")
	setsUpVoice(t, b, l, service)
	b.WaitVisible("#start")
	b.Script(watchLevel)
	l.right(t, b)
	if l.lang == "zh" {
		b.Script("delete window.AudioEncoder") // a browser without Opus: samples are sent
	}
	b.Click("#start")
	b.WaitText("#said .mine", question)
	b.WaitText("#said .said:not(.mine)", question)
	b.WaitUntil("watched.speaking > 0.1") // the answer is heard
	b.WaitText("#device", l.in("浏览器", "browser"))
	l.right(t, b)
	h.isBoard(b, l)
	h.holdsButton(b, question)
	h.isRemoved(b, l)
}

// newService starts a service that hears always the same, and whose model says what it is asked.
func newService(t testing.TB, heard string) string {
	t.Helper()
	model, err := chat.Start()
	must(t, err)
	t.Cleanup(model.Close)
	model.Key = speech.Key
	model.Answer = func(r *chat.Request) chat.Reply {
		text := ""
		for _, p := range r.Chat.Last().Parts() {
			kind, _, _ := strings.Cut(strings.TrimPrefix(p.ImageURL.URL, "data:"), ";")
			text += p.Text + kind
		}
		return chat.Reply{Steps: chat.Words(text, 0)}
	}
	service := speech.New(t)
	service.Transcript, service.Other = func([]int16) string { return heard }, model
	return service.URL
}

// setsUpVoice sets up a service from its key, after a wrong one, and tries what that made.
func setsUpVoice(t testing.TB, b *browsertest.Browser, l look, service string) {
	t.Helper()
	b.WaitVisible("#setup")
	l.right(t, b)
	b.AllowProblem("/settings/voice/setup") // the refusal
	for _, c := range []struct{ key, want string }{{"sk-wrong", l.in("密钥", "refused its key")},
		{speech.Key, l.in("回答", "answers")}} {
		b.Fill("[name=service]", "other")
		b.Script("document.querySelectorAll('#setup details').forEach(d => d.open = true)")
		b.Fill("[name=url]", service)
		b.Fill("[name=model]", "parrot")
		b.Type("[name=key]", c.key)
		b.Press("\r")
		b.WaitText(".note.bad, #set", c.want)
		l.right(t, b)
	}
	b.Click("ol a[href='/settings/voice/engines/1']")
	b.WaitVisible("#hear")
	l.right(t, b)
	b.Click("form[action$='/say#try'] button")
	b.WaitVisible("#said")
	b.WaitUntil("document.getElementById('said').duration > 0.5")
	b.WaitVisible("#record")
	b.Click("#record")
	b.WaitText("#record", l.in("结束录音", "End the recording"))
	b.Click("#record")
	b.WaitVisible("#heard")
	l.right(t, b)
	b.Open("/settings/voice")
	b.WaitUntil("document.querySelector('details.card').open === false") // it is set up
	l.right(t, b)
	b.Open("/talk")
}

// maxTalk limits what the page costs the first time, in bytes.
const maxTalk = 60 << 10

// The page loads fast on a phone, with all its scripts.
func TestTalkIsSmall(t *testing.T) {
	b := newServerWithAda(t).adaBrowser(phone)
	b.Open("/talk")
	b.WaitUntil("document.getElementById('start')?.disabled === false")
	if n := b.BytesReceived(); n == 0 || n > maxTalk {
		t.Errorf("the first load is %d bytes", n)
	}
}

// watchLevel records how loud it was in each state of the board, and when somebody began to speak,
// which is when it was loud after a second of silence.
const watchLevel = `window.watched = {}; setInterval(() => {
  const state = document.getElementById("board").dataset.state, level = document.getElementById("level").value;
  const now = performance.now();
  watched[state] = Math.max(watched[state] ?? 0, level);
  if (level > 0.2 && watched.silent) watched.at ??= now;
  if (level > 0.05) watched.loud = now;
  watched.silent ||= now - watched.loud > 1000;
}, 20)`

// microphone writes a file with speech and a long silence, which Chromium plays again and again as
// what its microphone hears.
func microphone(t testing.TB) string {
	t.Helper()
	const rate = 48000
	d, err := opus.NewDecoder(rate)
	must(t, err)
	sound, packet := make([]int16, rate/2), make([]int16, d.Samples(opus.MaxDuration))
	for _, p := range xiaozhi.GoodMorning() {
		n, err := d.Decode(p, packet)
		must(t, err)
		sound = append(sound, packet[:n]...)
	}
	var file bytes.Buffer
	must(t, pcm.WriteWAV(&file, rate, append(sound, make([]int16, 8*rate)...)))
	name := filepath.Join(t.TempDir(), "microphone.wav")
	must(t, os.WriteFile(name, file.Bytes(), 0o600))
	return name
}

// isBoard calls the tools of the browser, as those of every board, and interrupts it.
func (h *testServer) isBoard(b *browsertest.Browser, l look) {
	h.t.Helper()
	h.run("device", "call", "1", "self.audio_speaker.set_volume", "volume=30")
	b.WaitUntil("document.getElementById('volume').value === '30'")
	if status := h.run("device", "call", "1", "self.get_device_status"); !strings.Contains(status, `"volume":30`) {
		h.t.Errorf("the browser says: %s", status)
	}
	b.Click("#camera")
	b.WaitUntil("document.getElementById('camera-view').videoWidth > 0")
	if seen := h.run("device", "call", "1", "self.camera.take_photo", "question=what?"); !strings.Contains(seen,
		"image/jpeg") {
		h.t.Errorf("of the photo, the bot says: %s", seen)
	}
	h.run("device", "call", "1", "emotion", "emotion=happy")
	b.WaitText("#face", "🙂")
	h.run("device", "call", "1", "show", "text="+l.in("汤好了", "The soup is ready"))
	b.WaitText("#said", l.in("汤好了", "The soup is ready"))
	// A long answer, which the button stops.
	b.WaitUntil("document.getElementById('board').dataset.state === 'listening'")
	b.Fill("#text", strings.Repeat(l.in("这是一个很长的问题，", "This is quite a long question, "), 12))
	b.Click("#ask")
	b.Script("window.asked = performance.now()")
	b.Click("#interrupt")
	b.WaitUntil("document.getElementById('board').dataset.state !== 'speaking'")
	b.Click("#start")
	b.WaitUntil("document.getElementById('board').dataset.state === 'idle'")
}

// holdsButton talks while the button is held, by keyboard.
func (h *testServer) holdsButton(b *browsertest.Browser, question string) {
	h.t.Helper()
	b.Fill("#mode", "manual")
	b.Script("document.getElementById('said').replaceChildren()")
	b.Click("#start")
	b.WaitVisible("#hold")
	b.Script(`document.getElementById("hold").dispatchEvent(new KeyboardEvent("keydown", {key: " "}))`)
	b.WaitUntil("document.getElementById('board').dataset.state === 'listening'")
	b.Script("watched.at = undefined; watched.silent = false; watched.loud = performance.now()")
	b.WaitUntil("performance.now() - watched.at > 2000") // somebody has spoken
	b.Script(`document.getElementById("hold").dispatchEvent(new KeyboardEvent("keyup", {key: " "}))`)
	b.WaitText("#said .mine", question)
	b.WaitText("#said .said:not(.mine)", question)
	b.WaitUntil("document.getElementById('board').dataset.state === 'waiting'") // for the button
}

// isRemoved removes the device, which ends the conversation, and the browser is another board then.
func (h *testServer) isRemoved(b *browsertest.Browser, l look) {
	h.t.Helper()
	before := browsertest.Evaluate[string](b, "JSON.stringify(localStorage)")
	h.run("device", "rm", "1", "--yes")
	b.WaitUntil("document.getElementById('board').dataset.state === 'idle'")
	b.Open("/talk")
	b.WaitText("#wrong", l.in("移除", "removed"))
	l.right(h.t, b)
	b.Click("#start")
	b.WaitUntil("document.getElementById('board').dataset.state === 'listening'")
	if after := browsertest.Evaluate[string](b, "JSON.stringify(localStorage)"); after == before {
		h.t.Error("the browser is the board again that was removed")
	}
}
