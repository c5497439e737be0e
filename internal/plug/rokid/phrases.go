package rokid

import "patchbay/internal/i18n"

// What a wearer can say to the hub itself, in each language that there is a translation into,
// beside what the patterns of bind.go and display.go match.
const (
	sayBind    = i18n.Message("bind %s") // six digits
	sayUnbind  = i18n.Message("say\x04unbind")
	sayConfirm = i18n.Message("say\x04confirm unbind")
	saySwitch  = i18n.Message("say\x04switch to %s")
	sayStatus  = i18n.Message("say\x04status")
	sayMore    = i18n.Message("say\x04more")
)
