package find_test

import (
	"testing"

	"patchbay/internal/account"
	"patchbay/internal/console/browsertest"
	"patchbay/internal/console/consoletest"
	"patchbay/internal/console/find"
	"patchbay/internal/console/page"
)

// holdAnswers makes the page's searches wait until the test lets them go on: each is in
// window.held, with its query, whether it was aborted, and go(), which returns no promise: a script
// that waited for it would be cut off where its answer leads to another page.
const holdAnswers = `{
	const real = window.fetch;
	window.held = [];
	window.fetch = (address, o) => new Promise((resolve, reject) => {
		const one = {q: new URL(address, location).searchParams.get("q"), aborted: false,
			go: () => { real(address, o).then(resolve, reject); }, fail: () => reject(new TypeError("no network"))};
		o.signal.addEventListener("abort", () => { one.aborted = true; reject(o.signal.reason); });
		window.held.push(one);
	});
}`

// openPalette returns a window in which ada is signed in, with an open palette.
func openPalette(t *testing.T) (*consoletest.Rig, *browsertest.Browser) {
	t.Helper()
	browsertest.Path(t)
	here := func(path string) page.Route {
		return page.Route{Pattern: "GET " + path, Access: page.Anybody, Serve: func(v *page.Visit) {
			v.W.Header().Set("Content-Type", "text/html")
			v.W.Write([]byte("<link rel=\"icon\" href=\"data:,\">")) //nolint:errcheck // the browser waits for it
		}}
	}
	r := consoletest.New(t, consoletest.Options{}, func(*consoletest.Rig) []page.Route {
		return append(find.Routes(), here("/activity"), here("/devices"), here("/signin"))
	})
	token, err := r.Accounts.Admit(t.Context(), r.Person, account.Browser{Agent: "test"})
	if err != nil {
		t.Fatal(err)
	}
	b := browsertest.New(t, r.URL)
	b.Cookie("patchbay", token)
	b.Cookie("patchbay-lang", "en")
	showPalette(b)
	return r, b
}

// showPalette opens the palette on a new page.
func showPalette(b *browsertest.Browser) {
	b.Open("/find")
	b.Script(`document.dispatchEvent(new KeyboardEvent("keydown", {key: "k", ctrlKey: true, bubbles: true}))`)
	b.WaitVisible("#palette [role=option][aria-selected=true]")
}

// Enter opens what the newest query finds, even if it is pressed before the answer is there, or
// before it was asked; the search before is given up.
func TestPaletteWaitsForTheNewest(t *testing.T) {
	_, b := openPalette(t)
	b.Script(holdAnswers)
	b.Press("activ")
	b.WaitUntil("held.length === 1")
	b.Press("\r")
	b.Script("held[0].go()")
	b.WaitUntil("location.pathname === '/activity'")

	showPalette(b)
	b.Press("activ")
	b.WaitUntil(`document.querySelector("#palette [aria-selected=true]")?.dataset.href === "/activity"`)
	b.Script(holdAnswers)
	b.Script(`document.querySelector("#palette input").select()`)
	b.Press("devi\r") // all within the pause after which it is asked
	b.WaitUntil("held.at(-1)?.q === 'devi'")
	b.Press("c\r")
	b.WaitUntil("held.at(-2)?.aborted && held.at(-1).q === 'devic'")
	b.Script("held.at(-1).go()")
	b.WaitUntil("location.pathname === '/devices'")
}

// Escape after Enter takes it back.
func TestPaletteIsClosedWhileItWaits(t *testing.T) {
	_, b := openPalette(t)
	b.Script(holdAnswers)
	b.Press("activ\r")
	b.WaitUntil("held.at(-1)?.q === 'activ'")
	b.Script(`document.querySelector("#palette").close()`)
	b.WaitUntil("held.at(-1).aborted && location.pathname === '/find'")
}

// A failed search is told in words and can be repeated; without a session the browser goes to sign
// in.
func TestPaletteFails(t *testing.T) {
	r, b := openPalette(t)
	b.Script(holdAnswers)
	b.Press("activ")
	b.WaitUntil("held.length === 1")
	b.Script("held[0].fail()")
	b.WaitText("#palette [role=status]", "The search failed. Press Enter to repeat it.")
	if n := browsertest.Evaluate[int](b, `document.querySelectorAll("#palette li").length`); n != 0 {
		t.Errorf("%d old hits are listed", n)
	}
	b.Press("\r")
	b.WaitUntil("held.length === 2")
	if err := r.Accounts.SignOutOthers(t.Context(), r.Person.ID, ""); err != nil {
		t.Fatal(err)
	}
	b.Script("held[1].go()")
	b.WaitUntil("location.pathname === '/signin'")
	if at := b.Path(); at != "/signin?next=%2Ffind" {
		t.Error(at)
	}
}
