// Package roles has characters to start a bot from: who it is, how it greets, and how it speaks.
// They are written for speech, and in each language for itself, not translated. Whoever adds a bot
// by a role gets its texts as ordinary settings, to be changed at will.
package roles

import (
	"embed"
	"slices"
	"strconv"
	"sync"

	"go.yaml.in/yaml/v3"

	"patchbay/internal/i18n"
)

// Role is a character in one language.
type Role struct {
	ID    string    `json:"id"` // the same in all languages
	Lang  i18n.Lang `json:"lang"`
	Name  string    `json:"name"`  // of the bot
	About string    `json:"about"` // for whoever chooses
	// Prompt tells a model who it is and how it speaks.
	Prompt string `json:"prompt"`
	// Greeting is spoken when somebody wakes a board.
	Greeting string `json:"greeting"`
	// Speed is how fast it speaks; 1 is normal. Temperature is how freely the model writes.
	Speed       float64 `json:"speed"`
	Temperature float64 `json:"temperature"`
}

// Settings of bots that a role has a value for. A kind of bot without SettingPrompt takes no roles.
const (
	SettingPrompt      = "system"
	settingTemperature = "temperature"
	settingLanguage    = "voice_language"
	settingSpeed       = "voice_speed"
	settingGreeting    = "voice_greeting"
)

//go:embed *.yaml
var files embed.FS

// byLang returns the roles by language, in the same order in each.
var byLang = sync.OnceValue(func() map[i18n.Lang][]Role {
	list := map[i18n.Lang][]Role{}
	for _, l := range i18n.Languages() {
		text, err := files.ReadFile(string(l) + ".yaml")
		if err != nil {
			continue // the language has no roles
		}
		var some []Role
		if err := yaml.Unmarshal(text, &some); err != nil {
			panic(err) // TestRoles reads all files
		}
		for i := range some {
			some[i].Lang = l
		}
		list[l] = some
	}
	return list
})

// All returns the roles in a language, in English if there are none in it.
func All(l i18n.Lang) []Role {
	list := byLang()[l]
	if list == nil {
		list = byLang()[i18n.English]
	}
	return slices.Clone(list)
}

// IDs returns the ids of all roles.
func IDs() (ids []string) {
	for _, r := range byLang()[i18n.English] {
		ids = append(ids, r.ID)
	}
	return ids
}

// Find returns a role in a language.
func Find(id string, l i18n.Lang) (Role, bool) {
	list := All(l)
	i := slices.IndexFunc(list, func(r Role) bool { return r.ID == id })
	if i < 0 {
		return Role{}, false
	}
	return list[i], true
}

// Settings returns the settings of a bot in the role, as texts.
func (r Role) Settings() map[string]string {
	set := map[string]string{SettingPrompt: r.Prompt, settingGreeting: r.Greeting, settingLanguage: string(r.Lang),
		settingTemperature: strconv.FormatFloat(r.Temperature, 'f', -1, 64)}
	if r.Speed != 1 {
		set[settingSpeed] = strconv.FormatFloat(r.Speed, 'f', -1, 64)
	}
	return set
}
