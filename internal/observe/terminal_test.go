package observe_test

import (
	"bytes"
	"log/slog"
	"regexp"
	"testing"

	"patchbay/internal/observe"
)

func TestLogForATerminal(t *testing.T) {
	var b bytes.Buffer
	log := observe.NewLogger(&b, "info", "terminal")
	log.Debug("not this")
	log.With("bot", 1).WithGroup("g").Warn("odd\x1b[2J\nlines", "path", "a b", slog.Group("h", "n", 2), "evil",
		"\x1b[2J")
	log.Info("plain")
	want := regexp.MustCompile(`^\d\d:\d\d:\d\d WARN odd \[2J lines bot=1 g\.path="a b" g\.h\.n=2 g\.evil="\\x1b\[2J"\n` +
		`\d\d:\d\d:\d\d plain\n$`)
	if !want.MatchString(b.String()) {
		t.Errorf("it writes\n%s", b.String())
	}
}
