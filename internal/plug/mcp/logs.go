package mcp

import (
	"encoding/json"

	"patchbay/internal/hub"
	"patchbay/internal/tool"
)

// maxQueuedLogs limits the log messages outside of calls that wait for a slow client. Further ones
// are dropped.
const maxQueuedLogs = 32

// takeLogs has the client get log messages outside of calls, from a level on.
func (l *listener) takeLogs(level int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.logLevel = level
}

// wantsLog reports whether the client of a person wants log messages of a level.
func (l *listener) wantsLog(person string, level int) (hub.Access, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.access, l.access.Person == person && !l.access.Anonymous && level >= l.logLevel && level < levelOff
}

func (l *listener) addLog(params []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.logs) < maxQueuedLogs {
		l.logs = append(l.logs, params)
		l.signal()
	}
}

// onProviderLog is called by the hub with log messages that belong to no call. They go to programs
// of the provider's owner that have set a level and may use the provider.
func (s *Server) onProviderLog(o hub.ProviderRef, m tool.Log) {
	level := levelOf(m.Level)
	if o.Owner == "" || !json.Valid(m.Data) {
		return
	}
	logger := o.Slug
	if m.Logger != "" {
		logger += "/" + m.Logger
	}
	params := encode(tool.Log{Level: m.Level, Logger: logger, Data: m.Data})
	for l := range s.listeners.list() {
		access, wanted := l.wantsLog(o.Owner, level)
		if !wanted {
			continue
		}
		if v, err := s.Hub.View(access.Person, access.Rules); err == nil && v.HasContent(o.ID) {
			l.addLog(params)
		}
	}
}
