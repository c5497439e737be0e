package app

import (
	"patchbay/internal/config"
	"patchbay/internal/control"
)

// retentionPolicy returns the configured retention of records.
func retentionPolicy(c *config.Config) control.RetentionPolicy {
	return control.RetentionPolicy{
		Traces: c.Trace.Keep, Content: c.Trace.Content, Calls: c.Audit.Keep, Args: c.Audit.Args,
		Exchanges: c.History.Keep, HistoryTurns: c.History.Turns, Pictures: c.Media.Keep,
	}
}
