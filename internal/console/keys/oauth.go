package keys

import (
	"net/http"
	"strings"

	"patchbay/internal/console/page"
	"patchbay/internal/control"
)

// programForm holds the submitted form for a program, and its errors.
type programForm struct {
	Name, Redirects string // one per line
	Secret          bool
	Wrong           string
}

func programList(v *page.Visit) { showPrograms(v, http.StatusOK, programForm{}, nil) }

// showPrograms shows the programs that administrators added, and the one that was just added.
func showPrograms(v *page.Visit, status int, f programForm, added *control.AddedOAuthClient) {
	list, err := v.Instance.Control.OAuthClients(v.Context(), v.Operator(), struct{}{})
	if err != nil {
		v.Fail(err)
		return
	}
	v.Render(status, programsPage(v, list.Clients, f, added))
}

func addProgram(v *page.Visit) {
	f := programForm{Name: strings.TrimSpace(v.FormValue("name")), Redirects: v.FormValue("redirects"),
		Secret: v.FormValue("secret") != ""}
	added, err := v.Instance.Control.AddOAuthClient(v.Context(), v.Operator(),
		control.NewOAuthClient{Name: f.Name, Redirects: strings.Fields(f.Redirects), Secret: f.Secret})
	if err != nil {
		text, status := v.Wrong(err)
		f.Wrong = text
		showPrograms(v, status, f, nil)
		return
	}
	showPrograms(v, http.StatusOK, programForm{}, &added)
}

func removeProgram(v *page.Visit) {
	if _, err := v.Instance.Control.RemoveOAuthClient(v.Context(), v.Operator(),
		control.OAuthClientRef{Client: v.PathValue("client")}); err != nil {
		v.Fail(err)
		return
	}
	v.Redirect("/keys/programs")
}
