package console

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"patchbay/internal/console/browsertest"
	"patchbay/internal/plug/learn/sim"
)

var update = flag.Bool("update", false, "take the pictures of the manual anew")

// largestPicture limits a picture of the manual, in bytes.
const largestPicture = 150 << 10

// The pictures of the manual exist and are small. With -update they are taken again.
func TestPictures(t *testing.T) {
	folder := filepath.Join("..", "..", "docs", "img")
	if *update {
		takePictures(t, folder)
		takeLearnPictures(t, folder)
	}
	for _, name := range []string{"home", "chat", "device", "review", "talk", "today", "cloze", "phone", "points",
		"fit", "stats"} {
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
		file := filepath.Join(folder, "console-"+name+".png")
		b.SaveScreenshot(file)
		reduceColors(t, file)
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

// takeLearnPictures shows the deck of a simulated learner.
func takeLearnPictures(t *testing.T, folder string) {
	h := newServerWithAda(t)
	file, err := os.Create(filepath.Join(t.TempDir(), "demo.apkg"))
	must(t, err)
	defer file.Close()
	c, err := sim.Write(file, sim.Options{Lang: "en", Now: time.Now(), Zone: time.UTC, DayStart: 4 * time.Hour})
	must(t, err)
	h.run("learn", "import", file.Name(), "--user", ada)
	shot := func(b *browsertest.Browser, name string) {
		b.Script("document.activeElement?.blur(); " + settled)
		file := filepath.Join(folder, "console-"+name+".png")
		b.SaveScreenshot(file)
		reduceColors(t, file)
	}
	b := h.adaBrowser(look{390, "en", false})
	b.Open("/learn")
	b.WaitVisible("h1")
	shot(b, "today")
	b.Open("/learn/review?deck=" + c.Poem)
	b.WaitVisible(".review textarea")
	b.Press("\r")
	b.WaitVisible(".answer")
	shot(b, "cloze")
	h.run("learn", "bulk", "--user", ada, "--suspend", "--", "-tag:flags")
	b.SetDark(true)
	b.Open("/learn/offline")
	b.WaitVisible("#pocket iframe")
	shot(b, "phone")
	h.run("learn", "bulk", "--undo", "--user", ada)
	b.SetDark(false)
	b.SetWidth(laptop.width)
	b.Open("/learn/points?q=tag:flags")
	b.WaitVisible("h1")
	shot(b, "points")
	b.Open("/learn/fit")
	b.Click("form[action='/learn/fit'] button.main")
	b.WaitVisible("#fitted table")
	b.Click("form[action='/learn/simulation'] button")
	b.WaitVisible("#cost svg")
	b.Script("document.querySelector('#cost').scrollIntoView({ block: 'end', behavior: 'instant' })")
	shot(b, "fit")
	b.Open("/learn/stats")
	b.WaitVisible("svg")
	shot(b, "stats")
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
