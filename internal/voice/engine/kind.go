package engine

import (
	"patchbay/internal/i18n"
	"patchbay/internal/settings"
)

// Kind is a wire protocol that engines speak, and how they are configured.
type Kind struct {
	Name            string       // stable: the database, the API and addresses of pages have it
	Title, About    i18n.Message // About says which services speak the protocol
	Listens, Speaks bool         // what engines of the kind can do
	// Settings returns a pointer to the zero value of the kind's settings, a struct with json tags
	// and perhaps a Validate method. Secret strings are tagged secret:"true"; one that is sent to
	// the address in another setting is tagged with that setting's name, to:"base_url".
	Settings func() any
	Texts    map[string]settings.FieldText // what people are told of each setting, by name
	// Open returns an engine with valid settings, of the type that Settings returns. It does not
	// connect.
	Open func(settings any, o Options) (Engine, error)
	// Schemes are those of the addresses of such engines in the configuration. FromAddress returns
	// the settings of an engine with such an address; the key may be empty.
	Schemes     []string
	FromAddress func(address, key string) any
}
