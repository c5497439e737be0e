package hub

import (
	"encoding/json"

	"patchbay/internal/i18n"
	"patchbay/internal/settings"
	"patchbay/internal/store"
)

// KindText is what the console says about a kind of bot.
type KindText struct {
	Name     i18n.Message
	About    i18n.Message                  // what bots of the kind do
	Needs    i18n.Message                  // what one needs to add a bot
	Settings map[string]settings.FieldText // the kind's own settings, by name
}

// Setting describes a setting of a kind of bot.
type Setting struct {
	Name     string        `json:"name"`
	Form     settings.Form `json:"form"`
	Secret   bool          `json:"secret,omitempty"`   // not shown again
	Required bool          `json:"required,omitempty"` // a bot needs it
	Shared   bool          `json:"shared,omitempty"`   // bots of every kind have it
	// Text is the text that the kind brings; empty for shared settings.
	Text settings.FieldText `json:"-"`
}

// Describe lists the settings of a kind of bot: its own, and then those of all kinds.
func (r *Registry) Describe(kind string) ([]Setting, error) {
	k, err := r.Kind(kind)
	if err != nil {
		return nil, err
	}
	var list []Setting
	if k.Settings != nil {
		list = describedSettings(list, k.Settings, k.Text.Settings, false)
	}
	for _, make := range r.shared {
		list = describedSettings(list, make, nil, true)
	}
	return list, nil
}

// IsInbound reports whether the peer of a kind of bot initiates the connection, with a token.
func (r *Registry) IsInbound(kind string) bool {
	k, err := r.Kind(kind)
	return err == nil && k.Inbound
}

// Model returns the name of the model that answers for a bot; empty if it is not known here.
func (r *Registry) Model(b store.Bot) string {
	k, err := r.Kind(b.Kind)
	if err != nil || k.Model == nil {
		return ""
	}
	settings := k.Settings()
	if r.Settings(b, settings) != nil {
		return ""
	}
	return k.Model(settings)
}

// Sees reports whether a bot is given pictures. One whose settings cannot be read counts as if it
// were: what is wrong with it is said elsewhere.
func (r *Registry) Sees(b store.Bot) bool {
	k, err := r.Kind(b.Kind)
	if err != nil || k.Sees == nil {
		return true
	}
	settings := k.Settings()
	return r.Settings(b, settings) != nil || k.Sees(settings)
}

// DescribeSettings lists the settings of a struct, as [Kind].Settings makes it.
func DescribeSettings(make func() any, texts map[string]settings.FieldText) []Setting {
	return describedSettings(nil, make, texts, false)
}

func describedSettings(list []Setting, make func() any, texts map[string]settings.FieldText, shared bool) []Setting {
	for _, f := range (settings.Schema{make}).Fields() {
		list = append(list, Setting{Name: f.Name, Form: f.Form(), Secret: f.Secret, Required: f.Required,
			Shared: shared, Text: texts[f.Name]})
	}
	return list
}

// SettingsText returns a bot's settings as texts, in the form that [Registry.Change] accepts.
// Secrets are empty.
func (r *Registry) SettingsText(b store.Bot) (map[string]string, error) {
	k, err := r.Kind(b.Kind)
	if err != nil {
		return nil, err
	}
	values := settings.Values{}
	if err := json.Unmarshal(b.Settings, &values); err != nil {
		return nil, err
	}
	if err := r.schema(k).Mask(values, ""); err != nil {
		return nil, err
	}
	texts := make(map[string]string, len(values))
	for name, value := range values {
		texts[name] = settings.Text(value)
	}
	return texts, nil
}
