package control

import (
	"time"

	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// Health is how the connection of a bot is, for its owner.
type Health struct {
	Connections int       `json:"connections,omitempty"`
	Since       time.Time `json:"connected_since,omitzero"`
	LastSeen    time.Time `json:"last_heard,omitzero"`
	// Gateway is the version of OpenClaw at the far side, if it is known.
	Gateway string   `json:"gateway,omitempty"`
	Trouble talk.Say `json:"-"`
	// Command is what the far side's owner has to run on its machine, if that helps.
	Command string `json:"command,omitempty"`
}

// BotStatus is a bot as /api/v1/bots lists it.
type BotStatus struct {
	store.Bot
	Online  bool   `json:"online"`
	Trouble string `json:"trouble,omitempty"`
	Health
}
