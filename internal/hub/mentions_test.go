package hub

import (
	"testing"

	"patchbay/internal/tool"
)

// TestMentionsAreTranslated checks that mentions of tools in a description are replaced by the
// names under which they are listed, only whole names, and that the provider's tool is not changed.
func TestMentionsAreTranslated(t *testing.T) {
	list := []tool.Tool{
		{Name: "self.get_device_status", Description: "Status."},
		{Name: "self.get_device_status.battery",
			Description: "Call `self.get_device_status` first, then self.lamp.turn_on. Or self.get_device_status.battery?"},
		{Name: "self.lamp.turn_on",
			Description: "The theme can be `light`. See https://x/self.lamp.turn_on and myself.lamp.turn_on."},
		{Name: "light", Description: "Not self.gone."},
	}
	o := &offer{ProviderRef: ProviderRef{Slug: "desk"}, list: list}
	named, _ := o.nameTools()
	for i, want := range []string{
		"Status.",
		"Call `desk_self_get_device_status` first, then desk_self_lamp_turn_on. Or desk_self_get_device_status_battery?",
		"The theme can be `light`. See https://x/self.lamp.turn_on and myself.lamp.turn_on.",
		"Not self.gone.",
	} {
		if named[i].Description != want || named[i].Tool.Name != list[i].Name {
			t.Errorf("%s: %s", named[i].Name, named[i].Description)
		}
	}
	if list[1].Description[:6] != "Call `" || list[1].Description[6:10] != "self" {
		t.Errorf("the provider's own list was changed: %s", list[1].Description)
	}
}
