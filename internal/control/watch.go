package control

import (
	"context"

	"patchbay/internal/hub"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// ToolChanges returns a channel that receives a value after every change of the tools, until
// unsubscribe is called. Several changes may be combined into one value.
func (s *Service) ToolChanges() (changes <-chan struct{}, unsubscribe func()) {
	return s.Hub.WatchTools()
}

// BotChanges returns a channel that is closed when the next inbound bot connects or disconnects.
func (s *Service) BotChanges() <-chan struct{} { return s.Hub.BotChanges() }

// RecordChanges returns a channel that is closed when this instance has stored the next record of a
// turn or of calls.
func (s *Service) RecordChanges() <-chan struct{} { return s.Hub.RecordChanges() }

// IsAlone reports whether there are no other instances, whose records close no channel here.
func (s *Service) IsAlone() bool { return s.Hub.Bus.IsStandalone() }

// Notices returns the notices of the caller's devices from now on; of everybody's for admins. The
// channel is closed by unsubscribe, and when the server stops. Who does not read misses some.
func (s *Service) Notices(c Caller) (notices <-chan hub.Notice, unsubscribe func()) {
	return s.Hub.SubscribeNotices(c.Owner())
}

// Answer has the bot of a turn of [Service.Turn] answer it.
func (s *Service) Answer(ctx context.Context, turn *talk.Turn, emit talk.Emit) error {
	return s.Hub.Answer(ctx, turn, emit)
}

// Kinds lists the kinds of bots.
func (s *Service) Kinds() []string { return s.Hub.Registry.Kinds() }

// IsInbound reports whether bots of a kind connect to the server.
func (s *Service) IsInbound(kind string) bool { return s.Hub.Registry.IsInbound(kind) }

// KindSettings describes the settings of a kind of bots. Its error means that there is no such
// kind.
func (s *Service) KindSettings(kind string) ([]hub.Setting, error) {
	return s.Hub.Registry.Describe(kind)
}

// KindText returns what a kind of bots brings to be said about it; it may be empty.
func (s *Service) KindText(kind string) hub.KindText {
	k, _ := s.Hub.Registry.Kind(kind) //nolint:errcheck // an unknown kind has no text
	return k.Text
}

// KeepsContent returns whether the owner of a bot has decided to keep what is said to it; nil if
// the server's setting applies.
func (s *Service) KeepsContent(b store.Bot) *bool {
	var c hub.Common
	if s.Hub.Registry.Settings(b, &c) != nil {
		return nil
	}
	return c.KeepContent
}
