package page_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/a-h/templ"

	"patchbay/internal/account"
	"patchbay/internal/console/browsertest"
	"patchbay/internal/console/consoletest"
	"patchbay/internal/console/page"
)

// A live page gets its parts replaced, and so does a page with an answer that arrives in pieces; a
// form that is refused shows why.
func TestLiveInABrowser(t *testing.T) {
	news := make(chan string, 1)
	news <- "<news>"
	r := consoletest.New(t, consoletest.Options{}, func(*consoletest.Rig) []page.Route {
		return []page.Route{
			{Pattern: "GET /{$}", Serve: func(v *page.Visit) { v.Render(http.StatusOK, livePage(v)) }},
			{Pattern: "GET /live", Serve: func(v *page.Visit) {
				v.Live(func(ctx context.Context, send page.Send) error {
					for {
						select {
						case <-ctx.Done():
							return nil
						case text := <-news:
							if err := send(said("#news", "innerHTML", text)); err != nil {
								return err
							}
						}
					}
				})
			}},
			{Pattern: "POST /talk", Serve: func(v *page.Visit) {
				v.Live(func(_ context.Context, send page.Send) error {
					for _, piece := range strings.SplitAfter(v.FormValue("text"), " ") {
						if err := send(said("#talk", "beforeend", piece)); err != nil {
							return err
						}
					}
					return nil
				})
			}},
			{Pattern: "POST /wrong", Serve: func(v *page.Visit) { v.NotFound() }},
			{Pattern: "POST /away", Serve: func(v *page.Visit) { v.Redirect("/?there") }},
		}
	})
	token, err := r.Accounts.Admit(t.Context(), r.Person, account.Browser{})
	if err != nil {
		t.Fatal(err)
	}
	b := browsertest.New(t, r.URL)
	b.AllowProblem("404 (Not Found)")
	b.Cookie("patchbay", token)
	b.Open("/")
	b.WaitText("#news", "<news>")
	b.Type("#text", "one two three\r")
	b.WaitUntil("document.querySelectorAll(\"#talk p\").length == 3")
	b.Click("#wrong")
	b.WaitText(".note.bad", "有误")
	b.Click("#away")
	b.WaitVisible("#there")
	if b.Path() != "/?there" {
		t.Errorf("at %s", b.Path())
	}
}

func livePage(v *page.Visit) templ.Component {
	body := `<div id="news"></div><div id="talk"></div>
<form hx-post="/talk" hx-target="#talk" hx-swap="beforeend"><input id="text" name="text"></form>
<form hx-post="/wrong" hx-target="#trouble"><button id="wrong">x</button></form><div id="trouble"></div>
<form hx-post="/away"><button id="away">x</button></form>`
	if v.URL.RawQuery == "there" {
		body += `<p id="there">there</p>`
	}
	return within(page.Layout(v, "test"), join(templ.Raw(body), page.LiveUpdates("/live")))
}

func said(target, swap, text string) templ.Component {
	return within(page.Patch(target, swap), templ.Raw("<p>"+templ.EscapeString(text)+"</p>"))
}

func join(parts ...templ.Component) templ.Component { return templ.Join(parts...) }

// within renders inside as the children of around.
func within(around, inside templ.Component) templ.Component {
	return templ.ComponentFunc(func(ctx context.Context, w io.Writer) error {
		return around.Render(templ.WithChildren(ctx, inside), w)
	})
}
