package page

import "patchbay/internal/i18n"

// Channel is a way by which turns, calls and changes come, with its name for people.
type Channel struct {
	ID   string // as records have it
	Name i18n.Message
}

// Channels are the channels that records are filtered by.
var Channels = []Channel{
	{"lingzhu", i18n.Message("glasses")},
	{"xiaozhi", i18n.Message("voice board")},
	{"console", i18n.Message("these pages")},
	{"cli", i18n.Message("command line")},
	{"mcp", i18n.Message("MCP program")},
	{"learn", i18n.Message("Learn program")},
	{"quiz", i18n.Message("review by voice")},
	{"openclaw", i18n.Message("OpenClaw")},
	{"shim", i18n.Message("OpenClaw gateway")},
	{"bot", i18n.Message("bot")},
	{"rokid-mcp", i18n.Message("Rokid's older MCP endpoint")},
	{"xiaozhi-mcp", i18n.Message("XiaoZhi's cloud")},
	{"anki", i18n.Message("programs for Anki")},
	{"learn-files", i18n.Message("files of Learn")},
	{"learn-monthly", i18n.Message("monthly fit of Learn")},
	{"api", i18n.Message("API")},
}

// ChannelName returns the name of a channel in the visitor's language.
func (v *Visit) ChannelName(id string) string {
	for _, c := range Channels {
		if c.ID == id {
			return v.Text(c.Name)
		}
	}
	if id == "oauth" { // of changes alone
		return "OAuth"
	}
	return id
}
