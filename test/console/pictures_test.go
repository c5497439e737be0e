package console

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"patchbay/internal/console/browsertest"
)

var update = flag.Bool("update", false, "take the pictures of the manual anew")

// largestPicture limits a picture of the manual, in bytes.
const largestPicture = 150 << 10

// The pictures of the manual exist and are small. With -update they are taken again.
func TestPictures(t *testing.T) {
	folder := filepath.Join("..", "..", "docs", "img")
	if *update {
		takePictures(t, folder)
	}
	for _, name := range []string{"home", "chat", "device", "review", "talk"} {
		info, err := os.Stat(filepath.Join(folder, "console-"+name+".png"))
		if err != nil {
			t.Error(err)
		} else if info.Size() > largestPicture {
			t.Errorf("%s has %d KiB", info.Name(), info.Size()>>10)
		}
	}
}

func takePictures(t *testing.T, folder string) {
	h := furnished(t)
	shot := func(b *browsertest.Browser, name string) {
		b.Script("document.activeElement?.blur(); " + settled)
		b.SaveScreenshot(filepath.Join(folder, "console-"+name+".png"))
	}
	b := h.adaBrowser(look{390, "en", true})
	b.Open("/")
	b.WaitVisible("#overview, h1")
	shot(b, "home")

	b.SetWidth(laptop.width)
	b.SetDark(false)
	b.Open("/bots/1/chat")
	b.WaitVisible("#text")
	b.Type("#text", "What can I cook with potatoes and a leek?")
	b.Press("\r")
	b.WaitText("#talk .said:not(.mine)", "leek")
	b.WaitUntil("!document.querySelector('#talk [aria-busy]')")
	shot(b, "chat")

	b.SetDark(true)
	b.Open("/devices/1")
	b.WaitVisible("#volume")
	shot(b, "device")

	b.SetWidth(phone.width)
	b.SetDark(false)
	b.Open("/learn/review")
	b.WaitVisible(".review textarea")
	b.Type(".review textarea", "The Nile, I think")
	b.Press("\r")
	b.WaitVisible(".answer")
	shot(b, "review")
	talker := browsertest.Chromium{Microphone: microphone(t)}
	defer talker.Stop()
	h.takeTalk(t, &talker, func(b *browsertest.Browser) { shot(b, "talk") })
}

// takeTalk asks a question on the page on which the browser is a board.
func (h *testServer) takeTalk(t *testing.T, in *browsertest.Chromium, shot func(*browsertest.Browser)) {
	b := in.Window(t, h.url)
	b.Cookie("patchbay-lang", "en")
	b.Cookie("patchbay", h.token(ada, adaPassword))
	b.Open("/talk")
	b.Fill("#mode", "manual")
	b.Click("#start")
	b.WaitVisible("#hold")
	b.Type("#text", "What can I cook with potatoes and a leek?")
	b.Click("#ask")
	b.WaitText("#said .said:not(.mine)", "cream in the end")
	b.WaitUntil("document.getElementById('board').dataset.state === 'waiting'")
	b.Script("scrollTo(0, 0)")
	shot(b)
}
