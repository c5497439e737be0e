package learn

import "patchbay/internal/i18n"

// sayGaveUp are ways to say "I don't know" in each language that there is a translation into,
// beside [gaveUpPhrases].
var sayGaveUp = []i18n.Message{"I forgot", "Forgot", "Skip", "say\x04I don't know"}
