package control

import (
	"context"

	"patchbay/internal/hub"
)

// BotKind is a kind of bot with its settings.
type BotKind struct {
	Name string `json:"name"`
	// Connects reports whether the peer initiates the connection, with a token.
	Connects bool          `json:"connects"`
	Settings []hub.Setting `json:"settings"`
}

// BotKindList is the list of kinds of bots.
type BotKindList struct {
	Kinds []BotKind `json:"kinds"`
}

// BotKinds lists the kinds of bots.
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

// BotSettings returns the settings of a bot with their values, as texts that [Service.ChangeBot]
// accepts. Secrets that are set have empty values.
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
