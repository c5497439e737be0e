package console

import "testing"

// Everything is found from everywhere by the keyboard, and on a phone through the menu.
func TestPalette(t *testing.T) { everyLook(t, palette) }

func palette(t *testing.T, l look) {
	h := l.server(t)
	b := h.adaBrowser(l)
	b.Open("/keys")
	b.WaitVisible("h1")
	if l.width == phone.width {
		b.Click(".menu .opener")
		b.WaitVisible("#more-menu a[href='/find']")
		b.Click("#more-menu a[href='/find']")
	} else {
		b.Script(`document.dispatchEvent(new KeyboardEvent("keydown", {key: "k", ctrlKey: true, bubbles: true}))`)
	}
	b.WaitVisible("#palette [role=option][aria-selected=true]")
	b.WaitUntil("document.activeElement.getAttribute('role') === 'combobox'")
	l.right(t, b)
	b.Press(l.in("记录", "activ"))
	b.WaitUntil(`document.querySelector("#palette [aria-selected=true]")?.dataset.href === "/activity"`)
	b.WaitUntil(`document.getElementById(document.activeElement.getAttribute("aria-activedescendant"))?.dataset.href === "/activity"`)
	b.Press("\r")
	b.WaitUntil("location.pathname === '/activity'")
}
