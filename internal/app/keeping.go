package app

import (
	"patchbay/internal/config"
	"patchbay/internal/control"
)

// keeping is what the settings say about records.
func keeping(c *config.Config) control.Keeping {
	return control.Keeping{
		Traces: c.Trace.Keep, Content: c.Trace.Content, Calls: c.Audit.Keep, Args: c.Audit.Args,
		Exchanges: c.History.Keep, Told: c.History.Turns, Pictures: c.Media.Keep,
	}
}
