package console

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"patchbay/internal/console/browsertest"
)

var update = flag.Bool("update", false, "take the pictures of the manual anew")

// largestPicture bounds a picture of the manual, in bytes.
const largestPicture = 150 << 10

// The pictures of the manual are there, and small. With -update they are taken anew.
func TestPictures(t *testing.T) {
	folder := filepath.Join("..", "..", "docs", "img")
	if *update {
		takePictures(t, folder)
	}
	for _, name := range []string{"home", "chat", "device", "review"} {
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
		b.Shot(filepath.Join(folder, "console-"+name+".png"))
	}
	b := h.hers(look{390, "en", true})
	b.Open("/")
	b.See("#glance, h1")
	shot(b, "home")

	b.Width(laptop.width)
	b.Dark(false)
	b.Open("/bots/1/chat")
	b.See("#text")
	b.Type("#text", "What can I cook with potatoes and a leek?")
	b.Press("\r")
	b.Reads("#talk .said:not(.mine)", "leek")
	b.Until("!document.querySelector('#talk [aria-busy]')")
	shot(b, "chat")

	b.Dark(true)
	b.Open("/devices/1")
	b.See("#volume")
	shot(b, "device")

	b.Width(phone.width)
	b.Dark(false)
	b.Open("/learn/review")
	b.See(".review textarea")
	b.Type(".review textarea", "The Nile, I think")
	b.Press("\r")
	b.See(".answer")
	shot(b, "review")
}
