package control

import (
	"context"

	"patchbay/internal/hub"
)

// BotKind is a kind of bots, and what can be set about them.
type BotKind struct {
	Name string `json:"name"`
	// Connects says that the far side dials in, with a token.
	Connects bool          `json:"connects"`
	Settings []hub.Setting `json:"settings"`
}

// BotKindList is the kinds of bots that there are.
type BotKindList struct {
	Kinds []BotKind `json:"kinds"`
}

// BotKinds lists the kinds of bots that there are.
func (s *Service) BotKinds(_ context.Context, _ Caller, _ struct{}) (BotKindList, error) {
	var out BotKindList
	for _, name := range s.Hub.Registry.Kinds() {
		list, err := s.Hub.Registry.Describe(name)
		if err != nil {
			return out, err
		}
		out.Kinds = append(out.Kinds, BotKind{Name: name, Connects: s.Hub.Registry.IsInbound(name), Settings: list})
	}
	return out, nil
}

// BotSettings are what can be set about a bot, with what is set: texts as
// [Service.ChangeBot] takes them, but for secrets, which are empty if they are there.
func (s *Service) BotSettings(ctx context.Context, c Caller,
	in BotRef) (list []hub.Setting, set map[string]string, err error) {
	b, err := s.FindBot(ctx, c, in.Bot)
	if err != nil {
		return nil, nil, err
	}
	if list, err = s.Hub.Registry.Describe(b.Kind); err != nil {
		return nil, nil, err
	}
	set, err = s.Hub.Registry.SettingsText(b)
	return list, set, err
}
