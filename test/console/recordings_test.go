package console

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"patchbay/internal/console/browsertest"
	xiaozhi "patchbay/internal/plug/xiaozhi/sim"
	speech "patchbay/internal/voice/engines/openai/openaitest"
	"patchbay/internal/voice/pcm"
)

// The owner of a board has it play music, which she pauses, and has a conversation recorded, which
// she listens to, looks for and deletes.
func TestMusicAndRecordings(t *testing.T) {
	t.Parallel()
	const said = "Good morning"
	h := newServerWithAda(t)
	h.feed(speech.Key, "voice", "setup", "--url", newService(t, said), "--key-stdin")
	board := h.board("Kitchen", h.bot("Parrot", "echo"))
	b := h.adaBrowser(phone)
	h.hasMusic(b, board)
	h.isRecorded(b, board, said)
	for _, v := range board.Report().Violations {
		t.Errorf("the board: %v", v)
	}
}

// hasMusic plays a file as music, pauses it, lets it go on and ends it.
func (h *testServer) hasMusic(b *browsertest.Browser, board *xiaozhi.Board) {
	h.t.Helper()
	var file bytes.Buffer
	must(h.t, pcm.WriteWAV(&file, 16000, slices.Repeat([]int16{9000, -9000}, 8000*60))) // a minute
	name := filepath.Join(h.t.TempDir(), "music.wav")
	must(h.t, os.WriteFile(name, file.Bytes(), 0o600))
	must(h.t, board.Wake(h.limit()))
	b.Open("/devices/1")
	b.WaitVisible(form("/play"))
	phone.right(h.t, b)
	b.Upload(form("/play")+" [name=file]", name)
	b.Click(form("/play") + " [name=music]")
	b.Click(form("/play") + " .row button")
	b.WaitText(resultSelector("/play"), "It plays when nobody speaks.")
	for _, c := range []struct {
		action string
		state  xiaozhi.State
	}{{"", xiaozhi.Speaking}, {"pause", xiaozhi.Listening}, {"resume", xiaozhi.Speaking}, {"stop", xiaozhi.Listening}} {
		if c.action != "" {
			b.Fill(form("/tools/control_music")+" [name='arg.action']", fmt.Sprintf("%q", c.action))
			b.Click(form("/tools/control_music") + " button")
		}
		if v, err := board.Await(h.limit(), func(v xiaozhi.View) bool { return v.State == c.state }); err != nil {
			h.t.Fatalf("after %q the board is %s: %v", c.action, v.State, err)
		}
	}
	b.WaitVisible(resultSelector("/tools/control_music"))
	phone.right(h.t, b)
	must(h.t, board.Lose(xiaozhi.Dropped))
}

// isRecorded turns recording on, has somebody talk with the board, and listens to that.
func (h *testServer) isRecorded(b *browsertest.Browser, board *xiaozhi.Board, said string) {
	h.t.Helper()
	b.Open("/devices/1/recordings")
	b.Click("main a.button[href='/devices/1/voice#set-record']")
	b.WaitVisible("#set-record")
	b.Fill("#set-record", "30")
	b.Press("\r")
	b.WaitUntil("location.search !== '' || document.querySelector('.note')")
	a, err := board.Ask(h.limit(), xiaozhi.GoodMorning())
	if err != nil || a.Transcript != said || !slices.Contains(a.Sentences, said) {
		h.t.Fatalf("the board hears %+v, %v", a, err)
	}
	var list struct{ Recordings []struct{ Turn string } }
	h.await("the recording is stored", func() bool {
		h.json(&list, "device", "recordings", "Kitchen")
		return len(list.Recordings) > 0
	})
	b.Open("/devices/1/recordings")
	b.WaitText("main", said)
	if n := browsertest.Evaluate[int](b, "document.querySelectorAll('audio').length"); n != 2 {
		h.t.Errorf("the page has %d players", n)
	}
	b.Press("\t") // browsers play sound only for whoever has used the page
	h.audible(b, "audio[src$='/sound/question']")
	h.audible(b, "audio[src$='/sound/answer']")
	phone.right(h.t, b)
	b.Fill("#text", "good night")
	b.Click("form.search button")
	b.WaitUntil("location.search.includes('night') && !document.querySelector('audio')")
	b.Open("/devices/1/recordings")
	b.AcceptDialogs()
	b.Click("form[action$='/recordings/delete'] button")
	b.WaitUntil("location.search === '?removed' && !document.querySelector('audio')")
	phone.right(h.t, b)
}
