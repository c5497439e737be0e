package bots

import (
	"net/http"

	"patchbay/internal/console/page"
	"patchbay/internal/control"
	"patchbay/internal/hub"
)

// wearersView is the data of the page about glasses.
type wearersView struct {
	Bot     control.BotStatus
	Wearers []control.Wearer
	Shared  bool // more than one wearer is allowed
	// Open means that strangers may ask through the older MCP endpoint, Device that only one device
	// may.
	Open   bool
	Device string
	// Older means that the bot has the older MCP endpoint.
	Older bool
}

// glassesPage shows the values for the glasses platform, and the bound users.
func glassesPage(v *page.Visit) {
	b, ok := find(v)
	if !ok {
		return
	}
	wearers, err := v.Instance.Control.Wearers(v.Context(), v.Caller(), ref(v))
	if err != nil {
		v.Fail(err)
		return
	}
	list, set, err := v.Instance.Control.BotSettings(v.Context(), v.Caller(), ref(v))
	if err != nil {
		v.Fail(err)
		return
	}
	v.Render(http.StatusOK, wearersPage(v, wearersView{
		Bot: b, Wearers: wearers.Wearers, Shared: set["shared"] == "true",
		Open: set["mcp_open"] == "true", Device: set["rokid_device_id"], Older: hasSetting(list, "mcp_open"),
	}))
}

func hasSetting(list []hub.Setting, name string) bool {
	for _, s := range list {
		if s.Name == name {
			return true
		}
	}
	return false
}

// unbind removes the binding of a user.
func unbind(v *page.Visit) {
	b, ok := find(v)
	if !ok {
		return
	}
	_, err := v.Instance.Control.Unbind(v.Context(), v.Caller(), control.WearerRef{
		Bot: v.PathValue("bot"), User: v.FormValue("user"), Publisher: v.FormValue("publisher"),
	})
	if err != nil {
		v.Fail(err)
		return
	}
	v.Redirect(botPath(b, "glasses") + "?done=unbound")
}

// keyForm holds the submitted form for a new key, and its error.
type keyForm struct {
	Name  string
	Only  bool
	Wrong string
}

// keyPage shows the form for a key of the platform.
func keyPage(v *page.Visit) {
	if b, ok := find(v); ok {
		v.Render(http.StatusOK, newKeyForm(v, b, keyForm{Name: "lingzhu"}))
	}
}

// makeKey creates a key for the platform and shows it.
func makeKey(v *page.Visit) {
	b, ok := find(v)
	if !ok {
		return
	}
	f := keyForm{Name: v.FormValue("name"), Only: v.FormValue("who") == "only"}
	k, err := v.Instance.Control.AddGlassesKey(v.Context(), v.Caller(),
		control.NewGlassesKey{Bot: v.PathValue("bot"), Name: f.Name, Only: f.Only})
	if err != nil {
		wrong(v, err, func(status int, text string) {
			f.Wrong = text
			v.Render(status, newKeyForm(v, b, f))
		})
		return
	}
	v.Render(http.StatusOK, createdKey(v, b, k))
}
