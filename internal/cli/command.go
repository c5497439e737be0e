package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"patchbay/internal/talk"
)

// command formats a device command on one line: its name and its arguments.
func command(c *talk.Command) string {
	if c == nil {
		return ""
	}
	var b strings.Builder
	b.WriteString(c.Name)
	for _, name := range slices.Sorted(maps.Keys(c.Args)) {
		fmt.Fprintf(&b, " %s=%q", name, c.Args[name])
	}
	return b.String()
}
