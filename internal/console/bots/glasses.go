package bots

import (
	"net/http"

	"patchbay/internal/board"
	"patchbay/internal/console/page"
	"patchbay/internal/control"
	"patchbay/internal/store"
)

// worn is what there is about glasses and a bot.
type worn struct {
	Bot     control.BotStatus
	Wearers []store.Binding
	Shared  bool // more than one wearer
	// Open says that strangers may ask through the older MCP, Device that only one may.
	Open   bool
	Device string
	// Older says that there is the older MCP for the bot.
	Older bool
}

// glassesPage shows what the platform of the glasses is told, and who is bound.
func glassesPage(v *page.Visit) {
	b, ok := find(v)
	if !ok {
		return
	}
	wearers, err := v.House.Control.Wearers(v.Context(), v.Caller(), ref(v))
	if err != nil {
		v.Fail(err)
		return
	}
	list, set, err := v.House.Control.BotSettings(v.Context(), v.Caller(), ref(v))
	if err != nil {
		v.Fail(err)
		return
	}
	v.Show(http.StatusOK, wornPage(v, worn{
		Bot: b, Wearers: wearers.Wearers, Shared: set["shared"] == "true",
		Open: set["mcp_open"] == "true", Device: set["rokid_device_id"], Older: has(list, "mcp_open"),
	}))
}

func has(list []board.Setting, name string) bool {
	for _, s := range list {
		if s.Name == name {
			return true
		}
	}
	return false
}

// unbind unbinds a wearer.
func unbind(v *page.Visit) {
	b, ok := find(v)
	if !ok {
		return
	}
	_, err := v.House.Control.Unbind(v.Context(), v.Caller(), control.WearerRef{
		Bot: v.PathValue("bot"), User: v.FormValue("user"), Publisher: v.FormValue("publisher"),
	})
	if err != nil {
		v.Fail(err)
		return
	}
	v.To(at(b, "glasses") + "?done=unbound")
}

// keyForm is what was typed to make a key, and what is wrong with it.
type keyForm struct {
	Name  string
	Only  bool
	Wrong string
}

// keyPage asks what key for the platform is wanted.
func keyPage(v *page.Visit) {
	if b, ok := find(v); ok {
		v.Show(http.StatusOK, askKey(v, b, keyForm{Name: "lingzhu"}))
	}
}

// makeKey makes a key for the platform, and shows it.
func makeKey(v *page.Visit) {
	b, ok := find(v)
	if !ok {
		return
	}
	f := keyForm{Name: v.FormValue("name"), Only: v.FormValue("who") == "only"}
	k, err := v.House.Control.AddGlassesKey(v.Context(), v.Caller(), control.NewGlassesKey{Bot: v.PathValue("bot"), Name: f.Name, Only: f.Only})
	if err != nil {
		wrong(v, err, func(status int, text string) {
			f.Wrong = text
			v.Show(status, askKey(v, b, f))
		})
		return
	}
	v.Show(http.StatusOK, madeKey(v, b, k))
}
